//! The audit log of one node's operations: append-only, one JSON object per line.
//!
//! [`HistoryWriter`] appends and never fails its caller; [`HistoryReader`] reads a history or its end, with filters.
//!
//! ```
//! use nerve_record::history::{Filter, HistoryReader, HistoryWriter, Operation};
//! use nerve_types::TsNs;
//!
//! # let base = tempfile::tempdir().unwrap();
//! let mut writer = HistoryWriter::create(base.path(), "default", "claude-1").unwrap();
//! writer.log(&Operation::Run { ts: TsNs(1_766_399_400_000_000_000), input: "claude" });
//! writer.close();
//!
//! let reader = HistoryReader::open(base.path(), "default", "claude-1").unwrap();
//! let page = reader.query(&Filter { last: Some(10), ..Filter::default() }).unwrap();
//! assert_eq!(
//!     page.entries,
//!     [r#"{"seq": 1, "op": "run", "ts": "2025-12-22T10:30:00.000Z", "input": "claude"}"#]
//! );
//! ```

mod entry;
mod lines;
mod path;
mod reader;
mod stored_entry;
mod writer;

use std::io;
use std::path::PathBuf;

pub use entry::{LoggedUsage, Operation, RequestedBy, ResponseData, SendEntry, SendStreamEntry};
pub use reader::{Entries, Filter, HistoryReader, Page};
pub use stored_entry::StoredEntry;
pub use writer::HistoryWriter;

use nerve_types::name::NameError;

/// Lines of text in a `read` entry: one or two answers with their context, about 5 KB.
pub const HISTORY_BUFFER_LINES: usize = 50;

/// An error in opening or reading a history. Appending never fails its caller.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A name that is unsafe in a path.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The node has no history.
    #[error("no history for node '{node}' on server '{server}' ({} does not exist)", path.display())]
    NotFound {
        /// The node.
        node: String,
        /// The server.
        server: String,
        /// The expected path.
        path: PathBuf,
    },
    /// Several sessions of the server have a node of this name.
    #[error("node '{node}' has a history in several sessions of server '{server}': {}; name one", sessions.join(", "))]
    Ambiguous {
        /// The node.
        node: String,
        /// The server.
        server: String,
        /// The sessions with this node, sorted.
        sessions: Vec<String>,
    },
    /// Another writer holds the lock. Two writers would assign the same sequence numbers.
    #[error("the history {} is being written by another node or server", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The path is a link, folder, pipe or device. Links are not followed.
    #[error("{} is not a regular file: a history is never written to or read from anything else", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// An I/O error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
