//! Converts errors of a server to errors of the engine.

use nerve_client::{ClientError, ServerError};
use nerve_node::error::EngineError;

use super::RECONNECT_HINT;

/// Converts the error of a request to a server.
pub(crate) fn engine_error(error: ClientError) -> EngineError {
    match error {
        ClientError::Server(error) => {
            let ServerError { message, details, .. } = *error;
            EngineError {
                hint: details.hint,
                screen: details.screen,
                choices: details.choices.into(),
                delivery: details.delivery,
                text: details.text.map(String::into_boxed_str),
                ..EngineError::new(details.error_type, message)
            }
        }
        ClientError::NotRunning { .. } => EngineError::not_found(error.to_string()),
        ClientError::Closed(_) => EngineError::process(error.to_string()).hint(RECONNECT_HINT),
        ClientError::Io { .. } | ClientError::Ssh(_) => EngineError::process(error.to_string()),
        ClientError::Protocol(_) => EngineError::internal(error.to_string()),
    }
}
