//! A connection to tmux in control mode.

use std::collections::VecDeque;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use nerve_host::backend::PaneError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::client::{NAME, TMUX, parse_error};
use super::parser::{ControlMessage, ControlParser};
use super::quoting;
use super::quoting::CommandArgs;

/// Bytes read at once.
const READ_SIZE: usize = 64 << 10;
/// Timeout of each reply while the connection is set up.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Messages queued while a reply is awaited.
const MAX_QUEUED: usize = 4096;

/// A tmux client in control mode. Dropping it ends the client process.
#[derive(Debug)]
pub(super) struct ControlConnection {
    /// Killed on drop.
    _client: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: Option<ChildStderr>,
    parser: ControlParser,
    /// Commands that are not written yet.
    outgoing: VecDeque<u8>,
    /// Messages received while a reply was awaited.
    queued: VecDeque<ControlMessage>,
    over: bool,
}

impl ControlConnection {
    /// Starts `tmux -C` with a first command.
    ///
    /// # Errors
    /// [`PaneError`]: tmux is missing or refused the command.
    pub(super) async fn open(mut command: Command, args: &[&str]) -> Result<ControlConnection, PaneError> {
        command.arg("-C").args(args);
        command.stdin(Stdio::piped());
        // Keeps the terminal's signals away from tmux.
        command.process_group(0);
        let mut client = TMUX.spawn(&mut command)?;
        let (stdin, stdout, stderr) = (client.stdin.take(), client.stdout.take(), client.stderr.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            let error = io::ErrorKind::BrokenPipe.into();
            return Err(PaneError::System { action: "talk to tmux", error });
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
        control.wait_reply(false).await?;
        Ok(control)
    }

    /// Queues a command. A [`ControlMessage::Reply`] follows for each, in order.
    pub(super) fn send<S: AsRef<[u8]>>(&mut self, args: &[S]) {
        self.outgoing.extend(quoting::command_line(args));
    }

    /// Runs several commands with nothing in between and waits for their replies.
    ///
    /// # Errors
    /// [`PaneError`]: a command was refused or timed out; the first error counts.
    pub(super) async fn run_all(&mut self, commands: &[CommandArgs]) -> Result<Vec<Vec<u8>>, PaneError> {
        self.outgoing.extend(quoting::join_commands(commands));
        let mut replies = Vec::new();
        for _ in commands {
            replies.push(self.wait_reply(true).await?);
        }
        Ok(replies)
    }

    /// Discards queued messages that match.
    pub(super) fn discard_queued(&mut self, fits: impl Fn(&ControlMessage) -> bool) {
        self.queued.retain(|message| !fits(message));
    }

    async fn wait_reply(&mut self, expect_ours: bool) -> Result<Vec<u8>, PaneError> {
        let deadline = tokio::time::Instant::now() + REPLY_TIMEOUT;
        loop {
            let message = tokio::time::timeout_at(deadline, self.read_message()).await;
            match message.map_err(|_| PaneError::Timeout(NAME, REPLY_TIMEOUT))? {
                Ok(ControlMessage::Reply { ours, text }) if ours == expect_ours => {
                    return text.map_err(|message| parse_error(&message));
                }
                Ok(ControlMessage::Exit(why)) => return Err(self.exit_error(&why).await),
                Ok(message) if self.queued.len() < MAX_QUEUED => self.queued.push_back(message),
                Ok(_) => return Err(PaneError::Timeout(NAME, REPLY_TIMEOUT)),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(self.exit_error("").await);
                }
                Err(error) => return Err(PaneError::System { action: "talk to tmux", error }),
            }
        }
    }

    /// Returns the error of a client that ended instead of starting.
    async fn exit_error(&mut self, why: &str) -> PaneError {
        let mut message = Vec::new();
        if let Some(stderr) = self.stderr.take() {
            let mut stderr = stderr.take(4096);
            // On a timeout, the text read so far suffices.
            let _ = tokio::time::timeout(REPLY_TIMEOUT, stderr.read_to_end(&mut message)).await;
        }
        let message = String::from_utf8_lossy(&message).trim().to_string();
        match (message.is_empty(), why.is_empty()) {
            (false, _) => parse_error(&message),
            (true, false) => parse_error(why),
            (true, true) => PaneError::NoServer(NAME),
        }
    }

    /// Returns the next message and meanwhile writes queued commands. Cancel-safe.
    ///
    /// # Errors
    /// UnexpectedEof at the end, or an I/O error.
    pub(super) async fn next(&mut self) -> io::Result<ControlMessage> {
        match self.queued.pop_front() {
            Some(message) => Ok(message),
            None => self.read_message().await,
        }
    }

    /// Returns the next message if one is already buffered.
    pub(super) fn try_next(&mut self) -> Option<ControlMessage> {
        match self.queued.pop_front() {
            Some(message) => Some(message),
            // The error occurs again at the next call of [`ControlConnection::next`].
            None => self.parser.next().unwrap_or_default(),
        }
    }

    /// Puts a message back.
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
                        // The read side reports the reason.
                        Err(_) => self.outgoing.clear(),
                    }
                }
            }
        }
    }
}
