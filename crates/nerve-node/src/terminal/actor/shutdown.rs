//! Timeouts, stopping, and the exit of the child.

use std::mem;

use nerve_agent::driver::AgentState;
use nerve_agent::parse::{Section, SectionKind};
use nerve_api::event::EventKind;
use nerve_host::backend::Backend;
use nerve_record::history::ResponseData;
use nerve_types::TsNs;
use rustix::process::Signal;
use tokio::sync::oneshot;

use super::{Actor, tail_of};
use crate::error::{EngineError, ErrorKind};

impl<B: Backend> Actor<B> {
    /// Fails the prompts that waited too long for their turn.
    pub(super) fn expire_prompts(&mut self, now: TsNs) {
        let mut queue = mem::take(&mut self.turns.queue);
        queue.expire(now, || {
            let state = match (self.lease.holder(), self.driver.state()) {
                (Some(by), _) => format!("{by} is typing into the same terminal"),
                (None, AgentState::Starting) => "the program has not become ready".to_string(),
                (None, AgentState::Busy) => "the program is busy".to_string(),
                (None, AgentState::Blocked { .. }) => "a dialog blocks the program".to_string(),
                (None, _) => "another turn is running".to_string(),
            };
            self.late_error(&format!("timed out before the prompt was sent: {state}"))
        });
        let is_starting = *self.driver.state() == AgentState::Starting;
        if is_starting && now >= self.start_deadline && !queue.is_empty() {
            let limit = self.spec.ready_timeout;
            let reason = format!("the program did not become ready within {limit:?} of its start");
            queue.fail_all(&self.late_error(&reason));
        }
        self.turns.queue = queue;
    }

    /// Answers the turn in progress if it timed out, and interrupts it unless its caller wants it to continue.
    pub(super) fn expire_turn(&mut self, now: TsNs) {
        let Some(active) = self.turns.active().filter(|active| active.request.is_late(now)) else { return };
        let detach = active.request.prompt.detach_on_timeout;
        let outcome = if detach { "it continues and will be in the history" } else { "it was interrupted" };
        let message = format!("node '{}': the turn timed out; {outcome}", self.spec.node.node);
        let mut error = self.with_screen(EngineError::timeout(message));
        error.delivery = self.driver.turn().map(|(_, delivery)| delivery);
        let error = error.with_text(&self.partial_text());
        if let Some(active) = self.turns.active_mut() {
            active.answer(Err(error));
        }
        if !detach {
            self.driver.interrupt(now, self.cursor_line());
        }
    }

    /// Handles the drop of the last handle: detaches from the program, or stops it.
    pub(super) fn on_handles_dropped(&mut self) {
        if !self.release("the last handle of the node was dropped") {
            self.begin_stop("no handle is left".into(), None);
        }
    }

    /// Detaches from the program and leaves it running. Returns false if that is impossible. `reason` is reported to the callers
    /// that wait for turns.
    pub(super) fn release(&mut self, reason: &str) -> bool {
        self.store_usage();
        let is_released = self.link.backend.release();
        if is_released {
            self.abandon_turns(reason);
            self.lifecycle.close();
        }
        is_released
    }

    /// Answers and logs the turn in progress and the queue, whose ends this process does not see.
    fn abandon_turns(&mut self, reason: &str) {
        // The turn may have ended while its transcript is being read.
        self.finish_from_screen();
        let error = |what| {
            let message = format!("node '{}': {reason} before {what}", self.spec.node.node);
            EngineError::new(ErrorKind::Interrupted, message)
        };
        let unsent = error("the prompt was sent").hint("send it again");
        let unfinished = error("the turn ended; the turn may have continued")
            .hint("see the screen with `nerve node read`, or `nerve transcript`");
        self.turns.queue.fail_all(&unsent);
        self.log_unsent();
        let text = self.partial_text();
        let sections = vec![Section::new(SectionKind::Text, text.as_str())];
        self.log(ResponseData { sections, ..ResponseData::default() }, self.clock.now());
        let delivery = self.driver.turn().map(|(_, delivery)| delivery);
        if let Some(mut active) = self.turns.end(&text) {
            active.answer(Err(EngineError { delivery, ..unfinished.with_text(&text) }));
        }
    }

    pub(super) fn begin_stop(&mut self, reason: String, reply: Option<oneshot::Sender<()>>) {
        let now = self.clock.now();
        let needs_signals = self.lifecycle.begin_stop(reason, now, reply);
        self.turns.queue.fail_all(&self.stopped_error());
        if needs_signals {
            self.reporter.report_stopping(now);
            self.escalate(now);
        }
    }

    /// Sends the next signal of a stop.
    pub(super) fn escalate(&mut self, now: TsNs) {
        match self.lifecycle.next_signal(now) {
            Some(signal) => self.link.backend.end(signal),
            // SIGKILL was sent and the child is not reaped: it hangs in the kernel. Waiting would not help.
            None => self.conclude(),
        }
    }

    /// Concludes the node once the child is gone and all its output was read. Notifies all waiters.
    pub(super) fn conclude(&mut self) {
        let Some(exit) = self.lifecycle.end() else { return };
        let now = self.clock.now();
        // Processes left in the child's group must not outlive it.
        self.link.backend.end(Signal::HUP);
        self.driver.on_exit(now, exit);
        self.run_effects();
        self.finish_from_screen();
        let error = self.stopped_error();
        self.turns.queue.fail_all(&error);
        self.waiters.finish_resizes(|_| Err(error.clone()));
        self.log_unsent();
        let reason = self.lifecycle.end_description();
        self.feed.end(&reason);
        self.watch_waiting();
        let terminal = &self.terminal;
        self.spec.audit_log.close(now, Some(&reason), || tail_of(terminal));
        self.reporter.report_end(now, exit, self.lifecycle.is_stopping());
        if let Some(proxy) = self.spec.proxy.clone() {
            tokio::spawn(async move { proxy.end().await });
        }
        self.publish(EventKind::NodeStopped { reason, cause: self.lifecycle.stop_cause() });
    }
}
