//! Interrupts: repeats those that may have been lost, and confirms them to agents that require a second one.

use std::time::Duration;

use nerve_types::TsNs;
use nerve_vt::screen::Screen;

use super::typeahead::Typeahead;
use super::{AgentState, Driver, Foreground};

/// Maximum number of repeats of an interrupt that may have been lost.
const MAX_REPEATS: u32 = 2;
/// Pause before an interrupt is sent again.
const RETRY: Duration = Duration::from_millis(700);

/// The interrupts that may have to be sent again.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    repeat: Option<Repeat>,
    /// Time at which the agent last received the second interrupt that it requires.
    confirmed_at: TsNs,
}

/// A pending repetition.
#[derive(Debug, Clone, Copy)]
struct Repeat {
    due: TsNs,
    remaining: u32,
}

/// The next step for an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Nothing remains to be sent.
    Done,
    /// Check again at this time.
    Wait(TsNs),
    /// Send the interrupt now, and check again at `next`.
    Send { next: TsNs },
}

impl Interrupts {
    /// Schedules the repetitions of an interrupt sent now, and returns when the first one is due.
    fn schedule_repeats(&mut self, now: TsNs) -> TsNs {
        let due = now + RETRY;
        self.repeat = Some(Repeat { due, remaining: MAX_REPEATS });
        due
    }

    /// Advances the repetitions, which end once the agent is not busy any more.
    fn repeat(&mut self, now: TsNs, is_busy: bool) -> Step {
        let Some(Repeat { due, remaining }) = self.repeat else { return Step::Done };
        if !is_busy {
            self.repeat = None;
            return Step::Done;
        }
        if now < due {
            return Step::Wait(due);
        }
        let next = now + RETRY;
        self.repeat = (remaining > 1).then_some(Repeat { due: next, remaining: remaining - 1 });
        Step::Send { next }
    }

    /// Confirms an interrupt, at most once per retry period.
    fn confirm(&mut self, now: TsNs) -> Step {
        let due = self.confirmed_at + RETRY;
        if now < due {
            return Step::Wait(due);
        }
        self.confirmed_at = now;
        Step::Send { next: now + RETRY }
    }
}

impl Driver {
    /// Interrupts the agent with the keys of its profile. A running turn ends as interrupted once the agent is ready
    /// again. A prompt not yet sent is withdrawn, and its turn ends at once. A suspension is dismissed: the next prompt
    /// may be tried. A composer in another mode (a shell mode) is cleared and leaves it.
    ///
    /// A shell that has read its line but not yet started the command loses an interrupt, so the interrupt is repeated
    /// while the shell stays busy. A foreground program gets only one, because many programs treat a second one as an
    /// order to quit at once.
    pub fn interrupt(&mut self, now: TsNs, cursor_line: u64) {
        if self.take_back_prompt(now) || self.leave_other_mode(now) {
            return;
        }
        if matches!(self.state, AgentState::Suspended { .. }) {
            self.usage_limits.dismiss();
            self.wake_at(now);
        }
        self.typeahead = Typeahead::default();
        match &mut self.turns.current {
            Some(turn) => {
                turn.interrupted = true;
                // Stop waiting for the effect of an earlier Enter.
                self.wake_at(now + Duration::from_millis(self.profile.submit.enter_ms));
            }
            None => self.expect_prompt(now, cursor_line, "an interrupt was sent"),
        }
        self.write_keys(&self.profile.interrupt.clone());
        if self.profile.foreground && self.activity.foreground != Foreground::Other {
            let due = self.interrupts.schedule_repeats(now);
            self.wake_at(due);
        }
    }

    pub(super) fn advance_interrupt(&mut self, now: TsNs, screen: &Screen) {
        let step = self.interrupts.repeat(now, self.state == AgentState::Busy);
        self.send_interrupt(step);
        if self.needs_confirmation(screen) {
            let step = self.interrupts.confirm(now);
            self.send_interrupt(step);
        }
    }

    /// Returns true if a row below the composer requests the interrupt of the turn once more.
    fn needs_confirmation(&self, screen: &Screen) -> bool {
        let (Some(pattern), Some(composer)) = (&self.profile.interrupt_again, &self.observation.composer)
        else {
            return false;
        };
        let footer = screen.rows.get(composer.rows.1..).unwrap_or_default();
        self.is_interrupted() && footer.iter().any(|row| pattern.is_match(&row.text))
    }

    fn send_interrupt(&mut self, step: Step) {
        match step {
            Step::Done => {}
            Step::Wait(due) => self.wake_at(due),
            Step::Send { next } => {
                self.write_keys(&self.profile.interrupt.clone());
                self.wake_at(next);
            }
        }
    }
}
