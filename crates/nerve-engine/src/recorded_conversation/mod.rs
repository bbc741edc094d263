//! Conversations of recorded agents: their turns, and how a new node continues one from a moment of the recording.

pub(crate) mod branch;
mod opencode;
pub(crate) mod turns;
