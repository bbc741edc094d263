//! Reports what a node's agent does as [`Activity`](nerve_record::activity::Activity), each once and when it happens.
//!
//! Activities come only from reliable sources: the agent's own transcript, and the driver's knowledge of its state. Output is not
//! searched for words.
//!
//! | module | contents |
//! |---|---|
//! | `transcript_tail` | follows an agent's transcripts and reports new activities |
//! | [`pipe`] | writes activities as SSZ frames to a pipe, without ever blocking on its reader |

pub mod pipe;
mod transcript_tail;

pub(crate) use transcript_tail::{Location, TranscriptTail};
