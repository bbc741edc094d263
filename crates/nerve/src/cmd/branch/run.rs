//! Executes a planned branch: server, files, conversation, node, instruction, in this order. A failure before the node
//! exists leaves nothing behind; afterwards the node stays even if its first turn fails.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_api::reply::Turn;
use nerve_api::request::NodeChoice;
use nerve_api::value::{BlockKind, NodeState};
use nerve_client::{ClientError, ExecuteOptions, NerveClient, RemoteNode};

use super::environment::InheritedSettings;
use super::files::Files;
use super::plan::Plan;
use super::restore::restore;
use super::start::{StartFailure, derive_name, free_name, start};
use crate::cmd::server;
use crate::exit::{FAILED, Failure};

/// Time limit for the agent to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for accepting the instruction with [`Wait::Delivered`].
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of dialogs before the first prompt.
const MAX_DIALOGS: usize = 3;

/// End of the wait for a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The answer, with this time limit or the node's.
    Answer(Option<Duration>),
    /// The agent's acceptance of the instruction.
    Delivered,
}

/// A created branch.
#[derive(Debug, Clone)]
pub(crate) struct BranchResult {
    pub(crate) plan: Plan,
    /// Name of the node.
    pub(crate) node: String,
    /// Settings inherited from the recorded node.
    pub(crate) inherited: InheritedSettings,
    /// Files that could not be restored, with reasons.
    pub(crate) left_out: Vec<String>,
    /// Git branch of the files, if any.
    pub(crate) git: Option<String>,
    /// The answer, if awaited.
    pub(crate) answer: Option<Turn>,
}

/// Creates the branch and sends `instruction` to the agent. Calls `on_progress` with a description of each step.
///
/// # Errors
/// [`Failure`] or a client error.
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
    let inherited = plan.recorded.inherit(&plan.server, &client, &plan.overrides).await?;
    on_progress("restoring the files");
    let (plan, restored, undo) = blocking(move || restore(plan)).await?;
    on_progress("preparing the conversation");
    let branch = plan.branch.clone();
    let undo =
        blocking(move || Ok(undo.with(branch.place().context("cannot copy the conversation")?))).await?;
    on_progress(&format!("starting node '{node}'"));
    // From here on a node may exist that needs the files, even if its creation is not confirmed.
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

/// Returns the node's expected name and inherited settings. The settings are `None` if no server runs.
///
/// # Errors
/// The requested name is taken, or the recorded proxy's settings are unknown.
pub(super) async fn preview(plan: &Plan) -> Result<(String, Option<InheritedSettings>)> {
    match server::connect(&plan.server).await {
        Ok(client) => {
            let inherited = plan.recorded.inherit(&plan.server, &client, &plan.overrides).await?;
            Ok((free_name(&client, plan, &BTreeSet::new()).await?, Some(inherited)))
        }
        // Without a server all names are free.
        Err(_) => Ok((plan.node.clone().unwrap_or_else(|base| derive_name(&base, |_| false)), None)),
    }
}

/// Connects to the server, starting it if necessary.
async fn connect_or_start(name: &str, on_progress: &mut (dyn FnMut(&str) + Send)) -> Result<NerveClient> {
    if let Ok(client) = server::connect(name).await {
        return Ok(client);
    }
    on_progress(&format!("starting server '{name}'"));
    let program = crate::current_exe::path()?;
    let mut command = tokio::process::Command::new(program);
    command.args(["server", "start", "--name", name]).stdin(Stdio::null());
    let done = command.output().await.context("cannot start this program again")?;
    // Another process may have started it meanwhile.
    match server::connect(name).await {
        Ok(client) => Ok(client),
        Err(_) if !done.status.success() => {
            let stderr = String::from_utf8_lossy(&done.stderr).trim().to_string();
            let message = format!("cannot start server '{name}': {stderr}");
            Err(Failure::new(FAILED, message).into())
        }
        Err(error) => Err(error),
    }
}

/// Waits until the agent is ready, answering trust dialogs, and sends the instruction.
async fn instruct(
    node: &RemoteNode,
    instruction: &str,
    wait: Wait,
    is_new_folder: bool,
    on_progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Option<Turn>> {
    on_progress("waiting for the agent");
    let settled = [NodeState::Ready, NodeState::Blocked, NodeState::Suspended, NodeState::Stopped];
    let mut state = node.wait(&settled, Some(READY_TIMEOUT)).await?;
    for _ in 0..MAX_DIALOGS {
        // The user already let the agent work on these files, so their copy is trusted too.
        let trust = match state == NodeState::Blocked && is_new_folder {
            true => trust_choice(node).await?,
            false => None,
        };
        let Some(choice) = trust else { break };
        on_progress("answering the agent's trust dialog: the folder is a copy of the files it worked on");
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
    let taken = node.wait(&[NodeState::Busy, NodeState::Blocked, NodeState::Suspended], Some(ACCEPT_TIMEOUT));
    tokio::select! {
        // The turn ended already, or the instruction could not be delivered.
        answer = answer => answer.map(Some).map_err(Into::into),
        taken = taken => taken.map(|_| None).map_err(Into::into),
    }
}

/// Returns the choice that trusts the folder, if the agent shows a trust dialog.
async fn trust_choice(node: &RemoteNode) -> Result<Option<NodeChoice>, ClientError> {
    if node.info().await?.metadata.text("blocked") != BlockKind::Trust.as_str() {
        return Ok(None);
    }
    let choices = node.why().await?.choices;
    let trusts = |label: &String| ["yes", "trust"].iter().any(|word| label.to_lowercase().starts_with(word));
    Ok(choices.iter().position(trusts).map(|at| NodeChoice::Number(at + 1)))
}

/// Adds to an error that the node and its files exist.
fn with_location(error: anyhow::Error, node: &str, cwd: &Path) -> anyhow::Error {
    let failure = Failure::from_error(&error);
    let hint = failure.hint.clone().map(|hint| format!("{hint}; ")).unwrap_or_default();
    let location = format!("node '{node}' exists, with its files in {}", cwd.display());
    failure.hint(format!("{hint}{location}")).into()
}

/// Adds to an error that the node may have been started and its files were kept.
fn maybe_started(error: anyhow::Error, node: &str, cwd: &Path) -> anyhow::Error {
    let failure = Failure::from_error(&error);
    let message = format!("{}: node '{node}' may have been started", failure.message);
    let hint = format!("check with 'nerve server node list'; its files are in {}", cwd.display());
    Failure { message, ..failure }.hint(hint).into()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("a thread ended early")?
}
