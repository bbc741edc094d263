//! Executions of tools by an agent. Each execution of a tool has an id that is the same live and in a replay, and is listed next to the
//! session's recording ([`nerve_record::executions`]).
//!
//! | module | contents |
//! |---|---|
//! | `log` | writes executions from an agent's activities to the list |
//! | [`follow`] | follows the list as it grows |
//! | `states` | the states of executions, from the list and the hosts that run them |
//! | [`watch`] | combines both on a thread of its own, for a viewer |
//! | [`runs`] | the successive runs under one id |
//! | [`trace`] | runs an agent's commands under `nerve exec`, with the ids that the agent gave them |

pub mod follow;
mod log;
pub mod runs;
mod states;
pub mod trace;
pub mod watch;

pub(crate) use log::ExecutionLog;
pub use states::{ExecutionUpdate, Reader, State, UpdateBatch};
