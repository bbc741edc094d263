//! The commands of `nerve node`, which the REPL has too.

pub mod all_machines;
pub mod all_nodes;
pub(crate) mod args;
pub(crate) mod budget;
mod chat_args;
mod create;
pub mod entries;
pub mod execute;
pub(crate) mod fork;
pub mod history;
mod inspect;
mod list;
mod node_path;
mod node_watcher;
mod proxy_args;
mod shell_env;
mod turn_args;
pub(crate) mod values;
mod write;

use anyhow::Result;
use nerve_api::Request;
use nerve_api::reply::{NodeShown, NodeText, NodesPruned, Turn};
use nerve_api::request::{
    AnswerNode, GetBuffer, NodeChoice, PruneNodes, RemoveNode, ResizeNode, RunCommand, Seconds as ApiSeconds,
    SendInterrupt, ShowNode, StartNode, StopNode,
};
use nerve_client::NerveClient;
use serde_json::Value;

pub use self::args::{
    AnswerArgs, CreateArgs, ExecuteArgs, HistoryArgs, ListArgs, NodeCommand, PruneArgs, RemoveArgs,
    StartArgs, StopArgs, WaitArgs,
};
pub use self::budget::{BudgetArgs, BudgetOptions, TotalBudgetOptions};
pub use self::create::trace_tools;
pub use self::node_path::split_node_path;
pub use self::proxy_args::{ProxyOptions, price, proxy_params};
pub use self::shell_env::shell_env;
pub(crate) use self::turn_args::TurnOptions;
pub use self::values::{COLS, EnvPair, ROWS, Seconds, TIME_UNITS, one_of};
use crate::out;

/// Connection and options that all commands share.
pub struct Target {
    /// Connection to the server.
    pub client: NerveClient,
    /// Session of the node. `None`: the server's default session.
    pub session: Option<String>,
    /// Print as JSON.
    pub json: bool,
}

/// Runs a command.
///
/// # Errors
/// The request fails, or a turn does.
pub async fn perform(target: &Target, command: NodeCommand) -> Result<()> {
    let result = dispatch(target, command).await;
    // The server sends warnings separately from its replies.
    target.client.take_warnings().iter().for_each(|warning| out::warning(out::sanitize(warning)));
    result
}

async fn dispatch(target: &Target, command: NodeCommand) -> Result<()> {
    match command {
        NodeCommand::Create(args) => create::run(target, *args).await,
        NodeCommand::List(args) => list::run(target, args.watch).await,
        NodeCommand::Info(args) => inspect::info(target, args.node).await,
        NodeCommand::Execute(args) | NodeCommand::Send(args) => execute::run(target, args).await,
        NodeCommand::Run(args) => {
            let (node_id, session_id, command) = (args.node, target.session.clone(), args.command);
            let params = RunCommand {
                node_id,
                session_id,
                command,
                traceparent: crate::trace::parent(),
                tracestate: crate::trace::state(),
            };
            target.request_silently(&params).await
        }
        NodeCommand::Read(args) => {
            let lines = args.lines.map(|lines| usize::try_from(lines).unwrap_or(usize::MAX));
            let params = GetBuffer { node_id: args.node, session_id: target.session.clone(), lines };
            let data = target.request(&params).await?;
            if target.json {
                return out::json(&data);
            }
            out::text(&serde_json::from_value::<NodeText>(data)?.buffer)
        }
        NodeCommand::Write(args) => write::run(target, args).await,
        NodeCommand::Interrupt(args) => {
            target.request_silently(&SendInterrupt::new(args.node, target.session.clone())).await
        }
        NodeCommand::Resize(args) => {
            let (node_id, session_id) = (args.node, target.session.clone());
            let params = ResizeNode { node_id, session_id, cols: args.cols, rows: args.rows };
            target.request_silently(&params).await
        }
        NodeCommand::Show(args) => {
            let params = ShowNode {
                node_id: args.node,
                session_id: target.session.clone(),
                multiplexer: args.multiplexer,
                split: args.split,
                tmux_session: args.tmux_session,
                socket: args.socket,
            };
            let data = target.request(&params).await?;
            if target.json {
                return out::json(&data);
            }
            out::line(serde_json::from_value::<NodeShown>(data)?.pane_id)
        }
        NodeCommand::Wait(args) => inspect::wait(target, args).await,
        NodeCommand::Why(args) => inspect::explain(target, args.node).await,
        NodeCommand::Answer(args) => answer(target, args).await,
        NodeCommand::Budget(args) => budget::run(target, args).await,
        NodeCommand::History(args) => history::run(target, &args).await,
        NodeCommand::Start(args) => {
            let (node_id, session_id) = (args.node, target.session.clone());
            let shell_env = shell_env::shell_env(&target.client);
            let params = StartNode { node_id, session_id, fresh: args.fresh, shell_env };
            let waiting = format!("starting '{}'", params.node_id);
            let data = out::progress(&waiting, target.request(&params)).await?;
            if target.json {
                return out::json(&data);
            }
            out::line(format_args!("node '{}' started", params.node_id))
        }
        NodeCommand::Fork(args) => fork::run(target, args).await,
        NodeCommand::Stop(args) | NodeCommand::Delete(args) | NodeCommand::Close(args) => {
            let params = StopNode::new(args.node, target.session.clone());
            let data = target.request(&params).await?;
            if target.json {
                return out::json(&data);
            }
            out::line(format_args!("node '{}' stopped", params.node_id))
        }
        NodeCommand::Remove(args) => {
            let params = RemoveNode::new(args.node, target.session.clone());
            let data = target.request(&params).await?;
            if target.json {
                return out::json(&data);
            }
            out::line(format_args!("node '{}' removed", params.node_id))
        }
        NodeCommand::Prune(args) => {
            let (session_id, all, dry_run) = (target.session.clone(), args.all, args.dry_run);
            let data =
                target.request(&PruneNodes { session_id, all, dry_run, ..PruneNodes::default() }).await?;
            if target.json {
                return out::json(&data);
            }
            let removed = serde_json::from_value::<NodesPruned>(data)?.removed;
            if removed.is_empty() {
                out::note("no stopped nodes to remove");
            }
            let how = if dry_run { "would be removed" } else { "removed" };
            removed.iter().try_for_each(|node| out::line(format_args!("node '{node}' {how}")))
        }
    }
}

async fn answer(target: &Target, args: AnswerArgs) -> Result<()> {
    let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
    let choice = args.choice.map(|text| number(&text).map_or(NodeChoice::Label(text), NodeChoice::Number));
    let (node_id, session_id) = (args.node, target.session.clone());
    let timeout = args.timeout.map(|timeout| ApiSeconds::from(timeout.0));
    let (cancel, wait) = (args.cancel, args.wait);
    let params = AnswerNode { node_id, session_id, choice, cancel, wait, timeout, ..AnswerNode::default() };
    let data = target.request(&params).await?;
    match serde_json::from_value::<Turn>(data.clone()) {
        Ok(data) => {
            execute::print(&data, target.json)?;
            execute::check(&data.response)
        }
        // The dialog blocked no turn, or --wait was not given.
        Err(_) if target.json => out::json(&data),
        Err(_) => Ok(()),
    }
}

impl Target {
    async fn request<R: Request>(&self, request: &R) -> Result<Value> {
        Ok(self.client.request_json(request).await?)
    }

    /// Sends a request that prints nothing on success, except as JSON.
    async fn request_silently<R: Request>(&self, request: &R) -> Result<()> {
        let data = self.request(request).await?;
        if self.json { out::json(&data) } else { Ok(()) }
    }
}
