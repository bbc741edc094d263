//! The errors of cancelled and interrupted operations. A [`CancellationToken`] signals that they must stop.

use std::time::Duration;

use nerve_api::value::NodeState;
use tokio_util::sync::CancellationToken;

use crate::error::{EngineError, ErrorKind};

/// Time within which an interrupt has to take effect.
pub const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which a turn that exceeded a budget and ignored an interrupt is interrupted again.
pub(crate) const INTERRUPT_RETRY: Duration = Duration::from_secs(3);

/// Checks that the token was not cancelled.
///
/// # Errors
/// Cancelled.
pub fn check(token: &CancellationToken) -> Result<(), EngineError> {
    if token.is_cancelled() { Err(cancelled_error()) } else { Ok(()) }
}

/// Creates the error of a cancelled operation.
pub fn cancelled_error() -> EngineError {
    EngineError::new(ErrorKind::Cancelled, "cancelled")
}

/// Creates the error of a wait for `states` that timed out after `limit`. `evidence` explains the state `now`.
pub fn wait_timeout_error(
    node: &str,
    now: NodeState,
    states: &[NodeState],
    limit: Duration,
    evidence: String,
) -> EngineError {
    let mut wanted: Vec<&str> = Vec::new();
    for state in states.iter().map(|state| state.as_str()) {
        if !wanted.contains(&state) {
            wanted.push(state);
        }
    }
    let message =
        format!("node '{node}' is still {}, not {}, after {limit:?}", now.as_str(), wanted.join(" or "));
    EngineError::timeout(message).hint(evidence)
}

/// Creates the error of an interrupt that had no effect in time.
pub(crate) fn interrupt_timeout_error(node: &str) -> EngineError {
    let message = format!("node '{node}' is still busy {INTERRUPT_TIMEOUT:?} after the interrupt");
    EngineError::timeout(message)
        .hint("interrupt it again, or wait for it with `nerve wait`; some programs ignore interrupts")
}
