//! Detects the end of an answer, on the screen and in the agent's session file.

use nerve_types::TsNs;
use nerve_vt::screen::Row;

use super::echo::is_echo_row;
use super::{Phase, Turn};
use crate::driver::observation::Signal;
use crate::driver::state::AgentState;
use crate::driver::{Driver, View};
use crate::profile::Pattern;

/// Rows above the end of an answer that distinguish it from another answer's end.
const ANSWER_END_ROWS: usize = 3;

impl Driver {
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
    pub(in crate::driver) fn forget_written_answer(&mut self) {
        if let Some(turn) = &mut self.turns.current {
            turn.is_written = false;
        }
    }

    /// Returns true if session file and screen agree on the end of the answer.
    pub(in crate::driver) fn is_answer_written(&self) -> bool {
        self.turns
            .current
            .as_ref()
            .is_some_and(|turn| turn.is_written && turn.has_answer && !turn.interrupted)
    }

    /// Detects a finished answer below the prompt's echo: evidence of work, however short.
    pub(super) fn detect_answer(&mut self, now: TsNs, view: &View<'_>) {
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
}

/// Returns the last row that ends an answer and some rows above it; empty if there is none.
pub(super) fn end_of_answer(rows: &[Row], end: &Pattern) -> Vec<String> {
    let Some(at) = rows.iter().rposition(|row| end.is_match(&row.text)) else { return Vec::new() };
    rows[at.saturating_sub(ANSWER_END_ROWS)..=at].iter().map(|row| row.text.clone()).collect()
}
