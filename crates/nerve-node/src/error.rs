//! Errors of the engine, with hints.

use std::fmt;

use nerve_api::reply::RunEnded;
use nerve_api::value::Delivery;
pub use nerve_types::ErrorKind;
use serde_json::{Map, Value};

use crate::budget::ExceededRunBudget;

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
    /// Delivery of the prompt.
    pub delivery: Option<Delivery>,
    /// The part of the answer that arrived before the turn failed.
    pub text: Option<Box<str>>,
    /// Details of a failed run.
    pub details: Option<Box<RunDetails>>,
}

/// Details of a failed run.
#[derive(Debug, Clone, Default)]
pub struct RunDetails {
    /// Path of the failed step.
    pub step: Option<String>,
    /// The budget that was exceeded.
    pub exceeded: Option<ExceededRunBudget>,
    /// The run as it ended.
    pub ended: Option<Box<RunEnded>>,
    /// Results of the completed steps by id.
    pub partial: Map<String, Value>,
    /// The budget of a node or a session asks whether to continue.
    pub is_budget_question: bool,
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

/// Converts the failure of a task: a panic, or an abort at shutdown.
impl From<tokio::task::JoinError> for EngineError {
    fn from(error: tokio::task::JoinError) -> EngineError {
        EngineError::internal(error.to_string())
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
            text: None,
            details: None,
        }
    }

    /// Creates the error of a request that cannot be carried out as it is.
    pub fn invalid_request(message: impl Into<String>) -> EngineError {
        EngineError::new(ErrorKind::InvalidRequest, message)
    }

    /// Creates the error of something that does not exist.
    pub fn not_found(message: impl Into<String>) -> EngineError {
        EngineError::new(ErrorKind::NotFound, message)
    }

    /// Creates the error of something that exists already.
    pub fn already_exists(message: impl Into<String>) -> EngineError {
        EngineError::new(ErrorKind::AlreadyExists, message)
    }

    /// Creates the error of something that is in use.
    pub fn busy(message: impl Into<String>) -> EngineError {
        EngineError::new(ErrorKind::Busy, message)
    }

    /// Creates the error of a time limit that was reached.
    pub fn timeout(message: impl Into<String>) -> EngineError {
        EngineError::new(ErrorKind::Timeout, message)
    }

    /// Creates the error of a program, file or system call that failed.
    pub fn process(message: impl Into<String>) -> EngineError {
        EngineError::new(ErrorKind::Process, message)
    }

    /// Creates the error of a defect of nerve.
    pub fn internal(message: impl Into<String>) -> EngineError {
        EngineError::new(ErrorKind::Internal, message)
    }

    /// Puts what failed before the message.
    #[must_use]
    pub fn in_context(mut self, context: impl fmt::Display) -> EngineError {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// Returns true if error policies of steps do not apply: the step was cancelled, or a budget stopped it or waits for an answer.
    pub fn is_final(&self) -> bool {
        self.is_budget_question() || matches!(self.kind, ErrorKind::Cancelled | ErrorKind::Budget)
    }

    /// Returns true if the budget of a node or its session asks whether to continue.
    pub fn is_budget_question(&self) -> bool {
        self.details.as_ref().is_some_and(|run| run.is_budget_question)
    }

    /// Returns the budget that was exceeded.
    pub fn exceeded(&self) -> Option<&ExceededRunBudget> {
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
    pub fn with_exceeded(mut self, exceeded: ExceededRunBudget) -> EngineError {
        self.details.get_or_insert_default().exceeded = Some(exceeded);
        self
    }

    /// Marks the error as the question of a budget.
    #[must_use]
    pub(crate) fn with_budget_question(mut self) -> EngineError {
        self.details.get_or_insert_default().is_budget_question = true;
        self
    }

    /// Sets the results of the completed steps.
    #[must_use]
    pub fn with_partial(mut self, partial: Map<String, Value>) -> EngineError {
        self.details.get_or_insert_default().partial = partial;
        self
    }

    /// Sets the part of the answer that arrived before the turn failed.
    #[must_use]
    pub fn with_text(mut self, text: &str) -> EngineError {
        self.text = Some(text).filter(|text| !text.is_empty()).map(Box::from);
        self
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> EngineError {
        self.hint = Some(hint.into());
        self
    }
}
