//! Sends prompts: clears the composer, pastes the text, waits for its echo, presses Enter, and sees the prompt leave the composer.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use nerve_types::TsNs;
use nerve_vt::keys::{paste, unescape};
use nerve_vt::screen::Modes;

use super::answer::end_of_answer;
use super::{Outcome, Phase, QueuePlace, Turn};
use crate::driver::observation::{Signal, is_echo_of};
use crate::driver::state::{AgentState, Delivery, Source};
use crate::driver::{Driver, Effect, View};
use crate::profile::SubmitMode;

/// Longest wait for the end of a start that began after the prompt was typed. Codex waits 30 s for another Codex.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Reason why a prompt was rejected. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Another turn is running.
    #[error("a turn is running")]
    Busy,
    /// The agent is not waiting for a prompt.
    #[error("the agent is not ready")]
    NotReady,
    /// The composer holds text typed by someone.
    #[error("the composer holds a draft: '{0}'")]
    Draft(String),
    /// An unfinished line stands behind the prompt of a line-based program.
    #[error("unfinished input at the prompt: '{0}'")]
    Line(String),
    /// The prompt is empty.
    #[error("the prompt is empty")]
    Empty,
}

impl Driver {
    /// Sends a prompt, begins a turn and returns its number.
    ///
    /// # Errors
    /// [`SubmitError`]: nothing was written.
    pub fn submit(
        &mut self,
        now: TsNs,
        prompt: Arc<str>,
        modes: Modes,
        cursor_line: u64,
    ) -> Result<u64, SubmitError> {
        if prompt.is_empty() {
            return Err(SubmitError::Empty);
        }
        if self.turns.current.is_some() {
            return Err(SubmitError::Busy);
        }
        if self.state != AgentState::Ready {
            return Err(SubmitError::NotReady);
        }
        if let Some(line) = &self.prompt_line.draft {
            return Err(SubmitError::Line(line.clone()));
        }
        let draft = self.observation.composer.as_ref().map_or("", |composer| composer.draft.as_str());
        let candidate = self.observation.composer.as_ref().zip(self.turns.returned_prompt.as_ref());
        let is_own_draft = candidate.is_some_and(|(view, prompt)| is_echo_of(view, prompt));
        if !draft.is_empty() && !is_own_draft {
            return Err(SubmitError::Draft(draft.to_string()));
        }
        let phase = match (self.profile.submit.mode, draft.is_empty()) {
            (SubmitMode::Line, _) => Phase::Running,
            (SubmitMode::Paste, true) => Phase::Typing { since: now },
            (SubmitMode::Paste, false) => Phase::Clearing { since: now },
        };
        self.prompt_line.inherited = None;
        self.turns.count += 1;
        self.turns.current = Some(Turn {
            number: self.turns.count,
            delivery: Delivery::Typed,
            interrupted: false,
            has_answer: false,
            is_written: false,
            has_left: false,
            prompt,
            queue: QueuePlace::default(),
            phase,
            started_at: now,
            first_byte: self.activity.offset,
            first_line: cursor_line,
            erased_line: None,
            overwrite: None,
            prompt_row: self.prompt_line.drawn_text().to_string(),
            previous_answer_end: Vec::new(),
        });
        match phase {
            Phase::Clearing { .. } => self.clear_composer(now),
            Phase::Typing { .. } => self.type_prompt(now, modes),
            _ => self.send_line(now, modes, cursor_line),
        }
        Ok(self.turns.count)
    }

    /// Withdraws a prompt whose Enter has not been pressed, and ends its turn. Returns `false` if there is none.
    pub(in crate::driver) fn take_back_prompt(&mut self, now: TsNs) -> bool {
        let unsent = |turn: &Turn| matches!(turn.phase, Phase::Clearing { .. } | Phase::Typing { .. });
        if !self.turns.current.as_ref().is_some_and(unsent) {
            return false;
        }
        self.clear_composer(now);
        self.end_turn(now, Outcome::Interrupted, Some("interrupted before Enter was pressed"));
        true
    }

    /// Clears the composer of an idle agent if it is in another mode. Returns `false` otherwise: work is interrupted first.
    pub(in crate::driver) fn leave_other_mode(&mut self, now: TsNs) -> bool {
        let is_other_mode = self.observation.composer.as_ref().is_some_and(|composer| composer.other_mode);
        if !is_other_mode || self.turns.current.is_some() || self.state != AgentState::Ready {
            return false;
        }
        self.clear_composer(now);
        true
    }

    fn clear_composer(&mut self, now: TsNs) {
        let is_other_mode = self.observation.composer.as_ref().is_some_and(|composer| composer.other_mode);
        let keys = self.profile.composer.as_ref().map(|composer| match &composer.leave_mode {
            Some(keys) if is_other_mode => keys.clone(),
            _ => composer.clear.clone(),
        });
        self.write_keys(&keys.unwrap_or_default());
        self.wake_at(now + self.echo_timeout());
    }

    /// Returns the time that the agent gets to show a change of its composer.
    fn echo_timeout(&self) -> Duration {
        Duration::from_millis(self.profile.submit.echo_ms)
    }

