//! Errors of nerve as errors of the protocol.

use nerve_acp_protocol::rpc_error::{INTERNAL_ERROR, RpcError};
use nerve_api::ErrorKind;
use nerve_api::reply::ResultInfo;
use nerve_client::ClientError;

use crate::config::ConnectError;

/// Creates the error of an execution that failed without a response.
pub(crate) fn from_result(result: ResultInfo) -> RpcError {
    let message = result.error.unwrap_or_else(|| format!("the turn ended as {}", result.status));
    RpcError::of_agent(result.error_type.unwrap_or(ErrorKind::Internal), message)
        .with_some("hint", result.hint)
        .with_some("screen", result.screen)
        .with_some("text", result.text)
}

/// Creates the error of a request that the nerve server rejected, or that did not reach it.
pub(crate) fn from_client(error: ClientError) -> RpcError {
    let ClientError::Server(error) = error else {
        return RpcError::new(INTERNAL_ERROR, error.to_string())
            .with("hint", "see 'nerve server status' and 'nerve server logs'");
    };
    let details = error.details;
    RpcError::of_kind(details.error_type, error.message)
        .with_some("hint", details.hint)
        .with_some("screen", details.screen)
        .with_some("text", details.text)
}

impl From<ConnectError> for RpcError {
    fn from(ConnectError { message, hint }: ConnectError) -> RpcError {
        RpcError::new(INTERNAL_ERROR, message).with_some("hint", hint)
    }
}
