//! Errors of a client.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;

use nerve_api::ErrorKind;
use nerve_api::reply::ErrorDetails;

use crate::ssh_error::SshError;

/// Error of a request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server listens on the socket. The request was not sent.
    #[error("no server is running at {} ({hint})", path.display())]
    NotRunning {
        /// Path of the socket.
        path: PathBuf,
        /// Hint on how to solve the problem.
        hint: &'static str,
    },
    /// The connection ended before the reply. [`UnansweredRequest::sent`] says whether the request may have been executed.
    #[error(transparent)]
    Closed(UnansweredRequest),
    /// The server reported an error.
    #[error(transparent)]
    Server(Box<ServerError>),
    /// The connection could not be made. The request was not sent.
    #[error("{action}: {source}")]
    Io {
        /// Description of the failed action and its object.
        action: String,
        /// The system's error.
        source: io::Error,
    },
    /// The machine or its server could not be reached through ssh. The request was not sent.
    #[error(transparent)]
    Ssh(Box<SshError>),
    /// The peer violated the protocol, or the request cannot be encoded.
    #[error("{0}")]
    Protocol(String),
}

impl ClientError {
    /// Returns the error that the server reported; `None` for other errors.
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            ClientError::Server(error) => Some(error),
            _ => None,
        }
    }

    /// Creates the error for a connection that has ended without a request.
    pub fn closed() -> ClientError {
        ClientError::Closed(UnansweredRequest::new(CLOSED_BY_SERVER, false, None))
    }

    /// Returns the id of the failed request, as used in the protocol and in the logs.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            ClientError::Closed(unanswered) => unanswered.request_id.as_deref(),
            ClientError::Server(error) => error.request_id.as_deref(),
            _ => None,
        }
    }

    /// Returns true if another attempt may succeed: the server is not running yet, or busy.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            ClientError::NotRunning { .. } | ClientError::Closed(_) => true,
            // TLS reports an untrusted certificate as invalid data.
            ClientError::Io { source, .. } => {
                !matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
            }
            ClientError::Server(error) => {
                matches!(error.details.error_type, ErrorKind::Busy | ErrorKind::RateLimit)
            }
            ClientError::Ssh(error) => error.is_transient(),
            ClientError::Protocol(_) => false,
        }
    }

    /// Copies the error for another task that waits for the same connection.
    pub(crate) fn duplicate(&self) -> ClientError {
        match self {
            ClientError::NotRunning { path, hint } => ClientError::NotRunning { path: path.clone(), hint },
            ClientError::Closed(unanswered) => ClientError::Closed(unanswered.clone()),
            ClientError::Server(error) => ClientError::Server(error.clone()),
            ClientError::Io { action, source } => ClientError::Io {
                action: action.clone(),
                source: io::Error::new(source.kind(), source.to_string()),
            },
            ClientError::Ssh(error) => ClientError::Ssh(error.clone()),
            ClientError::Protocol(problem) => ClientError::Protocol(problem.clone()),
        }
    }
}

pub(crate) const CLOSED_BY_SERVER: &str = "the server closed the connection";

/// A request whose connection ended before the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnansweredRequest {
    /// Some of the request was sent, so it may have been executed. If false, retrying is safe.
    pub sent: bool,
    /// Id of the request; `None` if there was no request.
    pub request_id: Option<String>,
    reason: Cow<'static, str>,
}

impl UnansweredRequest {
    pub(crate) fn new(
        reason: impl Into<Cow<'static, str>>,
        sent: bool,
        request_id: Option<String>,
    ) -> UnansweredRequest {
        UnansweredRequest { sent, request_id, reason: reason.into() }
    }

    /// Returns how the connection ended.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl std::error::Error for UnansweredRequest {}

impl fmt::Display for UnansweredRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if self.sent { f.write_str("; the command may still take effect") } else { Ok(()) }
    }
}

/// An error reported by the server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerError {
    /// Error message.
    pub message: String,
    /// Kind of error, hint and further details.
    pub details: ErrorDetails,
    /// Id of the failed request, if known.
    pub request_id: Option<String>,
}

impl ServerError {
    pub(crate) fn new(message: Option<String>, details: ErrorDetails) -> ServerError {
        let message = message.unwrap_or_else(|| "the server gave no reason".to_string());
        ServerError { message, details, request_id: None }
    }
}

impl std::error::Error for ServerError {}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.details.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}
