//! What can go wrong between a client and its server.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;

use nerve_api::reply::{BudgetExceeded, ErrorDetails, RunEnded};

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens on the socket. Nothing was asked.
    #[error("no server is running at {} ({hint})", path.display())]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// What to do about it.
        hint: &'static str,
    },
    /// The connection ended before the answer came. A request that changes something is never sent twice: whether it was sent at all is
    /// in here.
    #[error(transparent)]
    Closed(Unanswered),
    /// The server could not or would not do it.
    #[error(transparent)]
    Server(Box<ServerError>),
    /// The operating system, or who listens there, did not let a connection come about. Nothing was asked.
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

    /// That a connection has ended on which nothing was asked: what a stream of events ends with.
    pub fn closed() -> ClientError {
        ClientError::Closed(Unanswered::new(CLOSED_BY_SERVER, false, None))
    }

    /// The id of the request that failed, as it stands on the wire and in the logs of client and server.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            ClientError::Closed(unanswered) => unanswered.request_id.as_deref(),
            ClientError::Server(error) => error.request_id.as_deref(),
            _ => None,
        }
    }

    /// Another try may have more luck: who listens is not there yet, or has no room.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            ClientError::NotRunning { .. } | ClientError::Closed(_) => true,
            // TLS tells what it does not believe as data that are wrong.
            ClientError::Io { source, .. } => {
                !matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
            }
            ClientError::Server(error) => matches!(error.error_type.as_str(), "busy" | "rate_limit_error"),
            ClientError::Protocol(_) => false,
        }
    }

    /// The same once more, for another one who waits for the same connection.
    pub(crate) fn again(&self) -> ClientError {
        match self {
            ClientError::NotRunning { path, hint } => ClientError::NotRunning { path: path.clone(), hint },
            ClientError::Closed(unanswered) => ClientError::Closed(unanswered.clone()),
            ClientError::Server(error) => ClientError::Server(error.clone()),
            ClientError::Io { action, source } => ClientError::Io {
                action: action.clone(),
                source: io::Error::new(source.kind(), source.to_string()),
            },
            ClientError::Protocol(problem) => ClientError::Protocol(problem.clone()),
        }
    }
}

pub(crate) const CLOSED_BY_SERVER: &str = "the server closed the connection";

/// A request whose connection ended first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// Something of the request had gone out: it may have been done. If not, it was not done, and asking again is safe.
    pub sent: bool,
    /// Its id on the wire; none where nothing was asked.
    pub request_id: Option<String>,
    reason: Cow<'static, str>,
}

impl Unanswered {
    pub(crate) fn new(
        reason: impl Into<Cow<'static, str>>,
        sent: bool,
        request_id: Option<String>,
    ) -> Unanswered {
        Unanswered { sent, request_id, reason: reason.into() }
    }

    /// How the connection ended.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl std::error::Error for Unanswered {}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if self.sent { f.write_str("; what was asked may have been done") } else { Ok(()) }
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
    pub exceeded: Option<BudgetExceeded>,
    /// The run of a graph that failed or was cancelled, with the results it has.
    pub run: Option<Box<RunEnded>>,
    /// The id that the request had on the wire, where it is known which request failed.
    pub request_id: Option<String>,
}

impl ServerError {
    pub(crate) fn new(message: Option<String>, data: ErrorDetails) -> ServerError {
        let ErrorDetails { error_type, hint, screen, choices, delivery, exceeded, run } = data;
        let message = message.unwrap_or_else(|| "the server gave no reason".to_string());
        let request_id = None;
        ServerError { message, error_type, hint, screen, choices, delivery, exceeded, run, request_id }
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
