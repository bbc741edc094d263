//! Forks: nodes that continue from the state of another node.

use std::path::PathBuf;

use nerve_agent::profile::session::{ConversationRef, IdSource};
use nerve_api::reply::{NodeForked, NodeInfo};
use nerve_api::request::{CommandLine, ForkNode, InheritedNode, NodeRef, NodeSpec};
use nerve_api::value::NodeState;
use nerve_graph::executable::Executable;
use nerve_graph::session::Session;
use nerve_graph::session::entry::NodeEntry;
use nerve_node::NodeHandle;
use nerve_node::error::EngineError;
use nerve_node::fork::command_words;
use nerve_node::names::check_name;
use nerve_transcript::session_files::SessionFiles;

use super::context::RequestContext;
use super::fork_source::{ForkSource, earlier_turn_error, unsupported_fork_error};
use crate::engine::Engine;

impl Engine {
    /// Creates a node that continues from the state of another node. The fork is completed even if the future is dropped.
    ///
    /// # Errors
    /// NotFound, AlreadyExists, Busy, Blocked, InvalidRequest (the node cannot be forked), Process.
    pub async fn fork_node(&self, request: ForkNode, _: RequestContext) -> Result<NodeForked, EngineError> {
        let ForkNode { source_id, target_id, at, session_id } = request;
        let source = NodeRef::new(source_id, session_id);
        let forked_from = source.node.clone();
        let engine = self.clone();
        let forked =
            self.inner.detached_tasks.spawn(async move { engine.fork(&source, target_id, at).await });
        let info = forked.await??;
        Ok(NodeForked { node_id: info.node_id, forked_from })
    }

    async fn fork(
        &self,
        source: &NodeRef,
        target: String,
        turn: Option<u64>,
    ) -> Result<NodeInfo, EngineError> {
        let session = self.inner.sessions.get(source.session.as_deref())?;
        let (node, definition) = (session.get(&source.node), session.definition(&source.node));
        if node.is_none() && definition.is_none() {
            // The error lists the nodes.
            session.find(&source.node)?;
        }
        check_name(&target, "node")?;
        check_free(&session, source, &target)?;
        let at = NodeRef { session: source.session.clone(), node: target };
        let terminal = match node {
            Some(Executable::Node(node)) if node.to_spec().is_some() => Some(node),
            Some(Executable::Node(node)) => return self.copy(&session, source, at, &node, turn).await,
            Some(other) => return Err(unsupported_fork_error(source, &format!("a {} node", other.kind()))),
            None => None,
        };
        let definition = definition.or_else(|| terminal.as_ref()?.to_spec());
        let Some(definition) = definition.filter(|spec| spec.backend.has_terminal()) else {
            return Err(unsupported_fork_error(source, "a node that does not run and has no terminal"));
        };
        if definition.proxy.is_none() && terminal.as_ref().is_some_and(|node| node.has_unknown_proxy()) {
            return Err(unknown_proxy_error(source));
        }
        let from = ForkSource { at: source.clone(), definition, terminal };
        let (spec, copy) = self.forked_spec(from, at, turn).await?;
        let forked_from = Some(source.node.clone());
        let created = self.start_entry(&session, NodeEntry::new(spec), None, forked_from).await;
        if let (Err(_), Some(copy)) = (&created, copy) {
            // Nothing refers to the copy.
            let _ = std::fs::remove_file(copy);
        }
        Ok(created?.info())
    }

    /// Forks a node that can copy itself.
    async fn copy(
        &self,
        session: &Session,
        source: &NodeRef,
        at: NodeRef,
        node: &NodeHandle,
        turn: Option<u64>,
    ) -> Result<NodeInfo, EngineError> {
        let reservation = session.reserve(&at.node)?;
        let fork = match (node.fork(&at), turn) {
            (None, _) => Err(unsupported_fork_error(source, &format!("a {} node", node.kind()))),
            (Some(_), Some(_)) => Err(earlier_turn_error(source)),
            (Some(fork), None) => fork.await,
        };
        let fork = fork.inspect_err(|_| session.release(&at.node, reservation))?;
        let spec = session.definition(&source.node).map(|spec| {
            let chat = spec.chat.map(|chat| Box::new(nerve_node::chat::fork_settings(*chat)));
            // A fork has a conversation of its own.
            let conversation_id = None;
            NodeSpec {
                node_id: at.node.clone(),
                session_id: at.session.clone(),
                chat,
                conversation_id,
                ..spec
            }
        });
        let info = fork.info();
        if !session.fill_with_entry(&at.node, reservation, fork, spec.map(NodeEntry::new)) {
            return Err(EngineError::not_found("its session was deleted meanwhile"));
        }
        self.announce_node(&at, info.kind.clone(), Some(source.node.clone()));
        Ok(info)
    }

