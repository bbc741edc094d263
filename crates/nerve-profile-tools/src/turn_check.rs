//! Compares states with recorded turns: busy while a turn runs, and ready after it.

use std::time::Duration;

use nerve_types::{TsNs, millis};

use crate::recorded_turn::RecordedTurn;
use crate::report::{Mismatch, MismatchKind, StateReport};

/// The states of a recording, and the turns that they are compared with.
pub(crate) struct TurnCheck<'a> {
    /// Start of the recording.
    pub(crate) start: TsNs,
    /// End of the recording, in milliseconds since its start.
    pub(crate) end_ms: u64,
    pub(crate) states: &'a [StateReport],
    pub(crate) turns: &'a [RecordedTurn],
    /// Times of screens with a finished answer, in milliseconds since the start. They stand for turns too fast to show activity.
    pub(crate) turn_ends: &'a [u64],
    /// Time that a decision of the driver may take.
    pub(crate) tolerance: Duration,
}

impl TurnCheck<'_> {
    /// Returns the differences.
    pub(crate) fn mismatches(&self) -> Vec<Mismatch> {
        let mut mismatches = Vec::new();
        for (at, turn) in self.turns.iter().enumerate() {
            let next = self.turns.get(at + 1).map_or(self.end_ms, |next| self.elapsed(next.span.start));
            let mut add = |found: Option<(MismatchKind, u64)>| {
                mismatches.extend(found.map(|(kind, elapsed_ms)| Mismatch {
                    turn: at + 1,
                    kind,
                    elapsed_ms,
                }));
            };
            add(self.activity_mismatch(turn));
            add(self.end_mismatch(turn, next));
        }
        mismatches
    }

    fn elapsed(&self, at: TsNs) -> u64 {
        millis(at.since(self.start))
    }

    /// Compares the states during a turn.
    fn activity_mismatch(&self, turn: &RecordedTurn) -> Option<(MismatchKind, u64)> {
        // A logged time is in whole milliseconds, rounded down.
        let (start, end) = (self.elapsed(turn.span.start), self.elapsed(turn.span.end) + 1);
        let within = |at: u64| (start..=end).contains(&at);
        let at_start = self.states.iter().rposition(|state| state.elapsed_ms <= start);
        let mut during = (at_start.unwrap_or_default()..self.states.len())
            .take_while(|at| self.states[*at].elapsed_ms <= end);
        let busy = during.find(|at| is_active(&self.states[*at]));
        let Some(busy) = busy else {
            let was_ready = at_start.is_some_and(|at| self.states[at].state == "ready");
            let is_shown = was_ready && self.turn_ends.iter().any(|at| within(*at));
            return (!is_shown).then_some((MismatchKind::NotBusy, start));
        };
        let early = self.states[busy..].iter().find(|state| state.state == "ready")?;
        let is_early = early.elapsed_ms + millis(self.tolerance) < end;
        is_early.then_some((MismatchKind::ReadyEarly, early.elapsed_ms))
    }

    /// Compares the states from the end of a turn to the next one, or to the end of the recording.
    fn end_mismatch(&self, turn: &RecordedTurn, next: u64) -> Option<(MismatchKind, u64)> {
        let end = self.elapsed(turn.span.end);
        // The next prompt may follow before the replayed driver has decided.
        if !turn.is_complete || next.saturating_sub(end) < millis(self.tolerance) {
            return None;
        }
        let state_at_end = self.states.iter().rev().find(|state| state.elapsed_ms <= end);
        let later = self.states.iter().filter(|state| (end..=next).contains(&state.elapsed_ms));
        let is_ready = state_at_end.into_iter().chain(later).any(|state| state.state == "ready");
        (!is_ready).then_some((MismatchKind::NotReady, end))
    }
}

fn is_active(state: &StateReport) -> bool {
    matches!(state.state, "busy" | "blocked" | "suspended")
}

#[cfg(test)]
mod tests {
    use nerve_types::{SignalSource, TimeSpan};

    use super::*;

    fn check(
        states: &[(u64, &'static str)],
        turns: &[(u64, u64)],
        turn_ends: &[u64],
    ) -> Vec<(usize, MismatchKind)> {
        let state = |(elapsed_ms, state): &(u64, &'static str)| StateReport {
            elapsed_ms: *elapsed_ms,
            offset: 0,
            state,
            kind: None,
            source: SignalSource::Screen,
            evidence: String::new(),
            rule: None,
        };
        let at = |ms: u64| TsNs(7_000_000 + ms * 1_000_000);
        let turn = |(start, end): &(u64, u64)| RecordedTurn {
            span: TimeSpan { start: at(*start), end: at(*end) },
            is_complete: true,
        };
        let states: Vec<StateReport> = states.iter().map(state).collect();
        let turns: Vec<RecordedTurn> = turns.iter().map(turn).collect();
        let tolerance = Duration::from_millis(500);
        let check =
            TurnCheck { start: at(0), end_ms: 60_000, states: &states, turns: &turns, turn_ends, tolerance };
        check.mismatches().iter().map(|mismatch| (mismatch.turn, mismatch.kind)).collect()
    }

    #[test]
    fn busy_turns_that_end_ready_have_no_mismatch() {
        let states = [(0, "ready"), (1010, "busy"), (4990, "ready"), (6001, "blocked"), (7000, "ready")];
        assert_eq!(check(&states, &[(1000, 5000), (6000, 7000)], &[]), []);
    }

    #[test]
    fn turn_without_activity_needs_its_end_on_the_screen() {
        let states = [(0, "ready")];
        assert_eq!(check(&states, &[(1000, 5000)], &[]), [(1, MismatchKind::NotBusy)]);
        assert_eq!(check(&states, &[(1000, 5000)], &[4000]), []);
    }

    #[test]
    fn ready_long_before_the_end_is_a_mismatch() {
        let states = [(0, "ready"), (1010, "busy"), (2000, "ready"), (3000, "busy"), (4990, "ready")];
        assert_eq!(check(&states, &[(1000, 5000)], &[]), [(1, MismatchKind::ReadyEarly)]);
    }

    #[test]
    fn busy_until_the_next_turn_is_a_mismatch() {
        let states = [(0, "ready"), (1010, "busy"), (20_000, "ready")];
        assert_eq!(check(&states, &[(1000, 5000), (9000, 20_000)], &[]), [(1, MismatchKind::NotReady)]);
        // The next prompt came at once.
        assert_eq!(check(&states, &[(1000, 5000), (5100, 20_000)], &[]), []);
    }
}
