//! Decides that a turn has ended, and reports how.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use nerve_types::{ExitStatus, TimeSpan, TsNs};
use nerve_vt::terminal::{Mark, MarkKind};

use super::echo::is_echo_row;
use super::{Overwrite, Turn};
use crate::driver::state::{AgentState, Delivery};
use crate::driver::{Driver, Effect, View};

/// Longest wait for a Stop hook after the last change of a screen that looks idle.
const STOP_HOOK_TIMEOUT: Duration = Duration::from_secs(30);

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
    /// Loss of output that the rows of the span do not show.
    pub overwrite: Option<Overwrite>,
    /// Exit code of a shell command, if its marks report one.
    pub exit_code: Option<i32>,
    /// Start and end of the turn.
    pub time: TimeSpan,
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

/// Position of a turn's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Output bytes.
    pub bytes: Range<u64>,
    /// Absolute lines.
    pub lines: Range<u64>,
    /// Column where the last line ends, if a shell's prompt follows on it.
    pub last_col: Option<u16>,
    /// The text may contain echoes of the prompt's further lines. False if the shell marked the start of the output and drew no
    /// prompt in it.
    pub has_echo: bool,
}

impl Driver {
    /// Ends the turn if the agent is ready again, or was never seen to take the prompt.
    pub(super) fn advance_running(&mut self, now: TsNs, view: &View<'_>) {
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
    pub(in crate::driver) fn hook_wait(&self) -> Option<Duration> {
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
    pub(in crate::driver) fn is_start_unconfirmed(&self) -> bool {
        let unseen = |turn: &Turn| turn.delivery != Delivery::Started && !turn.interrupted;
        self.profile.composer.is_some()
            && !self.has_worked()
            && self.turns.current.as_ref().is_some_and(unseen)
    }

    /// Returns the first line of a turn.
    pub(in crate::driver) fn span_start(&self, turn: &Turn) -> u64 {
        if self.profile.composer.is_some() {
            return turn.first_line;
        }
        let start = self.output_mark(turn).map_or(turn.first_line + 1, |mark| mark.line.0);
        turn.erased_line.map_or(start, |erased| erased.min(start))
    }

    /// Returns the mark of the beginning of the turn's output.
    pub(super) fn output_mark(&self, turn: &Turn) -> Option<&Mark> {
        self.marks.output.as_ref().filter(|mark| mark.offset > turn.first_byte)
    }

    /// Returns true if a mark shows where the output of the running turn ends.
    fn has_command_end(&self) -> bool {
        let first_byte = self.turns.current.as_ref().map(|turn| turn.first_byte);
        self.marks.end.as_ref().map(|mark| mark.offset) > first_byte
    }

    /// Returns true if the cursor's row holds nothing but a prompt.
    fn is_last_row_prompt(&self) -> bool {
        let row = &self.cursor_row;
        let is_likely = row.is_likely_prompt && row.output_end.is_none();
        row.is_bare_prompt || is_likely && !self.marks.marks_prompts()
    }

    /// Returns true if the cursor's row may hold output or a part of the prompt: a shell without marks has changed its prompt, or has
    /// drawn it behind output that has no line end, or still waits. A short prompt may also end the output of another program.
    fn is_last_row_ambiguous(&self) -> bool {
        let row = &self.cursor_row;
        if self.profile.composer.is_some()
            || self.marks.marks_prompts()
            || self.has_command_end()
            || self.is_last_row_prompt()
            || self.profile.prompt.is_some()
        {
            return false;
        }
        match (&row.output_end, &self.turns.current) {
            (Some(end), Some(turn)) => {
                let may_be_output = !self.profile.foreground && !self.has_distinctive_prompt();
                self.has_fresh_lines || may_be_output || turn.prompt_row == end.row.trim_end()
            }
            _ if self.prompt_line.learned.is_none() => self.has_fresh_lines && row.has_text,
            _ => self.has_fresh_lines || row.has_no_prompt || self.profile.foreground && row.has_text,
        }
    }

    /// Ends the running turn. `evidence` replaces the evidence of the state.
    pub(in crate::driver) fn end_turn(&mut self, now: TsNs, outcome: Outcome, evidence: Option<&str>) {
        if self.cursor_row.is_overwrite && !self.has_command_end() && !matches!(outcome, Outcome::Exited(_)) {
            self.on_output_covered();
        }
        if outcome == Outcome::Done && self.is_last_row_ambiguous() {
            self.on_ambiguous_row();
        }
        let Some(turn) = self.turns.current.take() else { return };
        self.turns.returned_prompt =
            (!matches!(outcome, Outcome::Done | Outcome::Unconfirmed)).then(|| Arc::clone(&turn.prompt));
        let start = self.span_start(&turn);
        let has_echo = self.output_mark(&turn).is_none() || self.marks.has_later_prompt;
        let end = self.marks.end.as_ref().filter(|mark| mark.offset > turn.first_byte);
        let (end_line, last_col) = match end {
            Some(mark) if self.profile.composer.is_none() && mark.col > 0 => {
                (mark.line.0 + 1, Some(mark.col))
            }
            Some(mark) if self.profile.composer.is_none() => (mark.line.0, None),
            // To the end of the output: the parser finds the composer, and a program that exited draws no prompt.
            _ if self.profile.composer.is_some() || matches!(outcome, Outcome::Exited(_)) => (u64::MAX, None),
            _ if self.is_last_row_prompt() => (self.cursor_row.line, None),
            _ if let Some(last) =
                self.cursor_row.output_end.as_ref().filter(|_| !self.marks.marks_prompts()) =>
            {
                (self.cursor_row.line + 1, Some(last.col))
            }
            _ => (self.cursor_row.line + 1, None),
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
                bytes: turn.first_byte..self.activity.offset,
                lines: start..end_line,
                last_col,
                has_echo,
            },
            overwrite: turn.overwrite,
            exit_code,
            time: TimeSpan { start: turn.started_at, end: now },
        })));
    }
}