    /// Returns the definition of the fork, and the copy of a transcript that was written for it.
    async fn forked_spec(
        &self,
        from: ForkSource,
        at: NodeRef,
        turn: Option<u64>,
    ) -> Result<(NodeSpec, Option<PathBuf>), EngineError> {
        let state = from.terminal.as_ref().map_or(NodeState::Stopped, |node| node.info().state);
        let argv = node_argv(&from.definition);
        let definition = &from.definition;
        let profile =
            self.inner.factory.find_profile(definition.backend, definition.profile.as_deref(), &argv)?;
        tokio::task::spawn_blocking(move || from.fork(&profile, &argv, state, at, turn)).await?
    }

    /// Adds the variables and the proxy of the node `from` to a definition that inherits them.
    pub(super) fn inherit(&self, mut spec: NodeSpec, from: InheritedNode) -> Result<NodeSpec, EngineError> {
        let wants_proxy = from.proxy && spec.proxy.is_none();
        let from = NodeRef::new(from.node_id, from.session_id);
        let session = self.inner.sessions.get(from.session.as_deref())?;
        let node = session.get(&from.node);
        let node = node.as_ref().and_then(Executable::node);
        let definition = session.definition(&from.node);
        let Some(other) = definition.or_else(|| node?.to_spec()) else {
            // The error lists the nodes.
            session.find(&from.node)?;
            let message = format!("the definition of node '{}' is unknown", from.node);
            return Err(
                EngineError::not_found(message).hint("set its variables and proxy in the request instead")
            );
        };
        if wants_proxy && other.proxy.is_none() && node.is_some_and(|node| node.has_unknown_proxy()) {
            return Err(unknown_proxy_error(&from));
        }
        let env = other.env.into_iter().chain(spec.env).collect();
        let proxy = spec.proxy.take().or(other.proxy.filter(|_| wants_proxy));
        let shell_env = spec.shell_env.take().or(other.shell_env);
        Ok(NodeSpec { env, shell_env, proxy, ..spec })
    }

    /// Resumes the conversation that the definition names, unless a running node uses it. The definition keeps the user's command;
    /// the second value is the program's command, if it differs.
    pub(super) fn resume_if_free(&self, spec: NodeSpec) -> (NodeSpec, Option<CommandLine>) {
        let Some(id) = &spec.conversation_id else { return (spec, None) };
        let uses_it = |info: NodeInfo| {
            info.state != NodeState::Stopped && info.metadata.known_text("conversation_id") == Some(id)
        };
        let sessions = self.inner.sessions.list();
        let is_used =
            sessions.iter().flat_map(|session| session.nodes()).any(|(_, node)| uses_it(node.info()));
        if is_used { (spec, None) } else { self.resume_conversation(spec) }
    }

    /// Resumes the conversation of a definition if it exists: its id cannot be used twice.
    fn resume_conversation(&self, spec: NodeSpec) -> (NodeSpec, Option<CommandLine>) {
        if spec.pane_id.is_some() {
            // The program in an adopted pane is not started here.
            return (spec, None);
        }
        let argv = node_argv(&spec);
        let profile = self.inner.factory.find_profile(spec.backend, spec.profile.as_deref(), &argv);
        let Some(session_args) = profile.ok().and_then(|profile| profile.session.clone()) else {
            return (spec, None);
        };
        let id = spec.conversation_id.clone().or_else(|| match session_args.conversation(&argv) {
            ConversationRef::Id(id) => Some(id),
            _ => None,
        });
        let exists = |id: &String| {
            session_args.id_source == Some(IdSource::Claude)
                && SessionFiles::for_env(&spec.env)
                    .is_some_and(|session_files| session_files.transcript(id).is_some())
        };
        match id.filter(exists).and_then(|id| Some((session_args.resume_command(&argv, &id)?, id))) {
            Some((argv, id)) => {
                (NodeSpec { conversation_id: Some(id), ..spec }, Some(CommandLine::Argv(argv)))
            }
            None => (spec, None),
        }
    }
}

/// Returns the arguments of a node's command. `claude` is the default for Claude Code nodes.
pub(super) fn node_argv(spec: &NodeSpec) -> Vec<String> {
    let argv = spec.command.as_ref().map(command_words).unwrap_or_default();
    match argv.is_empty() && spec.backend.is_claude() {
        true => vec!["claude".to_string()],
        false => argv,
    }
}

/// Checks that the name of a fork is free and differs from its source's name.
fn check_free(session: &Session, source: &NodeRef, target: &str) -> Result<(), EngineError> {
    let is_live = |node: Executable| node.info().state != NodeState::Stopped;
    if target != source.node && !session.get(target).is_some_and(is_live) {
        return Ok(());
    }
    let message = format!("node '{target}' exists already in session '{}'", session.name());
    Err(EngineError::already_exists(message).hint("stop it first, or choose another name"))
}

/// Returns the error of a fork whose proxy is unknown. Without the proxy, it would bypass budget, key and model.
fn unknown_proxy_error(source: &NodeRef) -> EngineError {
    let message = format!("cannot fork node '{}': its proxy settings cannot be read", source.node);
    EngineError::invalid_request(message).hint("create a new node with the proxy it needs")
}
