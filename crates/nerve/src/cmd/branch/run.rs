//! A planned branch is made: server, files, conversation, node, instruction, in this order. What fails before the node is there leaves
//! nothing behind; a node that is there stays, whatever comes of its first turn.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_api::reply::Turn;
use nerve_api::request::NodeChoice;
use nerve_client::{ClientError, ExecuteOptions, NerveClient, RemoteNode};

use super::environment::Inherited;
use super::files::Files;
use super::plan::Plan;
use super::restore::restore;
use super::start::{NotMade, free, named, start};
use crate::cmd::server;
use crate::exit::{FAILED, Failure};

/// How long an agent may take until it can be given an instruction.
const READY: Duration = Duration::from_secs(60);
/// How long until it has taken it, when nobody waits for the answer.
const TAKEN: Duration = Duration::from_secs(60);
/// Dialogs that may come one after the other before the first prompt.
const DIALOGS: usize = 3;

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
pub(crate) struct Branched {
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
    pub(crate) answer: Option<Turn>,
}

/// Makes the branch and gives the agent `instruction`. `told` hears what is being done, in words.
///
/// # Errors
/// [`Failure`] or a client's error: what could not be done.
pub(crate) async fn run(
    plan: Plan,
    instruction: &str,
    wait: Wait,
    told: &mut (dyn FnMut(&str) + Send),
) -> Result<Branched> {
    if instruction.trim().is_empty() {
        return Err(Failure::new(crate::exit::USAGE, "the instruction is empty").into());
    }
    let client = connected(&plan.server, told).await?;
    let node = free(&client, &plan, &BTreeSet::new()).await?;
    let inherited = plan.recorded.inherited(&plan.server, &client, &plan.asked).await?;
    told("restoring the files");
    let (plan, restored, undo) = blocking(move || restore(plan)).await?;
    told("preparing the conversation");
    let branch = plan.branch.clone();
    let undo =
        blocking(move || Ok(undo.with(branch.place().context("the conversation cannot be copied")?))).await?;
    told(&format!("starting node '{node}'"));
    // From here on a node may be there that needs it all, whether or not anybody hears of it.
    let undo = undo.disarmed();
    let (made, node) = match start(&client, &plan, &inherited, node).await {
        Ok(made) => made,
        Err(NotMade { error, perhaps: Some(node) }) => return Err(perhaps_there(error, &node, &plan.cwd)),
        Err(NotMade { error, perhaps: None }) => {
            blocking(move || {
                undo.now();
                Ok(())
            })
            .await?;
            return Err(error);
        }
    };
    let is_new_folder = matches!(plan.files, Files::Restored { .. });
    let answer = instruct(&made, instruction, wait, is_new_folder, told).await;
    let answer = answer.map_err(|error| with_place(error, &node, &plan.cwd))?;
    Ok(Branched { plan, node, inherited, left_out: restored.left_out, git: restored.branch, answer })
}

/// The name that the node would get now, and what it would take over; nobody knows that while no server runs.
///
/// # Errors
/// A name that was asked for is taken; a proxy is not known any more.
pub(super) async fn looked(plan: &Plan) -> Result<(String, Option<Inherited>)> {
    match server::connect(&plan.server).await {
        Ok(client) => {
            let inherited = plan.recorded.inherited(&plan.server, &client, &plan.asked).await?;
            Ok((free(&client, plan, &BTreeSet::new()).await?, Some(inherited)))
        }
        // No server, no nodes.
        Err(_) => Ok((plan.node.clone().unwrap_or_else(|base| named(&base, |_| false)), None)),
    }
}

/// A connection to the server, which is started if it does not run.
async fn connected(name: &str, told: &mut (dyn FnMut(&str) + Send)) -> Result<NerveClient> {
    if let Ok(client) = server::connect(name).await {
        return Ok(client);
    }
    told(&format!("starting server '{name}'"));
    let program = crate::own::path()?;
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
    told: &mut (dyn FnMut(&str) + Send),
) -> Result<Option<Turn>> {
    told("waiting for the agent");
    let settled = ["ready", "blocked", "suspended", "stopped"];
    let mut state = node.wait(&settled, Some(READY)).await?;
    for _ in 0..DIALOGS {
        // The files are those of a folder that its user had it work in: the same files get the same answer.
        let trust = match state == "blocked" && is_new_folder {
            true => trusting(node).await?,
            false => None,
        };
        let Some(choice) = trust else { break };
        told("the agent asks whether it may trust the copy of the files it worked on: it may");
        node.answer(choice).await?;
        state = node.wait(&settled, Some(READY)).await?;
    }
    told("sending the instruction");
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
    let taken = node.wait(&["busy", "blocked", "suspended"], Some(TAKEN));
    tokio::select! {
        // It answers at once, or it cannot be told.
        answer = answer => answer.map(Some).map_err(Into::into),
        taken = taken => taken.map(|_| None).map_err(Into::into),
    }
}

/// The choice that trusts the folder, if that is what the agent asks.
async fn trusting(node: &RemoteNode) -> Result<Option<NodeChoice>, ClientError> {
    let kind = node.info().await?.metadata.get("blocked").and_then(|kind| kind.as_str().map(str::to_string));
    if kind.as_deref() != Some("trust") {
        return Ok(None);
    }
    let choices = node.why().await?.choices;
    let trusts = |label: &String| ["yes", "trust"].iter().any(|word| label.to_lowercase().starts_with(word));
    Ok(choices.iter().position(trusts).map(|at| NodeChoice::Number(at + 1)))
}

/// The node is there, and so are its files.
fn with_place(error: anyhow::Error, node: &str, cwd: &Path) -> anyhow::Error {
    let failure = Failure::from_error(&error);
    let hint = failure.hint.clone().map(|hint| format!("{hint}; ")).unwrap_or_default();
    let there = format!("node '{node}' is there all the same, with its files in {}", cwd.display());
    failure.hint(format!("{hint}{there}")).into()
}

/// Nobody knows whether the node is there, and it would need its files.
fn perhaps_there(error: anyhow::Error, node: &str, cwd: &Path) -> anyhow::Error {
    let failure = Failure::from_error(&error);
    let message = format!("{}: whether node '{node}' was started is not known", failure.message);
    let look = format!("'nerve server node list' tells; its files are in {}", cwd.display());
    Failure { message, ..failure }.hint(look).into()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("a thread ended early")?
}
