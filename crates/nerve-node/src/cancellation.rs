//! Cancellation of runs.

use tokio_util::sync::{CancellationToken as Token, WaitForCancellationFuture};

use crate::error::{EngineError, ErrorKind};

/// Signals that a run must stop. Cheap to clone: clones are the same token.
///
/// ```
/// use nerve_node::cancellation::CancellationToken;
/// let token = CancellationToken::new();
/// assert!(token.check().is_ok());
/// token.cancel();
/// assert!(token.is_cancelled() && token.check().is_err());
/// ```
#[derive(Debug, Clone, Default)]
pub struct CancellationToken {
    token: Token,
}

impl CancellationToken {
    /// Creates a token that is not cancelled.
    pub fn new() -> CancellationToken {
        CancellationToken::default()
    }

    /// Creates a token that is cancelled together with this one, but can also be cancelled alone.
    pub fn child(&self) -> CancellationToken {
        CancellationToken { token: self.token.child_token() }
    }

    /// Cancels the token. Idempotent.
    pub fn cancel(&self) {
        self.token.cancel();
    }

    /// Returns true if the token was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Checks that the token was not cancelled.
    ///
    /// # Errors
    /// Cancelled.
    pub fn check(&self) -> Result<(), EngineError> {
        if self.is_cancelled() { Err(cancelled()) } else { Ok(()) }
    }

    /// Waits until the token is cancelled; returns at once if it already is.
    pub fn wait(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }
}

/// Creates the error of a cancelled operation.
pub fn cancelled() -> EngineError {
    EngineError::new(ErrorKind::Cancelled, "cancelled")
}
