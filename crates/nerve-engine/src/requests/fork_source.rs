//! The node that is forked: its conversation, and the command and the transcript of its fork.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nerve_agent::parse::transcript::{CutError, cut, parse_turn, turns};
use nerve_agent::profile::session::{ConversationRef, IdSource, SessionArgs};
use nerve_agent::profile::{Profile, TranscriptKind};
use nerve_api::request::{CommandLine, NodeRef, NodeSpec};
use nerve_api::value::NodeState;
use nerve_node::NodeHandle;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_transcript::session_files::{SessionFiles, new_id, read_transcript, write_sibling};
use nerve_types::Size;

/// Time an agent has to write the end of a turn.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two reads of a transcript.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The node that is forked.
pub(super) struct ForkSource {
    pub(super) at: NodeRef,
    pub(super) definition: NodeSpec,
    /// `None` if the node does not run.
    pub(super) terminal: Option<NodeHandle>,
}

impl ForkSource {
    /// Returns the definition of the fork, and the copy of a transcript written for it. Blocks: reads other programs' files.
    pub(super) fn fork(
        &self,
        profile: &Profile,
        argv: &[String],
        state: NodeState,
        at: NodeRef,
        turn: Option<u64>,
    ) -> Result<(NodeSpec, Option<PathBuf>), EngineError> {
        let session_args = self.session_args(profile, turn)?;
        // After the checks that no wait would change.
        check_state(&self.at, state)?;
        let session_files = SessionFiles::for_env(&self.definition.env);
        let session_files = session_files
            .ok_or_else(|| EngineError::process("no home folder: the agent's files cannot be located"))?;
        let id = self.conversation(session_args, &session_files, argv, state)?;
        let new = new_id();
        let file = if keeps_transcript(profile) {
            Some(self.transcript(&session_files, &id)?)
        } else if session_args.fork.iter().any(|word| word.contains("{file}")) {
            let chat = session_files.chat(TranscriptKind::Gemini, &id).filter(|path| has_answer(path));
            Some(chat.ok_or_else(|| self.no_transcript_error())?)
        } else {
            None
        };
        let (argv, copy) = self.command(session_args, argv, &id, &new, file, turn)?;
        let size = self.size();
        let is_named = session_args.can_name_forks() || copy.is_some();
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

    /// Returns how the agent forks conversations, unless it cannot.
    fn session_args<'a>(
        &self,
        profile: &'a Profile,
        turn: Option<u64>,
    ) -> Result<&'a SessionArgs, EngineError> {
        let Some(session_args) = &profile.session else {
            return Err(unsupported_fork_error(&self.at, &format!("a node of '{}'", profile.name)));
        };
        if session_args.fork.is_empty() {
            let reason = session_args.cannot.as_deref().unwrap_or("it does not support forking");
            let message = format!("cannot fork node '{}': {reason}", self.at.node);
            return Err(EngineError::invalid_request(message).hint("create a new node instead"));
        }
        if turn.is_some() && !keeps_transcript(profile) {
            return Err(earlier_turn_error(&self.at));
        }
        Ok(session_args)
    }

    /// Returns the command that forks the conversation `id` as `new`: from its file, or after a turn of a copy of the file, which is
    /// returned too.
    fn command(
        &self,
        session_args: &SessionArgs,
        argv: &[String],
        id: &str,
        new: &str,
        file: Option<PathBuf>,
        turn: Option<u64>,
    ) -> Result<(Vec<String>, Option<PathBuf>), EngineError> {
        if let (Some(turn), Some(file)) = (turn, &file) {
            let argv =
                session_args.resume_command(argv, new).ok_or_else(|| self.indirect_start_error(argv))?;
            return Ok((argv, Some(self.cut(file, turn, new)?)));
        }
        let path = file.map(|file| file.display().to_string()).unwrap_or_default();
        let command = session_args.fork_command(argv, id, new, &path);
        Ok((command.ok_or_else(|| self.indirect_start_error(argv))?, None))
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
        session_args: &SessionArgs,
        session_files: &SessionFiles,
        argv: &[String],
        state: NodeState,
    ) -> Result<String, EngineError> {
        // The pid of an ended process may belong to another process by now.
        let pid = self.number("pid").filter(|_| state != NodeState::Stopped);
        let current =
            pid.and_then(|pid| pid.try_into().ok()).map(|pid| session_files.current_id(session_args, pid));
        // Without the file, the node may know only an earlier conversation.
        let current = current.transpose().map_err(|error| {
            let message =
                format!("cannot fork node '{}': its status file is incomplete: {error}", self.at.node);
            EngineError::busy(message).hint("the agent is writing it: try again")
        })?;
        let in_command = || match session_args.conversation(argv) {
            ConversationRef::Id(id) => Some(id).filter(|id| session_args.is_id(id)),
            _ => None,
        };
        current
            .flatten()
            .or_else(|| self.conversation_id())
            .or_else(|| self.definition.conversation_id.clone())
            .or_else(in_command)
            .ok_or_else(|| {
                if session_args.id_source == Some(IdSource::Codex) && self.terminal.is_some() && self.turns() == 0 {
                    return no_turns_error(&self.at);
                }
                let what = match session_args.id_source {
                    Some(IdSource::Claude) => "Claude session ID not tracked",
                    _ => "the id of its conversation is not known",
                };
                let message = format!("cannot fork node '{}': {what}", self.at.node);
                let hint = match session_args.id_source {
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
    fn conversation_id(&self) -> Option<String> {
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

/// Returns true if the agent writes a transcript that can be cut after a turn.
fn keeps_transcript(profile: &Profile) -> bool {
    matches!(profile.transcript, Some(TranscriptKind::Claude))
}

/// Checks that the node can be forked: during a turn its conversation is incomplete.
fn check_state(source: &NodeRef, state: NodeState) -> Result<(), EngineError> {
    let node = &source.node;
    let arguments = source.arguments();
    let wait = format!("wait until it is ready: `nerve wait {arguments}`");
    let (kind, reason, hint) = match state {
        NodeState::Ready | NodeState::Suspended | NodeState::Stopped | NodeState::Created => return Ok(()),
        NodeState::Busy => (ErrorKind::Busy, "it is busy", wait),
        NodeState::Starting | NodeState::Unknown => (ErrorKind::Busy, "it is starting", wait),
        NodeState::Blocked => {
            let hint = format!("answer it first: `nerve answer {arguments} NUMBER`");
            (ErrorKind::Blocked, "it shows a dialog", hint)
        }
        NodeState::Stopping => {
            (ErrorKind::NodeStopped, "it is being stopped", "fork it when it has ended".to_string())
        }
    };
    Err(EngineError::new(kind, format!("cannot fork node '{node}': {reason}")).hint(hint))
}

pub(super) fn unsupported_fork_error(source: &NodeRef, what: &str) -> EngineError {
    let message = format!("cannot fork node '{}': {what} does not support forking", source.node);
    EngineError::invalid_request(message).hint("agents in terminals, acp and chat nodes do")
}

pub(super) fn earlier_turn_error(source: &NodeRef) -> EngineError {
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
