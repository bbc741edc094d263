//! What a node's agent does, told as [`Activity`](nerve_record::activity::Activity) when it happens, each once (seed
//! agent-record §9).
//!
//! Only what is really recognised is told: what the agent writes into its own record of the conversation, and what the driver knows
//! of its state. No words are searched for in output.
//!
//! | module | what it is |
//! |---|---|
//! | [`claude`] | a line of Claude Code's transcript → activities |
//! | `line_reader` | the lines a growing file has got since the last look |
//! | `watcher` | tells when files in a folder change, folders that are still to be made included |
//! | `transcript_tail` | follows an agent's transcripts and tells what is new in them |
//! | [`pipe`] | activities as SSZ frames on a pipe, without ever waiting for its reader |

pub mod claude;
pub(crate) mod line_reader;
pub mod pipe;
mod transcript_tail;
pub(crate) mod watcher;

pub(crate) use transcript_tail::Tail;
