//! The audit log of one node's operations (seed channel-history): one JSON object a line, append only.
//!
//! [`HistoryWriter`] appends and never fails its caller; [`HistoryReader`] reads all of a history, or its end, filtered.
//!
//! ```
//! use nerve_record::history::{Filter, HistoryReader, HistoryWriter};
//! use nerve_term::event::TsNs;
//!
//! # let base = tempfile::tempdir().unwrap();
//! let mut writer = HistoryWriter::create(base.path(), "default", "claude-1").unwrap();
//! writer.log_run(TsNs(1_766_399_400_000_000_000), "claude");
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
mod stored;
mod writer;

use std::io;
use std::path::PathBuf;

pub use entry::{ResponseData, SendEntry, SendStreamEntry};
pub use reader::{Entries, Filter, HistoryReader, Page};
pub use stored::StoredEntry;
pub use writer::HistoryWriter;

use crate::name::NameError;

/// Lines of text a `read` entry holds: one or two answers with what led to them, about 5 KB (seed §5.1).
pub const HISTORY_BUFFER_LINES: usize = 50;

/// The operations that put something into a node, as opposed to those that observe it.
pub const INPUT_OPS: [&str; 4] = ["send", "send_stream", "write", "run"];

/// Why a history could not be opened or read. Appending never fails its caller.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A name that would not be safe in a path.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Nothing was ever logged for this node.
    #[error("no history for node '{node}' on server '{server}' ({} does not exist)", path.display())]
    NotFound {
        /// The node asked for.
        node: String,
        /// The server asked for.
        server: String,
        /// Where it would be.
        path: PathBuf,
    },
    /// Several sessions of the server have a node of this name and none was given.
    #[error("node '{node}' has a history in several sessions of server '{server}': {}; name one", sessions.join(", "))]
    Ambiguous {
        /// The node asked for.
        node: String,
        /// The server asked for.
        server: String,
        /// The sessions that have it, sorted.
        sessions: Vec<String>,
    },
    /// Another writer has the file; a second one would give out the same sequence numbers.
    #[error("the history {} is being written by another node or server", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A link, a folder, a pipe or a device stands where the file should be. Links are not followed.
    #[error("{} is not a regular file: a history is never written to or read from anything else", path.display())]
    NotAFile {
        /// What stands there.
        path: PathBuf,
    },
    /// The operating system said no.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}
