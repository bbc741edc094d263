//! The rule for names of servers, sessions and nodes.

use nerve_types::name::check;

use crate::error::EngineError;

/// Checks a name and converts the error.
pub fn check_name(name: &str, what: &'static str) -> Result<(), EngineError> {
    check(what, name).map_err(|error| EngineError::invalid_request(error.to_string()))
}
