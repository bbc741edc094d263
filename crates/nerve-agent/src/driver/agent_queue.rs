//! The agent's own queue, in which a prompt waits until the agent can take it. Its user can fetch the prompt back from
//! there into the composer.

use nerve_types::TsNs;

use super::observation::{ComposerView, squeeze};
use super::state::Delivery;
use super::turn::{Outcome, QueuePlace, Turn};
use super::{Driver, View};

impl Driver {
    /// Records whether the queue is on the screen. The composer is drawn last, so without it the frame is
    /// incomplete.
    pub(super) fn track_queue(&mut self, view: &View<'_>) {
        let queue = self.profile.composer.as_ref().and_then(|composer| composer.queue.as_ref());
        let (Some(queue), Some(composer), Some(turn)) =
            (queue, &self.observation.composer, &mut self.turns.current)
        else {
            return;
        };
        let is_shown = view.screen.rows[..composer.rows.0].iter().any(|row| queue.is_match(&row.text));
        turn.queue = match turn.queue {
            _ if is_shown => QueuePlace::Waiting,
            QueuePlace::Unseen => QueuePlace::Unseen,
            QueuePlace::Waiting | QueuePlace::Left => QueuePlace::Left,
        };
    }

    /// Returns true if the prompt was queued and the agent has not begun to work on it. It leaves the queue some time
    /// before the agent shows that.
    pub(super) fn is_queued(&self) -> bool {
        let is_queued = |turn: &Turn| {
            turn.queue != QueuePlace::Unseen && turn.delivery != Delivery::Started && !turn.interrupted
        };
        self.turns.current.as_ref().is_some_and(is_queued)
    }

    /// Returns true if the prompt stands in the composer again instead of in the queue.
    pub(super) fn is_fetched_back(&self) -> bool {
        let turn = self.turns.current.as_ref().filter(|turn| turn.queue == QueuePlace::Left);
        let composer = self.observation.composer.as_ref();
        turn.zip(composer)
            .is_some_and(|(turn, composer)| self.is_queued() && has_text(composer, &turn.prompt))
    }

    /// Ends a turn whose prompt was fetched back. The draft belongs to the user now, so no later prompt replaces it.
    pub(super) fn end_fetched_back(&mut self, now: TsNs) {
        if let Some(turn) = &mut self.turns.current {
            turn.delivery = Delivery::Typed;
        }
        self.end_turn(now, Outcome::NotDelivered, Some("it was fetched back from the agent's queue"));
        self.turns.returned_prompt = None;
        // Judge again at once: the state no longer depends on the queue.
        self.wake_at(now);
    }
}

/// Returns true if the draft contains `text`: further prompts from the queue may precede or follow it.
fn has_text(composer: &ComposerView, text: &str) -> bool {
    squeeze(&composer.draft).contains(&squeeze(text))
}
