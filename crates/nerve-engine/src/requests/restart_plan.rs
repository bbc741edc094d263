//! Decides how a stopped node is started again, and whether its agent has resumed the conversation.

use std::sync::Arc;

use nerve_agent::profile::Profile;
use nerve_agent::profile::session::{ConversationRef, SessionArgs};
use nerve_api::reply::NodeInfo;
use nerve_api::request::{CommandLine, NodeRef, NodeSpec};
use nerve_api::value::{BackendKind, NodeState};
use nerve_graph::executable::Executable;
use nerve_graph::session::Session;
use nerve_graph::session::entry::{LastProcess, NodeEntry};
use nerve_node::NodeHandle;
use nerve_node::error::EngineError;
use nerve_transcript::session_files::SessionFiles;

use super::fork::node_argv;
use crate::engine::Engine;

/// States that show whether a program has started.
const STARTED: [NodeState; 5] =
    [NodeState::Ready, NodeState::Busy, NodeState::Blocked, NodeState::Suspended, NodeState::Stopped];
/// Rows at the end of the screen that an error quotes, or that may say that a conversation is empty.
const LAST_ROWS: usize = 4;

impl Engine {
    /// Decides how a node is started again.
    pub(super) async fn plan_restart(
        &self,
        at: &NodeRef,
        entry: &NodeEntry,
        fresh: bool,
    ) -> Result<RestartPlan, EngineError> {
        let spec = &entry.spec;
        let as_defined = || RestartPlan { spec: spec.clone(), command: None, resumption: None };
        if spec.backend == BackendKind::Acp {
            return Ok(RestartPlan { spec: entry.acp_spec(fresh), command: None, resumption: None });
        }
        if spec.pane_id.is_some() || !spec.backend.has_terminal() {
            return Ok(as_defined());
        }
        let argv = node_argv(spec);
        let profile = self.inner.factory.find_profile(spec.backend, spec.profile.as_deref(), &argv)?;
        let Some(session_args) = profile.session.clone() else { return Ok(as_defined()) };
        if fresh {
            let command = Some(CommandLine::Argv(session_args.without_session_args(&argv)));
            let spec = NodeSpec { command, conversation_id: None, ..spec.clone() };
            return Ok(RestartPlan { spec, command: None, resumption: None });
        }
        let conversation =
            KnownConversation { at: at.clone(), argv, profile, session_args, entry: entry.clone() };
        // Reads files of the agent.
        tokio::task::spawn_blocking(move || conversation.plan_resume()).await?
    }
}

/// The plan for starting a node again.
pub(super) struct RestartPlan {
    spec: NodeSpec,
    /// The command of the program, if it is not the defined one.
    command: Option<CommandLine>,
    /// The conversation that the program resumes.
    resumption: Option<Resumption>,
}

/// A conversation that a program resumes.
struct Resumption {
    /// Id of the conversation; `None` if only the command determines it.
    id: Option<String>,
    /// The conversation has turns, so it must not be empty.
    has_turns: bool,
    session_args: SessionArgs,
}

/// An agent whose conversation may be resumed.
struct KnownConversation {
    at: NodeRef,
    argv: Vec<String>,
    profile: Arc<Profile>,
    session_args: SessionArgs,
    entry: NodeEntry,
}

impl KnownConversation {
    /// Plans to resume the conversation. Without an id or a turn there is none, and the program starts as defined.
    fn plan_resume(self) -> Result<RestartPlan, EngineError> {
        let NodeEntry { spec, last, .. } = &self.entry;
        let session_args = &self.session_args;
        let in_command = || match session_args.conversation(&self.argv) {
            ConversationRef::Id(id) => Some(id),
            _ => None,
        };
        let id = last.conversation_id.clone().or_else(|| spec.conversation_id.clone()).or_else(in_command);
        let Some(id) = id.filter(|id| session_args.is_id(id)) else {
            if last.has_turns && !session_args.resume.is_empty() {
                return Err(self.error("the id of its conversation is not known"));
            }
            return Ok(self.plan_as_defined());
        };
        let exists =
            self.session_files().and_then(|files| files.has_conversation(self.profile.transcript, &id));
        match exists {
            Some(false) if last.has_turns => {
                return Err(self.error(&format!("{} does not know conversation {id}", self.profile.name)));
            }
            // No conversation has begun.
            Some(false) | None if !last.has_turns => return Ok(self.plan_as_defined()),
            _ => {}
        }
        let Some(argv) = session_args.resume_command(&self.argv, &id) else {
            let command = shell_words::join(&self.argv);
            return Err(self.error(&format!("its command '{command}' does not start the agent itself")));
        };
        let resumption = Resumption {
            id: Some(id.clone()),
            has_turns: last.has_turns,
            session_args: session_args.clone(),
        };
        // The definition keeps the user's command.
        let spec = NodeSpec { conversation_id: Some(id), ..spec.clone() };
        Ok(RestartPlan { spec, command: Some(CommandLine::Argv(argv)), resumption: Some(resumption) })
    }

