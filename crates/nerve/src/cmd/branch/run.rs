//! A planned branch is made: server, files, conversation, node, instruction, in this order. What fails before the node is there leaves
//! nothing behind; a node that is there stays, whatever comes of its first turn.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_client::{ClientError, ExecuteOptions, NerveClient, RemoteNode};
use nerve_proto::data::ExecuteData;
use nerve_proto::params::NodeChoice;

use super::environment::Inherited;
use super::files::Files;
use super::plan::Plan;
use super::restore::restore;
use super::start::{StartFailure, derive_name, free_name, start};
use crate::cmd::server;
use crate::exit::{FAILED, Failure};

/// How long an agent may take until it can be given an instruction.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long until it has taken it, when nobody waits for the answer.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(60);
/// Dialogs that may come one after the other before the first prompt.
const MAX_DIALOGS: usize = 3;

/// How long to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For the answer; so long, or the node's limit.
    Answer(Option<Duration>),
    /// Until the agent has taken the instruction.
    Delivered,
}

/// A branch that was made.
#[derive(Debug, Clone)]
pub(crate) struct BranchResult {
    pub(crate) plan: Plan,
    /// The node.
    pub(crate) node: String,
    /// What it has of the recorded one's.
    pub(crate) inherited: Inherited,
    /// What of the files could not be restored, and why.
    pub(crate) left_out: Vec<String>,
    /// The branch of git that the files are on, if they are on one.
    pub(crate) git: Option<String>,
    /// The answer, if it was waited for.
    pub(crate) answer: Option<ExecuteData>,
}

/// Makes the branch and gives the agent `instruction`. `told` hears what is being done, in words.
///
/// # Errors
/// [`Failure`] or a client's error: what could not be done.
pub(crate) async fn run(
    plan: Plan,
    instruction: &str,
    wait: Wait,
    on_progress: &mut (dyn FnMut(&str) + Send),
) -> Result<BranchResult> {
    if instruction.trim().is_empty() {
        return Err(Failure::new(crate::exit::USAGE, "the instruction is empty").into());
    }
    let client = connect_or_start(&plan.server, on_progress).await?;
    let node = free_name(&client, &plan, &BTreeSet::new()).await?;
    let inherited = plan.recorded.inherited(&plan.server, &client, &plan.overrides).await?;
    on_progress("restoring the files");
    let (plan, restored, undo) = blocking(move || restore(plan)).await?;
    on_progress("preparing the conversation");
    let branch = plan.branch.clone();
    let undo =
        blocking(move || Ok(undo.with(branch.place().context("the conversation cannot be copied")?))).await?;
    on_progress(&format!("starting node '{node}'"));
    // From here on a node may be there that needs it all, whether or not anybody hears of it.
    let undo = undo.disarm();
    let (made, node) = match start(&client, &plan, &inherited, node).await {
        Ok(made) => made,
        Err(StartFailure { error, possible_node: Some(node) }) => {
            return Err(maybe_started(error, &node, &plan.cwd));
        }
        Err(StartFailure { error, possible_node: None }) => {
            blocking(move || {
                undo.run();
                Ok(())
            })
            .await?;
            return Err(error);
        }
    };
    let is_new_folder = matches!(plan.files, Files::Restored { .. });
    let answer = instruct(&made, instruction, wait, is_new_folder, on_progress).await;
    let answer = answer.map_err(|error| with_location(error, &node, &plan.cwd))?;
    Ok(BranchResult { plan, node, inherited, left_out: restored.left_out, git: restored.branch, answer })
}

/// The name that the node would get now, and what it would take over; nobody knows that while no server runs.
///
/// # Errors
/// A name that was asked for is taken; a proxy is not known any more.
pub(super) async fn preview(plan: &Plan) -> Result<(String, Option<Inherited>)> {
    match server::connect(&plan.server).await {
        Ok(client) => {
            let inherited = plan.recorded.inherited(&plan.server, &client, &plan.overrides).await?;
            Ok((free_name(&client, plan, &BTreeSet::new()).await?, Some(inherited)))
        }
        // No server, no nodes.
        Err(_) => Ok((plan.node.clone().unwrap_or_else(|base| derive_name(&base, |_| false)), None)),
    }
}

