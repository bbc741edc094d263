//! The restart of stopped nodes. An agent resumes its conversation by its id; a conversation is never replaced by a new one silently.

use std::collections::BTreeMap;
use std::sync::Arc;

use nerve_agent::profile::Profile;
use nerve_agent::profile::session::{ConversationRef, SessionArgs};
use nerve_api::reply::{NodeFailure, NodeInfo, NodesChanged, NodesRestored, RestoredNode};
use nerve_api::request::{CommandLine, NodeRef, NodeSpec, RestoreNodes, StartNode, StartSession};
use nerve_api::value::{BackendKind, NodeState};
use nerve_api::{DEFAULT_SESSION, session_option};
use nerve_graph::executable::Executable;
use nerve_graph::session::entry::{EndCause, LastProcess, NodeEntry};
use nerve_graph::session::{START_STOP_TIMEOUT, Session};
use nerve_node::NodeHandle;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_transcript::session_files::SessionFiles;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::context::{RequestContext, Warnings};
use super::fork::node_argv;
use super::params::check_shell_env;
use super::stopped_nodes::has_ended;
use crate::engine::Engine;

/// Maximum number of nodes that are started at the same time. More agents would only slow each other down.
const MAX_STARTS: usize = 16;
/// States that show whether a program has started.
const STARTED: [NodeState; 5] =
    [NodeState::Ready, NodeState::Busy, NodeState::Blocked, NodeState::Suspended, NodeState::Stopped];
/// Rows at the end of the screen that an error quotes, or that may say that a conversation is empty.
const LAST_ROWS: usize = 4;

impl Engine {
    /// Starts a stopped node again. An agent resumes its conversation, unless the request asks for a new one.
    ///
    /// # Errors
    /// NotFound (the node, or the agent's conversation), AlreadyExists (it is running), Process.
    pub async fn start_node(
        &self,
        request: StartNode,
        context: RequestContext,
    ) -> Result<NodeInfo, EngineError> {
        let StartNode { node_id, session_id, fresh, shell_env } = request;
        check_shell_env(shell_env.as_ref())?;
        let at = NodeRef::new(node_id, session_id);
        self.start(&at, fresh, shell_env, &context.warnings).await
    }

    /// Starts the stopped nodes of a session concurrently. Nodes whose programs exited by themselves are started only if the
    /// request is for all.
    ///
    /// # Errors
    /// NotFound (session).
    pub async fn start_session(
        &self,
        request: StartSession,
        context: RequestContext,
    ) -> Result<NodesChanged, EngineError> {
        let session = self.inner.sessions.get(Some(request.session().unwrap_or(DEFAULT_SESSION)))?;
        let is_chosen = |entry: &NodeEntry| {
            request.all || entry.last.end.as_ref().is_none_or(|end| end.cause != EndCause::Exited)
        };
        let stopped = session.entries().into_iter();
        let stopped = stopped.filter(|(name, entry)| is_chosen(entry) && is_startable(&session, name));
        let stopped = stopped.map(|(name, _)| node_in(&session, name)).collect();
        let (mut nodes, mut failed) = (Vec::new(), Vec::new());
        for (at, started) in self.start_all(stopped, &context.warnings).await {
            match started {
                Ok(()) => nodes.push(at.node),
                Err(error) => failed.push(NodeFailure {
                    node_id: at.node,
                    error: error.message,
                    error_type: error.kind,
                    hint: error.hint,
                }),
            }
        }
        Ok(NodesChanged { nodes, failed })
    }

    /// Starts the nodes of all sessions that ran when the server or the machine went down.
    ///
    /// # Errors
    /// None.
    pub async fn restore_nodes(
        &self,
        _: RestoreNodes,
        context: RequestContext,
    ) -> Result<NodesRestored, EngineError> {
        self.wait_for_gone_hosts().await;
        let mut lost = Vec::new();
        for session in self.inner.sessions.list() {
            let is_lost = |entry: &NodeEntry| entry.is_lost() && entry.spec.pane_id.is_none();
            let entries = session.entries().into_iter();
            let entries = entries.filter(|(name, entry)| is_lost(entry) && is_startable(&session, name));
            lost.extend(entries.map(|(name, _)| node_in(&session, name)));
        }
        let started = self.start_all(lost, &context.warnings).await;
        let nodes = started.into_iter().map(|(at, started)| {
            let mut node = RestoredNode {
                node_id: at.node,
                session_id: at.session.unwrap_or_else(|| DEFAULT_SESSION.to_string()),
                ..RestoredNode::default()
            };
            if let Err(error) = started {
                (node.error, node.error_type, node.hint) =
                    (Some(error.message), Some(error.kind), error.hint);
            }
            node
        });
        Ok(NodesRestored { nodes: nodes.collect() })
    }

