//! Runs one command in a process group.

use std::pin::{Pin, pin};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use nerve_api::event::EventKind;
use nerve_host::environment::Environment;
use nerve_types::os::kill_with_parent;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::chunks::ChunkPublisher;
use super::tail::OutputTail;
use super::{BashNode, DRAIN_TIME};
use crate::error::{EngineError, ErrorKind};
use crate::prompt::Prompt;
use crate::usage_ledger::ReachedLimit;

/// The result of one command.
pub(super) struct CommandResult {
    pub(super) code: Option<i32>,
    pub(super) stdout: OutputTail,
    pub(super) stderr: OutputTail,
    pub(super) end_reason: EndReason,
}

/// The reason why a command ended.
#[derive(PartialEq)]
pub(super) enum EndReason {
    Exited,
    TimedOut,
    Interrupted,
    /// A limit of the budget was reached.
    OverBudget(ReachedLimit),
}

impl BashNode {
    /// Runs a command until it ends, or until there is a reason to kill it.
    pub(super) async fn run_bash(
        &self,
        turn: u64,
        prompt: &Prompt,
        deadline: Instant,
        mut interrupted: Pin<&mut Notified<'_>>,
        cancellation: &CancellationToken,
    ) -> Result<CommandResult, EngineError> {
        let mut child = self.spawn(prompt).map_err(|error| self.spawn_error(&error))?;
        // A caller that drops this future must not leave the group running.
        let mut group = ProcessGroup(child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())));
        let (mut stdout, mut stderr) = (OutputTail::default(), OutputTail::default());
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let mut chunks = prompt.stream.then(|| ChunkPublisher::new(self.chunk_sink(turn, prompt)));
        let mut stopping = pin!(self.inner.state.stopping());
        let mut over_budget = pin!(self.inner.state.ledger.limit_reached());
        let (end_reason, status) = {
            let mut pipes =
                pin!(async { tokio::join!(stdout.collect(out, chunks.as_mut()), stderr.read_to_end(err)) });
            let mut drained = false;
            let (end_reason, status) = loop {
                tokio::select! {
                    // A command that has ended is not reported as stopped by a limit: it would run again after the answer.
                    biased;
                    status = child.wait() => break (EndReason::Exited, Some(status)),
                    _ = &mut pipes, if !drained => drained = true,
                    () = sleep_until(deadline) => break (EndReason::TimedOut, None),
                    () = &mut interrupted => break (EndReason::Interrupted, None),
                    () = cancellation.cancelled() => break (EndReason::Interrupted, None),
                    () = &mut stopping => break (EndReason::Interrupted, None),
                    reached = &mut over_budget => break (EndReason::OverBudget(reached), None),
                }
            };
            let status = match status {
                Some(status) => Some(status),
                None => group.end(&mut child).await,
            };
            // The group's id may be reused from now on.
            group.0 = None;
            if !drained {
                // On a timeout, the output is the part read so far.
                let _ = timeout(DRAIN_TIME, pipes).await;
            }
            (end_reason, status)
        };
        if let Some(chunks) = chunks {
            chunks.end();
        }
        let status = status.transpose().map_err(|error| self.spawn_error(&error))?;
        Ok(CommandResult { code: status.and_then(|status| status.code()), stdout, stderr, end_reason })
    }

    /// Returns a sink that publishes the chunks of a turn.
    fn chunk_sink(&self, turn: u64, prompt: &Prompt) -> impl FnMut(String) + use<> {
        let (inner, tag) = (Arc::clone(&self.inner), prompt.tag);
        move |chunk| inner.state.publish(EventKind::OutputChunk { turn, chunk, request_id: None, tag })
    }

    fn spawn(&self, prompt: &Prompt) -> std::io::Result<Child> {
        let mut command = Command::new("bash");
        command.arg("-c").arg(&*prompt.text).process_group(0).kill_on_drop(true);
        let Environment { set, remove, .. } = &self.inner.environment;
        for name in remove {
            command.env_remove(name);
        }
        command.envs(set);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = &self.inner.cwd {
            command.current_dir(cwd);
        }
        if let Some(trace) = &prompt.trace {
            command.envs(trace.variables());
        }
        kill_with_parent(&mut command)?;
        command.spawn()
    }

    fn spawn_error(&self, error: &std::io::Error) -> EngineError {
        self.inner.state.error(ErrorKind::Process, &format!("cannot run bash: {error}"))
    }
}

/// Kills a process group on drop, unless it has ended by itself.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// Kills the group and waits at most [`DRAIN_TIME`] for its leader. A process that hangs in the kernel is not waited for.
    async fn end(&mut self, child: &mut Child) -> Option<std::io::Result<ExitStatus>> {
        self.kill();
        timeout(DRAIN_TIME, child.wait()).await.ok()
    }

    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            // An error means that the group is gone already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
