//! Session files of agents other than Claude Code, cut at a moment so that a branch can continue from there.
//!
//! The formats are undocumented and change: unreadable content is an error, never a guess.

mod gemini;
mod opencode;

pub use gemini::cut_gemini;
pub use opencode::{CutSession, NewSession, cut_opencode};
