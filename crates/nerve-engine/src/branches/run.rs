//! Executes a planned branch: files, conversation, node, instruction, in this order. A failure before the node exists
//! leaves nothing behind; afterwards the node stays even if its first turn fails.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use nerve_api::reply::{
    BranchConversation, BranchCreated, BranchEnvironment, BranchFiles, BranchSnapshot, Turn,
};
use nerve_api::request::{
    AnswerNode, ExecuteInput, ExplainNode, GetNode, NodeChoice, Seconds, States, WaitNode,
};
use nerve_api::value::{BlockKind, BranchProxy, ConversationKind, NodeState};
use nerve_node::error::EngineError;
use nerve_record::store::id_of;
use nerve_transcript::recorded::branch::Conversation;
use nerve_types::TsNs;

use super::environment::InheritedSettings;
use super::files::FileSource;
use super::plan::{NodeName, Plan};
use super::restore::restore;
use super::server::NodeServer;
use super::start::{StartFailure, derive_name, free_name, start};

/// Time limit for the agent to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for accepting the instruction with [`Wait::Delivered`].
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of dialogs before the first prompt.
const MAX_DIALOGS: usize = 3;

/// The event that ends the wait for a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The answer, with this time limit or the node's.
    Answer(Option<Duration>),
    /// The agent's acceptance of the instruction.
    Delivered,
}

/// A created branch.
#[derive(Debug, Clone)]
pub struct BranchResult {
    /// The executed plan.
    pub plan: Plan,
    /// Name of the node.
    pub node: String,
    /// Settings inherited from the recorded node.
    pub inherited: InheritedSettings,
    /// Files that could not be restored, with reasons.
    pub left_out: Vec<String>,
    /// Git branch of the files, if any.
    pub git: Option<String>,
    /// The answer, if awaited.
    pub answer: Option<Turn>,
}

/// The instruction for the agent of a branch.
#[derive(Debug, Clone)]
pub struct Instruction {
    /// Text of the prompt.
    pub text: String,
    /// End of the wait.
    pub wait: Wait,
    /// Span of the caller, see [`ExecuteInput::traceparent`].
    pub traceparent: Option<String>,
    /// See [`ExecuteInput::tracestate`].
    pub tracestate: Option<String>,
}

impl Instruction {
    /// Creates an instruction without a span.
    ///
    /// # Errors
    /// InvalidRequest: the text is empty.
    pub fn new(text: &str, wait: Wait) -> Result<Instruction, EngineError> {
        if text.trim().is_empty() {
            return Err(EngineError::invalid_request("the instruction is empty"));
        }
        Ok(Instruction { text: text.to_string(), wait, traceparent: None, tracestate: None })
    }
}

/// Creates the branch and sends the instruction to the agent. Calls `on_progress` with a description of each step.
///
/// # Errors
/// Those of the plan and of the requests to the server.
pub async fn create_branch(
    server: &impl NodeServer,
    plan: Plan,
    instruction: &Instruction,
    on_progress: &mut (dyn FnMut(&str) + Send),
) -> Result<BranchResult, EngineError> {
    let node = free_name(server, &plan, &BTreeSet::new()).await?;
    let inherited = plan.recorded.inherit(&plan.server, server, &plan.overrides).await?;
    on_progress("restoring the files");
    let (plan, restored, guard) = server.run_file_job(move || restore(plan)).await?;
    on_progress("preparing the conversation");
    let branch = plan.branch.clone();
    let guard = server
        .run_file_job(move || {
            let copy = branch
                .make_copy()
                .map_err(|error| EngineError::process(format!("cannot copy the conversation: {error}")))?;
            Ok(guard.with_conversation(copy))
        })
        .await?;
    on_progress(&format!("starting node '{node}'"));
    // From here on a node may exist that needs the files, even if its creation is not confirmed.
    let guard = guard.disarm();
    let node = match start(server, &plan, &inherited, node).await {
        Ok(node) => node,
        Err(StartFailure { error, possible_node: Some(node) }) => {
            return Err(maybe_started_error(error, &node, &plan.cwd));
        }
        Err(StartFailure { error, possible_node: None }) => {
            server
                .run_file_job(move || {
                    guard.remove();
                    Ok(())
                })
                .await?;
            return Err(error);
        }
    };
    let created = CreatedNode { server, node: &node, session: plan.session.as_deref() };
    let is_new_folder = matches!(plan.files, FileSource::Restored { .. });
    let answer = created.instruct(instruction, is_new_folder, on_progress).await;
    let answer = answer.map_err(|error| with_location(error, &node, &plan.cwd))?;
    Ok(BranchResult { plan, node, inherited, left_out: restored.left_out, git: restored.branch, answer })
}

