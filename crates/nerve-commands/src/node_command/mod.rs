//! The commands of `nerve node`, which the REPL has too.

pub mod all_machines;
pub mod all_nodes;
mod args;
mod budget;
mod chat_args;
mod create;
pub mod entries;
pub mod execute;
pub mod fork;
pub mod history;
mod inspect;
mod lifecycle;
mod list;
mod node_path;
mod node_watcher;
mod proxy_args;
mod shell_env;
mod terminal;
mod turn_args;
mod values;
mod write;

use anyhow::Result;
use nerve_api::Request;
use nerve_api::reply::Turn;
use nerve_api::request::{AnswerNode, NodeChoice, Seconds, SendInterrupt};
use nerve_client::NerveClient;
use serde_json::Value;

pub use self::args::{
    AnswerArgs, CreateArgs, ExecuteArgs, ForkArgs, HistoryArgs, ListArgs, NodeArg, NodeCommand, PruneArgs,
    ReadArgs, RemoveArgs, RunArgs, StartArgs, StopArgs, WaitArgs, WriteArgs, waitable_states,
};
pub use self::budget::{BudgetArgs, BudgetOptions, TotalBudgetOptions};
pub use self::create::trace_tools;
pub use self::node_path::split_node_path;
pub use self::proxy_args::{ProxyOptions, price, proxy_params};
pub use self::shell_env::shell_env;
pub use self::turn_args::TurnOptions;
pub use self::values::{COLS, DurationArg, EnvPair, ROWS, TIME_UNITS, one_of};
use crate::out;

/// Connection and options that all commands share.
pub struct CommandContext {
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
pub async fn perform(context: &CommandContext, command: NodeCommand) -> Result<()> {
    let result = dispatch(context, command).await;
    // The server sends warnings separately from its replies.
    context.client.take_warnings().iter().for_each(|warning| out::warning(out::sanitize(warning)));
    result
}

async fn dispatch(context: &CommandContext, command: NodeCommand) -> Result<()> {
    match command {
        NodeCommand::Create(args) => create::run(context, *args).await,
        NodeCommand::List(args) if args.watch => node_watcher::NodeWatcher::run(context).await,
        NodeCommand::List(_) => list::run(context).await,
        NodeCommand::Info(args) => inspect::info(context, args.node).await,
        NodeCommand::Execute(args) | NodeCommand::Send(args) => execute::run(context, args).await,
        NodeCommand::Run(args) => terminal::run(context, args).await,
        NodeCommand::Read(args) => terminal::read(context, args).await,
        NodeCommand::Write(args) => write::run(context, args).await,
        NodeCommand::Interrupt(args) => {
            context.request_silently(&SendInterrupt::new(args.node, context.session.clone())).await
        }
        NodeCommand::Resize(args) => terminal::resize(context, args).await,
        NodeCommand::Show(args) => terminal::show(context, args).await,
        NodeCommand::Wait(args) => inspect::wait(context, args).await,
        NodeCommand::Why(args) => inspect::explain(context, args.node).await,
        NodeCommand::Answer(args) => answer(context, args).await,
        NodeCommand::Budget(args) => budget::run(context, args).await,
        NodeCommand::History(args) => history::run(context, &args).await,
        NodeCommand::Start(args) => lifecycle::start(context, args).await,
        NodeCommand::Fork(args) => fork::run(context, args).await,
        NodeCommand::Stop(args) | NodeCommand::Delete(args) | NodeCommand::Close(args) => {
            lifecycle::stop(context, args).await
        }
        NodeCommand::Remove(args) => lifecycle::remove(context, args).await,
        NodeCommand::Prune(args) => lifecycle::prune(context, args).await,
    }
}

async fn answer(context: &CommandContext, args: AnswerArgs) -> Result<()> {
    let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
    let choice = args.choice.map(|text| number(&text).map_or(NodeChoice::Label(text), NodeChoice::Number));
    let (node_id, session_id) = (args.node, context.session.clone());
    let timeout = args.timeout.map(|timeout| Seconds::from(timeout.0));
    let (cancel, wait) = (args.cancel, args.wait);
    let params = AnswerNode { node_id, session_id, choice, cancel, wait, timeout, ..AnswerNode::default() };
    let data = context.request(&params).await?;
    match serde_json::from_value::<Turn>(data.clone()) {
        Ok(data) => {
            execute::print(&data, context.json)?;
            execute::check(&data.response)
        }
        // The dialog blocked no turn, or --wait was not given.
        Err(_) if context.json => out::json(&data),
        Err(_) => Ok(()),
    }
}

impl CommandContext {
    async fn request<R: Request>(&self, request: &R) -> Result<Value> {
        Ok(self.client.request_json(request).await?)
    }

    /// Sends a request and prints its reply, as JSON or with `print`.
    async fn request_and_print<R: Request>(
        &self,
        request: &R,
        print: impl FnOnce(R::Reply) -> Result<()>,
    ) -> Result<()> {
        let data = self.request(request).await?;
        if self.json { out::json(&data) } else { print(serde_json::from_value(data)?) }
    }

    /// Sends a request that prints nothing on success, except as JSON.
    async fn request_silently<R: Request>(&self, request: &R) -> Result<()> {
        let data = self.request(request).await?;
        if self.json { out::json(&data) } else { Ok(()) }
    }
}
