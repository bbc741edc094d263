//! One-shot commands: each execute is a `bash -c` of its own, no terminal, no state between them.
//!
//! Success is exit code 0. Timeout and interrupt reach the whole process group (facts: agent capabilities, bash node).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nerve_term::event::TsNs;
use nerve_term::parse::{Section, SectionKind, Tokens};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::Notify;

use nerve_record::history::{ResponseData, SendEntry};

use super::terminal::Prompt;
use crate::clock::Clock;
use crate::command::{EventKind, NodeInfo, NodeRef, Response, StateName};
use crate::error::{EngineError, ErrorKind};
use crate::events::Publisher;
use crate::node::terminal::Journal;

/// Limit of a command that names none (facts).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Of each stream this much is kept: the end.
const OUTPUT_LIMIT: usize = 4 << 20;

/// A node that runs one command at a time. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BashNode {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    node: NodeRef,
    cwd: Option<PathBuf>,
    env: BTreeMap<String, String>,
    clock: Clock,
    events: Publisher,
    journal: Mutex<Journal>,
    shared: Mutex<Shared>,
    turn: tokio::sync::Mutex<()>,
    interrupt: Notify,
}

#[derive(Debug, Default)]
struct Shared {
    running: bool,
    stopped: bool,
    turns: u64,
}

/// What came of one command.
struct Ran {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    ended: Ended,
}

#[derive(PartialEq)]
enum Ended {
    Exited,
    TimedOut,
    Interrupted,
}

impl BashNode {
    /// A node that is ready at once.
    pub fn new(
        node: NodeRef,
        cwd: Option<PathBuf>,
        env: BTreeMap<String, String>,
        journal: Journal,
        events: Publisher,
    ) -> BashNode {
        let shared = Mutex::default();
        let (journal, clock) = (Mutex::new(journal), Clock::start());
        let (turn, interrupt) = (tokio::sync::Mutex::new(()), Notify::new());
        BashNode {
            inner: Arc::new(Inner { node, cwd, env, clock, events, journal, shared, turn, interrupt }),
        }
    }

    /// Runs a command and returns its output. A failing command is a response with its exit code, not an error.
    ///
    /// # Errors
    /// Timeout (the group is killed), Interrupted, Busy, NodeStopped, Process.
    pub async fn execute(&self, prompt: Prompt) -> Result<Response, EngineError> {
        let inner = &self.inner;
        let deadline = tokio::time::Instant::now() + prompt.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let _turn = match inner.turn.try_lock() {
            Ok(turn) => turn,
            Err(_) if prompt.fail_if_busy => return Err(self.error(ErrorKind::Busy, "runs another command")),
            Err(_) => tokio::time::timeout_at(deadline, inner.turn.lock()).await.map_err(|_| {
                self.error(ErrorKind::Timeout, "the command was not started in time: another runs")
            })?,
        };
        let number = self.begin()?;
        let running = Running(self.clone());
        let started = inner.clock.now();
        let ran = self.spawn(&prompt.text, deadline).await;
        drop(running);
        self.respond(number, &prompt, ran?, (started, inner.clock.now()))
    }

    /// Ends the running command, if there is one.
    pub fn interrupt(&self) {
        self.inner.interrupt.notify_waiters();
    }

    /// Stops the node; a running command is ended with its group.
    pub async fn stop(&self, reason: &str) {
        if std::mem::replace(&mut self.shared().stopped, true) {
            return;
        }
        self.interrupt();
        // The turn's lock is free once the command is gone.
        drop(self.inner.turn.lock().await);
        self.journal().closed(self.inner.clock.now(), Some(reason), String::new);
        self.inner
            .events
            .publish(Some(&self.inner.node), EventKind::NodeStopped { reason: reason.to_string() });
    }

    /// What is known of it.
    pub fn info(&self) -> NodeInfo {
        let shared = self.shared();
        let state = match (shared.stopped, shared.running) {
            (true, _) => StateName::Stopped,
            (_, true) => StateName::Busy,
            _ => StateName::Ready,
        };
        let mut metadata = BTreeMap::from([("turns".to_string(), shared.turns.to_string())]);
        if let Some(cwd) = &self.inner.cwd {
            metadata.insert("cwd".into(), cwd.display().to_string());
        }
        let (id, session) =
            (self.inner.node.node.clone(), self.inner.node.session.clone().unwrap_or_default());
        NodeInfo { id, session, kind: "bash", state, persistent: false, metadata }
    }

