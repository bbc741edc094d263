//! `node start`, `stop`, `remove` and `prune`.

use anyhow::Result;
use nerve_api::reply::NodesPruned;
use nerve_api::request::{PruneNodes, RemoveNode, StartNode, StopNode};

use super::CommandContext;
use super::args::{PruneArgs, RemoveArgs, StartArgs, StopArgs};
use super::shell_env::shell_env;
use crate::out;

/// Starts a stopped node again.
pub(super) async fn start(context: &CommandContext, args: StartArgs) -> Result<()> {
    let (node_id, session_id) = (args.node, context.session.clone());
    let shell_env = shell_env(&context.client);
    let params = StartNode { node_id, session_id, fresh: args.fresh, shell_env };
    let waiting = format!("starting '{}'", params.node_id);
    let data = out::progress(&waiting, context.request(&params)).await?;
    if context.json {
        return out::json(&data);
    }
    out::line(format_args!("node '{}' started", params.node_id))
}

/// Stops a node.
pub(super) async fn stop(context: &CommandContext, args: StopArgs) -> Result<()> {
    let params = StopNode::new(args.node, context.session.clone());
    context.request_and_print(&params, |_| out::line(format_args!("node '{}' stopped", params.node_id))).await
}

/// Removes a stopped node.
pub(super) async fn remove(context: &CommandContext, args: RemoveArgs) -> Result<()> {
    let params = RemoveNode::new(args.node, context.session.clone());
    context.request_and_print(&params, |_| out::line(format_args!("node '{}' removed", params.node_id))).await
}

/// Removes the stopped nodes of the session.
pub(super) async fn prune(context: &CommandContext, args: PruneArgs) -> Result<()> {
    let (session_id, all, dry_run) = (context.session.clone(), args.all, args.dry_run);
    let params = PruneNodes { session_id, all, dry_run, ..PruneNodes::default() };
    context
        .request_and_print(&params, |NodesPruned { removed }| {
            if removed.is_empty() {
                out::note("no stopped nodes to remove");
            }
            let verb = if dry_run { "would be removed" } else { "removed" };
            removed.iter().try_for_each(|node| out::line(format_args!("node '{node}' {verb}")))
        })
        .await
}
