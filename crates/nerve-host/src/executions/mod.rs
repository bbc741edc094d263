//! Follows the executions of a session's tools: the list next to its recording ([`nerve_record::executions`]), and the hosts that run
//! them.
//!
//! | module | contents |
//! |---|---|
//! | [`follow`] | follows the list as it grows |
//! | `states` | the states of executions, from the list and the hosts that run them |
//! | [`watch`] | combines both on a thread of its own, for a viewer |
//! | [`runs`] | the successive runs under one id |

pub mod follow;
pub mod runs;
mod states;
pub mod watch;

pub use states::{ExecutionUpdate, Reader, State, UpdateBatch};
