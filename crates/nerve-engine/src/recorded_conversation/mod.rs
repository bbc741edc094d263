//! Conversations of recorded agents: their turns, and their continuation in a new node from a point of the recording.

pub(crate) mod branch;
mod opencode;
pub(crate) mod turns;
