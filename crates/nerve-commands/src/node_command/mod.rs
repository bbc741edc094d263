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
use nerve_api::request::{AnswerNode, NodeChoice, Seconds as ApiSeconds, SendInterrupt};
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
        NodeCommand::List(args) if args.watch => node_watcher::NodeWatcher::run(target).await,
        NodeCommand::List(_) => list::run(target).await,
        NodeCommand::Info(args) => inspect::info(target, args.node).await,
        NodeCommand::Execute(args) | NodeCommand::Send(args) => execute::run(target, args).await,
        NodeCommand::Run(args) => terminal::run(target, args).await,
        NodeCommand::Read(args) => terminal::read(target, args).await,
        NodeCommand::Write(args) => write::run(target, args).await,
        NodeCommand::Interrupt(args) => {
            target.request_silently(&SendInterrupt::new(args.node, target.session.clone())).await
        }
        NodeCommand::Resize(args) => terminal::resize(target, args).await,
        NodeCommand::Show(args) => terminal::show(target, args).await,
        NodeCommand::Wait(args) => inspect::wait(target, args).await,
        NodeCommand::Why(args) => inspect::explain(target, args.node).await,
        NodeCommand::Answer(args) => answer(target, args).await,
        NodeCommand::Budget(args) => budget::run(target, args).await,
        NodeCommand::History(args) => history::run(target, &args).await,
        NodeCommand::Start(args) => lifecycle::start(target, args).await,
        NodeCommand::Fork(args) => fork::run(target, args).await,
        NodeCommand::Stop(args) | NodeCommand::Delete(args) | NodeCommand::Close(args) => {
            lifecycle::stop(target, args).await
        }
        NodeCommand::Remove(args) => lifecycle::remove(target, args).await,
        NodeCommand::Prune(args) => lifecycle::prune(target, args).await,
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
