//! Detects input that someone else entered into a line-based program: the program was ready and works again.
//!
//! The evidence is weak because a background job can also write below a prompt. Detection therefore requires a line
//! that was typed and then left behind, or a shell that keeps running below its prompt. It ends when the program falls
//! silent. Background output may never fall silent and the next prompt may look different, so it also ends after a long
//! sleep, or some time after a possible prompt.

use std::time::Duration;

use nerve_types::Foreground;
use nerve_types::TsNs;

use super::prompt_end::{PromptEnd, first_row};
use super::verdict::{Verdict, text_before_cursor};
use super::{AgentState, Driver, Source, View};

/// Longest prompt to look for before typed text, in characters.
pub(super) const MAX_PROMPT_CHARS: usize = 80;
/// A program asleep for this many quiet periods waits for a line, even if background jobs write. A program that waits
/// for its reader also sleeps, but is seen awake in between. A shell awake for as long is running a line.
const SLEEP_QUIETS: u32 = 5;
/// Limit in quiet periods after a possible prompt, for programs whose sleep and prompts are both unknown. Equal to the
/// patience for a learned prompt.
const POSSIBLE_PROMPT_QUIETS: u32 = 50;

/// A line that was entered by someone else and is being processed.
#[derive(Debug, Clone, Copy)]
pub(super) struct ForeignInput {
    since: TsNs,
    source: Source,
    text: &'static str,
    /// The line was on the screen before it was entered. Otherwise it scrolled away with the first output.
    is_seen: bool,
    /// Time at which a possible prompt was first drawn, if the program's prompts are unknown.
    possible_prompt_at: Option<TsNs>,
}

impl Driver {
    /// Detects a newly entered line, and drops an earlier one that no longer explains the state.
    pub(super) fn track_foreign_input(&mut self, now: TsNs, view: &View<'_>) {
        self.prompt_line.foreign_input = match self.state {
            AgentState::Ready => self.detect_foreign_input(now, view),
            // A foreground process is stronger evidence, and so is its end.
            _ if view.foreground == Foreground::Other => None,
            _ => self.prompt_line.foreign_input.filter(|_| self.is_busy_by_foreign_input()).map(
                |mut foreign_input| {
                    if foreign_input.possible_prompt_at.is_none() && self.is_possible_prompt(view) {
                        foreign_input.possible_prompt_at = Some(now);
                    }
                    foreign_input
                },
            ),
        };
    }

    /// Returns busy, or ready once the prompt is back or the program is silent. Undecided for a moment after a line was
    /// entered.
    pub(super) fn judge_foreign_input(&self, now: TsNs, view: &View<'_>) -> Option<Verdict> {
        let ForeignInput { since, source, text, is_seen, possible_prompt_at } =
            self.prompt_line.foreign_input?;
        let timing = &self.profile.timing;
        let certain = since + if is_seen { timing.settle() } else { timing.quiet() * SLEEP_QUIETS };
        if !self.is_busy_by_foreign_input() && now < certain {
            return Some(Verdict::Unknown { recheck: Some(certain) });
        }
        let is_back = self.is_busy_by_foreign_input() && self.is_cursor_at_prompt(view);
        if is_back && view.foreground != Foreground::Awake {
            return Some(self.ready_when_silent(
                now,
                Source::Screen,
                "the prompt is back".into(),
                timing.settle(),
            ));
        }
        let last_output = self.activity.last_output.max(since);
        let silent = last_output + timing.quiet();
        let idle_since = self.activity.idle_since.unwrap_or(now).max(since);
        let expected_end = match view.foreground {
            Foreground::Idle => Some(idle_since + timing.quiet() * SLEEP_QUIETS),
            Foreground::Unknown => possible_prompt_at.map(|at| at + timing.quiet() * POSSIBLE_PROMPT_QUIETS),
            Foreground::Awake | Foreground::Other => None,
        };
        let due = expected_end.map_or(silent, |expected_end| expected_end.min(silent));
        if now < due {
            return Some(Verdict::Busy { source, text: text.into(), recheck: Some(due) });
        }
        let (source, text) = match view.foreground {
            _ if now >= silent => {
                (Source::Quiet, format!("silent for {} ms", now.since(last_output).as_millis()))
            }
            Foreground::Idle => {
                let text =
                    format!("asleep for {} ms despite background output", now.since(idle_since).as_millis());
                (Source::Foreground, text)
            }
            _ => {
                let ago = now.since(possible_prompt_at.unwrap_or(since)).as_secs();
                let text = format!("possible prompt {ago} s ago; later output may come from the background");
                (Source::Quiet, text)
            }
        };
        Some(Verdict::Ready { source, text, hold: Duration::ZERO })
    }

