//! A connection in control mode: lines to tmux, what it says back.

use std::collections::VecDeque;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::client::{NAME, refusal};
use super::input::Words;
use super::parser::{Lines, Said};
use super::quoting;
use crate::backend::pane::PaneError;

/// What is read at once.
const READ: usize = 64 << 10;
/// How long an answer may take while a connection is made.
const DEADLINE: Duration = Duration::from_secs(5);
/// What tmux may say before its first answer is waited for no more.
const EARLY: usize = 4096;

/// See the module. Ends with its process, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Control {
    /// Its drop ends it.
    _client: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: Option<ChildStderr>,
    lines: Lines,
    /// Not written yet.
    outgoing: VecDeque<u8>,
    /// Said while an answer was awaited.
    early: VecDeque<Said>,
    over: bool,
}

impl Control {
    /// Starts `tmux -C` with a first command, and gives what that prints.
    ///
    /// # Errors
    /// [`PaneError`]: tmux is missing, or refused the command.
    pub(super) async fn open(mut command: Command, words: &[&str]) -> Result<(Control, String), PaneError> {
        command.arg("-C").args(words);
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
        let mut control = Control {
            _client: client,
            stdin,
            stdout,
            stderr,
            lines: Lines::default(),
            outgoing: VecDeque::new(),
            early: VecDeque::new(),
            over: false,
        };
        let text = control.answer(false).await?;
        Ok((control, String::from_utf8_lossy(&text).into_owned()))
    }

    /// Queues a command. [`Said::Answer`] comes for each, in their order.
    pub(super) fn send<S: AsRef<[u8]>>(&mut self, words: &[S]) {
        self.outgoing.extend(quoting::line(words));
    }

    /// Gives a command and waits for its answer. Only where none is awaited.
    ///
    /// # Errors
    /// [`PaneError`]: it was refused, or nobody answers.
    pub(super) async fn ask<S: AsRef<[u8]>>(&mut self, words: &[S]) -> Result<String, PaneError> {
        self.send(words);
        Ok(String::from_utf8_lossy(&self.answer(true).await?).into_owned())
    }

    /// Gives several commands, which are carried out with nothing between them, and waits for their answers.
    ///
    /// # Errors
    /// As [`Control::ask`], of the first that was refused.
    pub(super) async fn ask_all(&mut self, commands: &[Words]) -> Result<Vec<Vec<u8>>, PaneError> {
        self.outgoing.extend(quoting::lines(commands));
        let mut answers = Vec::new();
        for _ in commands {
            answers.push(self.answer(true).await?);
        }
        Ok(answers)
    }

    /// Forgets what was said early and fits.
    pub(super) fn forget(&mut self, fits: impl Fn(&Said) -> bool) {
        self.early.retain(|said| !fits(said));
    }

    async fn answer(&mut self, to_us: bool) -> Result<Vec<u8>, PaneError> {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        loop {
            let said = tokio::time::timeout_at(deadline, self.hear()).await;
            match said.map_err(|_| PaneError::NoAnswer(NAME, DEADLINE))? {
                Ok(Said::Answer { ours, text }) if ours == to_us => {
                    return text.map_err(|said| refusal(&said));
                }
                Ok(Said::Exit(why)) => return Err(self.ended(&why).await),
                Ok(said) if self.early.len() < EARLY => self.early.push_back(said),
                Ok(_) => return Err(PaneError::NoAnswer(NAME, DEADLINE)),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(self.ended("").await);
                }
                Err(error) => return Err(PaneError::System { what: "talk to tmux", error }),
            }
        }
    }

    /// Why a client ended that was to start: what it complained of.
    async fn ended(&mut self, why: &str) -> PaneError {
        let mut said = Vec::new();
        if let Some(stderr) = self.stderr.take() {
            let mut stderr = stderr.take(4096);
            // What there is tells enough.
            let _ = tokio::time::timeout(DEADLINE, stderr.read_to_end(&mut said)).await;
        }
        let said = String::from_utf8_lossy(&said).trim().to_string();
        match (said.is_empty(), why.is_empty()) {
            (false, _) => refusal(&said),
            (true, false) => refusal(why),
            (true, true) => PaneError::NoServer(NAME),
        }
    }

    /// The next thing that tmux says; writes what waits meanwhile. May be dropped and called again.
    ///
    /// # Errors
    /// UnexpectedEof at the end, and what the system says.
    pub(super) async fn next(&mut self) -> io::Result<Said> {
        match self.early.pop_front() {
            Some(said) => Ok(said),
            None => self.hear().await,
        }
    }

    /// What has come already and can be had without waiting.
    pub(super) fn at_hand(&mut self) -> Option<Said> {
        match self.early.pop_front() {
            Some(said) => Some(said),
            // An error shows at the next call of [`Control::next`] again.
            None => self.lines.next().unwrap_or_default(),
        }
    }

    /// Takes back what was not for whoever asked for it.
    pub(super) fn put_back(&mut self, said: Said) {
        self.early.push_front(said);
    }

    async fn hear(&mut self) -> io::Result<Said> {
        loop {
            if let Some(said) = self.lines.next().map_err(io::Error::other)? {
                return Ok(said);
            }
            if self.over {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let buffer = self.lines.buffer();
            buffer.reserve(READ);
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