/// A connection to the server, which is started if it does not run.
async fn connect_or_start(name: &str, on_progress: &mut (dyn FnMut(&str) + Send)) -> Result<NerveClient> {
    if let Ok(client) = server::connect(name).await {
        return Ok(client);
    }
    on_progress(&format!("starting server '{name}'"));
    let program = crate::current_exe::path()?;
    let mut command = tokio::process::Command::new(program);
    command.args(["server", "start", "--name", name]).stdin(Stdio::null());
    let done = command.output().await.context("cannot start this program again")?;
    // Somebody else may have started it meanwhile.
    match server::connect(name).await {
        Ok(client) => Ok(client),
        Err(_) if !done.status.success() => {
            let said = String::from_utf8_lossy(&done.stderr).trim().to_string();
            let message = format!("server '{name}' does not run and cannot be started: {said}");
            Err(Failure::new(FAILED, message).into())
        }
        Err(error) => Err(error),
    }
}

/// Brings the agent to a prompt and gives it the instruction.
async fn instruct(
    node: &RemoteNode,
    instruction: &str,
    wait: Wait,
    is_new_folder: bool,
    on_progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Option<ExecuteData>> {
    on_progress("waiting for the agent");
    let settled = ["ready", "blocked", "suspended", "stopped"];
    let mut state = node.wait(&settled, Some(READY_TIMEOUT)).await?;
    for _ in 0..MAX_DIALOGS {
        // The files are those of a folder that its user had it work in: the same files get the same answer.
        let trust = match state == "blocked" && is_new_folder {
            true => trust_choice(node).await?,
            false => None,
        };
        let Some(choice) = trust else { break };
        on_progress("the agent asks whether it may trust the copy of the files it worked on: it may");
        node.answer(choice).await?;
        state = node.wait(&settled, Some(READY_TIMEOUT)).await?;
    }
    on_progress("sending the instruction");
    let options = ExecuteOptions {
        timeout: match wait {
            Wait::Answer(timeout) => timeout,
            Wait::Delivered => None,
        },
        traceparent: crate::trace::parent(),
        tracestate: crate::trace::state(),
        ..ExecuteOptions::default()
    };
    let answer = node.execute(instruction, &options);
    if wait != Wait::Delivered {
        return Ok(Some(answer.await?));
    }
    let taken = node.wait(&["busy", "blocked", "suspended"], Some(ACCEPT_TIMEOUT));
    tokio::select! {
        // It answers at once, or it cannot be told.
        answer = answer => answer.map(Some).map_err(Into::into),
        taken = taken => taken.map(|_| None).map_err(Into::into),
    }
}

/// The choice that trusts the folder, if that is what the agent asks.
async fn trust_choice(node: &RemoteNode) -> Result<Option<NodeChoice>, ClientError> {
    let kind = node.info().await?.metadata.get("blocked").and_then(|kind| kind.as_str().map(str::to_string));
    if kind.as_deref() != Some("trust") {
        return Ok(None);
    }
    let choices = node.why().await?.choices;
    let trusts = |label: &String| ["yes", "trust"].iter().any(|word| label.to_lowercase().starts_with(word));
    Ok(choices.iter().position(trusts).map(|at| NodeChoice::Number(at + 1)))
}

/// The node is there, and so are its files.
fn with_location(error: anyhow::Error, node: &str, cwd: &Path) -> anyhow::Error {
    let failure = Failure::from_error(&error);
    let hint = failure.hint.clone().map(|hint| format!("{hint}; ")).unwrap_or_default();
    let there = format!("node '{node}' is there all the same, with its files in {}", cwd.display());
    failure.hint(format!("{hint}{there}")).into()
}

/// Nobody knows whether the node is there, and it would need its files.
fn maybe_started(error: anyhow::Error, node: &str, cwd: &Path) -> anyhow::Error {
    let failure = Failure::from_error(&error);
    let message = format!("{}: whether node '{node}' was started is not known", failure.message);
    let look = format!("'nerve server node list' tells; its files are in {}", cwd.display());
    Failure { message, ..failure }.hint(look).into()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("a thread ended early")?
}
