//! Tests of profiles with recordings, and drafts of profiles from recordings.
//!
//! A test replays recordings through the terminal model and the driver, as a server does with live output. It reports the states that the
//! profile leads to, with their evidence, how often each rule and field matches, and the differences from the recorded turns.
//!
//! A draft describes what the screens of a recording have in common before prompts, during turns and in dialogs.
#![warn(missing_docs)]

mod counts;
mod draft;
mod driver_replay;
mod profile_test;
mod record_source;
mod recorded_turn;
mod report;
mod report_text;
mod turn_check;

pub use draft::{DraftError, DraftedNames, draft_profile};
pub use profile_test::ProfileTest;
pub use recorded_turn::{RecordedTurn, read_turns};
pub use report::{
    FieldReport, Mismatch, MismatchKind, Overlap, ProfileReport, RecordingReport, RuleEvidence, RuleReport,
    StateReport,
};
