//! Conversations between two agents. They work with nodes of any kind, and respect the limits, the cancellation and the trace of
//! their context, as graphs do.

#![warn(missing_docs)]

pub mod debate;
pub mod dev_coach;

mod conversation;
mod text;

use serde::Serialize;
use serde_json::Map;

use nerve_node::error::EngineError;

/// An error that ended a loop, with the turns so far.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{error}")]
pub struct LoopError<T> {
    /// Cause.
    #[source]
    pub error: EngineError,
    /// Turns so far.
    pub history: Vec<T>,
}

impl<T: Serialize> From<LoopError<T>> for EngineError {
    /// Converts the turns into the partial result of the error.
    fn from(ended: LoopError<T>) -> EngineError {
        let LoopError { error, history } = ended;
        // Turns are plain data, so this cannot fail.
        let history = serde_json::to_value(history).unwrap_or_default();
        error.with_partial(Map::from_iter([("history".to_string(), history)]))
    }
}

/// Declares methods of a configuration that set one field each.
macro_rules! setters {
    ($($field:ident: $type:ty = $value:expr;)*) => {$(
        #[doc = concat!("Sets the field `", stringify!($field), "`.")]
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $value;
            self
        }
    )*};
}
use setters;
