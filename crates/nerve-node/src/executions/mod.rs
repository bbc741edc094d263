//! Lists the executions of tools by an agent. Each execution of a tool has an id that is the same live and in a replay, and is listed
//! next to the session's recording ([`nerve_record::executions`]).
//!
//! | module | contents |
//! |---|---|
//! | `log` | writes executions from an agent's activities to the list |
//! | [`trace`] | runs an agent's commands under `nerve exec`, with the ids that the agent gave them |

mod log;
pub mod trace;

pub(crate) use log::ExecutionLog;
