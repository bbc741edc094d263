//! Answers a dialog: moves its cursor to the choice key by key, sees it there, then presses Enter.
//!
//! Agents swallow keys that come right after a dialog was drawn, so that nobody approves by accident: a key without effect is
//! sent again. The dialog is recognised by all its text, so that a key never answers the next one.

use std::time::Duration;

use super::reading::Says;
use super::state::{AgentState, Evidence, Source};
use super::{Driver, Effect};
use crate::event::TsNs;
use crate::keys::Key;
use crate::screen::Modes;

/// How long a dialog may take to go.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// After how long a key without effect is sent again.
const KEY_TIME: Duration = Duration::from_millis(600);

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Answer {
    dialog: String,
    /// `None`: leave it.
    target: Option<usize>,
    since: TsNs,
    /// The last key: when it was sent, and where the dialog's cursor stood then.
    key: Option<(TsNs, Option<usize>)>,
}

impl Driver {
    /// Picks choice `target` (0-based) of the dialog that shows `choices`, or leaves it with Escape. If the dialog changes
    /// meanwhile, nothing more is typed. [`Effect::Answered`] tells how it went.
    ///
    /// Returns `false` if the agent does not show that dialog now.
    pub fn answer(&mut self, now: TsNs, choices: &[String], target: Option<usize>) -> bool {
        let shown = self.reading.choices.iter().map(|choice| &choice.label);
        let blocked = matches!(self.state, AgentState::Blocked { .. });
        if !blocked || target.is_some_and(|target| target >= choices.len()) || !shown.eq(choices) {
            return false;
        }
        self.answer = Some(Answer { dialog: self.reading.dialog.clone(), target, since: now, key: None });
        self.advance_answer(now);
        true
    }

    pub(super) fn advance_answer(&mut self, now: TsNs) {
        let Some(answer) = &mut self.answer else { return };
        let gone = self.reading.dialog != answer.dialog;
        if gone || now >= answer.since + ANSWER_TIME {
            self.answer = None;
            let asks = matches!(self.reading.says, Some(Says::Blocked(..)));
            let blocked = matches!(self.state, AgentState::Blocked { .. });
            if gone && !asks && blocked {
                // Nothing is drawn yet that says more.
                self.set_state(now, AgentState::Busy, Source::Input, "the dialog was answered".into());
            }
            self.effects.push_back(Effect::Answered { gone });
            if let (true, true, Some(Says::Blocked(_, source, text))) = (gone, blocked, &self.reading.says) {
                // The next dialog: whoever waits has to know, though it may look just like the first.
                self.evidence =
                    Evidence { source: *source, text: text.clone(), offset: self.offset, at: now };
                self.effects.push_back(Effect::StateChanged);
            }
            return;
        }
        let stands = self.reading.choices.iter().position(|choice| choice.selected);
        if let Some((sent, stood)) = answer.key
            && stood == stands
            && now < sent + KEY_TIME
        {
            let due = sent + KEY_TIME;
            return self.wake_at(due);
        }
        let key = match (answer.target, stands) {
            (None, _) => Key::Escape,
            (Some(target), Some(at)) if at == target => Key::Enter,
            (Some(target), Some(at)) if at > target => Key::Up,
            _ => Key::Down,
        };
        answer.key = Some((now, stands));
        self.effects.push_back(Effect::Write(key.bytes(Modes::default())));
        self.wake_at(now + KEY_TIME);
    }
}
