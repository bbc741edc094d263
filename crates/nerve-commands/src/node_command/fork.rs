//! `node fork`: creates a node with the conversation of another one.

use anyhow::Result;
use nerve_api::reply::NodeForked;
use nerve_api::request::ForkNode;
use nerve_client::NerveClient;
use nerve_types::name::numbered;

use super::CommandContext;
use super::args::ForkArgs;
use crate::out;

/// Forks a node.
pub(super) async fn run(context: &CommandContext, args: ForkArgs) -> Result<()> {
    let session_id = context.session.clone();
    let source_id = source(&args.node).to_string();
    let target_id = match args.target {
        Some(name) => name,
        None => free_name(&context.client, session_id.as_deref(), &source_id).await?,
    };
    let params = ForkNode { source_id, target_id, at: args.at, session_id };
    context
        .request_and_print(&params, |NodeForked { node_id, forked_from }| {
            out::line(format_args!("node '{node_id}' forked from '{forked_from}'"))
        })
        .await
}

/// Strips the `@` that may precede a node name.
pub fn source(node: &str) -> &str {
    node.strip_prefix('@').unwrap_or(node)
}

/// Returns an unused name for a fork.
///
/// # Errors
/// The nodes cannot be listed.
pub async fn free_name(client: &NerveClient, session: Option<&str>, source: &str) -> Result<String> {
    let nodes = client.list_nodes(session).await?;
    Ok(numbered(source, "fork", |name| nodes.iter().any(|node| node.node_id == name)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn source_is_named_without_its_mark() {
        assert_eq!(["@me", "me"].map(super::source), ["me", "me"]);
    }
}