/// Returns the node's expected name and inherited settings. Without a server the settings are `None`.
///
/// # Errors
/// The requested name is taken, or the recorded proxy's settings are unknown.
pub async fn preview_branch(
    server: Option<&impl NodeServer>,
    plan: &Plan,
) -> Result<(String, Option<InheritedSettings>), EngineError> {
    match server {
        Some(server) => {
            let inherited = plan.recorded.inherit(&plan.server, server, &plan.overrides).await?;
            Ok((free_name(server, plan, &BTreeSet::new()).await?, Some(inherited)))
        }
        // Without a server all names are free.
        None => {
            let node = match &plan.node {
                NodeName::Requested(name) => name.clone(),
                NodeName::DerivedFrom(base) => derive_name(base, |_| false),
            };
            Ok((node, None))
        }
    }
}

impl Plan {
    /// Describes the plan as a reply. `node`: name of the node.
    pub fn reply(&self, node: &str, inherited: Option<&InheritedSettings>) -> BranchCreated {
        let path = |path: &Path| path.display().to_string();
        let mut conversation = BranchConversation { about: self.conversation_text(), ..Default::default() };
        let cut = match &self.branch.conversation {
            Conversation::Cut { from, to, turns, of } => Some((path(from), path(to), *turns, *of)),
            Conversation::Imported { from, to, turns, of } => Some((from.clone(), to.clone(), *turns, *of)),
            Conversation::Whole { .. } => None,
            Conversation::New(reason) => {
                conversation.reason = Some(reason.clone());
                None
            }
        };
        conversation.kind = match (&cut, &conversation.reason) {
            (Some(_), _) => ConversationKind::Cut,
            (None, None) => ConversationKind::Whole,
            (None, Some(_)) => ConversationKind::New,
        };
        if let Some((from, to, turns, of)) = cut {
            (conversation.from, conversation.to) = (Some(from), Some(to));
            (conversation.turns, conversation.of) = (Some(turns), Some(of));
        }
        BranchCreated {
            recording_id: id_of(&self.recording).filter(|_| self.is_recorded).map(str::to_string),
            snapshot: self.snapshot.as_ref().map(|line| BranchSnapshot {
                snapshot_id: line.id,
                label: line.label.clone(),
                taken_at: TsNs(line.ts_ns).into(),
                anchor_byte: line.anchor_byte,
            }),
            files: match &self.files {
                FileSource::InPlace => None,
                FileSource::Restored { files, to, .. } => Some(BranchFiles {
                    provider: files.provider.parse().unwrap_or_default(),
                    source: path(&files.source),
                    reference: files.reference.clone(),
                    to: path(to),
                }),
            },
            conversation,
            command: self.branch.command.clone(),
            cwd: path(&self.cwd),
            node_id: node.to_string(),
            session_id: self.session.clone(),
            server_name: self.server.clone(),
            environment: BranchEnvironment {
                given: self.overrides.env.keys().cloned().collect(),
                taken_over: inherited.map(|inherited| inherited.env.clone()),
                missing: inherited.map(|inherited| inherited.missing.clone()),
            },
            proxy: match &self.overrides.proxy {
                Some(_) => Some(BranchProxy::Given),
                None => inherited.and_then(|inherited| inherited.proxy),
            },
            ..BranchCreated::default()
        }
    }
}

impl BranchResult {
    /// Converts the result to a reply.
    pub fn reply(&self) -> BranchCreated {
        BranchCreated {
            git_branch: self.git.clone(),
            left_out: self.left_out.clone(),
            response: self.answer.as_ref().map(|answer| answer.response.clone()),
            ..self.plan.reply(&self.node, Some(&self.inherited))
        }
    }
}

