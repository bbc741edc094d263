//! The life of one turn: typed, echoed, submitted, started, ended.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use nerve_types::{ExitStatus, TsNs};
use nerve_vt::keys::{paste, unescape};
use nerve_vt::screen::{Modes, Row};
use nerve_vt::terminal::MarkKind;

use super::agent_queue::QueuePlace;
use super::observation::{Signal, is_echo_of};
use super::state::{AgentState, Delivery, Source};
use super::{Driver, Effect, View};
use crate::profile::{Composer, Pattern, SubmitMode};

/// A finished turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// Number of the turn, from 1.
    pub number: u64,
    /// Outcome of the turn.
    pub outcome: Outcome,
    /// Delivery state of its prompt.
    pub delivery: Delivery,
    /// The signal that ended it, in words.
    pub evidence: String,
    /// Position of its text.
    pub span: Span,
    /// Exit code of a shell command, if its marks report one.
    pub exit_code: Option<i32>,
    /// Begin and end.
    pub time: (TsNs, TsNs),
}

/// Outcome of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The agent is ready again.
    Done,
    /// The screen has been idle for long, but the agent's Stop hook has not reported the end of the turn.
    Unconfirmed,
    /// Interrupted, and the agent is ready again.
    Interrupted,
    /// The prompt was not confirmed as delivered in time.
    NotDelivered,
    /// The program exited.
    Exited(ExitStatus),
}

/// Position of a turn's text. All ranges are half-open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Output bytes.
    pub bytes: (u64, u64),
    /// Absolute lines.
    pub lines: (u64, u64),
    /// Column where the last line ends, if a shell's prompt follows on it.
    pub last_col: Option<u16>,
    /// The text may contain echoes of the prompt's further lines. False if the shell marked the start of the output and drew no
    /// prompt in it.
    pub has_echo: bool,
}

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

/// The turns of one terminal.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The running turn.
    pub(super) current: Option<Turn>,
    /// Number of turns so far.
    count: u64,
    /// A prompt that may still be in the composer because it was not delivered or was interrupted.
    pub(super) returned_prompt: Option<Arc<str>>,
}

/// A running turn.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) number: u64,
    pub(super) delivery: Delivery,
    pub(super) interrupted: bool,
    /// The screen shows the end of the answer.
    has_answer: bool,
    /// The agent's session file has the whole answer that the screen shows.
    is_written: bool,
    /// The composer was seen without the prompt after Enter was pressed.
    has_left: bool,
    pub(super) prompt: Arc<str>,
    pub(super) queue: QueuePlace,
    phase: Phase,
    started_at: TsNs,
    first_byte: u64,
    first_line: u64,
    /// The end of the answer that was on the screen when Enter was pressed.
    previous_answer_end: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The driver's own old text is being removed from the composer.
    Clearing { since: TsNs },
    /// Pasted; the composer does not show the text yet.
    Typing { since: TsNs },
    /// Enter was sent; the composer still shows the text.
    Submitting { since: TsNs, enters: u32 },
    /// The agent has the prompt.
    Running,
}

