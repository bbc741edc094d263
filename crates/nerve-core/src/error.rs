//! Errors of the engine, with hints.

use std::fmt;

use nerve_api::reply::RunEnded;
use serde_json::{Map, Value};

use crate::budget::Exceeded;

/// An error of the engine.
#[derive(Debug, Clone)]
pub struct EngineError {
    /// Kind of error; decides exit codes and HTTP statuses.
    pub kind: ErrorKind,
    /// Message: what failed, and why.
    pub message: String,
    /// Suggested fix.
    pub hint: Option<String>,
    /// Screen of the terminal, where that explains the error.
    pub screen: Option<String>,
    /// Choices of a blocking dialog.
    pub choices: Box<[String]>,
    /// Delivery state of the prompt: `typed`, `submitted`, `started` or `unknown`.
    pub delivery: Option<&'static str>,
    /// Details of a failed run.
    pub details: Option<Box<RunDetails>>,
}

/// Details of a failed run.
#[derive(Debug, Clone, Default)]
pub struct RunDetails {
    /// Path of the failed step.
    pub step: Option<String>,
    /// The budget that was exceeded.
    pub exceeded: Option<Exceeded>,
    /// The run as it ended.
    pub ended: Option<Box<RunEnded>>,
    /// Results of the completed steps by id.
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

/// Kinds of errors. Each has an `error_type` on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A parameter is invalid.
    InvalidRequest,
    /// The object does not exist.
    NotFound,
    /// The object already exists.
    AlreadyExists,
    /// A program failed to start, or ended unexpectedly.
    Process,
    /// The node has stopped or is stopping.
    NodeStopped,
    /// A dialog of the agent blocks the node.
    Blocked,
    /// Another turn is running, or the queue is full.
    Busy,
    /// The operation timed out.
    Timeout,
    /// The turn was interrupted.
    Interrupted,
    /// The delivery of the prompt could not be confirmed.
    Delivery,
    /// The run was cancelled.
    Cancelled,
    /// A budget was exceeded.
    Budget,
    /// A model API, or an agent, returned an error.
    Api,
    /// A model API rejected the key.
    Authentication,
    /// The key of a model API lacks permission.
    Permission,
    /// A model API limits the rate of requests.
    RateLimit,
    /// The connection to a model API failed.
    Network,
    /// A bug, or a failure of the machine.
    Internal,
}

impl ErrorKind {
    /// Returns the `error_type` on the wire.
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

    /// Returns the kind of an `error_type`; [`ErrorKind::Process`] for unknown ones.
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
    /// Creates an error.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> EngineError {
        EngineError {
            kind,
            message: message.into(),
            hint: None,
            screen: None,
            choices: Box::default(),
            delivery: None,
            details: None,
        }
    }

    /// Returns the budget that was exceeded.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        self.details.as_ref()?.exceeded.as_ref()
    }

    /// Returns the path of the failed step.
    pub fn step(&self) -> Option<&str> {
        self.details.as_ref()?.step.as_deref()
    }

    /// Returns the results of the steps completed before the run failed.
    pub fn partial(&self) -> Option<&Map<String, Value>> {
        self.details.as_ref().map(|run| &run.partial)
    }

    /// Sets the budget that was exceeded.
    #[must_use]
    pub fn with_exceeded(mut self, exceeded: Exceeded) -> EngineError {
        self.details.get_or_insert_default().exceeded = Some(exceeded);
        self
    }

    /// Sets the results of the completed steps.
    #[must_use]
    pub fn with_partial(mut self, partial: Map<String, Value>) -> EngineError {
        self.details.get_or_insert_default().partial = partial;
        self
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> EngineError {
        self.hint = Some(hint.into());
        self
    }
}
