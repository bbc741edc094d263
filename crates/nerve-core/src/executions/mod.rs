//! What an agent runs: each execution of a tool has an id that is the same live and in a replay, and is listed beside the session's
//! recording ([`nerve_record::executions`]).
//!
//! | module | what it is |
//! |---|---|
//! | `log` | what an agent's activities say of executions → lines of the list |
//! | [`follow`] | the list, as it grows |
//! | `states` | how they are, from the list and from who runs them |
//! | [`watch`] | both, on a thread of its own, for a viewer |
//! | [`runs`] | what runs under one id, one after the other |
//! | [`trace`] | an agent's commands run under `nerve exec`, with the ids that the agent gave them |

pub mod follow;
mod log;
pub mod runs;
mod states;
pub mod trace;
pub mod watch;

pub(crate) use log::Noter;
pub use states::{Changes, Reader, State, Told};
