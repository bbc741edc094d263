//! Kinds of errors.

use strum::{EnumString, IntoStaticStr, VariantNames};

/// Kinds of errors: the `error_type` of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
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
    /// The agent showed no work and no answer.
    NoAnswer,
    /// The answer is known or suspected to be incomplete.
    Incomplete,
    /// The run was cancelled.
    Cancelled,
    /// A budget was exceeded.
    #[strum(serialize = "budget_exceeded")]
    Budget,
    /// A model API, or an agent, returned an error.
    #[strum(serialize = "api_error")]
    Api,
    /// A model API rejected the key, or the server rejected the token.
    #[strum(serialize = "authentication_error")]
    Authentication,
    /// The key of a model API, or the token, lacks permission.
    #[strum(serialize = "permission_error")]
    Permission,
    /// A model API limits the rate of requests.
    #[strum(serialize = "rate_limit_error")]
    RateLimit,
    /// The connection to a model API failed.
    #[strum(serialize = "network_error")]
    Network,
    /// The server ended before an asynchronous execution.
    Lost,
    /// A bug, or a failure of the machine.
    #[strum(serialize = "internal_error")]
    Internal,
    /// A kind that this version does not know.
    #[default]
    Unknown,
}

text_value!(open ErrorKind);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_names_are_stable() {
        let names = "invalid_request_error not_found_error already_exists_error process_error node_stopped blocked busy \
                     too_large timeout interrupted delivery_error no_answer incomplete cancelled budget_exceeded \
                     api_error authentication_error permission_error rate_limit_error network_error lost internal_error";
        assert_eq!(ErrorKind::names().collect::<Vec<_>>().join(" "), names);
        assert!(ErrorKind::names().all(|name| name.parse().map(ErrorKind::as_str) == Ok(name)));
    }
}
