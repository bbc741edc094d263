//! What can go wrong between a client and its server.

use std::fmt;
use std::io;
use std::path::PathBuf;

use nerve_proto::data::{ErrorData, ExceededData, RunEndedData};

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens on the socket.
    #[error("no server is running at {} ({hint})", path.display())]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// What to do about it.
        hint: &'static str,
    },
    /// The server closed the connection before it answered.
    #[error("the server closed the connection")]
    Closed,
    /// The server could not or would not do it.
    #[error(transparent)]
    Server(Box<ServerError>),
    /// The operating system said no.
    #[error("{action}: {source}")]
    Io {
        /// What was tried, and with what.
        action: String,
        /// Why not.
        source: io::Error,
    },
    /// What came is not what a nerve server sends, or what should go cannot be sent.
    #[error("{0}")]
    Protocol(String),
}

impl ClientError {
    /// The server's error, if it is one.
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            ClientError::Server(error) => Some(error),
            _ => None,
        }
    }
}

/// A failed request, as the server tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerError {
    /// What happened, to what.
    pub message: String,
    /// Which kind: `not_found_error`, `timeout`, `blocked` …; empty if the server says none.
    pub error_type: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What the terminal showed, where that explains it.
    pub screen: Option<String>,
    /// The choices of the dialog that blocks, if one does.
    pub choices: Vec<String>,
    /// How far a prompt came: `typed`, `submitted`, `started`, `unknown`.
    pub delivery: Option<String>,
    /// The budget that stopped a run.
    pub exceeded: Option<ExceededData>,
    /// The run of a graph that failed or was cancelled, with the results it has.
    pub run: Option<Box<RunEndedData>>,
}

impl ServerError {
    pub(crate) fn new(message: Option<String>, data: ErrorData) -> ServerError {
        let ErrorData { error_type, hint, screen, choices, delivery, exceeded, run } = data;
        let message = message.unwrap_or_else(|| "the server gave no reason".to_string());
        ServerError { message, error_type, hint, screen, choices, delivery, exceeded, run }
    }
}

impl std::error::Error for ServerError {}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}