    fn type_prompt(&mut self, now: TsNs, modes: Modes) {
        let Some(turn) = &self.turns.current else { return };
        // A backslash right before Enter inserts a newline: a trailing blank prevents that.
        let text: Cow<'_, str> = match turn.prompt.ends_with('\\') {
            true => format!("{} ", turn.prompt).into(),
            false => (*turn.prompt).into(),
        };
        self.outbox.push(Effect::Write(paste(&text, modes)));
        self.wake_at(now + self.echo_timeout());
    }

    fn send_line(&mut self, now: TsNs, modes: Modes, cursor_line: u64) {
        let Some(turn) = &mut self.turns.current else { return };
        turn.delivery = Delivery::Submitted;
        // Several lines are pasted if the program supports bracketed paste, so that they arrive as one command.
        let is_single = !turn.prompt.contains(['\n', '\r']);
        let mut bytes = paste(&turn.prompt, if is_single { Modes::default() } else { modes });
        bytes.extend(unescape(&self.profile.submit.enter).unwrap_or_else(|_| b"\r".to_vec()));
        // A program without a prompt shows nothing between two lines.
        if self.marks.marks_prompts() || self.profile.prompt.is_some() || self.prompt_line.learned.is_some() {
            self.typeahead.record(&bytes, cursor_line);
        }
        self.outbox.push(Effect::Write(bytes));
        self.raise_barrier(now, cursor_line);
        self.set_state(now, AgentState::Busy, Source::Input, "a prompt was sent".into());
    }

    pub(super) fn advance_clearing(&mut self, now: TsNs, since: TsNs, view: &View<'_>) {
        if self.observation.composer.as_ref().is_some_and(|composer| composer.draft.is_empty()) {
            self.set_phase(Phase::Typing { since: now });
            self.type_prompt(now, view.screen.modes);
        } else if now >= since + self.echo_timeout() {
            self.end_turn(now, Outcome::NotDelivered, Some("the old draft could not be cleared"));
        } else {
            self.wake_at(since + self.echo_timeout());
        }
    }

    pub(super) fn advance_typing(&mut self, now: TsNs, since: TsNs, view: &View<'_>) {
        let due = since + self.echo_timeout();
        let is_echoed = match (&self.turns.current, &self.observation.composer) {
            (Some(turn), Some(composer)) => is_echo_of(composer, &turn.prompt),
            _ => false,
        };
        if is_echoed {
            let top = self.observation.composer.as_ref().map_or(0, |composer| composer.rows.0);
            let line = view.screen.first_line + top as u64;
            let previous_answer_end =
                self.profile.turn_end.as_ref().map(|end| end_of_answer(&view.screen.rows[..top], end));
            if let Some(turn) = &mut self.turns.current {
                turn.previous_answer_end = previous_answer_end.unwrap_or_default();
                // The echo of the prompt replaces the live area, including the rows above the composer.
                let above = self.profile.composer.as_ref().map_or(0, |composer| composer.live_above);
                turn.first_line = line.saturating_sub(u64::from(above));
            }
            self.set_phase(Phase::Submitting { since: now, enters: 1 });
            self.raise_barrier(now, view.cursor_line);
            self.write_keys(&self.profile.submit.enter.clone());
            self.wake_at(now + Duration::from_millis(self.profile.submit.enter_ms));
        } else if matches!(self.observation.signal, Some(Signal::Starting(_)))
            && self.turns.current.as_ref().is_some_and(|turn| now < turn.started_at + START_TIMEOUT)
        {
            // The agent shows the typed text once it has started.
            self.set_phase(Phase::Typing { since: now });
            self.wake_at(now + START_TIMEOUT);
        } else if now >= due {
            self.end_turn(now, Outcome::NotDelivered, Some("the text did not appear in the composer"));
        } else {
            self.wake_at(due);
        }
    }

    pub(super) fn advance_submitting(&mut self, now: TsNs, since: TsNs, enters: u32, view: &View<'_>) {
        self.detect_answer(now, view);
        let has_worked = self.has_worked();
        let asks = matches!(self.state, AgentState::Blocked { .. } | AgentState::Suspended { .. });
        let cleared = self.observation.composer.as_ref().is_some_and(|composer| composer.draft.is_empty());
        // On a busy machine an agent may stall for seconds and take the Enter later, so wait longer after the last one.
        let is_last = enters >= self.profile.submit.enters && !self.is_interrupted();
        let patience = if is_last { self.profile.submit.echo_ms } else { self.profile.submit.enter_ms };
        let due = since + Duration::from_millis(patience);
        if has_worked || asks || cleared {
            if let Some(turn) = &mut self.turns.current {
                turn.delivery = if has_worked || asks { Delivery::Started } else { Delivery::Submitted };
            }
            self.set_phase(Phase::Running);
            if !asks {
                self.set_state(now, AgentState::Busy, Source::Input, "the prompt left the composer".into());
            }
            // Judge again at once: the screen has to be ready from this point on.
            self.ready_since = None;
            self.wake_at(now);
        } else if matches!(self.observation.signal, Some(Signal::Starting(_))) {
            // The agent has taken Enter and sends the prompt as soon as it can.
            self.set_phase(Phase::Submitting { since: now, enters });
        } else if now < due {
            self.wake_at(due);
        } else if self.is_interrupted() && self.observation.composer.is_some() {
            self.end_turn(now, Outcome::Interrupted, Some("interrupted before the prompt left the composer"));
        } else if enters < self.profile.submit.enters && self.observation.composer.is_some() {
            // The text is still in the composer: the agent ignored Enter.
            self.set_phase(Phase::Submitting { since: now, enters: enters + 1 });
            self.write_keys(&self.profile.submit.enter.clone());
            self.wake_at(now + Duration::from_millis(self.profile.submit.enter_ms));
        } else if self.observation.composer.is_some() {
            self.end_turn(
                now,
                Outcome::NotDelivered,
                Some("Enter had no effect: the text is still in the composer"),
            );
        } else {
            // Neither the composer nor a known dialog is drawn. Check again on a change or later.
            self.wake_at(now + Duration::from_millis(self.profile.submit.enter_ms));
        }
    }
}