/// The node of a branch.
struct CreatedNode<'a, S> {
    server: &'a S,
    node: &'a str,
    session: Option<&'a str>,
}

impl<S: NodeServer> CreatedNode<'_, S> {
    /// Waits until the agent is ready, answering trust dialogs, and sends the instruction.
    async fn instruct(
        &self,
        instruction: &Instruction,
        is_new_folder: bool,
        on_progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Option<Turn>, EngineError> {
        on_progress("waiting for the agent");
        let settled = [NodeState::Ready, NodeState::Blocked, NodeState::Suspended, NodeState::Stopped];
        let mut state = self.wait(&settled, READY_TIMEOUT).await?;
        for _ in 0..MAX_DIALOGS {
            // The user already let the agent work on these files, so their copy is trusted too.
            let trust = match state == NodeState::Blocked && is_new_folder {
                true => self.trust_choice().await?,
                false => None,
            };
            let Some(choice) = trust else { break };
            on_progress("answering the agent's trust dialog: the folder is a copy of the files it worked on");
            let request = AnswerNode {
                node_id: self.node.to_string(),
                session_id: self.session(),
                choice: Some(choice),
                ..AnswerNode::default()
            };
            self.server.answer_node(request).await?;
            state = self.wait(&settled, READY_TIMEOUT).await?;
        }
        on_progress("sending the instruction");
        let timeout = match instruction.wait {
            Wait::Answer(timeout) => timeout,
            Wait::Delivered => None,
        };
        let answer = self.server.execute_input(ExecuteInput {
            session_id: self.session(),
            timeout: timeout.map(Seconds::from),
            traceparent: instruction.traceparent.clone(),
            tracestate: instruction.tracestate.clone(),
            ..ExecuteInput::new(self.node, instruction.text.as_str())
        });
        if instruction.wait != Wait::Delivered {
            return Ok(Some(answer.await?));
        }
        let taken = self.wait(&[NodeState::Busy, NodeState::Blocked, NodeState::Suspended], ACCEPT_TIMEOUT);
        tokio::select! {
            // The turn ended already, or the instruction could not be delivered.
            answer = answer => answer.map(Some),
            taken = taken => taken.map(|_| None),
        }
    }

    async fn wait(&self, until: &[NodeState], timeout: Duration) -> Result<NodeState, EngineError> {
        let request = WaitNode {
            node_id: self.node.to_string(),
            session_id: self.session(),
            until: States(until.to_vec()),
            timeout: Some(Seconds::from(timeout)),
        };
        self.server.wait_node(request).await
    }

    /// Returns the choice that trusts the folder, if the agent shows a trust dialog.
    async fn trust_choice(&self) -> Result<Option<NodeChoice>, EngineError> {
        let info = self.server.get_node(GetNode::new(self.node, self.session())).await?;
        if info.metadata.text("blocked") != BlockKind::Trust.as_str() {
            return Ok(None);
        }
        let choices = self.server.explain_node(ExplainNode::new(self.node, self.session())).await?.choices;
        let trusts =
            |label: &String| ["yes", "trust"].iter().any(|word| label.to_lowercase().starts_with(word));
        Ok(choices.iter().position(trusts).map(|at| NodeChoice::Number(at + 1)))
    }

    fn session(&self) -> Option<String> {
        self.session.map(str::to_string)
    }
}

/// Adds to the hint of an error that the node exists, and where its files are.
fn with_location(error: EngineError, node: &str, cwd: &Path) -> EngineError {
    let hint = error.hint.clone().map(|hint| format!("{hint}; ")).unwrap_or_default();
    let location = format!("node '{node}' exists, with its files in {}", cwd.display());
    error.hint(format!("{hint}{location}"))
}

/// Adds to an error that the node may have been started, and where its files are.
fn maybe_started_error(error: EngineError, node: &str, cwd: &Path) -> EngineError {
    let message = format!("{}: node '{node}' may have been started", error.message);
    let hint = format!("check with `LIST_NODES`; its files are in {}", cwd.display());
    EngineError { message, ..error }.hint(hint)
}
