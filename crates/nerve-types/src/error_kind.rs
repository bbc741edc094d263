//! Kinds of errors.

use strum::{EnumString, IntoStaticStr, VariantArray};

/// Kinds of errors. Each has an `error_type` on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ErrorKind {
    /// A parameter is invalid.
    #[strum(serialize = "invalid_request_error")]
    InvalidRequest,
    /// The object does not exist.
    #[strum(serialize = "not_found_error")]
    NotFound,
    /// The object already exists.
    #[strum(serialize = "already_exists_error")]
    AlreadyExists,
    /// A program failed to start, or ended unexpectedly.
    #[strum(serialize = "process_error")]
    Process,
    /// The node has stopped or is stopping.
    NodeStopped,
    /// A dialog of the agent blocks the node.
    Blocked,
    /// Another turn is running, or the queue is full.
    Busy,
    /// A request or a reply exceeds a size limit.
    TooLarge,
    /// The operation timed out.
    Timeout,
    /// The turn was interrupted.
    Interrupted,
    /// The delivery of the prompt could not be confirmed.
    #[strum(serialize = "delivery_error")]
    Delivery,
    /// The run was cancelled.
    Cancelled,
    /// A budget was exceeded.
    #[strum(serialize = "budget_exceeded")]
    Budget,
    /// A model API, or an agent, returned an error.
    #[strum(serialize = "api_error")]
    Api,
    /// A model API rejected the key.
    #[strum(serialize = "authentication_error")]
    Authentication,
    /// The key of a model API lacks permission.
    #[strum(serialize = "permission_error")]
    Permission,
    /// A model API limits the rate of requests.
    #[strum(serialize = "rate_limit_error")]
    RateLimit,
    /// The connection to a model API failed.
    #[strum(serialize = "network_error")]
    Network,
    /// A bug, or a failure of the machine.
    #[strum(serialize = "internal_error")]
    Internal,
}

impl ErrorKind {
    /// Returns the `error_type` on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the kind of an `error_type`; [`ErrorKind::Process`] for unknown ones. To recognise those, use [`str::parse`].
    pub fn parse(error_type: &str) -> ErrorKind {
        error_type.parse().unwrap_or(ErrorKind::Process)
    }
}
