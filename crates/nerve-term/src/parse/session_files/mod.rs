//! Conversations of agents other than Claude Code, cut at a moment: what a branch of a recording goes on from.
//!
//! The formats are not documented and change: what cannot be read is an error, never a guess.

mod gemini;
mod opencode;

pub use gemini::cut_gemini;
pub use opencode::{CutSession, NewSession, cut_opencode};

use crate::event::TsNs;

/// Why a conversation cannot be cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PastError {
    /// A line is no JSON object.
    #[error("its line {line} cannot be read")]
    Malformed {
        /// 1-based.
        line: usize,
    },
    /// It is no conversation of the form that was seen so far.
    #[error("it is not of a form that is known: it may be of a newer version of the agent")]
    Unknown,
}

/// Agents tell times in milliseconds: what was written in the moment's own counts.
fn is_after(ms: i64, at: Option<TsNs>) -> bool {
    at.is_some_and(|at| i128::from(ms) > i128::from(at.0 / 1_000_000))
}
