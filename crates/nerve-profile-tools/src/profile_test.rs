//! Tests a profile with recordings.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nerve_agent::driver::{AgentState, RuleMatch, match_rules};
use nerve_agent::profile::{Profile, RuleState};
use nerve_record::ahr::AhrError;
use nerve_types::{Size, millis};

use crate::counts::Counts;
use crate::driver_replay::{Observation, replay};
use crate::recorded_turn::RecordedTurn;
use crate::report::{ProfileReport, RecordingReport, RuleEvidence, StateReport};
use crate::turn_check::TurnCheck;

/// Least time that a decision of the driver may take, compared with a recorded turn.
const MIN_TOLERANCE: Duration = Duration::from_secs(1);
/// Maximum number of states that a report lists for one recording.
const MAX_STATES: usize = 100_000;

/// A test of one profile with one recording after another.
#[derive(Debug)]
pub struct ProfileTest {
    profile: Arc<Profile>,
    counts: Counts,
    recordings: Vec<RecordingReport>,
}

impl ProfileTest {
    /// Starts a test without recordings.
    pub fn new(profile: Arc<Profile>) -> ProfileTest {
        let counts = Counts::new(&profile);
        ProfileTest { profile, counts, recordings: Vec::new() }
    }

    /// Replays a recording. `size`: initial size of its terminal; `turns`: its turns, if nerve logged them.
    ///
    /// # Errors
    /// The recording cannot be read, or demands too much work.
    pub fn add_recording(&mut self, path: &Path, size: Size, turns: &[RecordedTurn]) -> Result<(), AhrError> {
        let name = path.display().to_string();
        let profile = Arc::clone(&self.profile);
        let mut log = StateLog::default();
        let extent = replay(path, size, &profile, |observation| {
            let matches = match_rules(&profile, observation.screen);
            if observation.is_new_screen {
                log.screens += 1;
                log.add_turn_end(&profile, observation);
                self.counts.add(&profile, observation.screen, &matches, &name, observation.elapsed_ms);
            }
            log.add_state(&profile, observation, &matches);
        })?;
        let check = TurnCheck {
            start: extent.start,
            end_ms: millis(extent.end.since(extent.start)),
            states: &log.states,
            turns,
            turn_ends: &log.turn_ends,
            tolerance: self.profile.timing.quiet().max(MIN_TOLERANCE),
        };
        let mismatches = check.mismatches();
        self.recordings.push(RecordingReport {
            path: name,
            is_damaged: extent.is_damaged,
            screens: log.screens,
            states: log.states,
            turns: turns.len(),
            mismatches,
        });
        Ok(())
    }

    /// Returns the report of all recordings.
    pub fn finish(self) -> ProfileReport {
        let (rules, fields, overlaps) = self.counts.into_reports();
        let profile = self.profile.name.clone();
        ProfileReport { profile, recordings: self.recordings, rules, fields, overlaps }
    }
}

/// The states of a recording.
#[derive(Debug, Default)]
struct StateLog {
    states: Vec<StateReport>,
    screens: u64,
    /// The last row with the end of a turn: its line and text.
    turn_end: Option<(u64, String)>,
    /// Times at which another such row appeared, in milliseconds since the start.
    turn_ends: Vec<u64>,
}

impl StateLog {
    /// Adds the state if it has changed.
    fn add_state(&mut self, profile: &Profile, observation: &Observation<'_>, matches: &[RuleMatch]) {
        let state = observation.driver.state();
        let kind = match state {
            AgentState::Blocked { kind, .. } => Some(*kind),
            _ => None,
        };
        let name = state.as_str();
        let is_known = self.states.last().is_some_and(|last| (last.state, last.kind) == (name, kind));
        if is_known || self.states.len() >= MAX_STATES {
            return;
        }
        let evidence = observation.driver.evidence();
        let decided = matches.iter().find(|matched| is_state_of(profile.rules[matched.rule].state, state));
        self.states.push(StateReport {
            elapsed_ms: observation.elapsed_ms,
            offset: observation.offset,
            state: name,
            kind,
            source: evidence.source,
            evidence: evidence.text.clone(),
            rule: decided.map(|RuleMatch { rule, row, text }| RuleEvidence {
                rule: rule + 1,
                region: profile.rules[*rule].region.as_str(),
                row: row + 1,
                text: text.clone(),
            }),
        });
    }

    /// Records the time if another turn has ended on the screen.
    fn add_turn_end(&mut self, profile: &Profile, observation: &Observation<'_>) {
        let Some(pattern) = &profile.turn_end else { return };
        let rows = &observation.screen.rows;
        let Some(at) = rows.iter().rposition(|row| pattern.is_match(&row.text)) else { return };
        let row = (observation.screen.first_line + at as u64, rows[at].text.clone());
        if self.turn_end.as_ref() != Some(&row) {
            self.turn_end = Some(row);
            self.turn_ends.push(observation.elapsed_ms);
        }
    }
}

/// Returns true if a rule with the state `rule` leads to the driver's state.
fn is_state_of(rule: RuleState, state: &AgentState) -> bool {
    match rule {
        RuleState::Starting => matches!(state, AgentState::Starting | AgentState::Busy),
        RuleState::Busy => matches!(state, AgentState::Busy),
        RuleState::Blocked => matches!(state, AgentState::Blocked { .. }),
        RuleState::Ready => matches!(state, AgentState::Ready),
        RuleState::Suspended => matches!(state, AgentState::Suspended { .. }),
    }
}