    /// Starts the nodes of [`Engine::restore_nodes`] in the background and logs the outcomes. Must be called on a runtime.
    pub fn restore_in_background(&self) {
        let engine = self.clone();
        tokio::spawn(async move {
            let context = RequestContext::default();
            let warnings = context.warnings.clone();
            let restored = engine.restore_nodes(RestoreNodes {}, context).await;
            for warning in warnings.take() {
                tracing::warn!("{warning}");
            }
            for RestoredNode { node_id, session_id, error, .. } in
                restored.into_iter().flat_map(|all| all.nodes)
            {
                match error {
                    None => tracing::info!(node = %node_id, session = %session_id, "restored"),
                    Some(error) => {
                        tracing::warn!(node = %node_id, session = %session_id, %error, "not restored")
                    }
                }
            }
        });
    }

    /// Waits until the adopted nodes whose hosts are gone are known to be stopped.
    async fn wait_for_gone_hosts(&self) {
        let gone_nodes = std::mem::take(&mut *self.inner.gone_nodes.lock());
        let nodes = gone_nodes.iter().filter_map(|at| self.node(at).ok());
        let waits = nodes.map(|node| {
            tokio::spawn(async move { node.wait(&[NodeState::Stopped], Some(START_STOP_TIMEOUT)).await })
        });
        for wait in waits.collect::<Vec<_>>() {
            // A node that is not stopped in time is not restored.
            let _ = wait.await;
        }
    }

    /// Starts nodes concurrently. Returns the outcomes in the same order, without the nodes that another request has started meanwhile.
    async fn start_all(
        &self,
        nodes: Vec<NodeRef>,
        warnings: &Warnings,
    ) -> Vec<(NodeRef, Result<(), EngineError>)> {
        let permits = Arc::new(Semaphore::new(MAX_STARTS));
        let starts = nodes.into_iter().map(|at| {
            let (engine, node, permits, warnings) =
                (self.clone(), at.clone(), Arc::clone(&permits), warnings.clone());
            let start: JoinHandle<Result<(), EngineError>> = tokio::spawn(async move {
                // The semaphore is never closed.
                let _permit = permits.acquire().await;
                engine.start(&node, false, None, &warnings).await.map(drop)
            });
            (at, start)
        });
        let mut outcomes = Vec::new();
        for (at, start) in starts.collect::<Vec<_>>() {
            let outcome = start.await.map_err(EngineError::from).flatten();
            if !outcome.as_ref().is_err_and(|error| error.kind == ErrorKind::AlreadyExists) {
                outcomes.push((at, outcome));
            }
        }
        outcomes
    }

    async fn start(
        &self,
        at: &NodeRef,
        fresh: bool,
        shell_env: Option<BTreeMap<String, String>>,
        warnings: &Warnings,
    ) -> Result<NodeInfo, EngineError> {
        let session = self.inner.sessions.get(at.session.as_deref())?;
        let option = session_option(session.name());
        if session.is_starting(&at.node) {
            let error = EngineError::already_exists(format!("node '{}' is already starting", at.node));
            return Err(error.hint(format!("wait for it: `nerve wait {}{option}`", at.node)));
        }
        if session.get(&at.node).is_some_and(|node| !has_ended(&node)) {
            let error = EngineError::already_exists(format!("node '{}' is already running", at.node));
            let hint = format!("to start it anew, stop it first: `nerve stop {}{option}`", at.node);
            return Err(error.hint(hint));
        }
        let Some(mut entry) = session.entry(&at.node) else {
            // The error lists the nodes.
            session.find(&at.node)?;
            let message = format!("node '{}' has no definition to start it from", at.node);
            return Err(EngineError::not_found(message).hint("create it with `nerve new`"));
        };
        self.check_host_gone(at, &entry)?;
        entry.use_shell(shell_env);
        if let Some(keep) = entry.spec.chat.as_ref().map(|chat| &chat.keep) {
            check_chat(at, keep.as_deref(), fresh, warnings)?;
        }
        if !entry.env_omitted.is_empty() {
            warnings.add(format!(
                "node '{}' starts without {}: their values were not stored, and the server's environment has none",
                at.node,
                entry.env_omitted.join(", ")
            ));
        }
        let (engine, at) = (self.clone(), at.clone());
        // The start is completed even if the future is dropped.
        let started = self.inner.creating.spawn(async move {
            let restart = engine.plan_restart(&at, &entry, fresh).await?;
            restart.run(&engine, &session, &at, entry).await
        });
        started.await?
    }

