//! Forks: nodes that continue from the state of another node.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nerve_agent::parse::transcript::{CutError, cut, parse_turn, turns};
use nerve_agent::profile::session::{ConversationRef, IdSource, SessionArgs};
use nerve_agent::profile::{Profile, TranscriptKind};
use nerve_api::reply::NodeForked;
use nerve_api::request::{ForkNode, InheritedNode};
use nerve_graph::executable::Executable;
use nerve_graph::session::Session;
use nerve_graph::session::entry::NodeEntry;
use nerve_node::NodeHandle;
use nerve_node::command::{CommandLine, NodeInfo, NodeRef, NodeSpec, StateName, terminal_kind};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::fork::session_files::{SessionFiles, read_transcript, write_sibling};
use nerve_node::fork::{command_words, new_id};
use nerve_node::names::{check_name, node_arguments};
use nerve_types::Size;

use super::Engine;
use super::context::RequestContext;
use super::specs::node_ref;

/// Time an agent has to write the end of a turn.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two reads of a transcript.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

impl Engine {
    /// Creates a node that continues from the state of another node. The fork is completed even if the future is dropped.
    ///
    /// # Errors
    /// NotFound, AlreadyExists, Busy, Blocked, InvalidRequest (the node cannot be forked), Process.
    pub async fn fork_node(&self, request: ForkNode, _: RequestContext) -> Result<NodeForked, EngineError> {
        let ForkNode { source_id, target_id, at, session_id } = request;
        let source = node_ref(source_id, session_id);
        let forked_from = source.node.clone();
        let engine = self.clone();
        let forked = self.inner.creating.spawn(async move { engine.fork(&source, target_id, at).await });
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
            Some(Executable::Node(node)) => return self.copy(&session, source, at, &node, turn),
            Some(other) => return Err(unsupported_fork_error(source, &format!("a {} node", other.kind()))),
            None => None,
        };
        let definition = definition.or_else(|| terminal.as_ref()?.to_spec());
        let Some(definition) = definition.filter(|spec| terminal_kind(spec.backend).is_some()) else {
            return Err(unsupported_fork_error(source, "a node that does not run and has no terminal"));
        };
        if definition.proxy.is_none() && terminal.as_ref().is_some_and(|node| node.has_unknown_proxy()) {
            return Err(unknown_proxy_error(source));
        }
        let from = ForkSource { at: source.clone(), definition, terminal };
        let (spec, copy) = self.forked_spec(from, at, turn).await?;
        let created = self.make(&session, NodeEntry::new(spec), Some(source.node.clone())).await;
        if let (Err(_), Some(copy)) = (&created, copy) {
            // Nothing refers to the copy.
            let _ = std::fs::remove_file(copy);
        }
        created
    }

    /// Forks a node that can copy itself.
    fn copy(
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
            (Some(fork), None) => fork,
        };
        let fork = fork.inspect_err(|_| session.release(&at.node, reservation))?;
        let spec = session.definition(&source.node).map(|spec| {
            let chat = spec.chat.map(|chat| Box::new(nerve_node::chat::fork_settings(*chat)));
            NodeSpec { node_id: at.node.clone(), session_id: at.session.clone(), chat, ..spec }
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
        let state = from.terminal.as_ref().map_or(StateName::Stopped, |node| node.info().state);
        let argv = node_argv(&from.definition);
        let definition = &from.definition;
        let profile =
            self.inner.factory.find_profile(definition.backend, definition.profile.as_deref(), &argv)?;
        tokio::task::spawn_blocking(move || from.fork(&profile, &argv, state, at, turn)).await?
    }

    /// Adds the variables and the proxy of the node whose settings are inherited.
    pub(super) fn inherit(&self, mut spec: NodeSpec, from: InheritedNode) -> Result<NodeSpec, EngineError> {
        let wants_proxy = from.proxy && spec.proxy.is_none();
        let from = node_ref(from.node_id, from.session_id);
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
    /// the second value is that of the program, if it is another one.
    pub(super) fn resume_if_free(&self, spec: NodeSpec) -> (NodeSpec, Option<CommandLine>) {
        let Some(id) = &spec.conversation_id else { return (spec, None) };
        let uses_it = |info: NodeInfo| {
            info.state != StateName::Stopped && info.metadata.known_text("conversation_id") == Some(id)
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
        let found = self.inner.factory.find_profile(spec.backend, spec.profile.as_deref(), &argv);
        let Some(forms) = found.ok().and_then(|profile| profile.session.clone()) else {
            return (spec, None);
        };
        let id = spec.conversation_id.clone().or_else(|| match forms.conversation(&argv) {
            ConversationRef::Id(id) => Some(id),
            _ => None,
        });
        let is_there = |id: &String| {
            forms.id_source == Some(IdSource::Claude)
                && SessionFiles::for_env(&spec.env)
                    .is_some_and(|session_files| session_files.transcript(id).is_some())
        };
        match id.filter(is_there).and_then(|id| Some((forms.resume_command(&argv, &id)?, id))) {
            Some((argv, id)) => {
                (NodeSpec { conversation_id: Some(id), ..spec }, Some(CommandLine::Argv(argv)))
            }
            None => (spec, None),
        }
    }
}

/// The node that is forked.
struct ForkSource {
    at: NodeRef,
    definition: NodeSpec,
    /// `None` if the node does not run.
    terminal: Option<NodeHandle>,
}

impl ForkSource {
    /// Returns the definition of the fork, and the copy of a transcript written for it. Blocks: reads other programs' files.
    fn fork(
        &self,
        profile: &Profile,
        argv: &[String],
        state: StateName,
        at: NodeRef,
        turn: Option<u64>,
    ) -> Result<(NodeSpec, Option<PathBuf>), EngineError> {
        let Some(forms) = &profile.session else {
            return Err(unsupported_fork_error(&self.at, &format!("a node of '{}'", profile.name)));
        };
        if forms.fork.is_empty() {
            let reason = forms.cannot.as_deref().unwrap_or("it does not support forking");
            let message = format!("cannot fork node '{}': {reason}", self.at.node);
            return Err(EngineError::invalid_request(message).hint("create a new node instead"));
        }
        let keeps_transcript = matches!(profile.transcript, Some(TranscriptKind::Claude));
        if turn.is_some() && !keeps_transcript {
            return Err(earlier_turn_error(&self.at));
        }
        // After the checks that no wait would change.
        check_state(&self.at, state)?;
        let session_files = SessionFiles::for_env(&self.definition.env);
        let session_files = session_files
            .ok_or_else(|| EngineError::process("no home folder: the agent's files cannot be located"))?;
        let id = self.conversation(forms, &session_files, argv, state)?;
        let new = new_id();
        let file = if keeps_transcript {
            Some(self.transcript(&session_files, &id)?)
        } else if forms.fork.iter().any(|word| word.contains("{file}")) {
            let chat = session_files.chat(&id).filter(|path| has_answer(path));
            Some(chat.ok_or_else(|| self.no_transcript_error())?)
        } else {
            None
        };
        let (argv, copy) = match (turn, &file) {
            (Some(turn), Some(file)) => {
                let argv = forms.resume_command(argv, &new).ok_or_else(|| self.indirect_start_error(argv))?;
                (argv, Some(self.cut(file, turn, &new)?))
            }
            _ => {
                let path = file.map(|file| file.display().to_string()).unwrap_or_default();
                let argv = forms
                    .fork_command(argv, &id, &new, &path)
                    .ok_or_else(|| self.indirect_start_error(argv))?;
                (argv, None)
            }
        };
        let size = self.size();
        let is_named = forms.can_name_forks() || copy.is_some();
        let spec = NodeSpec {
            node_id: at.node,
            session_id: at.session,
            command: Some(CommandLine::Argv(argv)),
            conversation_id: is_named.then_some(new),
            cols: Some(size.cols),
            rows: Some(size.rows),
            cwd: self.cwd(),
            // A new pane.
            pane_id: None,
            // A fork has a conversation of its own.
            conversation: None,
            ..self.definition.clone()
        };
        Ok((spec, copy))
    }

    fn size(&self) -> Size {
        let spec = self.terminal.as_ref().and_then(|node| node.to_spec());
        spec.as_ref().unwrap_or(&self.definition).size()
    }

    /// Returns the folder of the node. Agents look up a conversation by its folder.
    fn cwd(&self) -> Option<PathBuf> {
        let current = || self.terminal.as_ref()?.to_spec()?.cwd;
        self.definition.cwd.clone().or_else(current)
    }

    /// Returns the id of the current conversation. The agent itself comes first, because `/clear` begins a new one.
    fn conversation(
        &self,
        forms: &SessionArgs,
        session_files: &SessionFiles,
        argv: &[String],
        state: StateName,
    ) -> Result<String, EngineError> {
        // The pid of an ended process may belong to another process by now.
        let pid = self.number("pid").filter(|_| state != StateName::Stopped);
        let current = pid.and_then(|pid| pid.try_into().ok()).map(|pid| session_files.current_id(forms, pid));
        // Without the file, the node may know only an earlier conversation.
        let current = current.transpose().map_err(|error| {
            let message =
                format!("cannot fork node '{}': its status file is incomplete: {error}", self.at.node);
            EngineError::busy(message).hint("the agent is writing it: try again")
        })?;
        let in_command = || match forms.conversation(argv) {
            ConversationRef::Id(id) => Some(id).filter(|id| forms.is_id(id)),
            _ => None,
        };
        current
            .flatten()
            .or_else(|| self.agent_session())
            .or_else(|| self.definition.conversation_id.clone())
            .or_else(in_command)
            .ok_or_else(|| {
                if forms.id_source == Some(IdSource::Codex) && self.terminal.is_some() && self.turns() == 0 {
                    return no_turns_error(&self.at);
                }
                let what = match forms.id_source {
                    Some(IdSource::Claude) => "Claude session ID not tracked",
                    _ => "the id of its conversation is not known",
                };
                let message = format!("cannot fork node '{}': {what}", self.at.node);
                let hint = match forms.id_source {
                    None => "it is known from its command, or after its first turn",
                    Some(IdSource::Claude) => "the agent reports it with its first turn; nodes created with a plain `claude` have it from the start",
                    Some(IdSource::Codex) => "the program must have exactly one open conversation",
                };
                EngineError::invalid_request(message).hint(hint)
            })
    }

    /// Returns the file of the conversation, if it has a turn. The agent may still be writing the end of a turn that it has already
    /// displayed.
    fn transcript(&self, session_files: &SessionFiles, id: &str) -> Result<PathBuf, EngineError> {
        let deadline = Instant::now() + WRITE_TIMEOUT;
        loop {
            let path = session_files.transcript(id);
            let text = path.as_ref().map(|path| read_transcript(path));
            let is_complete = match &text {
                None => self.turns() == 0,
                Some(Ok(text)) => is_settled(text),
                Some(Err(_)) => true,
            };
            if is_complete || Instant::now() >= deadline {
                let has_none = text.is_none_or(|text| text.is_ok_and(|text| turns(&text) == Ok(0)));
                // The agent may understand a file that this parser does not.
                return path.filter(|_| !has_none).ok_or_else(|| self.no_transcript_error());
            }
            // Polling is cheaper than a file watch: a few reads per fork.
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the number of turns of the node.
    fn turns(&self) -> u64 {
        self.number("turns").unwrap_or(0)
    }

    /// Returns the error of a conversation whose transcript does not exist or has no turn.
    fn no_transcript_error(&self) -> EngineError {
        if self.turns() == 0 {
            return no_turns_error(&self.at);
        }
        let message =
            format!("cannot fork node '{}': no transcript of its conversation was found", self.at.node);
        EngineError::invalid_request(message)
            .hint("the agent writes it with its next answer, below the HOME of its node: send it a prompt, then try again")
    }

    /// Returns a number of the running node's description.
    fn number(&self, name: &str) -> Option<u64> {
        self.terminal.as_ref()?.info().metadata.number(name)
    }

    /// Returns the id of the running node's conversation.
    fn agent_session(&self) -> Option<String> {
        self.terminal.as_ref()?.info().metadata.known_text("conversation_id").map(str::to_string)
    }

    /// Copies a transcript up to a turn.
    fn cut(&self, file: &Path, turn: u64, id: &str) -> Result<PathBuf, EngineError> {
        let (kind, reason) = match read_transcript(file).map(|text| cut(&text, turn, id)) {
            Ok(Ok(text)) => {
                return write_sibling(file, id, &text).map_err(|error| {
                    self.cut_error(ErrorKind::Process, file, &error.to_string(), "nothing was started")
                });
            }
            Ok(Err(error @ CutError::NoSuchTurn { .. })) => {
                let message = format!("cannot fork node '{}': {error}", self.at.node);
                return Err(EngineError::invalid_request(message).hint("turns are counted from 1"));
            }
            Ok(Err(error)) => (ErrorKind::Process, error.to_string()),
            Err(error) => (ErrorKind::Process, error.to_string()),
        };
        Err(self.cut_error(
            kind,
            file,
            &reason,
            "nothing was started; without a turn, the agent forks by itself",
        ))
    }

    fn cut_error(&self, kind: ErrorKind, file: &Path, why: &str, hint: &str) -> EngineError {
        let (node, file) = (&self.at.node, file.display());
        let message = format!("cannot fork node '{node}' at a turn: the transcript '{file}': {why}");
        EngineError::new(kind, message).hint(hint)
    }

    fn indirect_start_error(&self, argv: &[String]) -> EngineError {
        let message = format!(
            "cannot fork node '{}': its command '{}' does not start the agent itself",
            self.at.node,
            shell_words::join(argv)
        );
        EngineError::invalid_request(message).hint(
            "start the agent directly, not through a script: nerve has to add its --resume/--fork arguments",
        )
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

/// Checks that the name of a fork is free and not that of its source.
fn check_free(session: &Session, source: &NodeRef, target: &str) -> Result<(), EngineError> {
    let is_live = |node: Executable| node.info().state != StateName::Stopped;
    if target != source.node && !session.get(target).is_some_and(is_live) {
        return Ok(());
    }
    let message = format!("node '{target}' exists already in session '{}'", session.name());
    Err(EngineError::already_exists(message).hint("stop it first, or choose another name"))
}

/// Checks that the node can be forked: during a turn its conversation is incomplete.
fn check_state(source: &NodeRef, state: StateName) -> Result<(), EngineError> {
    let node = &source.node;
    let arguments = node_arguments(source);
    let wait = format!("wait until it is ready: `nerve wait {arguments}`");
    let (kind, reason, hint) = match state {
        StateName::Ready | StateName::Suspended | StateName::Stopped | StateName::Created => return Ok(()),
        StateName::Busy => (ErrorKind::Busy, "it is busy", wait),
        StateName::Starting | StateName::Unknown => (ErrorKind::Busy, "it is starting", wait),
        StateName::Blocked => {
            let hint = format!("answer it first: `nerve answer {arguments} NUMBER`");
            (ErrorKind::Blocked, "it asks something", hint)
        }
        StateName::Stopping => {
            (ErrorKind::NodeStopped, "it is being stopped", "fork it when it has ended".to_string())
        }
    };
    Err(EngineError::new(kind, format!("cannot fork node '{node}': {reason}")).hint(hint))
}

fn unsupported_fork_error(source: &NodeRef, what: &str) -> EngineError {
    let message = format!("cannot fork node '{}': {what} does not support forking", source.node);
    EngineError::invalid_request(message).hint("agents in terminals and chat nodes do")
}

/// Returns the error of a fork whose proxy is unknown. Without the proxy, it would bypass budget, key and model.
fn unknown_proxy_error(source: &NodeRef) -> EngineError {
    let message = format!("cannot fork node '{}': its proxy settings cannot be read", source.node);
    EngineError::invalid_request(message).hint("create a new node with the proxy it needs")
}

fn earlier_turn_error(source: &NodeRef) -> EngineError {
    let message = format!(
        "cannot fork node '{}' at an earlier turn: only Claude Code's transcripts can be cut",
        source.node
    );
    EngineError::invalid_request(message).hint("omit the turn to fork at the present")
}

fn no_turns_error(source: &NodeRef) -> EngineError {
    let message = format!("cannot fork node '{}': it never had a turn", source.node);
    EngineError::invalid_request(message).hint("send it a prompt first, or create a new node")
}

/// Returns true if the end of the last turn is written, or cannot be determined.
fn is_settled(text: &str) -> bool {
    let last = parse_turn(text.lines(), "", None);
    // Without a message, its first lines may just be written.
    let is_unreadable = !last.is_found && matches!(turns(text), Err(CutError::Malformed { .. }));
    last.is_complete || last.said_end || is_unreadable
}

/// Returns true if a conversation of Gemini CLI has an answer.
fn has_answer(path: &Path) -> bool {
    read_transcript(path).is_ok_and(|text| text.contains(r#""type":"gemini""#))
}
