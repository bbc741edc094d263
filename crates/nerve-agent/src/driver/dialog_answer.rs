//! Answers a dialog: moves its cursor to the choice key by key, waits for the cursor to arrive, then presses Enter.
//!
//! Agents ignore keys pressed right after a dialog is drawn, to prevent accidental approval. A key without effect
//! is therefore sent again. It may also only be late: after a repeated key, Enter waits until no key can be on its
//! way, because that key would move the cursor before Enter arrives. A dialog is identified by its whole text, so
//! that no key ever answers the next dialog. Half-drawn frames and titles that lag behind the screen count only
//! after they have been stable for a moment.
//!
//! A dialog may follow that needs no decision, such as a request for the reason of a refusal. Enter closes it as part
//! of the answer.

use std::time::Duration;

use nerve_types::TsNs;
use nerve_vt::keys::{Code, Key};
use nerve_vt::screen::Modes;

use super::observation::Signal;
use super::state::{AgentState, Evidence, Source};
use super::{Driver, Effect};

/// Time that the dialog gets to close.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which a repeated key is no longer on its way to the agent.
const KEY_ARRIVAL: Duration = Duration::from_millis(1500);
/// Time after which Enter is sent again to a dialog that follows the answer. Long, because a late Enter could confirm the
/// next dialog.
const FOLLOW_UP_RETRY: Duration = Duration::from_secs(4);

/// The dialog on the screen and the answer to it.
#[derive(Debug, Default)]
pub(super) struct Dialogs {
    /// The dialog that blocks the agent.
    pub(super) blocking: DialogFingerprint,
    /// The answer in progress.
    pub(super) answer: Option<Answer>,
}

/// Identifies a dialog that has been stable on the screen.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct DialogFingerprint {
    /// The dialog's full text; empty for an unknown dialog.
    text: String,
    /// The text above the dialog.
    context: String,
}

/// An answer in progress.
#[derive(Debug)]
pub(super) struct Answer {
    dialog: DialogFingerprint,
    /// Index of the choice, 0-based; `None` presses Escape.
    target: Option<usize>,
    since: TsNs,
    /// Output bytes when the answer was requested.
    offset: u64,
    /// Time of the last key, and the choice that was selected then.
    last_key: Option<(TsNs, Option<usize>)>,
    /// A key that moves the cursor was sent again, and the first one may have been late.
    is_repeated: bool,
    /// Enter or Escape was sent.
    is_confirmed: bool,
    /// The time of the last Enter in a dialog that follows the answer.
    follow_up_key: Option<TsNs>,
}

/// Change of the screen since the dialog was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DialogChange {
    /// Still the same dialog.
    Unchanged,
    /// The screen has changed, possibly to half a frame. It can be judged at the given time.
    Unsettled(TsNs),
    /// The dialog is gone.
    Closed,
    /// Another dialog has replaced it.
    Replaced,
}

impl Driver {
    /// Picks choice `target` (0-based) of the dialog that offers `choices`, or closes the dialog with Escape. Stops
    /// typing if the dialog changes meanwhile. [`Effect::Answered`] reports the result.
    ///
    /// Returns `false` if the agent is not showing this dialog.
    pub fn answer(&mut self, now: TsNs, choices: &[String], target: Option<usize>) -> bool {
        let is_asking =
            matches!(&self.state, AgentState::Blocked { choices: offered, .. } if offered == choices);
        if !is_asking || target.is_some_and(|target| target >= choices.len()) {
            return false;
        }
        self.dialogs.answer = Some(Answer {
            dialog: self.dialogs.blocking.clone(),
            target,
            since: now,
            offset: self.activity.offset,
            last_key: None,
            is_repeated: false,
            is_confirmed: false,
            follow_up_key: None,
        });
        self.advance_answer(now);
        true
    }

    /// Returns the dialog that blocks the agent, or did last.
    pub fn blocking_dialog(&self) -> &DialogFingerprint {
        &self.dialogs.blocking
    }

    /// Returns the dialog on the screen.
    pub(super) fn visible_dialog(&self) -> DialogFingerprint {
        DialogFingerprint { text: self.observation.dialog.clone(), context: self.observation.context.clone() }
    }

    pub(super) fn advance_answer(&mut self, now: TsNs) {
        if self.is_confirming(now) {
            return self.confirm_follow_up(now);
        }
        let Some(answer) = &self.dialogs.answer else { return };
        let (change, end) = (self.compare_dialog(now, answer), answer.since + ANSWER_TIMEOUT);
        if now < end {
            self.wake_at(end);
        }
        match change {
            DialogChange::Unchanged if now < end => self.press_next_key(now),
            DialogChange::Unsettled(due) if now < end => self.wake_at(due),
            DialogChange::Unchanged => self.end_answer(false),
            DialogChange::Closed | DialogChange::Replaced | DialogChange::Unsettled(_) => {
                self.update_state_after_answer(now);
                self.end_answer(true);
            }
        }
    }

    /// Returns true while a dialog that follows the answer is shown.
    pub(super) fn is_confirming(&self, now: TsNs) -> bool {
        let is_in_time = |answer: &Answer| answer.is_confirmed && now < answer.since + ANSWER_TIMEOUT;
        self.observation.has_follow_up && self.dialogs.answer.as_ref().is_some_and(is_in_time)
    }