    fn begin(&self) -> Result<u64, EngineError> {
        let mut shared = self.shared();
        if shared.stopped {
            return Err(self.error(ErrorKind::NodeStopped, "is stopped"));
        }
        shared.running = true;
        shared.turns += 1;
        self.inner.events.publish(
            Some(&self.inner.node),
            EventKind::NodeBusy { evidence: "input: a command runs".into() },
        );
        Ok(shared.turns)
    }

    async fn spawn(&self, text: &str, deadline: tokio::time::Instant) -> Result<Ran, EngineError> {
        let mut command = Command::new("bash");
        command.arg("-c").arg(text).envs(&self.inner.env).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = &self.inner.cwd {
            command.current_dir(cwd);
        }
        let failed = |error: std::io::Error| {
            self.error(ErrorKind::Process, &format!("bash could not be run: {error}"))
        };
        let mut child = command.spawn().map_err(failed)?;
        let group = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        // A caller that leaves must not leave the group behind.
        let mut guard = Group(group);
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let mut ended = Ended::Exited;
        let mut output = std::pin::pin!(async { tokio::join!(collect(out), collect(err), child.wait()) });
        let done = tokio::select! {
            done = &mut output => Some(done),
            () = tokio::time::sleep_until(deadline) => { ended = Ended::TimedOut; None }
            () = self.inner.interrupt.notified() => { ended = Ended::Interrupted; None }
        };
        let (stdout, stderr, status) = match done {
            Some(done) => done,
            None => {
                guard.kill();
                output.await
            }
        };
        guard.0 = None;
        Ok(Ran { code: status.map_err(failed)?.code(), stdout, stderr, ended })
    }

    fn respond(
        &self,
        turn: u64,
        prompt: &Prompt,
        ran: Ran,
        time: (TsNs, TsNs),
    ) -> Result<Response, EngineError> {
        let stdout = String::from_utf8_lossy(&ran.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
        let mut attributes = BTreeMap::from([("command".to_string(), prompt.text.clone())]);
        attributes.insert("exit_code".into(), ran.code.map_or("-1".into(), |code| code.to_string()));
        attributes.insert("interrupted".into(), (ran.ended == Ended::Interrupted).to_string());
        attributes.insert("stdout".into(), stdout.clone());
        attributes.insert("stderr".into(), stderr.clone());
        let sections = vec![Section::new(SectionKind::Text, stdout.trim_end())];
        let complete = ran.ended == Ended::Exited;
        let data = ResponseData {
            sections: sections.clone(),
            tokens: None::<Tokens>,
            is_complete: complete,
            is_ready: true,
        };
        let (input, preceding_buffer_seq) = (prompt.text.as_str(), None);
        self.journal().log_send(SendEntry {
            ts_start: time.0,
            ts_end: time.1,
            input,
            preceding_buffer_seq,
            response: data,
        });
        match ran.ended {
            Ended::TimedOut => {
                return Err(self.error(ErrorKind::Timeout, "the command did not end in time and was killed"));
            }
            Ended::Interrupted => {
                return Err(self.error(ErrorKind::Interrupted, "the command was interrupted"));
            }
            Ended::Exited => {}
        }
        Ok(Response {
            node: self.inner.node.node.clone(),
            turn,
            raw: format!("{stdout}{stderr}"),
            text: stdout.trim_end().to_string(),
            sections,
            tokens: None,
            is_complete: true,
            is_ready: true,
            source: "process",
            delivery: "started",
            ended_by: "exit: the command ended".into(),
            bytes: (0, (ran.stdout.len() + ran.stderr.len()) as u64),
            time,
            attributes,
        })
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.inner.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> std::sync::MutexGuard<'_, Journal> {
        self.inner.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, kind: ErrorKind, what: &str) -> EngineError {
        EngineError::new(kind, format!("node '{}': {what}", self.inner.node.node))
    }
}

/// Marks the node ready again, however the turn ends.
struct Running(BashNode);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.shared().running = false;
        let evidence = "exit: the command ended".to_string();
        self.0.inner.events.publish(Some(&self.0.inner.node), EventKind::NodeReady { evidence });
    }
}

/// Kills a process group unless it ended by itself.
struct Group(Option<Pid>);

impl Group {
    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            // Gone already is what the signal is for.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads to the end and keeps the last [`OUTPUT_LIMIT`] bytes.
async fn collect(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let Some(mut stream) = stream else { return Vec::new() };
    let mut kept = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..read]);
        if kept.len() > 2 * OUTPUT_LIMIT {
            kept.drain(..kept.len() - OUTPUT_LIMIT);
        }
    }
    if kept.len() > OUTPUT_LIMIT {
        kept.drain(..kept.len() - OUTPUT_LIMIT);
    }
    kept
}
