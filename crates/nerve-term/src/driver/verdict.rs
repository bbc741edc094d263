//! Weighs the signals of one moment.

use std::time::Duration;

use super::prompt_line::{columns, width};
use super::state::{Foreground, Source};
use super::{Driver, LimitNotice, Says, View};
use crate::driver::AgentState;
use crate::event::TsNs;
use crate::profile::BlockKind;
use crate::screen::Screen;
use crate::terminal::{Mark, MarkKind};

/// How seldom a program is looked at that starts in silence.
const SELDOM: Duration = Duration::from_secs(1);

/// What one moment's signals come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Ready, if it holds this long.
    Ready { source: Source, text: String, hold: Duration },
    /// Working; to be looked at again at `recheck` if no byte comes.
    Busy { source: Source, text: String, recheck: Option<TsNs> },
    /// Asking.
    Blocked { kind: BlockKind, source: Source, text: String },
    /// Waiting for the end of a usage limit; to be looked at again at `recheck`.
    Suspended { until: Option<TsNs>, text: String, recheck: TsNs },
    /// Nothing can be said; the state stays. `recheck` is when silence will mean something.
    Unknown { recheck: Option<TsNs> },
}

impl Driver {
    pub(super) fn judge(&self, now: TsNs, view: &View<'_>) -> Verdict {
        match &self.reading.says {
            // A line-based program's row may be output on its way, and a title can speak before its dialog is drawn.
            Some(Says::Blocked(_, source, text)) if now < self.drawn_by() => {
                let recheck = Some(self.drawn_by());
                return match self.state {
                    // Nothing must be typed into it meanwhile.
                    AgentState::Ready => Verdict::Busy { source: *source, text: text.clone(), recheck },
                    _ => Verdict::Unknown { recheck },
                };
            }
            Some(Says::Blocked(kind, source, text)) => {
                return Verdict::Blocked { kind: *kind, source: *source, text: text.clone() };
            }
            Some(Says::Suspended(notice)) => return self.judge_notice(now, notice),
            Some(Says::Busy(source, text)) => {
                return Verdict::Busy { source: *source, text: text.clone(), recheck: None };
            }
            Some(Says::Ready(text)) => {
                if self.hooks.ended(self.barrier.at) {
                    let text = format!("the agent's Stop hook; {text}");
                    return Verdict::Ready { source: Source::Hook, text, hold: Duration::ZERO };
                }
                let source = if view.screen.title.is_empty() { Source::Screen } else { Source::Title };
                return Verdict::Ready { source, text: text.clone(), hold: self.hold() };
            }
            None => {}
        }
        if self.profile.composer.is_some() { self.judge_unknown(now) } else { self.judge_line(now, view) }
    }

    /// A notice that is drawn in full: its time may stand in its last row.
    fn judge_notice(&self, now: TsNs, notice: &LimitNotice) -> Verdict {
        let Some(known) = self.limits.find(&notice.text) else {
            return Verdict::Unknown { recheck: Some(now) };
        };
        let drawn = known.since + self.profile.timing.settle();
        if now < drawn {
            return Verdict::Unknown { recheck: Some(drawn) };
        }
        Verdict::Suspended { until: known.until, text: notice.text.clone(), recheck: known.ends() }
    }

    /// When the dialog drawn now can be taken for all of it. One with choices has to stand for a moment, for a read may end in
    /// the middle of a frame; one without may be no more than a title that is ahead of its dialog, or behind.
    pub(super) fn drawn_by(&self) -> TsNs {
        let timing = &self.profile.timing;
        match (self.profile.composer.is_some(), self.reading.choices.is_empty()) {
            (true, false) => self.seen_since + timing.settle(),
            (true, true) => self.last_output + timing.settle() * 3,
            (false, _) => self.last_output + timing.quiet(),
        }
    }

    /// No composer and no dialog we know. An agent that then falls silent waits for somebody, only not for a prompt.
    fn judge_unknown(&self, now: TsNs) -> Verdict {
        if self.state == AgentState::Starting {
            return Verdict::Unknown { recheck: None };
        }
        let due = self.last_output.max(self.barrier.at) + self.profile.timing.quiet();
        if now < due {
            return Verdict::Unknown { recheck: Some(due) };
        }
        let text = "no composer is drawn, and it is silent".to_string();
        Verdict::Blocked { kind: BlockKind::Other, source: Source::Quiet, text }
    }

    /// Line-based programs: marks, foreground group, the prompt, silence.
    fn judge_line(&self, now: TsNs, view: &View<'_>) -> Verdict {
        // The end of another group, or of the program's own work, shows in no byte for sure: look again.
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
        if let Some(verdict) = self.judge_departure(now, view) {
            return verdict;
        }
        if view.foreground == Foreground::Awake {
            return Verdict::Unknown { recheck: Some(self.look_again(now)) };
        }
        let row = before_cursor(view.screen);
        if self.after_barrier(view) && self.is_prompt(&row) {
            let text = format!("prompt '{}'", row.trim());
            return self.at_rest(now, Source::Screen, text, self.hold());
        }
        self.judge_quiet(now, view)
    }

    /// When a program at work is looked at again. One that starts in silence can be at it for hours: the longer it has been, the
    /// later.
    fn look_again(&self, now: TsNs) -> TsNs {
        let least = self.profile.timing.settle();
        let silent = now.since(self.last_output.max(self.barrier.at));
        match self.state {
            AgentState::Starting => now + (silent / 2).clamp(least, SELDOM.max(least)),
            _ => now + least,
        }
    }

