//! Errors of nodes that were not started.

use nerve_api::request::NodeRef;
use nerve_api::value::BackendKind;
use nerve_host::backend::SpawnError;

use crate::error::{EngineError, ErrorKind};

/// Creates the error of a program that was not started.
pub fn start_error(node: &NodeRef, error: &SpawnError) -> EngineError {
    let kind = match error {
        SpawnError::Empty | SpawnError::ZeroByte => ErrorKind::InvalidRequest,
        SpawnError::NoPane(_) => ErrorKind::NotFound,
        SpawnError::NoProgram { .. }
        | SpawnError::NotExecutable { .. }
        | SpawnError::NoDirectory(_)
        | SpawnError::Multiplexer(_)
        | SpawnError::Host(_)
        | SpawnError::System { .. } => ErrorKind::Process,
    };
    let hint = match error {
        SpawnError::NoProgram { .. } => {
            "check the spelling; `nerve doctor` lists the agents found on this machine"
        }
        SpawnError::NoDirectory(_) => "create the directory, or name another one",
        SpawnError::NoPane(_) => "`nerve tmux list` and `nerve wezterm list` show the existing panes",
        _ => "nothing was started",
    };
    EngineError::new(kind, format!("node '{}' was not started: {error}", node.node)).hint(hint)
}

/// Adds the name of the node to the reason why it was not started.
pub(super) fn not_started_error(node: &NodeRef, error: EngineError) -> EngineError {
    error.in_context(format_args!("node '{}' was not started", node.node))
}

/// Returns the error for a new pane in an engine that cannot start host processes.
pub(super) fn no_hosts_error(node: &NodeRef, backend: BackendKind) -> EngineError {
    let (node, backend) = (&node.node, backend.as_str());
    let message = format!(
        "node '{node}' was not started: a new {backend} pane needs a server, and this engine runs without one"
    );
    EngineError::invalid_request(message)
        .hint("create the node in a server (`nerve server start`), name an existing pane, or use backend pty")
}
