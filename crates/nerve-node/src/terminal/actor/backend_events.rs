//! Handles the events of the backend.

use nerve_api::event::EventKind;
use nerve_host::backend::{Backend, BackendEvent};
use nerve_types::{ExitStatus, Origin, Size};
use nerve_vt::terminal::Alert;

use super::Actor;
use crate::error::EngineError;

impl<B: Backend> Actor<B> {
    pub(super) fn on_backend_event(&mut self, event: BackendEvent) {
        match event {
            BackendEvent::Output => self.on_output(),
            BackendEvent::Resized(size) => self.on_resized(size),
            BackendEvent::Snapshot(snapshot) => self.terminal.record_snapshot(snapshot),
            BackendEvent::CaughtUp => self.on_caught_up(),
            BackendEvent::Closed => self.on_output_closed(),
            BackendEvent::Exited(exit) => self.on_exit(exit),
            BackendEvent::Skipped(offset) => {
                self.terminal.skip_to(offset);
                self.feed.skip_to(offset);
                self.skipped_to = Some(offset);
                self.drop_shadow();
            }
            BackendEvent::Gone(reason) => self.on_gone(reason),
            // Published with the status.
            BackendEvent::PlaceChanged => {}
            // settle() starts the prompts that wait for the lease.
            BackendEvent::LeaseChanged => self.lease.invalidate(),
            BackendEvent::Fault(message) => self.on_fault(message),
            BackendEvent::Lost(reason) => {
                self.on_fault(reason.clone());
                self.on_gone(reason);
            }
        }
    }

    fn on_output(&mut self) {
        let (now, before) = (self.clock.now(), self.terminal.offset());
        let output = self.link.take_output(self.terminal.slice_len());
        let mut changes = self.terminal.process_data(now, output);
        self.feed.push(output);
        if let Some(active) = self.turns.active_mut()
            && let Some(shadow) = &mut active.shadow
        {
            match shadow.process_data(now, output, &self.terminal) {
                // Text that was there before the turn is not covered or erased by the program's output.
                Some(alerts) => changes.alerts = alerts,
                None => active.shadow = None,
            }
        }
        self.driver.on_output(now, self.terminal.offset());
        self.reporter.set_offset(self.terminal.offset());
        let mut is_urgent = false;
        for alert in &changes.alerts {
            self.driver.on_alert(alert);
            is_urgent |= matches!(alert, Alert::Mark(_) | Alert::Title(_));
            if let Alert::Rebuilt { reason } = alert {
                let message = format!("the terminal model failed and was rebuilt: {reason}");
                self.publish(EventKind::machine_failure(message));
            }
        }
        // Replayed output: its queries were answered in the past, and its screens are out of date.
        if self.lifecycle.is_replaying() {
            return;
        }
        self.spec.events.metrics().add_output(self.terminal.offset().saturating_sub(before));
        if !changes.replies.is_empty() && self.spec.answers_queries {
            self.type_bytes(now, &changes.replies, Origin::Terminal);
        }
        self.spec.audit_log.on_output(now);
        if self.observation.on_output(now, is_urgent) {
            self.observe(now);
        }
    }

    fn drop_shadow(&mut self) {
        if let Some(active) = self.turns.active_mut() {
            active.shadow = None;
        }
    }

    fn on_caught_up(&mut self) {
        self.lifecycle.finish_replay();
        self.watch_waiting();
        let now = self.clock.now();
        if self.link.was_ready_at(self.terminal.offset()) {
            self.driver.on_idle_takeover(now);
        } else if self.link.was_ready() {
            self.driver.on_takeover(now, self.link.backend.was_typed());
            // Published before a dialog is observed: subscribers learn whether it may be another one than before.
            self.run_effects();
        }
        if let Some(prompt) = self.link.drawn_prompt() {
            self.driver.on_known_prompt(prompt.to_string());
        }
        if let Some(prompt) = self.link.unsent_prompt() {
            self.driver.on_unsent_prompt(prompt.into());
        }
        if let Some(transcript) = self.link.transcript() {
            self.reporter.follow_transcript(transcript.to_path_buf());
        }
        // Before a prompt is typed.
        self.observe(now);
        self.observation.schedule(now);
    }

    fn on_resized(&mut self, size: Size) {
        self.terminal.resize(size);
        self.feed.resize(size);
        // The copy would wrap its lines in another way.
        self.drop_shadow();
        if self.lifecycle.is_replaying() {
            // A replayed size.
            return;
        }
        self.observation.schedule(self.clock.now());
        // Callers read the new size from the status.
        self.update_status();
        let refusal = self.link.backend.resize_refusal();
        let node = &self.spec.node.node;
        self.waiters.finish_resizes(|requested| match refusal {
            Some(others) if requested != size => Err(EngineError::busy(format!(
                "node '{node}' stays at {} columns and {} rows: {others}",
                size.cols, size.rows
            ))),
            _ => Ok(()),
        });
    }

    pub(super) fn on_fault(&mut self, message: String) {
        tracing::warn!(node = %self.spec.node.node, "{message}");
        self.publish(EventKind::machine_failure(message.clone()));
        self.reporter.warn(self.clock.now(), message.clone());
        self.faults.add(message);
    }

    /// Handles the end of the program, or of the connection to it, without an exit status.
    fn on_gone(&mut self, reason: String) {
        self.lifecycle.set_end_reason(reason);
        self.conclude();
    }

    fn on_output_closed(&mut self) {
        if self.lifecycle.complete_output() {
            self.conclude();
        }
    }

    fn on_exit(&mut self, exit: ExitStatus) {
        let drain_until = self.clock.now() + self.link.backend.drain_time();
        if self.lifecycle.exit(exit, drain_until) {
            self.conclude();
        }
    }
}
