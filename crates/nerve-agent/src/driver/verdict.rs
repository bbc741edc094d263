//! Weighs the signals of one observation.

use std::time::Duration;

use nerve_types::Foreground;
use nerve_types::TsNs;
use nerve_vt::screen::Screen;
use nerve_vt::terminal::{Mark, MarkKind};

use super::columns::{columns, width};
use super::state::Source;
use super::{Driver, LimitNotice, Signal, View};
use crate::driver::AgentState;
use crate::profile::BlockKind;

/// Longest pause between checks of a program that starts silently.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time in settle times for which a dialog that may be half a frame must be stable.
const PARTIAL_FRAME: u32 = 10;

/// Number of quiet periods after which a continuation prompt counts.
const CONTINUATION_QUIETS: u32 = 5;

/// The conclusion from one observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Ready if the signals hold for `hold`.
    Ready { source: Source, text: String, hold: Duration },
    /// Working; check again at `recheck` if no output arrives.
    Busy { source: Source, text: String, recheck: Option<TsNs> },
    /// Showing a dialog.
    Blocked { kind: BlockKind, source: Source, text: String },
    /// Waiting for the end of a usage limit; check again at `recheck`.
    Suspended { until: Option<TsNs>, text: String, recheck: TsNs },
    /// Undecided; the state stays. Silence until `recheck` will decide.
    Unknown { recheck: Option<TsNs> },
}

impl Driver {
    pub(super) fn judge(&self, now: TsNs, view: &View<'_>) -> Verdict {
        match &self.observation.signal {
            Some(Signal::Blocked(..)) if self.is_confirming(now) => {
                return Verdict::Unknown { recheck: None };
            }
            // In a line-based program the row may be ordinary output. A title can also change before its dialog is
            // drawn.
            Some(Signal::Blocked(_, source, text)) if now < self.dialog_settled_at() => {
                let recheck = Some(self.dialog_settled_at());
                return match self.state {
                    // Prevents a prompt from being typed meanwhile.
                    AgentState::Ready => Verdict::Busy { source: *source, text: text.clone(), recheck },
                    _ => Verdict::Unknown { recheck },
                };
            }
            Some(Signal::Blocked(kind, source, text)) => {
                return Verdict::Blocked { kind: *kind, source: *source, text: text.clone() };
            }
            Some(Signal::Suspended(notice)) => return self.judge_notice(now, notice),
            Some(Signal::Starting(text)) => {
                return Verdict::Busy { source: Source::Screen, text: text.clone(), recheck: None };
            }
            Some(Signal::Busy(source, text)) => {
                return Verdict::Busy { source: *source, text: text.clone(), recheck: None };
            }
            Some(Signal::Ready(_)) if self.is_queued() => {
                let text = "the prompt was in the agent's queue".to_string();
                return Verdict::Busy { source: Source::Screen, text, recheck: None };
            }
            Some(Signal::Ready(text)) => {
                if self.hooks.has_stopped_since(self.barrier.at()) && !self.is_screen_stale() {
                    let text = format!("the agent's Stop hook; {text}");
                    return Verdict::Ready { source: Source::Hook, text, hold: Duration::ZERO };
                }
                let source = if view.screen.title.is_empty() { Source::Screen } else { Source::Title };
                if self.is_answer_written() {
                    let text = format!("the session file has the answer; {text}");
                    return Verdict::Ready { source, text, hold: Duration::ZERO };
                }
                return Verdict::Ready { source, text: text.clone(), hold: self.hold(view) };
            }
            None => {}
        }
        if self.profile.composer.is_some() {
            return self.judge_unknown(now);
        }
        self.await_typeahead(now, view, self.judge_line(now, view))
    }

    /// Waits until the notice is completely drawn: its last row may hold the time.
    fn judge_notice(&self, now: TsNs, notice: &LimitNotice) -> Verdict {
        let Some(seen_notice) = self.usage_limits.find(&notice.text) else {
            return Verdict::Unknown { recheck: Some(now) };
        };
        let complete_at = seen_notice.since + self.profile.timing.settle();
        if now < complete_at {
            return Verdict::Unknown { recheck: Some(complete_at) };
        }
        Verdict::Suspended {
            until: seen_notice.until,
            text: notice.text.clone(),
            recheck: seen_notice.expires_at(),
        }
    }

    /// Returns when the dialog counts as completely drawn. A dialog with a hint or a frame below its choices must be stable for a moment.
    /// Another one may be half a frame, which a busy machine shows for longer. One without choices may also be a title that is ahead of or
    /// behind its screen.
    pub(super) fn dialog_settled_at(&self) -> TsNs {
        let timing = &self.profile.timing;
        match (self.profile.composer.is_some(), self.observation.choices.is_empty()) {
            (true, false) if self.observation.may_lack_choices => {
                self.observed_since + timing.settle() * PARTIAL_FRAME
            }
            (true, false) => self.observed_since + timing.settle(),
            (true, true) => self.activity.last_output + timing.settle() * PARTIAL_FRAME,
            (false, _) => self.activity.last_output + timing.quiet(),
        }
    }

