//! The life of one turn: typed, echoed, submitted, started, ended.

mod answer;
mod echo;
mod end;
mod overwrite;
mod submission;

use std::sync::Arc;

use nerve_types::TsNs;

pub use self::end::{Outcome, Span, TurnEnd};
pub use self::overwrite::Overwrite;
pub use self::submission::SubmitError;
use super::observation::{Signal, is_echo_of};
use super::state::Delivery;
use super::{Driver, View};

/// The turns of one terminal.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The running turn.
    pub(super) current: Option<Turn>,
    /// Number of turns so far.
    count: u64,
    /// A prompt that may still be in the composer because it was not delivered or was interrupted.
    pub(super) returned_prompt: Option<Arc<str>>,
}

/// A running turn.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) number: u64,
    pub(super) delivery: Delivery,
    pub(super) interrupted: bool,
    /// The screen shows the end of the answer.
    has_answer: bool,
    /// The agent's session file has the whole answer that the screen shows.
    is_written: bool,
    /// The composer was seen without the prompt after Enter was pressed.
    has_left: bool,
    pub(super) prompt: Arc<str>,
    pub(super) queue: QueuePlace,
    phase: Phase,
    started_at: TsNs,
    first_byte: u64,
    first_line: u64,
    /// The first line of a screen that a line-based program erased: its output begins there or above.
    erased_line: Option<u64>,
    overwrite: Option<Overwrite>,
    /// The prompt's row of a line-based program when the turn began, without trailing blanks.
    prompt_row: String,
    /// The end of the answer that was on the screen when Enter was pressed.
    previous_answer_end: Vec<String>,
}

/// The place of a turn's prompt relative to the agent's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum QueuePlace {
    /// The agent was not seen to queue it.
    #[default]
    Unseen,
    /// The screen shows the queue.
    Waiting,
    /// The screen no longer shows the queue.
    Left,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The driver's own old text is being removed from the composer.
    Clearing { since: TsNs },
    /// Pasted; the composer does not show the text yet.
    Typing { since: TsNs },
    /// Enter was sent; the composer still shows the text.
    Submitting { since: TsNs, enters: u32 },
    /// The agent has the prompt.
    Running,
}

impl Driver {
    /// Advances the running turn after an observation.
    pub(super) fn advance_turn(&mut self, now: TsNs, view: &View<'_>) {
        let Some(phase) = self.turns.current.as_ref().map(|turn| turn.phase) else { return };
        if let (Some(composer), Some(turn)) = (&self.observation.composer, &mut self.turns.current) {
            let is_sent = matches!(turn.phase, Phase::Submitting { .. } | Phase::Running);
            turn.has_left |= is_sent && !is_echo_of(composer, &turn.prompt);
        }
        match phase {
            Phase::Clearing { since } => self.advance_clearing(now, since, view),
            Phase::Typing { since } => self.advance_typing(now, since, view),
            Phase::Submitting { since, enters } => self.advance_submitting(now, since, enters, view),
            Phase::Running => {
                self.track_queue(view);
                self.detect_answer(now, view);
                self.advance_running(now, view);
            }
        }
    }

    /// Returns the prompt that may stand in the composer: typed but not seen to leave it.
    pub fn unsent_prompt(&self) -> Option<&str> {
        match &self.turns.current {
            Some(turn) if turn.phase == Phase::Running => None,
            Some(turn) => Some(&turn.prompt),
            None => self.turns.returned_prompt.as_deref(),
        }
    }

    /// Records the unsent prompt of an earlier driver of the terminal, which the next prompt may replace.
    pub fn on_unsent_prompt(&mut self, prompt: Arc<str>) {
        self.turns.returned_prompt = Some(prompt);
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.turns.current.as_ref().is_some_and(|turn| turn.interrupted)
    }

    /// Returns true if the agent has worked since the prompt was submitted.
    fn has_worked(&self) -> bool {
        self.shows_work() || self.hooks.has_submitted_since(self.barrier.at())
    }

    /// Returns true if the screen or the title shows that work.
    fn shows_work(&self) -> bool {
        let has_answer = self.turns.current.as_ref().is_some_and(|turn| turn.has_answer);
        let titled = self.activity.busy_title_offset > self.barrier.offset();
        let busy = matches!(self.observation.signal, Some(Signal::Busy(..)))
            && self.activity.offset > self.barrier.offset();
        has_answer || titled || busy
    }

    fn set_phase(&mut self, phase: Phase) {
        if let Some(turn) = &mut self.turns.current {
            turn.phase = phase;
        }
    }
}
