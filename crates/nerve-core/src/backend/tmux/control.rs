//! A connection in control mode: lines to tmux, what it says back.

use std::collections::VecDeque;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::client::{NAME, parse_error};
use super::input::CommandArgs;
use super::parser::{ControlMessage, ControlParser};
use super::quoting;
use crate::backend::pane::PaneError;

/// What is read at once.
const READ_SIZE: usize = 64 << 10;
/// How long an answer may take while a connection is made.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// What tmux may say before its first answer is waited for no more.
const MAX_QUEUED: usize = 4096;

/// See the module. Ends with its process, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct ControlConnection {
    /// Its drop ends it.
    _client: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: Option<ChildStderr>,
    parser: ControlParser,
    /// Not written yet.
    outgoing: VecDeque<u8>,
    /// ControlMessage while an answer was awaited.
    queued: VecDeque<ControlMessage>,
    over: bool,
}

impl ControlConnection {
    /// Starts `tmux -C` with a first command, and gives what that prints.
    ///
    /// # Errors
    /// [`PaneError`]: tmux is missing, or refused the command.
    pub(super) async fn open(
        mut command: Command,
        args: &[&str],
    ) -> Result<(ControlConnection, String), PaneError> {
        command.arg("-C").args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Keys typed where we were started are not meant for it.
        command.process_group(0);
        let mut client = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => PaneError::NotInstalled(NAME),
            _ => PaneError::System { what: "run tmux", error },
        })?;
        let (stdin, stdout, stderr) = (client.stdin.take(), client.stdout.take(), client.stderr.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            let error = io::ErrorKind::BrokenPipe.into();
            return Err(PaneError::System { what: "talk to tmux", error });
        };
        let mut control = ControlConnection {
            _client: client,
            stdin,
            stdout,
            stderr,
            parser: ControlParser::default(),
            outgoing: VecDeque::new(),
            queued: VecDeque::new(),
            over: false,
        };
        let text = control.wait_reply(false).await?;
        Ok((control, String::from_utf8_lossy(&text).into_owned()))
    }

    /// Queues a command. [`ControlMessage::Reply`] comes for each, in their order.
    pub(super) fn send<S: AsRef<[u8]>>(&mut self, args: &[S]) {
        self.outgoing.extend(quoting::command_line(args));
    }

    /// Gives a command and waits for its answer. Only where none is awaited.
    ///
    /// # Errors
    /// [`PaneError`]: it was refused, or nobody answers.
    pub(super) async fn run<S: AsRef<[u8]>>(&mut self, args: &[S]) -> Result<String, PaneError> {
        self.send(args);
        Ok(String::from_utf8_lossy(&self.wait_reply(true).await?).into_owned())
    }

    /// Gives several commands, which are carried out with nothing between them, and waits for their answers.
    ///
    /// # Errors
    /// As [`Control::ask`], of the first that was refused.
    pub(super) async fn run_all(&mut self, commands: &[CommandArgs]) -> Result<Vec<Vec<u8>>, PaneError> {
        self.outgoing.extend(quoting::join_commands(commands));
        let mut replies = Vec::new();
        for _ in commands {
            replies.push(self.wait_reply(true).await?);
        }
        Ok(replies)
    }

    /// Forgets what was said early and fits.
    pub(super) fn discard_queued(&mut self, fits: impl Fn(&ControlMessage) -> bool) {
        self.queued.retain(|message| !fits(message));
    }

    async fn wait_reply(&mut self, expect_ours: bool) -> Result<Vec<u8>, PaneError> {
        let deadline = tokio::time::Instant::now() + REPLY_TIMEOUT;
        loop {
            let message = tokio::time::timeout_at(deadline, self.read_message()).await;
            match message.map_err(|_| PaneError::NoAnswer(NAME, REPLY_TIMEOUT))? {
                Ok(ControlMessage::Reply { ours, text }) if ours == expect_ours => {
                    return text.map_err(|message| parse_error(&message));
                }
                Ok(ControlMessage::Exit(why)) => return Err(self.exit_error(&why).await),
                Ok(message) if self.queued.len() < MAX_QUEUED => self.queued.push_back(message),
                Ok(_) => return Err(PaneError::NoAnswer(NAME, REPLY_TIMEOUT)),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(self.exit_error("").await);
                }
                Err(error) => return Err(PaneError::System { what: "talk to tmux", error }),
            }
        }
    }

    /// Why a client ended that was to start: what it complained of.
    async fn exit_error(&mut self, why: &str) -> PaneError {
        let mut message = Vec::new();
        if let Some(stderr) = self.stderr.take() {
            let mut stderr = stderr.take(4096);
            // What there is tells enough.
            let _ = tokio::time::timeout(REPLY_TIMEOUT, stderr.read_to_end(&mut message)).await;
        }
        let message = String::from_utf8_lossy(&message).trim().to_string();
        match (message.is_empty(), why.is_empty()) {
            (false, _) => parse_error(&message),
            (true, false) => parse_error(why),
            (true, true) => PaneError::NoServer(NAME),
        }
    }

    /// The next thing that tmux says; writes what waits meanwhile. May be dropped and called again.
    ///
    /// # Errors
    /// UnexpectedEof at the end, and what the system says.
    pub(super) async fn next(&mut self) -> io::Result<ControlMessage> {
        match self.queued.pop_front() {
            Some(message) => Ok(message),
            None => self.read_message().await,
        }
    }

    /// What has come already and can be had without waiting.
    pub(super) fn try_next(&mut self) -> Option<ControlMessage> {
        match self.queued.pop_front() {
            Some(message) => Some(message),
            // An error shows at the next call of [`Control::next`] again.
            None => self.parser.next().unwrap_or_default(),
        }
    }

    /// Takes back what was not for whoever asked for it.
    pub(super) fn push_front(&mut self, message: ControlMessage) {
        self.queued.push_front(message);
    }

    async fn read_message(&mut self) -> io::Result<ControlMessage> {
        loop {
            if let Some(message) = self.parser.next().map_err(io::Error::other)? {
                return Ok(message);
            }
            if self.over {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let buffer = self.parser.buffer();
            buffer.reserve(READ_SIZE);
            tokio::select! {
                read = self.stdout.read_buf(buffer) => self.over = read? == 0,
                written = self.stdin.write(self.outgoing.as_slices().0), if !self.outgoing.is_empty() => {
                    match written {
                        Ok(written) => drop(self.outgoing.drain(..written)),
                        // It says why on the other end.
                        Err(_) => self.outgoing.clear(),
                    }
                }
            }
        }
    }
}
