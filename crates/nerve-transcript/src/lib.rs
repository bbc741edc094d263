//! The conversations that agents store on this machine, in files and databases of their own.
//!
//! | module | contents |
//! |---|---|
//! | [`session_files`] | the files of all agents: finding and writing them |
//! | [`opencode_database`] | the database of opencode and Kilo |
//! | [`source`] | the conversation of one running agent: its turns |
//! | [`transcript_tail`] | follows an agent's transcripts and reports new activities |
//! | `followed_session` | reads new entries from a conversation's files or database rows |
//! | [`recorded`] | conversations of recorded agents: their turns, and copies of them |
//!
//! These files belong to other programs: anything missing or unknown means "not known".

#![warn(missing_docs)]

pub mod opencode_database;
pub mod recorded;
pub mod session_files;
pub mod source;
pub mod transcript_tail;

mod followed_session;

pub use followed_session::Location;
pub use source::{SentPrompt, TranscriptSource};
pub use transcript_tail::TranscriptTail;
