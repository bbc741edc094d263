//! Answers a dialog: moves its cursor to the choice key by key, sees it there, then presses Enter.
//!
//! Agents swallow keys that come right after a dialog was drawn, so that nobody approves by accident: a key without effect is
//! sent again. The dialog is recognised by all its text, so that a key never answers the next one. What else is on the screen
//! while it goes (half a frame, a title that is a frame behind) means nothing until it has stood for a moment.

use std::time::Duration;

use super::observation::Says;
use super::state::{AgentState, Evidence, Source};
use super::{Driver, Effect};
use crate::event::TsNs;
use crate::keys::{Code, Key};
use crate::screen::Modes;

/// How long a dialog may take to go.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// After how long a key without effect is sent again.
const KEY_TIME: Duration = Duration::from_millis(600);

/// A dialog that has stood for a moment: what tells it from the next one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Asked {
    /// All its text; empty for something that is no dialog we know.
    text: String,
    /// What stands above it.
    context: String,
}

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Answer {
    asked: Asked,
    /// `None`: leave it.
    target: Option<usize>,
    since: TsNs,
    /// Output bytes when it was given.
    offset: u64,
    /// The last key: when it was sent, and where the dialog's cursor stood then.
    key: Option<(TsNs, Option<usize>)>,
    /// A key that ends the dialog was sent.
    entered: bool,
}

/// What one look says of a dialog that is being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// It stands there as it was.
    Same,
    /// Something else is drawn, and it may be half a frame. It will mean something at that time.
    Unclear(TsNs),
    /// It is gone.
    Gone,
    /// It is gone, and another one stands there.
    Next,
}

impl Driver {
    /// Picks choice `target` (0-based) of the dialog that shows `choices`, or leaves it with Escape. If the dialog changes
    /// meanwhile, nothing more is typed. [`Effect::Answered`] tells how it went.
    ///
    /// Returns `false` if the agent does not ask that now.
    pub fn answer(&mut self, now: TsNs, choices: &[String], target: Option<usize>) -> bool {
        let asks = matches!(&self.state, AgentState::Blocked { choices: offered, .. } if offered == choices);
        if !asks || target.is_some_and(|target| target >= choices.len()) {
            return false;
        }
        self.answer = Some(Answer {
            asked: self.asked.clone(),
            target,
            since: now,
            offset: self.offset,
            key: None,
            entered: false,
        });
        self.advance_answer(now);
        true
    }

    /// The dialog that is drawn now.
    pub(super) fn drawn_dialog(&self) -> Asked {
        Asked { text: self.reading.dialog.clone(), context: self.reading.context.clone() }
    }

    pub(super) fn advance_answer(&mut self, now: TsNs) {
        let Some(answer) = &self.answer else { return };
        let (sight, end) = (self.sight(now, answer), answer.since + ANSWER_TIME);
        if now < end {
            self.wake_at(end);
        }
        match sight {
            Sight::Same if now < end => self.press(now),
            Sight::Unclear(due) if now < end => self.wake_at(due),
            Sight::Same => self.end_answer(false),
            Sight::Gone | Sight::Next | Sight::Unclear(_) => {
                self.tell_what_follows(now);
                self.end_answer(true);
            }
        }
    }

    fn end_answer(&mut self, gone: bool) {
        self.answer = None;
        self.effects.push_back(Effect::Answered { gone });
    }

    /// What the agent does, now that the dialog is gone.
    fn tell_what_follows(&mut self, now: TsNs) {
        if !matches!(self.state, AgentState::Blocked { .. }) {
            return;
        }
        let Some(Says::Blocked(_, source, text)) = &self.reading.says else {
            // Nothing is drawn yet that says more.
            return self.set_state(now, AgentState::Busy, Source::Input, "the dialog was answered".into());
        };
        // The next dialog: whoever waits has to know, though it may look just like the first. Other choices are another
        // state, which this look has told already.
        let told = (self.evidence.at, self.evidence.offset) == (now, self.offset);
        if !told {
            self.evidence = Evidence { source: *source, text: text.clone(), offset: self.offset, at: now };
            self.effects.push_back(Effect::StateChanged);
        }
    }

    fn sight(&self, now: TsNs, answer: &Answer) -> Sight {
        // A title is a frame behind its screen: only one that came after the answer counts.
        let titled = self.busy_title > answer.offset;
        match &self.reading.says {
            Some(Says::Busy(Source::Screen, _)) => return Sight::Gone,
            Some(Says::Busy(..)) if titled => return Sight::Gone,
            _ => {}
        }
        let asks = matches!(self.reading.says, Some(Says::Blocked(..)));
        let drawn = self.drawn_dialog();
        let unknown = drawn.text.is_empty()
            && self.reading.says.is_none()
            && matches!(self.state, AgentState::Blocked { .. });
        let alike = drawn.text == answer.asked.text && (asks || unknown);
        let titled = titled && answer.entered;
        if alike && titled && self.reading.works {
            // A title can also be ahead: the dialog is about to go.
            let due = self.seen_since + self.profile.timing.quiet();
            return if now < due { Sight::Unclear(due) } else { Sight::Same };
        }
        // One that just looks like it: the agent worked meanwhile, or it stands below what the answer brought.
        let another = titled || (answer.entered && drawn.context != answer.asked.context);
        if alike && !another {
            return Sight::Same;
        }
        let due = if asks { self.drawn_by() } else { self.seen_since + self.profile.timing.settle() };
        match (now < due, asks) {
            (true, _) => Sight::Unclear(due),
            (false, true) => Sight::Next,
            (false, false) => Sight::Gone,
        }
    }

    /// Sends the next key, if the last one has shown its effect or had none.
    fn press(&mut self, now: TsNs) {
        let stands = self.reading.choices.iter().position(|choice| choice.selected);
        let settled = self.seen_since + self.profile.timing.settle();
        let Some(answer) = &mut self.answer else { return };
        let wait = match answer.key {
            Some((sent, stood)) if stood == stands && now < sent + KEY_TIME => Some(sent + KEY_TIME),
            // Half a frame: where the cursor is will be seen in a moment.
            _ if stands.is_none() && now < settled => Some(settled),
            _ => None,
        };
        if let Some(due) = wait {
            return self.wake_at(due);
        }
        let (back, on) = if self.reading.across { (Code::Left, Code::Right) } else { (Code::Up, Code::Down) };
        let key = match (answer.target, stands) {
            (None, _) => Code::Esc,
            (Some(target), Some(at)) if at == target => Code::Enter,
            (Some(target), Some(at)) if at > target => back,
            _ => on,
        };
        answer.entered |= matches!(key, Code::Esc | Code::Enter);
        answer.key = Some((now, stands));
        self.effects.push_back(Effect::Write(Key::plain(key).bytes(Modes::default())));
        self.wake_at(now + KEY_TIME);
    }
}
