//! What can go wrong, in words a caller can act on.

use std::fmt;

use nerve_api::reply::RunEnded;
use serde_json::{Map, Value};

use crate::budget::Exceeded;

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
    pub choices: Box<[String]>,
    /// How far a prompt came: `typed`, `submitted`, `started` or `unknown`.
    pub delivery: Option<&'static str>,
    /// What an error of a run carries besides.
    pub of_run: Option<Box<OfRun>>,
}

/// What an error of a run carries besides.
#[derive(Debug, Clone, Default)]
pub struct OfRun {
    /// Path of the step that failed.
    pub step: Option<String>,
    /// The budget that stopped it.
    pub exceeded: Option<Exceeded>,
    /// The run as it ended.
    pub ended: Option<Box<RunEnded>>,
    /// What was done until then: results of its steps by id.
    pub partial: Map<String, Value>,
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
    /// The run it belongs to was cancelled.
    Cancelled,
    /// A budget is used up.
    Budget,
    /// A model's API, or an agent, answered with an error.
    Api,
    /// A model's API does not know the key.
    Authentication,
    /// A model's API knows the key, and it may not do that.
    Permission,
    /// A model's API has had too many requests.
    RateLimit,
    /// There is no connection to a model's API, or it broke.
    Network,
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
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Budget => "budget_exceeded",
            ErrorKind::Api => "api_error",
            ErrorKind::Authentication => "authentication_error",
            ErrorKind::Permission => "permission_error",
            ErrorKind::RateLimit => "rate_limit_error",
            ErrorKind::Network => "network_error",
            ErrorKind::Internal => "internal_error",
        }
    }

    /// The kind of an `error_type`; [`ErrorKind::Process`] for one that is not ours.
    pub fn parse(error_type: &str) -> ErrorKind {
        const ALL: [ErrorKind; 18] = [
            ErrorKind::InvalidRequest,
            ErrorKind::NotFound,
            ErrorKind::AlreadyExists,
            ErrorKind::Process,
            ErrorKind::NodeStopped,
            ErrorKind::Blocked,
            ErrorKind::Busy,
            ErrorKind::Timeout,
            ErrorKind::Interrupted,
            ErrorKind::Delivery,
            ErrorKind::Cancelled,
            ErrorKind::Budget,
            ErrorKind::Api,
            ErrorKind::Authentication,
            ErrorKind::Permission,
            ErrorKind::RateLimit,
            ErrorKind::Network,
            ErrorKind::Internal,
        ];
        ALL.into_iter().find(|kind| kind.as_str() == error_type).unwrap_or(ErrorKind::Process)
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
            choices: Box::default(),
            delivery: None,
            of_run: None,
        }
    }

    /// The budget that stopped a run.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        self.of_run.as_ref()?.exceeded.as_ref()
    }

    /// Path of the step that failed.
    pub fn step(&self) -> Option<&str> {
        self.of_run.as_ref()?.step.as_deref()
    }

    /// What a run had done when it failed.
    pub fn partial(&self) -> Option<&Map<String, Value>> {
        self.of_run.as_ref().map(|run| &run.partial)
    }

    /// Says which budget stopped a run.
    #[must_use]
    pub fn with_exceeded(mut self, exceeded: Exceeded) -> EngineError {
        self.of_run.get_or_insert_default().exceeded = Some(exceeded);
        self
    }

    /// Says what a run had done.
    #[must_use]
    pub fn with_partial(mut self, partial: Map<String, Value>) -> EngineError {
        self.of_run.get_or_insert_default().partial = partial;
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> EngineError {
        self.hint = Some(hint.into());
        self
    }
}
