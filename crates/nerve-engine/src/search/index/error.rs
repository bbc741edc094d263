//! Failures of the search index.

use std::fmt;

use nerve_node::error::{EngineError, ErrorKind};
use rusqlite::ErrorCode;

/// The failure of an operation on the index. Callers handle each kind differently.
#[derive(Debug)]
pub(in crate::search) enum IndexError {
    /// The index is damaged, or an older version made it. An empty one can replace it.
    Damaged(String),
    /// The index cannot grow, for example because the disk is full.
    Unwritable(rusqlite::Error),
    /// The client of the search has disconnected.
    Cancelled,
    /// Any other failure.
    Other(EngineError),
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexError::Damaged(reason) => write!(f, "the search index is damaged: {reason}"),
            IndexError::Unwritable(error) => write!(f, "the search index cannot be written: {error}"),
            IndexError::Cancelled => f.write_str("the search was cancelled: its client disconnected"),
            IndexError::Other(error) => f.write_str(&error.message),
        }
    }
}

impl From<rusqlite::Error> for IndexError {
    fn from(error: rusqlite::Error) -> IndexError {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                IndexError::Damaged(error.to_string())
            }
            Some(ErrorCode::OperationInterrupted) => IndexError::Cancelled,
            Some(ErrorCode::DiskFull | ErrorCode::ReadOnly | ErrorCode::SystemIoFailure) => {
                IndexError::Unwritable(error)
            }
            _ => IndexError::Other(EngineError::process(format!("search index: {error}"))),
        }
    }
}

impl From<EngineError> for IndexError {
    fn from(error: EngineError) -> IndexError {
        IndexError::Other(error)
    }
}

impl From<IndexError> for EngineError {
    fn from(error: IndexError) -> EngineError {
        match error {
            IndexError::Other(error) => error,
            IndexError::Cancelled => EngineError::new(ErrorKind::Cancelled, error.to_string()),
            IndexError::Damaged(_) | IndexError::Unwritable(_) => EngineError::process(error.to_string()),
        }
    }
}
