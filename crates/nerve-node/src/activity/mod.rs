//! Reports what a node's agent does as [`Activity`](nerve_record::activity::Activity), each once and when it happens.
//!
//! Activities come only from reliable sources: the agent's own transcript, and the driver's knowledge of its state. Output is not
//! searched for words.
//!
//! | module | contents |
//! |---|---|
//! | `transcript_tail` | follows an agent's transcripts and reports new activities |
//! | `followed_session` | reads new entries from a conversation's files or database rows |

mod followed_session;
mod transcript_tail;

pub use followed_session::Location;
pub use followed_session::subagents_folder;
pub(crate) use transcript_tail::TranscriptTail;