    /// Returns true if nothing but foreign input explains the busy state.
    pub(super) fn is_busy_by_foreign_input(&self) -> bool {
        self.state == AgentState::Busy
            && self
                .prompt_line
                .foreign_input
                .is_some_and(|foreign_input| self.evidence.text == foreign_input.text)
    }

    fn detect_foreign_input(&self, now: TsNs, view: &View<'_>) -> Option<ForeignInput> {
        // The cursor position means nothing in a full-screen program.
        let is_line_based = self.profile.composer.is_none() && !view.screen.modes.alternate;
        // A history search replaces the prompt in the prompt's own line.
        let is_below = self.prompt_line.end.as_ref().is_some_and(|prompt| view.cursor_line > prompt.line);
        if !is_line_based || !is_below || self.is_cursor_at_prompt(view) {
            return None;
        }
        let previous = self.prompt_line.foreign_input;
        let is_seen = self.prompt_line.draft.is_some() || previous.is_some_and(|previous| previous.is_seen);
        let (source, text) = match view.foreground {
            Foreground::Awake => (Source::Foreground, "running, and the prompt is gone"),
            Foreground::Unknown if is_seen => (Source::Screen, "a line was entered, and the prompt is gone"),
            // A short sleep of a shell whose line was not seen decides nothing.
            Foreground::Idle if !is_seen && !self.has_slept(now) => return previous,
            // Asleep, or busy with another program, which was handled before.
            Foreground::Unknown | Foreground::Idle | Foreground::Other => return None,
        };
        let since = previous.map_or(now, |previous| previous.since);
        Some(ForeignInput { since, source, text, is_seen, possible_prompt_at: None })
    }

    /// Returns true if the program has been asleep for a quiet period.
    fn has_slept(&self, now: TsNs) -> bool {
        self.activity.idle_since.is_none_or(|since| now >= since + self.profile.timing.quiet())
    }

    /// Returns true if the cursor is behind a prompt or behind text typed at one.
    fn is_cursor_at_prompt(&self, view: &View<'_>) -> bool {
        if self.prompt_line.is_visible(view) {
            return true;
        }
        if self.is_prompt(&text_before_cursor(view.screen)) {
            return true;
        }
        // The prompt was redrawn after a resize or below a list of completions.
        self.find_prompt_in_line(view).is_some()
    }

    /// Returns true if the text before the cursor ends with a blank and the program's prompts are unknown.
    fn is_possible_prompt(&self, view: &View<'_>) -> bool {
        let before = text_before_cursor(view.screen);
        self.profile.prompt.is_none() && before.ends_with(' ') && !before.trim().is_empty()
    }

    /// Finds the prompt at the beginning of the cursor's line, whatever is typed behind it.
    pub(super) fn find_prompt_in_line(&self, view: &View<'_>) -> Option<PromptEnd> {
        let row = first_row(view);
        Some(PromptEnd::at_line_start(view, &row[..self.prompt_length(row)?]))
    }

    /// Returns true if the row begins with a prompt.
    pub(super) fn begins_with_prompt(&self, row: &str) -> bool {
        // Rows lack trailing blanks.
        self.prompt_length(row).is_some() || self.is_prompt(&format!("{row} "))
    }

    /// Returns the length in bytes of the prompt at the beginning of a row.
    pub(super) fn prompt_length(&self, row: &str) -> Option<usize> {
        let mut ends = row.char_indices().map(|(at, char)| at + char.len_utf8()).take(MAX_PROMPT_CHARS);
        ends.find(|end| self.is_prompt(&row[..*end]))
    }
}
