//! What is kept of a node.
//!
//! Nothing here is async and nothing reads a clock: callers pass times as [`nerve_term::event::TsNs`].
//!
//! | module | what it is |
//! |---|---|
//! | [`activity`] | what an agent does, as it is told to who watches it |
//! | [`ahr`] | the format of recordings: blocks, records, reader, writer, repair (seed agent-record §5) |
//! | [`branches`] | the folders with the files of branches: what each is of, and what is only there |
//! | [`executions`] | `<stem>.executions.jsonl`: what an agent ran in a recorded session |
//! | [`export`] | a recording as a report of lines and snapshots, or as an asciicast |
//! | [`files`] | snapshots of a work tree: git commits, or copies |
//! | [`replay`] | a recording folded into a terminal |
//! | [`history`] | the JSONL audit log of one node's operations (seed channel-history) |
//! | [`import`] | an asciicast as a recording |
//! | [`index`] | where things are in a long recording |
//! | [`inspect`] | a recording block by block, with all that is wrong with it |
//! | [`meta`] | `<stem>.meta.json`: the facts of a recorded session |
//! | [`name`] | the rule for names that become parts of paths |
//! | [`playback`] | a recording being played |
//! | [`library`] | the recordings there are: list and prune |
//! | [`snapshots`] | `<stem>.snapshots.jsonl`: the snapshots of a recorded session |
//! | [`ssz`] | the recorder's wire: snapshot requests and events |
//! | [`store`] | where recordings are |
#![warn(missing_docs)]
#![warn(clippy::cast_possible_truncation)]

pub mod activity;
pub mod ahr;
pub mod branches;
pub mod executions;
pub mod export;
pub mod files;
pub mod history;
pub mod import;
pub mod index;
pub mod inspect;
pub mod library;
pub mod meta;
pub mod name;
pub mod playback;
pub mod replay;
pub mod snapshots;
pub mod ssz;
pub mod store;
