//! The reason why a turn ended, from its result.

use nerve_api::ErrorKind;
use nerve_api::reply::{ResultInfo, TurnResponse};
use nerve_api::value::ResultStatus;

use crate::rpc_error::RpcError;
use crate::server_error::from_result;
use crate::types::StopReason;

/// Texts in errors of agents that stand for a stop reason of the protocol.
const KNOWN_ERRORS: [(&str, StopReason); 2] =
    [("output token maximum", StopReason::MaxTokens), ("violate our Usage Policy", StopReason::Refusal)];

/// Returns the reason why a turn ended.
///
/// # Errors
/// The turn failed, or its answer is not complete.
pub(crate) fn derive_stop_reason(result: ResultInfo) -> Result<StopReason, RpcError> {
    let Some(response) = &result.response else {
        return match result.status {
            ResultStatus::Cancelled => Ok(StopReason::Cancelled),
            _ => Err(from_result(result)),
        };
    };
    if response.interrupted || result.status == ResultStatus::Cancelled {
        return Ok(StopReason::Cancelled);
    }
    if response.success {
        return Ok(StopReason::EndTurn);
    }
    let error = response.error.as_deref().unwrap_or_default();
    let known = KNOWN_ERRORS.iter().find(|(text, _)| error.contains(text));
    known.map(|(_, reason)| *reason).ok_or_else(|| build_error(response))
}

/// Creates the error of a turn that failed.
fn build_error(response: &TurnResponse) -> RpcError {
    let message = response.error.as_deref().unwrap_or("the turn failed");
    RpcError::of_agent(response.error_type.unwrap_or(ErrorKind::Internal), message)
        .with_some("hint", response.hint.clone())
        .with("text", response.text.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rpc_error::INTERNAL_ERROR;

    fn result(status: ResultStatus, response: Option<TurnResponse>) -> ResultInfo {
        ResultInfo { status, response, ..ResultInfo::default() }
    }

    fn failed(error: &str) -> Option<TurnResponse> {
        let (error, text) = (Some(error.to_string()), "partial".to_string());
        Some(TurnResponse { error, error_type: Some(ErrorKind::Api), text, ..TurnResponse::default() })
    }

    #[test]
    fn outcomes_have_stop_reasons() {
        let reason = |status, response| derive_stop_reason(result(status, response)).unwrap();
        let success = TurnResponse { success: true, ..TurnResponse::default() };
        assert_eq!(reason(ResultStatus::Done, Some(success)), StopReason::EndTurn);
        let interrupted = TurnResponse { interrupted: true, ..TurnResponse::default() };
        assert_eq!(reason(ResultStatus::Failed, Some(interrupted)), StopReason::Cancelled);
        assert_eq!(reason(ResultStatus::Cancelled, None), StopReason::Cancelled);
        let refused = "API Error: Claude Code is unable to respond to this request, which appears to violate our Usage Policy";
        assert_eq!(reason(ResultStatus::Failed, failed(refused)), StopReason::Refusal);
        let limit = "API Error: Claude's response exceeded the 32000 output token maximum.";
        assert_eq!(reason(ResultStatus::Failed, failed(limit)), StopReason::MaxTokens);
    }

    #[test]
    fn failed_turn_is_an_error_with_its_text() {
        let error = derive_stop_reason(result(ResultStatus::Failed, failed("API Error: 529"))).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (INTERNAL_ERROR, "API Error: 529"));
        assert_eq!(
            (&error.data["text"], &error.data["error_type"]),
            (&json!("partial"), &json!("api_error"))
        );
        let lost = ResultInfo { error_type: Some(ErrorKind::Lost), ..result(ResultStatus::Lost, None) };
        assert_eq!(derive_stop_reason(lost).unwrap_err().data["error_type"], "lost");
    }
}
