//! Timeouts, stopping, and the exit of the child.

use nerve_agent::driver::AgentState;
use nerve_api::value::Delivery;
use nerve_types::{ExitStatus, TsNs};
use tokio::sync::oneshot;

use super::{Actor, tail_of};
use crate::command::EventKind;
use crate::error::{EngineError, ErrorKind};
use nerve_host::backend::Backend;
use nerve_host::backend::pty::ESCALATION;

/// A stop in progress. Signals escalate until the child is gone.
pub(super) struct Stopping {
    pub(super) reason: String,
    level: usize,
    pub(super) next: TsNs,
    pub(super) replies: Vec<oneshot::Sender<()>>,
}

impl<B: Backend> Actor<B> {
    pub(super) fn expire(&mut self, now: TsNs) {
        let node = self.spec.node.node.clone();
        let held = self.held_by.as_ref().map(|by| format!("{by} is typing into the same terminal"));
        let state = match self.driver.state() {
            _ if held.is_some() => held.as_deref().unwrap_or_default(),
            AgentState::Starting => "the program has not become ready",
            AgentState::Busy => "the program is busy",
            _ => "another turn is running",
        };
        let start_deadline = self.start_deadline();
        let terminal = &self.terminal;
        let late = |what: &str| {
            let mut error = EngineError::new(ErrorKind::Timeout, format!("node '{node}': {what}"));
            error.screen = Some(terminal.screen().text());
            error.delivery = Some(Delivery::Unknown);
            error.hint("run `nerve server node why` to see the evidence for its state")
        };
        self.queue.expire(now, || late(&format!("timed out before the prompt was sent: {state}")));
        if *self.driver.state() == AgentState::Starting && now >= start_deadline {
            let limit = self.spec.ready_timeout;
            self.queue.fail_all(|| {
                late(&format!("the program did not become ready within {limit:?} of its start"))
            });
        }
        self.expire_turn(now);
    }

    pub(super) fn expire_turn(&mut self, now: TsNs) {
        let Some(active) = self.active.as_mut().filter(|active| active.deadline.is_some_and(|at| at <= now))
        else {
            return;
        };
        let detach = active.prompt.detach_on_timeout;
        let delivery = self.driver.turn().map(|(_, delivery)| delivery);
        let after = if detach { "it continues and will be in the history" } else { "it was interrupted" };
        let message = format!("node '{}': the turn timed out; {after}", self.spec.node.node);
        let mut error = EngineError::new(ErrorKind::Timeout, message);
        error.screen = Some(self.terminal.screen().text());
        error.delivery = delivery;
        active.answer(Err(error));
        if !detach {
            let line = self.terminal.cursor_line().0;
            self.driver.interrupt(now, line);
        }
    }

    /// Handles the drop of the last handle: detaches from the program, or stops it.
    pub(super) fn abandon(&mut self) {
        self.abandoned = true;
        if self.backend.release() {
            self.done = true;
            return;
        }
        self.begin_stop("no handle is left".into(), None);
    }

    pub(super) fn begin_stop(&mut self, reason: String, reply: Option<oneshot::Sender<()>>) {
        let now = self.clock.now();
        let first = self.stop.is_none();
        let stop =
            self.stop.get_or_insert_with(|| Stopping { reason, level: 0, next: now, replies: Vec::new() });
        stop.replies.extend(reply);
        let error = self.stopped_error();
        self.queue.fail_all(|| error.clone());
        if first && !self.concluded {
            self.reporter.report_stopping(now);
            self.escalate(now);
        }
    }

    pub(super) fn escalate(&mut self, now: TsNs) {
        let Some(stop) = &mut self.stop else { return };
        match ESCALATION.get(stop.level) {
            Some((signal, pause)) => {
                stop.level += 1;
                stop.next = now + *pause;
                self.backend.end(*signal);
            }
            // SIGKILL was sent and the child is not reaped: it hangs in the kernel. Waiting would not help.
            None => {
                self.exit.get_or_insert(ExitStatus::Unknown);
                self.conclude();
            }
        }
    }

    /// Concludes the node once the child is gone and all its output was read. Notifies everyone who waits for it.
    pub(super) fn conclude(&mut self) {
        if std::mem::replace(&mut self.concluded, true) {
            return;
        }
        let now = self.clock.now();
        let exit = self.exit.unwrap_or(ExitStatus::Unknown);
        self.open = false;
        self.drain_until = None;
        // Processes left in the child's group must not outlive it.
        self.backend.end(rustix::process::Signal::HUP);
        self.driver.on_exit(now, exit);
        self.run_effects();
        self.finish_from_screen();
        let error = self.stopped_error();
        self.queue.fail_all(|| error.clone());
        for (_, reply) in self.resizing.drain(..) {
            let _ = reply.send(Err(error.clone()));
        }
        let reason = self.end_reason.clone().unwrap_or_else(|| exit.to_string());
        let reason = self.stop.as_ref().map_or(reason, |stop| stop.reason.clone());
        let terminal = &self.terminal;
        self.spec.journal.close(now, Some(&reason), || tail_of(terminal));
        self.reporter.report_end(now, exit, self.stop.is_some());
        if let Some(proxy) = self.spec.proxy.clone() {
            tokio::spawn(async move { proxy.end().await });
        }
        self.spec.events.publish(Some(&self.spec.node), EventKind::NodeStopped { reason });
    }

    pub(super) fn with_screen(&self, mut error: EngineError) -> EngineError {
        error.screen = Some(self.terminal.screen().text());
        error
    }

    pub(super) fn blocked_error(&self) -> EngineError {
        let (kind, choices) = match self.driver.state() {
            AgentState::Blocked { kind, choices } => (kind, choices),
            AgentState::Suspended { .. } => return self.suspended_error(),
            _ => return EngineError::new(ErrorKind::Internal, "not blocked"),
        };
        let message = format!("node '{}' is blocked ({})", self.spec.node.node, kind.as_str());
        let mut error = EngineError::new(ErrorKind::Blocked, message);
        error.choices = choices.clone().into();
        error.delivery = self.driver.turn().map(|(_, delivery)| delivery);
        let hint = if choices.is_empty() {
            "the dialog has no choices: check the screen and type with `nerve server node write`"
        } else {
            "answer the dialog with `nerve server node answer`"
        };
        self.with_screen(error.hint(hint))
    }

    /// Reports a usage limit: nothing is typed before it ends.
    fn suspended_error(&self) -> EngineError {
        let until = self.driver.state().until_text().map_or(String::new(), |until| format!(" until {until}"));
        let evidence = &self.driver.evidence().text;
        let message = format!("node '{}' is suspended{until}: {evidence}", self.spec.node.node);
        let mut error = EngineError::new(ErrorKind::Blocked, message);
        error.delivery = self.driver.turn().map(|(_, delivery)| delivery);
        self.with_screen(error.hint("wait until then, or cancel the wait with `nerve server node interrupt`"))
    }

    pub(super) fn stopped_error(&self) -> EngineError {
        let how = match (self.exit, &self.stop) {
            (_, Some(stop)) => stop.reason.clone(),
            _ if self.end_reason.is_some() => self.end_reason.clone().unwrap_or_default(),
            (Some(exit), None) => format!("its program ended with {exit}"),
            _ => "gone".to_string(),
        };
        let error = EngineError::new(
            ErrorKind::NodeStopped,
            format!("node '{}' is stopped: {how}", self.spec.node.node),
        );
        self.with_screen(error)
    }
}