    /// Returns the agent's files. `None` if they cannot be located: a script may set other folders.
    fn session_files(&self) -> Option<SessionFiles> {
        let mut env = self.entry.spec.env.clone();
        env.extend(self.session_args.assignments(&self.argv)?);
        SessionFiles::for_env(&env)
    }

    fn plan_as_defined(self) -> RestartPlan {
        let resumption = self.session_args.resumes(&self.argv).then(|| Resumption {
            id: None,
            has_turns: self.entry.last.has_turns,
            session_args: self.session_args.clone(),
        });
        RestartPlan { spec: self.entry.spec, command: None, resumption }
    }

    fn error(&self, why: &str) -> EngineError {
        no_conversation_error(&self.at, why)
    }
}

impl RestartPlan {
    /// Starts the node. If its agent does not resume the conversation, the node stays stopped.
    pub(super) async fn run(
        self,
        engine: &Engine,
        session: &Session,
        at: &NodeRef,
        entry: NodeEntry,
    ) -> Result<NodeInfo, EngineError> {
        let ready_timeout = self.spec.ready_timeout.duration();
        let last = match &self.resumption {
            Some(_) => {
                LastProcess { end: None, recording: None, is_stop_requested: false, ..entry.last.clone() }
            }
            None => LastProcess { usage: entry.last.usage.clone(), ..LastProcess::default() },
        };
        let started = NodeEntry { spec: self.spec, last, env_omitted: entry.env_omitted.clone() };
        let handle = engine.start_entry(session, started, self.command, None).await?;
        let Some(resumption) = self.resumption else { return Ok(handle.info()) };
        // A slow agent continues to start.
        let state = handle.wait(&STARTED, Some(ready_timeout)).await.unwrap_or(NodeState::Starting);
        let Some(why) = resumption.failure(&handle, state).await else { return Ok(handle.info()) };
        handle.stop("it did not resume its conversation").await;
        let is_restored = session.restore_entry(&at.node, &Executable::from(handle), entry);
        engine.inner.persister.save();
        if !is_restored {
            let message = format!("node '{}' was not started: it was stopped or replaced meanwhile", at.node);
            return Err(EngineError::process(message));
        }
        Err(no_conversation_error(at, &why))
    }
}

impl Resumption {
    /// Returns why the conversation was not resumed, if it was not.
    async fn failure(&self, node: &NodeHandle, state: NodeState) -> Option<String> {
        let screen = match state {
            NodeState::Stopped => node.explain().await.map(|why| why.screen).unwrap_or_default(),
            // A reached limit blocks a node whose agent is ready.
            NodeState::Ready | NodeState::Blocked if self.has_turns && self.session_args.empty.is_some() => {
                node.explain().await.ok()?.screen
            }
            _ => return None,
        };
        let rows: Vec<&str> = screen.lines().map(str::trim).filter(|row| !row.is_empty()).collect();
        let last = &rows[rows.len().saturating_sub(LAST_ROWS)..];
        let conversation =
            self.id.as_ref().map_or("its conversation".to_string(), |id| format!("conversation {id}"));
        if state == NodeState::Stopped {
            return Some(format!("its program ended instead of resuming {conversation}: {}", last.join(" ")));
        }
        let is_empty =
            self.session_args.empty.as_ref().is_some_and(|empty| last.iter().any(|row| empty.is_match(row)));
        is_empty.then(|| format!("its program shows an empty conversation instead of {conversation}"))
    }
}

/// Returns the error of a node whose conversation cannot be resumed. The kind is the same whether the agent's files show that or
/// the agent fails to start.
fn no_conversation_error(at: &NodeRef, why: &str) -> EngineError {
    EngineError::not_found(format!("node '{}' was not started: {why}", at.node))
        .hint(format!("`nerve start {} --fresh` starts it with a new conversation", at.arguments()))
}