    /// Do the marks say enough, so that only the terminal's owner matters and not whether it sleeps?
    pub fn trusts_marks(&self) -> bool {
        let complete = self.marks.prompt.is_some() || self.marks.end.is_some();
        let telling = |mark: &Mark| matches!(mark.kind, MarkKind::CommandStart | MarkKind::OutputStart);
        complete && self.ran() && self.marks.last.as_ref().is_some_and(telling)
    }

    fn judge_marks(&self, now: TsNs, view: &View<'_>) -> Option<Verdict> {
        let mark = self.marks.last.as_ref()?;
        // A shell that marks its commands but not its prompts (somebody's PROMPT_COMMAND took the place of ours) is known by
        // other signs.
        if self.marks.prompt.is_none() && self.marks.end.is_none() {
            return None;
        }
        // A shell draws its prompt again on a resize or a redraw: only one that was begun since the input counts.
        let begun = self.marks.prompt.as_ref().is_some_and(|mark| mark.offset > self.barrier.offset);
        let fresh = begun || !self.barrier.set;
        let source = Source::Mark;
        Some(match mark.kind {
            MarkKind::CommandStart if fresh => {
                // A command leaves a mark of its own before its output. Without it this may be the prompt after something
                // typed earlier: it has to hold for a moment.
                let hold = match self.state {
                    AgentState::Starting => self.profile.timing.start(),
                    _ if self.ran() || !self.barrier.set => Duration::ZERO,
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
            // Between two marks, or an old prompt after new input: the next mark will tell, unless it was lost. An interrupt
            // makes the kernel drop output that was not read yet (termios(3), NOFLSH), marks included.
            _ if view.foreground == Foreground::Awake => {
                Verdict::Unknown { recheck: Some(now + self.profile.timing.settle()) }
            }
            _ => {
                let since = self.silent_since();
                let due = since + self.profile.timing.quiet() * 5;
                if now < due {
                    return Some(Verdict::Unknown { recheck: Some(due) });
                }
                let text = format!("idle for {} ms, and no mark came", now.since(since).as_millis());
                Verdict::Ready { source: Source::Foreground, text, hold: Duration::ZERO }
            }
        })
    }

    fn judge_quiet(&self, now: TsNs, view: &View<'_>) -> Verdict {
        let timing = &self.profile.timing;
        let silent = self.offset <= self.barrier.offset;
        let starting = self.state == AgentState::Starting;
        if self.profile.prompt.is_some() && !starting {
            // Its prompt is known and not there: it works, however silently.
            return Verdict::Unknown { recheck: None };
        }
        let patience = match (starting, self.learned_prompt.is_some()) {
            (true, _) if self.offset > 0 => 1,
            (true, _) => 4,
            // A prompt once seen that is not back. A shell gives its terminal away while something runs; of others little is
            // known, and a slow answer is likelier than a new prompt.
            (_, true) if self.profile.foreground => 5,
            (_, true) => 50,
            // No byte since the input: silence has to be longer to mean anything.
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

    fn silent_since(&self) -> TsNs {
        self.last_output.max(self.barrier.at).max(self.idle_since.unwrap_or_default())
    }

    /// Ready as soon as nothing came for `hold`.
    pub(super) fn at_rest(&self, now: TsNs, source: Source, text: String, hold: Duration) -> Verdict {
        let due = self.last_output.max(self.barrier.at) + hold;
        if now >= due {
            Verdict::Ready { source, text, hold: Duration::ZERO }
        } else {
            Verdict::Unknown { recheck: Some(due) }
        }
    }

    /// Is this a prompt the profile knows, or the one the program had when it was silent?
    pub(super) fn is_prompt(&self, row: &str) -> bool {
        self.profile.prompt.as_ref().is_some_and(|prompt| prompt.is_match(row))
            || self.learned_prompt.as_deref() == Some(row)
    }

    fn hold(&self) -> Duration {
        match self.state {
            AgentState::Starting => self.loading().unwrap_or_else(|| self.profile.timing.start()),
            _ if self.unsure() => self.profile.timing.quiet(),
            // The hook is on its way: it tells for sure. An interrupted turn has none.
            _ => self.awaits_hook().unwrap_or_else(|| self.profile.timing.settle()),
        }
    }

    /// How long a program that goes on with a conversation may show an empty one until that is believed.
    fn loading(&self) -> Option<Duration> {
        let session = self.profile.session.as_ref()?;
        (self.goes_on && self.reading.empty).then(|| session.empty_time())
    }

    fn after_barrier(&self, view: &View<'_>) -> bool {
        !self.barrier.set || (self.offset > self.barrier.offset && view.cursor_line > self.barrier.line)
    }
}

/// The cursor's row up to the cursor: where a line-based program's prompt stands.
pub(super) fn before_cursor(screen: &Screen) -> String {
    let Some(row) = screen.rows.get(screen.cursor.row as usize) else { return String::new() };
    let col = screen.cursor.col;
    let text = &row.text;
    if !columns(text, col, u16::MAX).is_empty() {
        // Text behind the cursor: somebody typed there, this is no bare prompt.
        return text.clone();
    }
    // Rows are cut at their last blank: what the cursor stands behind includes the blanks up to it.
    let blanks = usize::from(col).saturating_sub(width(text));
    format!("{text}{}", " ".repeat(blanks))
}
