//! Stops a run, and what runs in it (facts: agent capabilities).

use tokio_util::sync::{CancellationToken as Token, WaitForCancellationFuture};

use crate::error::{EngineError, ErrorKind};

/// Says that a run is to stop. Cheap to clone: all clones are the same token.
///
/// ```
/// use nerve_core::cancellation::CancellationToken;
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
    /// A token that is not cancelled.
    pub fn new() -> CancellationToken {
        CancellationToken::default()
    }

    /// A token that is cancelled with this one, and can be alone.
    pub fn child(&self) -> CancellationToken {
        CancellationToken { token: self.token.child_token() }
    }

    /// Cancels. A second time changes nothing.
    pub fn cancel(&self) {
        self.token.cancel();
    }

    /// Has it been cancelled?
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Goes on, unless it has been cancelled.
    ///
    /// # Errors
    /// Cancelled.
    pub fn check(&self) -> Result<(), EngineError> {
        if self.is_cancelled() { Err(cancelled()) } else { Ok(()) }
    }

    /// Ends when it is cancelled; at once if it is already.
    pub fn wait(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }
}

/// The error of what was cancelled.
pub(crate) fn cancelled() -> EngineError {
    EngineError::new(ErrorKind::Cancelled, "cancelled")
}