    /// Handles a screen without a composer or a known dialog. A silent agent then waits for input other than a prompt.
    fn judge_unknown(&self, now: TsNs) -> Verdict {
        if self.state == AgentState::Starting {
            return Verdict::Unknown { recheck: None };
        }
        let due = self.activity.last_output.max(self.barrier.at()) + self.profile.timing.quiet();
        if now < due {
            return Verdict::Unknown { recheck: Some(due) };
        }
        let text = "no composer, and silent".to_string();
        Verdict::Blocked { kind: BlockKind::Other, source: Source::Quiet, text }
    }

    /// Judges a line-based program by its marks, foreground group, prompt and silence.
    fn judge_line(&self, now: TsNs, view: &View<'_>) -> Verdict {
        // The end of a foreground group or of the program's own work may produce no output: check again.
        let source = Source::Foreground;
        if view.foreground == Foreground::Other {
            let text = "another process group has the terminal".to_string();
            let recheck = Some(now + self.profile.timing.quiet());
            return match self.state {
                AgentState::Starting => Verdict::Unknown { recheck },
                _ => Verdict::Busy { source, text, recheck },
            };
        }
        if let Some(verdict) = self.judge_marks(now, view) {
            return verdict;
        }
        if let Some(verdict) = self.judge_foreign_input(now, view) {
            return verdict;
        }
        if view.foreground == Foreground::Awake {
            return Verdict::Unknown { recheck: Some(self.next_check(now)) };
        }
        let row = self.prompt_candidate(view);
        if self.is_past_barrier(view) {
            if self.is_at_prompt(view) {
                let text = format!("prompt '{}'", row.trim());
                return self.ready_when_silent(now, Source::Screen, text, self.hold(view));
            }
            if self.is_at_continuation_prompt(&row) {
                return self.judge_continuation_prompt(now, &row);
            }
            let quiet = self.profile.timing.quiet();
            if !self.profile.foreground
                && self.has_distinctive_prompt()
                && let Some(end) = self.find_output_end(row)
            {
                let text = format!("a prompt behind output: '{}'", end.row.trim());
                return self.ready_when_silent(now, Source::Screen, text, quiet);
            }
        }
        self.judge_quiet(now, view)
    }

    /// Judges a program that shows a continuation prompt. Further lines may be on their way to it.
    fn judge_continuation_prompt(&self, now: TsNs, row: &str) -> Verdict {
        let due = self.activity.last_output.max(self.barrier.at())
            + self.profile.timing.quiet() * CONTINUATION_QUIETS;
        if now < due {
            return Verdict::Unknown { recheck: Some(due) };
        }
        let text = format!("the program shows a continuation prompt: '{}'", row.trim());
        Verdict::Blocked { kind: BlockKind::Other, source: Source::Screen, text }
    }

    /// Returns when to check a working program again. A program may start silently for hours, so the checks become less
    /// frequent.
    fn next_check(&self, now: TsNs) -> TsNs {
        let least = self.profile.timing.settle();
        let silent = now.since(self.activity.last_output.max(self.barrier.at()));
        match self.state {
            AgentState::Starting => now + (silent / 2).clamp(least, MAX_CHECK_INTERVAL.max(least)),
            _ => now + least,
        }
    }

    /// Returns true if the marks suffice, so that only the terminal's owner matters and not whether it sleeps.
    pub fn trusts_marks(&self) -> bool {
        let marks_prompts = self.marks.marks_prompts();
        let is_command_mark =
            |mark: &Mark| matches!(mark.kind, MarkKind::CommandStart | MarkKind::OutputStart);
        marks_prompts && self.has_command_output() && self.marks.last.as_ref().is_some_and(is_command_mark)
    }

    fn judge_marks(&self, now: TsNs, view: &View<'_>) -> Option<Verdict> {
        let mark = self.marks.last.as_ref()?;
        // A shell that marks its commands but not its prompts (a user's PROMPT_COMMAND replaced ours) is judged by
        // other signals.
        if !self.marks.marks_prompts() {
            return None;
        }
        // A shell redraws its prompt on a resize: only a prompt begun after the input counts.
        let is_new_prompt =
            self.marks.prompt.as_ref().is_some_and(|mark| mark.offset > self.barrier.offset());
        let is_current = is_new_prompt || !self.barrier.is_input();
        let source = Source::Mark;
        Some(match mark.kind {
            MarkKind::CommandStart if is_current => {
                // A command sets a mark before its output. Without one, this may be the prompt after earlier input: it
                // must hold for a moment.
                let hold = match self.state {
                    AgentState::Starting => self.profile.timing.start(),
                    _ if self.has_command_output() || !self.barrier.is_input() => Duration::ZERO,
                    _ => self.profile.timing.quiet(),
                };
                Verdict::Ready { source, text: "the shell's prompt is drawn".into(), hold }
            }
            MarkKind::Continuation => Verdict::Blocked {
                kind: BlockKind::Other,
                source,
                text: "the shell waits for the rest of a command".into(),
            },
            MarkKind::OutputStart => Verdict::Busy { source, text: "a command runs".into(), recheck: None },
            // Between two marks, or an old prompt after new input: the next mark decides unless it was lost. On an
            // interrupt the kernel drops unread output (termios(3), NOFLSH), including marks.
            _ if view.foreground == Foreground::Awake => {
                Verdict::Unknown { recheck: Some(now + self.profile.timing.settle()) }
            }
            _ => {
                let since = self.silent_since();
                let due = since + self.profile.timing.quiet() * 5;
                if now < due {
                    return Some(Verdict::Unknown { recheck: Some(due) });
                }
                let text = format!("idle for {} ms without a mark", now.since(since).as_millis());
                Verdict::Ready { source: Source::Foreground, text, hold: Duration::ZERO }
            }
        })
    }

