//! What can go wrong, in words a caller can act on.

use std::fmt;

/// An error of the engine: what happened, to what, and what to do.
#[derive(Debug, Clone)]
pub struct EngineError {
    /// Which kind: decides exit codes and HTTP statuses.
    pub kind: ErrorKind,
    /// What happened, to what.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What the terminal showed, where that explains it.
    pub screen: Option<String>,
    /// The choices of the dialog that blocks, if one does.
    pub choices: Vec<String>,
    /// How far a prompt came: `typed`, `submitted`, `started` or `unknown`.
    pub delivery: Option<&'static str>,
}

impl std::error::Error for EngineError {}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Kinds of errors. The names are the `error_type` of the first nerve where it had one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A parameter is wrong.
    InvalidRequest,
    /// There is no such thing.
    NotFound,
    /// It is there already.
    AlreadyExists,
    /// The program could not be started, or ended when it should not.
    Process,
    /// The node is stopped or stops.
    NodeStopped,
    /// The node asks something first.
    Blocked,
    /// Another turn runs, or the queue is full.
    Busy,
    /// Not done in time.
    Timeout,
    /// Somebody interrupted it.
    Interrupted,
    /// The prompt could not be shown to have arrived.
    Delivery,
    /// A bug or a broken machine.
    Internal,
}

impl ErrorKind {
    /// The `error_type` on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::InvalidRequest => "invalid_request_error",
            ErrorKind::NotFound => "not_found_error",
            ErrorKind::AlreadyExists => "already_exists_error",
            ErrorKind::Process => "process_error",
            ErrorKind::NodeStopped => "node_stopped",
            ErrorKind::Blocked => "blocked",
            ErrorKind::Busy => "busy",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Interrupted => "interrupted",
            ErrorKind::Delivery => "delivery_error",
            ErrorKind::Internal => "internal_error",
        }
    }
}

impl EngineError {
    /// An error of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> EngineError {
        EngineError {
            kind,
            message: message.into(),
            hint: None,
            screen: None,
            choices: Vec::new(),
            delivery: None,
        }
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> EngineError {
        self.hint = Some(hint.into());
        self
    }
}
