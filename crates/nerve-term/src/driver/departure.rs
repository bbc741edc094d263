//! A line-based program that was ready and works again, though no input of ours says so: somebody else entered a line.
//!
//! A weak claim, for what is drawn below a prompt may be a background job's as well. So it needs a line that was seen to be typed
//! and left, and it ends with the program's silence at the latest, whoever has the terminal.

use std::time::Duration;

use super::line::first_row;
use super::verdict::{Verdict, before_cursor};
use super::{AgentState, Driver, Foreground, Source, View};
use crate::event::TsNs;

/// The longest prompt that is looked for in front of what somebody types, in characters.
const PROMPT: usize = 80;

/// It has left the place where it waited.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    since: TsNs,
    source: Source,
    text: &'static str,
}

impl Driver {
    /// Looks whether somebody's line was entered, and whether what follows from that still holds.
    pub(super) fn note_departure(&mut self, now: TsNs, view: &View<'_>) {
        self.departure = match self.state {
            AgentState::Ready => self.sign_of_work(view).map(|(source, text)| {
                let since = self.departure.map_or(now, |known| known.since);
                Departure { since, source, text }
            }),
            // What has the terminal is better evidence, and so is its end.
            _ if view.foreground == Foreground::Other => None,
            _ => self.departure.filter(|_| self.has_departed()),
        };
    }

    /// Busy, once that has held for a moment: between a line's end and the next prompt nothing is said of either. Ready again with
    /// the prompt, whatever is typed there, or with silence.
    pub(super) fn judge_departure(&self, now: TsNs, view: &View<'_>) -> Option<Verdict> {
        let Departure { since, source, text } = self.departure?;
        let timing = &self.profile.timing;
        if !self.has_departed() && now < since + timing.settle() {
            return Some(Verdict::Unknown { recheck: Some(since + timing.settle()) });
        }
        let is_back = self.has_departed() && self.is_at_prompt(view);
        if is_back && view.foreground != Foreground::Awake {
            return Some(self.at_rest(now, Source::Screen, "its prompt is back".into(), timing.settle()));
        }
        let last_output = self.last_output.max(since);
        let due = last_output + timing.quiet();
        if now < due {
            return Some(Verdict::Busy { source, text: text.into(), recheck: Some(due) });
        }
        let text = format!("silent for {} ms", now.since(last_output).as_millis());
        Some(Verdict::Ready { source: Source::Quiet, text, hold: Duration::ZERO })
    }

    /// It is busy for no better reason.
    pub(super) fn has_departed(&self) -> bool {
        self.state == AgentState::Busy
            && self.departure.is_some_and(|departure| self.evidence.text == departure.text)
    }

    fn sign_of_work(&self, view: &View<'_>) -> Option<(Source, &'static str)> {
        // A full-screen program's cursor is where it likes.
        let is_line_based = self.profile.composer.is_none() && !view.screen.modes.alternate;
        // What a search in the history draws instead of the prompt stands in the prompt's own line.
        let is_below = self.prompt_at.as_ref().is_some_and(|prompt| view.cursor_line > prompt.line);
        let entered = self.departure.is_some() || self.line_draft.is_some();
        if !is_line_based || !is_below || !entered || self.is_at_prompt(view) {
            return None;
        }
        match view.foreground {
            Foreground::Awake => Some((Source::Foreground, "it runs, and its prompt is gone")),
            Foreground::Unknown => Some((Source::Screen, "a line was entered, and its prompt is gone")),
            // It sleeps, or another program's work was told before this is asked.
            Foreground::Idle | Foreground::Other => None,
        }
    }

    /// The cursor is behind a prompt, or behind what somebody types there.
    fn is_at_prompt(&self, view: &View<'_>) -> bool {
        if self.prompt_at.as_ref().is_some_and(|prompt| prompt.is_there(view)) {
            return true;
        }
        if self.is_prompt(&before_cursor(view.screen)) {
            return true;
        }
        // Drawn anew, in a window of another size or below a list of completions.
        let row = first_row(view);
        let ends = row.char_indices().map(|(at, char)| at + char.len_utf8()).take(PROMPT);
        ends.map(|end| &row[..end]).any(|start| self.is_prompt(start))
    }
}
