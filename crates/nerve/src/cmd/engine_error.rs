//! Errors of a server as errors of the engine.

use nerve_client::ClientError;
use nerve_node::error::{EngineError, ErrorKind};

use super::RECONNECT_HINT;

/// Converts the error of a request to a server.
pub(crate) fn engine_error(error: ClientError) -> EngineError {
    match error {
        ClientError::Server(error) => EngineError {
            hint: error.hint,
            screen: error.screen,
            choices: error.choices.into(),
            delivery: error.delivery,
            text: error.text.map(String::into_boxed_str),
            ..EngineError::new(error.error_type, error.message)
        },
        ClientError::NotRunning { .. } => EngineError::new(ErrorKind::NotFound, error.to_string()),
        ClientError::Closed(_) => {
            EngineError::new(ErrorKind::Process, error.to_string()).hint(RECONNECT_HINT)
        }
        ClientError::Io { .. } => EngineError::new(ErrorKind::Process, error.to_string()),
        ClientError::Protocol(_) => EngineError::new(ErrorKind::Internal, error.to_string()),
    }
}
