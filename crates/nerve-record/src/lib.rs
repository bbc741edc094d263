//! Recordings of terminal sessions, and everything that is stored with them.
//!
//! Nothing in this crate is async or reads a clock: callers pass times as [`nerve_types::TsNs`].
//!
//! | module | contents |
//! |---|---|
//! | [`activity`] | agent activity as reported to observers |
//! | [`ahr`] | the recording format: blocks, records, reader, writer, repair |
//! | [`branches`] | the folders with the files of branches |
//! | [`events_pipe`] | agent activity on a pipe, for the program that started a recorder |
//! | [`executions`] | `<stem>.executions.jsonl`: tool executions of a recorded session |
//! | [`export`] | exports of a recording as a report or as an asciicast |
//! | [`files`] | snapshots of a work tree: git commits, or copies |
//! | [`history`] | the JSONL audit log of one node's operations |
//! | [`import`] | imports of asciicasts |
//! | [`index`] | keyframes and block positions of a long recording |
//! | [`inspect`] | block-by-block inspection of a recording and its damage |
//! | [`library`] | listing and removing recordings |
//! | [`lookup`] | finding recordings and sessions by name |
//! | [`meta`] | `<stem>.meta.json`: metadata of a recorded session |
//! | [`output_page`] | pages of recorded output, for clients that play a recording |
//! | [`playback`] | playing and seeking in a recording |
//! | [`recording_files`] | the state of a recording and of the files next to it |
//! | [`recording_range`] | a range of a recording's file, for a copy on another machine |
//! | [`replay`] | replay of a recording into a terminal |
//! | [`snapshots`] | `<stem>.snapshots.jsonl`: snapshots of a recorded session |
//! | [`ssz`] | the recorder's wire format: snapshot requests and events |
//! | [`store`] | the paths of recordings |
//! | [`timeline`] | an overview of a whole recording: activity, sizes, damage |
#![warn(missing_docs)]
#![warn(clippy::cast_possible_truncation)]

pub use nerve_types::activity;
pub mod ahr;
pub mod branches;
pub mod events_pipe;
pub mod executions;
pub mod export;
pub mod files;
pub mod history;
pub mod import;
pub mod index;
pub mod inspect;
pub mod library;
pub mod lookup;
pub mod meta;
mod open_sequence;
pub mod output_page;
pub mod playback;
pub mod recording_files;
pub mod recording_range;
pub mod replay;
pub mod snapshots;
pub mod ssz;
pub mod store;
pub mod timeline;