    /// Presses Enter, again if it has no effect.
    fn confirm_follow_up(&mut self, now: TsNs) {
        let visible = self.visible_dialog();
        let Some(answer) = &mut self.dialogs.answer else { return };
        answer.dialog = visible;
        let (end, last_key) = (answer.since + ANSWER_TIMEOUT, answer.follow_up_key);
        let sent = last_key.filter(|sent| now < *sent + FOLLOW_UP_RETRY).unwrap_or(now);
        answer.follow_up_key = Some(sent);
        if last_key != Some(sent) {
            self.outbox.push(Effect::Write(Key::plain(Code::Enter).bytes(Modes::default())));
        }
        self.wake_at(end.min(sent + FOLLOW_UP_RETRY));
    }

    fn end_answer(&mut self, is_closed: bool) {
        self.dialogs.answer = None;
        self.outbox.push(Effect::Answered { is_closed });
    }

    /// Updates the state after the dialog has closed.
    fn update_state_after_answer(&mut self, now: TsNs) {
        if !matches!(self.state, AgentState::Blocked { .. }) {
            return;
        }
        let Some(Signal::Blocked(_, source, text)) = &self.observation.signal else {
            // The screen shows no new state yet.
            return self.set_state(now, AgentState::Busy, Source::Input, "the dialog was answered".into());
        };
        // Report the next dialog even if it looks like the first one. Different choices are a different state, which
        // this observation has already reported.
        let already_reported = (self.evidence.at, self.evidence.offset) == (now, self.activity.offset);
        if !already_reported {
            self.evidence =
                Evidence { source: *source, text: text.clone(), offset: self.activity.offset, at: now };
            self.outbox.push(Effect::StateChanged);
        }
    }

    fn compare_dialog(&self, now: TsNs, answer: &Answer) -> DialogChange {
        // A title lags one frame behind its screen: only a title set after the answer counts.
        let busy_title_since = self.activity.busy_title_offset > answer.offset;
        match &self.observation.signal {
            Some(Signal::Busy(Source::Screen, _)) => return DialogChange::Closed,
            Some(Signal::Busy(..)) if busy_title_since => return DialogChange::Closed,
            _ => {}
        }
        let is_asking = matches!(self.observation.signal, Some(Signal::Blocked(..)));
        let visible = self.visible_dialog();
        let unknown = visible.text.is_empty()
            && self.observation.signal.is_none()
            && matches!(self.state, AgentState::Blocked { .. });
        let is_same = visible.text == answer.dialog.text && (is_asking || unknown);
        let busy_title_since = busy_title_since && answer.is_confirmed;
        if is_same && busy_title_since && self.observation.title_busy {
            // A title can also be ahead of its screen: the dialog is about to close.
            let due = self.observed_since + self.profile.timing.quiet();
            return if now < due { DialogChange::Unsettled(due) } else { DialogChange::Unchanged };
        }
        // A new dialog with the same text: the agent worked in between, or new output stands above the dialog.
        let another = busy_title_since || (answer.is_confirmed && visible.context != answer.dialog.context);
        if is_same && !another {
            return DialogChange::Unchanged;
        }
        let due = if is_asking {
            self.dialog_settled_at()
        } else {
            self.observed_since + self.profile.timing.settle()
        };
        match (now < due, is_asking) {
            (true, _) => DialogChange::Unsettled(due),
            (false, true) => DialogChange::Replaced,
            (false, false) => DialogChange::Closed,
        }
    }

    /// Sends the next key if the last one took effect or was ignored.
    fn press_next_key(&mut self, now: TsNs) {
        let selected = self.observation.choices.iter().position(|choice| choice.selected);
        let settled = self.observed_since + self.profile.timing.settle();
        let retry = self.profile.dialog.retry();
        let Some(answer) = &mut self.dialogs.answer else { return };
        let wait = match answer.last_key {
            Some((sent, previous)) if previous == selected && now < sent + retry => Some(sent + retry),
            // Half a frame: the selected choice appears in a moment.
            _ if selected.is_none() && now < settled => Some(settled),
            _ => None,
        };
        if let Some(due) = wait {
            return self.wake_at(due);
        }
        let (back, on) =
            if self.observation.is_horizontal { (Code::Left, Code::Right) } else { (Code::Up, Code::Down) };
        let key = match (answer.target, selected) {
            (None, _) => Code::Esc,
            (Some(target), Some(at)) if at == target => Code::Enter,
            (Some(target), Some(at)) if at > target => back,
            _ => on,
        };
        let arrived = answer.last_key.map(|(sent, _)| sent + KEY_ARRIVAL);
        if let Some(due) = arrived.filter(|due| key == Code::Enter && answer.is_repeated && now < *due) {
            return self.wake_at(due);
        }
        let moves_cursor = !matches!(key, Code::Esc | Code::Enter);
        answer.is_repeated |=
            moves_cursor && answer.last_key.is_some_and(|(_, previous)| previous == selected);
        answer.is_confirmed |= !moves_cursor;
        answer.last_key = Some((now, selected));
        self.outbox.push(Effect::Write(Key::plain(key).bytes(Modes::default())));
        self.wake_at(now + retry);
    }
}
