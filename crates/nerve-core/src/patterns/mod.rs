//! Two agents that talk to each other until they are done (seed node-refactoring §6.12; facts: agent capabilities). Over nodes of any
//! kind; a loop keeps to the limits, the cancellation and the trace of its context, as a graph does.

pub mod debate;
pub mod dev_coach;

mod text;
mod turns;

use serde_json::{Map, Value};

use crate::error::{EngineError, ErrorKind};

/// Why a loop ended before its time, and what was said until then.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{error}")]
pub struct LoopError<T> {
    /// What went wrong.
    #[source]
    pub error: EngineError,
    /// What was said.
    pub history: Vec<T>,
}

impl<T: Spoken> From<LoopError<T>> for EngineError {
    /// What was said is the error's partial result.
    fn from(ended: LoopError<T>) -> EngineError {
        let LoopError { error, history } = ended;
        let history = history.iter().map(Spoken::to_dict).collect();
        error.with_partial(Map::from_iter([("history".to_string(), Value::Array(history))]))
    }
}

/// Something that was said in a loop.
pub trait Spoken {
    /// For machines: its fields by their names.
    fn to_dict(&self) -> Value;
}

fn invalid(problem: &str) -> EngineError {
    EngineError::new(ErrorKind::InvalidRequest, problem)
}
