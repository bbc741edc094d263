//! Answers a dialog: moves its cursor to the choice key by key, sees it there, then presses Enter.
//!
//! Agents swallow keys that come right after a dialog was drawn, so that nobody approves by accident: a key without effect is
//! sent again. The dialog is recognised by all its text, so that a key never answers the next one.

use std::time::Duration;

use super::state::AgentState;
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
    target: usize,
    since: TsNs,
    /// The last key: when it was sent, and where the dialog's cursor stood then.
    key: Option<(TsNs, Option<usize>)>,
}

impl Driver {
    /// Picks choice `target` (0-based) of the dialog that shows `choices`. If the dialog changes meanwhile, nothing more is
    /// typed.
    ///
    /// Returns `false` if the agent does not show that dialog now.
    pub fn answer(&mut self, now: TsNs, choices: &[String], target: usize) -> bool {
        let shown = self.reading.choices.iter().map(|choice| &choice.label);
        let blocked = matches!(self.state, AgentState::Blocked { .. });
        if !blocked || target >= choices.len() || !shown.eq(choices) {
            return false;
        }
        self.answer = Some(Answer { dialog: self.reading.dialog.clone(), target, since: now, key: None });
        self.advance_answer(now);
        true
    }

    /// Leaves the dialog without choosing.
    pub fn dismiss(&mut self) {
        self.effects.push_back(Effect::Write(Key::Escape.bytes(Modes::default())));
    }

    pub(super) fn advance_answer(&mut self, now: TsNs) {
        let Some(answer) = &mut self.answer else { return };
        if self.reading.dialog != answer.dialog || now >= answer.since + ANSWER_TIME {
            self.answer = None;
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
        let key = match stands.map(|at| at.cmp(&answer.target)) {
            Some(std::cmp::Ordering::Equal) => Key::Enter,
            Some(std::cmp::Ordering::Greater) => Key::Up,
            // Where the cursor cannot be seen, it stands at the top.
            Some(std::cmp::Ordering::Less) | None => Key::Down,
        };
        answer.key = Some((now, stands));
        self.effects.push_back(Effect::Write(key.bytes(Modes::default())));
        self.wake_at(now + KEY_TIME);
    }
}