/// Time that an agent gets to clear the driver's own draft from its composer.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest wait for the end of a start that began after the prompt was typed. Codex waits 30 s for another Codex.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for a Stop hook after the last change of a screen that looks idle.
const STOP_HOOK_TIMEOUT: Duration = Duration::from_secs(30);

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
    pub(super) fn take_back_prompt(&mut self, now: TsNs) -> bool {
        let unsent = |turn: &Turn| matches!(turn.phase, Phase::Clearing { .. } | Phase::Typing { .. });
        if !self.turns.current.as_ref().is_some_and(unsent) {
            return false;
        }
        self.clear_composer(now);
        self.end_turn(now, Outcome::Interrupted, Some("interrupted before Enter was pressed"));
        true
    }

    /// Returns true if the screen shows the end of the answer, or an agent whose screen marks no ends is idle, but the turn still
    /// waits for silence. The agent's session file can confirm the end at once.
    pub fn is_answer_unconfirmed(&self) -> bool {
        let marks_no_end = self.profile.turn_end.is_none();
        let is_shown = |turn: &Turn| {
            turn.phase == Phase::Running && (turn.has_answer || marks_no_end) && !turn.interrupted
        };
        matches!(self.observation.signal, Some(Signal::Ready(_)))
            && self.state == AgentState::Busy
            && self.turns.current.as_ref().is_some_and(is_shown)
    }

    /// Records that the agent's session file has the whole answer that the screen shows. Call [`Driver::observe`] after it.
    pub fn on_answer_written(&mut self) {
        if let Some(turn) = &mut self.turns.current {
            turn.is_written = true;
            turn.has_answer = true;
        }
    }

    /// Forgets that the session file has the answer: the agent works again.
    pub(super) fn forget_written_answer(&mut self) {
        if let Some(turn) = &mut self.turns.current {
            turn.is_written = false;
        }
    }

    /// Returns true if session file and screen agree on the end of the answer.
    pub(super) fn is_answer_written(&self) -> bool {
        self.turns
            .current
            .as_ref()
            .is_some_and(|turn| turn.is_written && turn.has_answer && !turn.interrupted)
    }

    /// Returns the prompt that may stand in the composer: typed but not seen to leave it.
    pub fn unsent_prompt(&self) -> Option<&str> {
        match &self.turns.current {
            Some(turn) if turn.phase == Phase::Running => None,
            Some(turn) => Some(&turn.prompt),
            None => self.turns.returned_prompt.as_deref(),
        }
    }

    /// Records the unsent prompt of an earlier driver of the terminal, which the next prompt may replace.
    pub fn on_unsent_prompt(&mut self, prompt: Arc<str>) {
        self.turns.returned_prompt = Some(prompt);
    }

    /// Clears the composer of an idle agent if it is in another mode. Returns `false` otherwise: work is interrupted first.
    pub(super) fn leave_other_mode(&mut self, now: TsNs) -> bool {
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
        self.wake_at(now + CLEAR_TIMEOUT);
    }

    fn type_prompt(&mut self, now: TsNs, modes: Modes) {
        let Some(turn) = &self.turns.current else { return };
        // A backslash right before Enter inserts a newline: a trailing blank prevents that.
        let text: Cow<'_, str> = match turn.prompt.ends_with('\\') {
            true => format!("{} ", turn.prompt).into(),
            false => (*turn.prompt).into(),
        };
        self.outbox.push(Effect::Write(paste(&text, modes)));
        self.wake_at(now + Duration::from_millis(self.profile.submit.echo_ms));
    }

    fn send_line(&mut self, now: TsNs, modes: Modes, cursor_line: u64) {
        let Some(turn) = &mut self.turns.current else { return };
        turn.delivery = Delivery::Submitted;
        // Several lines are pasted if the program supports bracketed paste, so that they arrive as one command.
        let is_single = !turn.prompt.contains(['\n', '\r']);
        let mut bytes = paste(&turn.prompt, if is_single { Modes::default() } else { modes });
        bytes.extend(unescape(&self.profile.submit.enter).unwrap_or_else(|_| b"\r".to_vec()));
        self.outbox.push(Effect::Write(bytes));
        self.raise_barrier(now, cursor_line);
        self.set_state(now, AgentState::Busy, Source::Input, "a prompt was sent".into());
    }

    pub(super) fn advance_turn(&mut self, now: TsNs, view: &View<'_>) {
        let Some(phase) = self.turns.current.as_ref().map(|turn| turn.phase) else { return };
        if let (Some(composer), Some(turn)) = (&self.observation.composer, &mut self.turns.current) {
            let is_sent = matches!(turn.phase, Phase::Submitting { .. } | Phase::Running);
            turn.has_left |= is_sent && !is_echo_of(composer, &turn.prompt);
        }
        match phase {
            Phase::Clearing { since } => self.advance_clearing(now, since, view),
            Phase::Typing { since } => self.advance_typing(now, since, view),
            Phase::Submitting { since, enters } => self.advance_submitting(now, since, enters, view),
            Phase::Running => {
                self.track_queue(view);
                self.detect_answer(now, view);
                self.advance_running(now, view);
            }
        }
    }

    fn advance_clearing(&mut self, now: TsNs, since: TsNs, view: &View<'_>) {
        if self.observation.composer.as_ref().is_some_and(|composer| composer.draft.is_empty()) {
            self.set_phase(Phase::Typing { since: now });
            self.type_prompt(now, view.screen.modes);
        } else if now >= since + CLEAR_TIMEOUT {
            self.end_turn(now, Outcome::NotDelivered, Some("the old draft could not be cleared"));
        } else {
            self.wake_at(since + CLEAR_TIMEOUT);
        }
    }

    fn advance_typing(&mut self, now: TsNs, since: TsNs, view: &View<'_>) {
        let due = since + Duration::from_millis(self.profile.submit.echo_ms);
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

    fn advance_submitting(&mut self, now: TsNs, since: TsNs, enters: u32, view: &View<'_>) {
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

    fn advance_running(&mut self, now: TsNs, view: &View<'_>) {
        let has_worked = self.has_worked() || self.has_command_output();
        if !has_worked && self.is_fetched_back() {
            return self.end_fetched_back(now);
        }
        let is_start_unconfirmed = !has_worked && self.is_start_unconfirmed();
        let unsent = self.reason_not_sent(is_start_unconfirmed, view);
        let lacks_stop = self.lacks_stop_hook();
        let Some(turn) = &mut self.turns.current else { return };
        if has_worked && turn.delivery != Delivery::Started {
            turn.delivery = Delivery::Started;
        }
        if self.state != AgentState::Ready {
            return;
        }
        let (outcome, evidence) = match (turn.interrupted, unsent) {
            (true, _) => (Outcome::Interrupted, None),
            (false, Some(reason)) => (Outcome::NotDelivered, Some(reason)),
            (false, None) if lacks_stop => {
                (Outcome::Unconfirmed, Some("idle, but the agent's Stop hook did not report the end"))
            }
            (false, None) => {
                (Outcome::Done, is_start_unconfirmed.then_some("ready and silent; no work was seen"))
            }
        };
        self.end_turn(now, outcome, evidence);
    }

    /// Returns why the prompt was not sent, or not answered, although Enter was pressed.
    fn reason_not_sent(&self, is_start_unconfirmed: bool, view: &View<'_>) -> Option<&'static str> {
        if self.shows_prompt() {
            return Some("the prompt stands in the composer again");
        }
        let (composer, turn) = (self.profile.composer.as_ref()?, self.turns.current.as_ref()?);
        let is_no_command = composer.no_command.as_ref().is_some_and(|none| none.is_match(&turn.prompt));
        let above = &view.screen.rows[..self.observation.composer.as_ref()?.rows.0];
        let is_dropped = is_start_unconfirmed
            && is_no_command
            && !above.iter().any(|row| is_echo_row(composer, row, &turn.prompt));
        is_dropped.then_some("the agent took the prompt for a command that it does not have")
    }

    /// Returns how long a ready screen must be stable while a Stop hook is expected; `None` without one. The title and
    /// the composer of an agent about to ask for a permission can look idle: only the end of an answer shortens the
    /// wait.
    pub(super) fn hook_wait(&self) -> Option<Duration> {
        let turn = self.turns.current.as_ref().filter(|turn| !turn.interrupted)?;
        let is_over = turn.has_answer || self.is_prompt_returned();
        let patience = if is_over { self.profile.timing.settle() * 5 } else { STOP_HOOK_TIMEOUT };
        self.hooks.expects_stop(self.barrier.at()).then_some(patience)
    }

    /// Returns true if hooks reported the beginning of the turn, but neither a hook nor the screen shows its end.
    fn lacks_stop_hook(&self) -> bool {
        let since = self.barrier.at();
        let has_answer = self.turns.current.as_ref().is_some_and(|turn| turn.has_answer);
        self.hooks.expects_stop(since) && !self.hooks.has_stopped_since(since) && !has_answer
    }

    /// Returns true if the turn was never seen to start. Only a longer silence ends it: commands such as `/help` show
    /// no work.
    pub(super) fn is_start_unconfirmed(&self) -> bool {
        let unseen = |turn: &Turn| turn.delivery != Delivery::Started && !turn.interrupted;
        self.profile.composer.is_some()
            && !self.has_worked()
            && self.turns.current.as_ref().is_some_and(unseen)
    }

    /// Detects a finished answer below the prompt's echo: evidence of work, however short.
    fn detect_answer(&mut self, now: TsNs, view: &View<'_>) {
        let (Some(turn), Some(composer), Some(end)) =
            (&mut self.turns.current, &self.observation.composer, self.profile.turn_end.as_ref())
        else {
            return;
        };
        let above = &view.screen.rows[..composer.rows.0];
        let Some(at) = above.iter().rposition(|row| end.is_match(&row.text)) else { return };
        let had_answer = turn.has_answer;
        turn.has_answer = if view.screen.modes.alternate {
            let composer = self.profile.composer.as_ref();
            let echo = |row: &Row| composer.is_some_and(|composer| is_echo_row(composer, row, &turn.prompt));
            match above.iter().rposition(echo) {
                Some(echo) => echo < at && !above[echo..at].iter().any(|row| end.is_match(&row.text)),
                // A long answer has pushed its echo off the screen. Its end differs from the previous answer's end.
                None => {
                    let now = end_of_answer(above, end);
                    let rows = now.iter().rev().zip(turn.previous_answer_end.iter().rev());
                    turn.previous_answer_end.is_empty() || !rows.into_iter().all(|(now, old)| now == old)
                }
            }
        } else {
            view.screen.first_line + at as u64 >= turn.first_line
        };
        if turn.has_answer != had_answer {
            // The end of the answer changes the wait for a Stop hook.
            self.outbox.wake_at(now);
        }
    }

    /// Returns true if the composer shows the prompt of the running turn again: it was not accepted, or someone
    /// interrupted the agent before it began to answer. An agent on a busy machine may clear its composer late.
    fn is_prompt_returned(&self) -> bool {
        self.turns.current.as_ref().is_some_and(|turn| turn.has_left) && self.shows_prompt()
    }

    /// Returns true if the composer still shows the prompt, so the screen is older than hooks that report more.
    pub(super) fn is_screen_stale(&self) -> bool {
        self.turns.current.as_ref().is_some_and(|turn| !turn.has_left) && self.shows_prompt()
    }

    /// Returns true if the composer shows the prompt of the running turn, which has no answer.
    fn shows_prompt(&self) -> bool {
        let turn = self.turns.current.as_ref();
        let turn = turn.filter(|turn| turn.phase == Phase::Running && !turn.has_answer);
        let composer = self.observation.composer.as_ref();
        composer.zip(turn).is_some_and(|(composer, turn)| is_echo_of(composer, &turn.prompt))
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.turns.current.as_ref().is_some_and(|turn| turn.interrupted)
    }

    /// Returns true if the agent has worked since the prompt was submitted.
    fn has_worked(&self) -> bool {
        self.shows_work() || self.hooks.has_submitted_since(self.barrier.at())
    }

    /// Returns true if the screen or the title shows that work.
    fn shows_work(&self) -> bool {
        let has_answer = self.turns.current.as_ref().is_some_and(|turn| turn.has_answer);
        let titled = self.activity.busy_title_offset > self.barrier.offset();
        let busy = matches!(self.observation.signal, Some(Signal::Busy(..)))
            && self.activity.offset > self.barrier.offset();
        has_answer || titled || busy
    }

    fn set_phase(&mut self, phase: Phase) {
        if let Some(turn) = &mut self.turns.current {
            turn.phase = phase;
        }
    }

    pub(super) fn span_start(&self, turn: &Turn) -> u64 {
        let mark = self.marks.output.as_ref().filter(|mark| mark.offset > turn.first_byte);
        match (mark, self.profile.composer.is_some()) {
            (Some(mark), false) => mark.line.0,
            (None, false) => turn.first_line + 1,
            (_, true) => turn.first_line,
        }
    }

    pub(super) fn end_turn(&mut self, now: TsNs, outcome: Outcome, evidence: Option<&str>) {
        let Some(turn) = self.turns.current.take() else { return };
        self.turns.returned_prompt =
            (!matches!(outcome, Outcome::Done | Outcome::Unconfirmed)).then(|| Arc::clone(&turn.prompt));
        let start = self.span_start(&turn);
        let is_marked = self.marks.output.as_ref().is_some_and(|mark| mark.offset > turn.first_byte);
        let has_echo = !is_marked || self.marks.has_later_prompt;
        let end = self.marks.end.as_ref().filter(|mark| mark.offset > turn.first_byte);
        let (end_line, last_col) = match end {
            Some(mark) if self.profile.composer.is_none() && mark.col > 0 => {
                (mark.line.0 + 1, Some(mark.col))
            }
            Some(mark) if self.profile.composer.is_none() => (mark.line.0, None),
            // To the end of the output: the parser finds the composer, and a program that exited draws no prompt.
            _ if self.profile.composer.is_some() || matches!(outcome, Outcome::Exited(_)) => (u64::MAX, None),
            _ if self.prompt_line.is_bare => (self.prompt_line.cursor_line, None),
            _ => (self.prompt_line.cursor_line + 1, None),
        };
        let exit_code = end.and_then(|mark| match mark.kind {
            MarkKind::CommandEnd(code) => code,
            _ => None,
        });
        let evidence = evidence.map_or_else(
            || format!("{}: {}", self.evidence.source.as_str(), self.evidence.text),
            str::to_string,
        );
        self.outbox.push(Effect::TurnEnded(Box::new(TurnEnd {
            number: turn.number,
            outcome,
            delivery: turn.delivery,
            evidence,
            span: Span {
                bytes: (turn.first_byte, self.activity.offset),
                lines: (start, end_line),
                last_col,
                has_echo,
            },
            exit_code,
            time: (turn.started_at, now),
        })));
    }
}

/// Rows above the end of an answer that distinguish it from another answer's end.
const ANSWER_END_ROWS: usize = 3;

/// Returns the last row that ends an answer and some rows above it; empty if there is none.
fn end_of_answer(rows: &[Row], end: &Pattern) -> Vec<String> {
    let Some(at) = rows.iter().rposition(|row| end.is_match(&row.text)) else { return Vec::new() };
    rows[at.saturating_sub(ANSWER_END_ROWS)..=at].iter().map(|row| row.text.clone()).collect()
}

/// Returns true if the row is the first row of the prompt's echo.
fn is_echo_row(composer: &Composer, row: &Row, prompt: &str) -> bool {
    composer.prompt.after(&row.text).is_some_and(|text| is_prompt_beginning(text, prompt))
}

/// Returns true if `prompt` begins with `text`, a row of an echo.
fn is_prompt_beginning(text: &str, prompt: &str) -> bool {
    let words = |s: &str| s.split_whitespace().map(str::to_string).collect::<Vec<_>>().join(" ");
    let text = words(text);
    !text.is_empty() && words(prompt).starts_with(&text)
}
