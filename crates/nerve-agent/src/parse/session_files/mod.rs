//! Session files of agents other than Claude Code, cut at a moment so that a branch can continue from there.
//!
//! The formats are undocumented and change: unreadable content is an error, never a guess.

mod gemini;
mod opencode;

pub use gemini::cut_gemini;
pub use opencode::{CutSession, NewSession, cut_opencode};

use nerve_types::TsNs;

/// Reason why a session file cannot be cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionFileError {
    /// A line is not a JSON object.
    #[error("line {line} is invalid")]
    Malformed {
        /// Line number, 1-based.
        line: usize,
    },
    /// The format is unknown.
    #[error("unknown format, possibly of a newer version of the agent")]
    Unknown,
}

/// Returns true if `ms` is after `at`. Agents record milliseconds, so the whole millisecond of `at` is included.
fn is_after(ms: i64, at: Option<TsNs>) -> bool {
    at.is_some_and(|at| i128::from(ms) > i128::from(at.0 / 1_000_000))
}
