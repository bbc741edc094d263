//! Conversations of recorded agents: their turns, and their continuation in a new node from a point of the recording.

pub mod branch;
mod opencode;
pub mod turns;