    fn judge_quiet(&self, now: TsNs, view: &View<'_>) -> Verdict {
        let timing = &self.profile.timing;
        let silent = self.activity.offset <= self.barrier.offset();
        let starting = self.state == AgentState::Starting;
        if self.profile.prompt.is_some() && !starting {
            // The known prompt is absent: the program works, however silently.
            return Verdict::Unknown { recheck: None };
        }
        let patience = match (starting, self.prompt_line.learned.is_some()) {
            // The user may have given it another prompt, but some prompt: it is still being loaded.
            (true, _) if self.profile.prompt.is_some() && text_before_cursor(view.screen).is_empty() => 30,
            (true, _) if self.activity.offset > 0 => 1,
            (true, _) => 4,
            // A learned prompt is absent. A shell releases its terminal while something runs; for other programs a slow answer is likelier
            // than a new prompt.
            (_, true) if self.profile.foreground => 5,
            (_, true) => 50,
            // No output since the input: only a longer silence counts.
            _ if silent => 3,
            _ => 1,
        };
        let since = self.silent_since();
        let due = since + timing.quiet() * patience;
        if now < due {
            return Verdict::Unknown { recheck: Some(due) };
        }
        let source = if view.foreground == Foreground::Idle { Source::Foreground } else { Source::Quiet };
        let text = format!("no output for {} ms", now.since(since).as_millis());
        Verdict::Ready { source, text, hold: Duration::ZERO }
    }

    pub(super) fn silent_since(&self) -> TsNs {
        self.activity.last_output.max(self.barrier.at()).max(self.activity.idle_since.unwrap_or_default())
    }

    /// Returns ready once no output has arrived for `hold`.
    pub(super) fn ready_when_silent(
        &self,
        now: TsNs,
        source: Source,
        text: String,
        hold: Duration,
    ) -> Verdict {
        let due = self.activity.last_output.max(self.barrier.at()) + hold;
        if now >= due {
            Verdict::Ready { source, text, hold: Duration::ZERO }
        } else {
            Verdict::Unknown { recheck: Some(due) }
        }
    }

    /// Returns true if the row is a prompt from the profile or the learned prompt.
    pub(super) fn is_prompt(&self, row: &str) -> bool {
        self.profile.prompt.as_ref().is_some_and(|prompt| prompt.is_match(row))
            || self.prompt_line.learned.as_deref() == Some(row)
    }

    fn hold(&self, view: &View<'_>) -> Duration {
        let timing = &self.profile.timing;
        match self.state {
            AgentState::Starting if !view.screen.modes.bracketed_paste => {
                self.resume_hold().unwrap_or_default().max(timing.paste_mode())
            }
            AgentState::Starting => self.resume_hold().unwrap_or_else(|| timing.start()),
            _ if self.is_start_unconfirmed() => timing.quiet(),
            // Wait for the hook, which is certain. An interrupted turn has none.
            _ => self.hook_wait().unwrap_or_else(|| timing.settle()),
        }
    }

    /// Returns how long a resuming program may show an empty conversation before that is believed.
    fn resume_hold(&self) -> Option<Duration> {
        let session = self.profile.session.as_ref()?;
        (self.is_resuming && self.observation.conversation_empty).then(|| session.empty_time())
    }

    fn is_past_barrier(&self, view: &View<'_>) -> bool {
        self.barrier.is_passed(self.activity.offset, view.cursor_line)
    }
}

/// Returns the cursor's row up to the cursor: the place of a line-based program's prompt. The whole row if someone types behind the
/// cursor: this is no bare prompt.
pub(super) fn text_before_cursor(screen: &Screen) -> String {
    let text = screen.rows.get(screen.cursor.row as usize).map_or("", |row| row.text.as_str());
    match columns(text, screen.cursor.col, u16::MAX) {
        "" => visible_text_before_cursor(screen),
        _ => text.to_string(),
    }
}

/// Returns the cursor's row up to the cursor, whatever is behind it.
pub(super) fn visible_text_before_cursor(screen: &Screen) -> String {
    let text = screen.rows.get(screen.cursor.row as usize).map_or("", |row| row.text.as_str());
    let text = columns(text, 0, screen.cursor.col);
    // Row texts lack trailing blanks: restore those before the cursor.
    let blanks = usize::from(screen.cursor.col).saturating_sub(width(text));
    format!("{text}{}", " ".repeat(blanks))
}
