//! The rule for names of servers, sessions and nodes.

pub use nerve_api::DEFAULT_SESSION;
use nerve_types::name::check;

use crate::command::NodeRef;
use crate::error::EngineError;

/// Checks a name and converts the error.
pub fn check_name(name: &str, what: &'static str) -> Result<(), EngineError> {
    check(what, name).map_err(|error| EngineError::invalid_request(error.to_string()))
}

/// Returns the option that selects a session in a command, with a leading space; empty for the default session.
pub fn session_option(session: &str) -> String {
    match session {
        DEFAULT_SESSION => String::new(),
        session => format!(" --session {session}"),
    }
}

/// Returns the reference with its session filled in.
pub fn with_session(at: &NodeRef) -> NodeRef {
    let session = at.session.clone().unwrap_or_else(|| DEFAULT_SESSION.to_string());
    NodeRef { session: Some(session), node: at.node.clone() }
}

/// Returns the arguments that select a node in a command.
pub fn node_arguments(at: &NodeRef) -> String {
    format!("{}{}", at.node, session_option(at.session.as_deref().unwrap_or(DEFAULT_SESSION)))
}