    /// Decides how a node is started again.
    async fn plan_restart(
        &self,
        at: &NodeRef,
        entry: &NodeEntry,
        fresh: bool,
    ) -> Result<Restart, EngineError> {
        let spec = &entry.spec;
        let as_defined = || Restart { spec: spec.clone(), command: None, resumption: None };
        if spec.backend == BackendKind::Acp {
            return Ok(Restart { spec: entry.acp_spec(fresh), command: None, resumption: None });
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
            return Ok(Restart { spec, command: None, resumption: None });
        }
        let conversation =
            KnownConversation { at: at.clone(), argv, profile, session_args, entry: entry.clone() };
        // Reads files of the agent.
        tokio::task::spawn_blocking(move || conversation.resume()).await?
    }
}

/// The plan for starting a node again.
struct Restart {
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
    fn resume(self) -> Result<Restart, EngineError> {
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
            return Ok(self.start_as_defined());
        };
        let exists =
            self.session_files().and_then(|files| files.has_conversation(self.profile.transcript, &id));
        match exists {
            Some(false) if last.has_turns => {
                return Err(self.error(&format!("{} does not know conversation {id}", self.profile.name)));
            }
            // No conversation has begun.
            Some(false) | None if !last.has_turns => return Ok(self.start_as_defined()),
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
        Ok(Restart { spec, command: Some(CommandLine::Argv(argv)), resumption: Some(resumption) })
    }

    /// Returns the agent's files. `None` if they cannot be located: a script may set other folders.
    fn session_files(&self) -> Option<SessionFiles> {
        let mut env = self.entry.spec.env.clone();
        env.extend(self.session_args.assignments(&self.argv)?);
        SessionFiles::for_env(&env)
    }

    fn start_as_defined(self) -> Restart {
        let resumption = self.session_args.resumes(&self.argv).then(|| Resumption {
            id: None,
            has_turns: self.entry.last.has_turns,
            session_args: self.session_args.clone(),
        });
        Restart { spec: self.entry.spec, command: None, resumption }
    }

    fn error(&self, why: &str) -> EngineError {
        no_conversation_error(&self.at, why)
    }
}

impl Restart {
    /// Starts the node. If its agent does not resume the conversation, the node stays stopped.
    async fn run(
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

/// Checks the restart of a chat node, whose conversation exists only in its file.
fn check_chat(at: &NodeRef, keep: Option<&str>, fresh: bool, warnings: &Warnings) -> Result<(), EngineError> {
    match keep {
        Some(file) if fresh => {
            let message = format!("node '{}' was not started: its conversation is stored in {file}", at.node);
            Err(EngineError::invalid_request(message).hint("move the file away, then start the node"))
        }
        None if !fresh => {
            warnings.add(format!(
                "the conversation of chat node '{}' was not stored, so a new one begins: `--keep FILE` stores it",
                at.node
            ));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns true if no program runs or starts under the name of a node.
pub(super) fn is_startable(session: &Session, name: &str) -> bool {
    session.get(name).is_none_or(|node| has_ended(&node)) && !session.is_starting(name)
}

fn node_in(session: &Session, node: String) -> NodeRef {
    NodeRef::new(node, Some(session.name().to_string()))
}

/// Returns the error of a node whose conversation cannot be resumed. The kind is the same whether the agent's files show that or
/// the agent fails to start.
fn no_conversation_error(at: &NodeRef, why: &str) -> EngineError {
    EngineError::not_found(format!("node '{}' was not started: {why}", at.node))
        .hint(format!("`nerve start {} --fresh` starts it with a new conversation", at.arguments()))
}
