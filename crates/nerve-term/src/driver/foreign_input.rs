//! A line-based program that was ready and works again, though no input of ours says so: somebody else entered a line.
//!
//! A weak claim, for what is drawn below a prompt may be a background job's as well. So it needs a line that was seen to be typed
//! and left, and it ends with the program's silence, whoever has the terminal. What is written by others in the background may never
//! fall silent, and the prompt may be another one: so it ends as well when the program sleeps for long, or long after what may be a prompt.

use std::time::Duration;

use super::prompt_line::{PromptEnd, first_row};
use super::verdict::{Verdict, before_cursor};
use super::{AgentState, Driver, Foreground, Source, View};
use crate::event::TsNs;

/// The longest prompt that is looked for in front of what somebody types, in characters.
const PROMPT: usize = 80;
/// A program that was asleep for so many of its silences waits for a line, whatever is written. One that waits for its reader sleeps
/// too, but is seen awake in between.
const ASLEEP: u32 = 5;
/// Where nobody knows whether it sleeps, nor what its prompts look like, a line is no reason any more so many after something was seen that
/// may be another prompt: as long as a prompt is waited for that was seen once.
const WRITING: u32 = 50;

/// It has left the place where it waited.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    since: TsNs,
    source: Source,
    text: &'static str,
    /// When something was first seen since that may be a prompt, of a program whose prompts nobody knows.
    prompted: Option<TsNs>,
}

impl Driver {
    /// Looks whether somebody's line was entered, and whether what follows from that still holds.
    pub(super) fn note_departure(&mut self, now: TsNs, view: &View<'_>) {
        self.departure = match self.state {
            AgentState::Ready => self.sign_of_work(view).map(|(source, text)| {
                let since = self.departure.map_or(now, |known| known.since);
                Departure { since, source, text, prompted: None }
            }),
            // What has the terminal is better evidence, and so is its end.
            _ if view.foreground == Foreground::Other => None,
            _ => self.departure.filter(|_| self.has_departed()).map(|mut departure| {
                if departure.prompted.is_none() && self.may_be_prompt(view) {
                    departure.prompted = Some(now);
                }
                departure
            }),
        };
    }

    /// Busy, once that has held for a moment: between a line's end and the next prompt nothing is said of either. Ready again with
    /// the prompt, whatever is typed there, or with silence.
    pub(super) fn judge_departure(&self, now: TsNs, view: &View<'_>) -> Option<Verdict> {
        let Departure { since, source, text, prompted } = self.departure?;
        let timing = &self.profile.timing;
        if !self.has_departed() && now < since + timing.settle() {
            return Some(Verdict::Unknown { recheck: Some(since + timing.settle()) });
        }
        let is_back = self.has_departed() && self.is_at_prompt(view);
        if is_back && view.foreground != Foreground::Awake {
            return Some(self.at_rest(now, Source::Screen, "its prompt is back".into(), timing.settle()));
        }
        let last_output = self.last_output.max(since);
        let silent = last_output + timing.quiet();
        let idle_since = self.idle_since.unwrap_or(now).max(since);
        let believed = match view.foreground {
            Foreground::Idle => Some(idle_since + timing.quiet() * ASLEEP),
            Foreground::Unknown => prompted.map(|at| at + timing.quiet() * WRITING),
            Foreground::Awake | Foreground::Other => None,
        };
        let due = believed.map_or(silent, |believed| believed.min(silent));
        if now < due {
            return Some(Verdict::Busy { source, text: text.into(), recheck: Some(due) });
        }
        let (source, text) = match view.foreground {
            _ if now >= silent => {
                (Source::Quiet, format!("silent for {} ms", now.since(last_output).as_millis()))
            }
            Foreground::Idle => {
                let text = format!("asleep for {} ms, whoever writes", now.since(idle_since).as_millis());
                (Source::Foreground, text)
            }
            _ => {
                let ago = now.since(prompted.unwrap_or(since)).as_secs();
                let text = format!("what may be a prompt came {ago} s ago: others may write since");
                (Source::Quiet, text)
            }
        };
        Some(Verdict::Ready { source, text, hold: Duration::ZERO })
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
        self.prompt_of_line(view).is_some()
    }

    /// The cursor is behind a blank behind a text, in a program whose prompts nobody knows.
    fn may_be_prompt(&self, view: &View<'_>) -> bool {
        let before = before_cursor(view.screen);
        self.profile.prompt.is_none() && before.ends_with(' ') && !before.trim().is_empty()
    }

    /// The prompt that the cursor's line begins with, whatever is typed behind it.
    pub(super) fn prompt_of_line(&self, view: &View<'_>) -> Option<PromptEnd> {
        let row = first_row(view);
        let mut ends = row.char_indices().map(|(at, char)| at + char.len_utf8()).take(PROMPT);
        let end = ends.find(|end| self.is_prompt(&row[..*end]))?;
        Some(PromptEnd::of_line(view, &row[..end]))
    }
}
