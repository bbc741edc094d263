//! The report of a test.

use nerve_types::{BlockKind, SignalSource};
use serde::Serialize;

/// The report of a profile's test with recordings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileReport {
    /// Name of the profile.
    pub profile: String,
    /// The replayed recordings, in the order of their test.
    pub recordings: Vec<RecordingReport>,
    /// All rules of the profile.
    pub rules: Vec<RuleReport>,
    /// All fields with patterns that the profile sets.
    pub fields: Vec<FieldReport>,
    /// Pairs of rules with different states that match the same screen.
    pub overlaps: Vec<Overlap>,
}

impl ProfileReport {
    /// Returns true if the states of any recording differ from its turns.
    pub fn has_mismatches(&self) -> bool {
        self.recordings.iter().any(|recording| !recording.mismatches.is_empty())
    }
}

/// The states of one recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordingReport {
    /// The file.
    pub path: String,
    /// Parts of the file are lost.
    pub is_damaged: bool,
    /// Number of different screens in succession.
    pub screens: u64,
    /// The states in the order of their time.
    pub states: Vec<StateReport>,
    /// Number of recorded turns with which the states were compared.
    pub turns: usize,
    /// Differences from these turns.
    pub mismatches: Vec<Mismatch>,
}

/// A change of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateReport {
    /// Time since the start of the recording, in milliseconds.
    pub elapsed_ms: u64,
    /// Bytes of output so far.
    pub offset: u64,
    /// `starting`, `ready`, `busy`, `blocked`, `suspended` or `exited`.
    pub state: &'static str,
    /// Kind of the dialog of a blocked program.
    pub kind: Option<BlockKind>,
    /// The signal that decided.
    pub source: SignalSource,
    /// The signal in words.
    pub evidence: String,
    /// The rule that decided, if one did.
    pub rule: Option<RuleEvidence>,
}

/// The rule that leads to a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleEvidence {
    /// Number of the rule, from 1.
    pub rule: usize,
    /// Its region.
    pub region: &'static str,
    /// Number of the row on the screen, from 1.
    pub row: usize,
    /// The row.
    pub text: String,
}

/// How often a rule matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleReport {
    /// Number of the rule, from 1.
    pub rule: usize,
    /// Its state.
    pub state: &'static str,
    /// Its region.
    pub region: &'static str,
    /// Its pattern.
    pub pattern: String,
    /// Number of screens that it matched.
    pub screens: u64,
    /// Number of screens that it matched as the first of all rules.
    pub decided: u64,
}

/// How often a field matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldReport {
    /// Name of the field.
    pub field: &'static str,
    /// Number of screens that have what it describes.
    pub screens: u64,
}

/// Two rules with different states that match the same screens. The first one decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overlap {
    /// Numbers of the rules, from 1.
    pub rules: [usize; 2],
    /// Their states.
    pub states: [&'static str; 2],
    /// The rows of the first such screen.
    pub rows: [String; 2],
    /// The recording of that screen.
    pub path: String,
    /// Its time since the start of the recording, in milliseconds.
    pub elapsed_ms: u64,
    /// Number of such screens.
    pub screens: u64,
}

/// A difference between the states and a recorded turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// Number of the turn in the recording, from 1.
    pub turn: usize,
    /// The difference.
    pub kind: MismatchKind,
    /// Its time since the start of the recording, in milliseconds.
    pub elapsed_ms: u64,
}

/// Kinds of differences from a recorded turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MismatchKind {
    /// The program was not busy, blocked or suspended at any time during the turn.
    NotBusy,
    /// The program seemed ready before the end of the turn.
    ReadyEarly,
    /// The program was not ready after the turn.
    NotReady,
}

impl MismatchKind {
    /// Describes the difference.
    pub fn text(self) -> &'static str {
        match self {
            MismatchKind::NotBusy => "never busy during the turn",
            MismatchKind::ReadyEarly => "ready before the turn ended",
            MismatchKind::NotReady => "not ready after the turn",
        }
    }
}
