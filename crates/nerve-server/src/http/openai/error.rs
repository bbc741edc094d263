//! Errors in the format of OpenAI's API.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use nerve_api::ErrorKind;
use nerve_api::request::NodeRef;

use super::types::{ErrorBody, ErrorFacts, ErrorObject};
use crate::http::problem::Problem;

/// Tells OpenAI's clients whether to repeat a request by themselves. By default they repeat one that got 409, 429 or 5xx, and the
/// agent would get its prompt twice.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// Time after which a client may repeat a request that was refused at once, in seconds.
const RETRY_AFTER: &str = "5";

/// An error response.
#[derive(Debug)]
pub(in crate::http) struct ApiError {
    status: StatusCode,
    /// Nothing has happened, and the same request may succeed later.
    may_retry: bool,
    error: Box<ErrorObject>,
}

impl ApiError {
    /// Creates an error of this kind; `hint` says how to solve the problem.
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>, hint: Option<String>) -> ApiError {
        let problem = Problem::of_kind(kind, message);
        ApiError::from(match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        })
    }

    /// A parameter is invalid.
    pub(super) fn invalid(param: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError::new(ErrorKind::InvalidRequest, message, None).param(param)
    }

    /// A parameter requires something that an agent in a terminal cannot do.
    pub(super) fn unsupported(param: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError::invalid(param, message).code("unsupported_parameter")
    }

    /// The request does not fit the state of the node.
    pub(super) fn conflict(message: impl Into<String>, hint: impl Into<String>) -> ApiError {
        let problem = Problem::new(StatusCode::CONFLICT, ErrorKind::InvalidRequest, message);
        ApiError::from(problem.hint(hint))
    }

    /// The model does not exist.
    pub(super) fn no_model(message: impl Into<String>, hint: Option<String>) -> ApiError {
        ApiError::new(ErrorKind::NotFound, message, hint).model_not_found()
    }

    /// Too many calls are running.
    pub(super) fn too_many(message: impl Into<String>) -> ApiError {
        ApiError::new(ErrorKind::Busy, message, Some("retry when one of them has ended".to_string()))
    }

    /// The model of the request does not exist, for the reason of this error.
    pub(super) fn model_not_found(mut self) -> ApiError {
        self.status = StatusCode::NOT_FOUND;
        self.code("model_not_found").param("model")
    }

    /// Sets the parameter that caused the error.
    pub(super) fn param(mut self, param: impl Into<String>) -> ApiError {
        self.error.param = Some(param.into());
        self
    }

    /// Replaces the code.
    pub(super) fn code(mut self, code: &str) -> ApiError {
        self.error.code = code.to_string();
        self
    }

    /// Adds the node to the facts.
    pub(super) fn at(mut self, at: &NodeRef) -> ApiError {
        self.error.nerve.node_id = Some(at.node.clone());
        self.error.nerve.session_id = at.session.clone();
        self
    }

    /// Adds the choices of a dialog.
    pub(super) fn choices(mut self, choices: Vec<String>) -> ApiError {
        self.error.nerve.choices = choices;
        self
    }

    /// Adds the part of an answer that arrived.
    pub(super) fn text(mut self, text: Option<String>) -> ApiError {
        self.error.nerve.text = text.filter(|text| !text.is_empty());
        self
    }

    /// The prompt may have reached the agent: the request must not be repeated without a decision.
    pub(super) fn final_failure(mut self) -> ApiError {
        self.may_retry = false;
        self
    }

    /// Returns the kind of error of nerve.
    pub(super) fn kind(&self) -> ErrorKind {
        self.error.nerve.error_type
    }

    /// Returns the body, which is also the data of the last event of a stream.
    pub(super) fn body(&self) -> Vec<u8> {
        // Texts and lists of texts: this cannot fail.
        serde_json::to_vec(&ErrorBody { error: (*self.error).clone() }).unwrap_or_default()
    }

    /// Gives a response the body and the headers of this error.
    fn apply(&self, response: &mut Response) {
        *response.body_mut() = Body::from(self.body());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(SHOULD_RETRY, HeaderValue::from_static(if self.may_retry { "true" } else { "false" }));
        if self.status == StatusCode::PAYLOAD_TOO_LARGE {
            // The rest of the body is not read.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if self.may_retry {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
    }
}

/// Converts the response of a problem to the format of OpenAI's API. The headers of the problem stay.
pub(in crate::http) fn adapt(problem: Problem, response: &mut Response) {
    ApiError::from(problem).apply(response);
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> ApiError {
        let kind = problem.kind();
        // In OpenAI's API, 429 stands for a lack of capacity.
        let status = match (kind, problem.status()) {
            (ErrorKind::Busy | ErrorKind::Budget, StatusCode::CONFLICT) => StatusCode::TOO_MANY_REQUESTS,
            (_, status) => status,
        };
        let Problem { detail, hint, .. } = problem;
        let message = detail + &hint.as_deref().map(hint_line).unwrap_or_default();
        let facts = ErrorFacts { error_type: kind, hint, ..ErrorFacts::default() };
        let error = ErrorObject {
            message,
            kind: type_of(status, kind),
            param: None,
            code: code_of(status, kind).to_string(),
            nerve: facts,
        };
        ApiError { status, may_retry: kind == ErrorKind::Busy, error: Box::new(error) }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::default();
        self.apply(&mut response);
        response
    }
}

fn hint_line(hint: &str) -> String {
    format!("\nhint: {hint}")
}

/// Returns the kind of error of OpenAI's API.
fn type_of(status: StatusCode, kind: ErrorKind) -> &'static str {
    match status {
        StatusCode::TOO_MANY_REQUESTS if kind == ErrorKind::Budget => "insufficient_quota",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::FORBIDDEN => "permission_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    }
}

fn code_of(status: StatusCode, kind: ErrorKind) -> &'static str {
    match (status, kind) {
        (StatusCode::UNAUTHORIZED, _) => "invalid_api_key",
        (StatusCode::TOO_MANY_REQUESTS, ErrorKind::Budget) => "insufficient_quota",
        _ => kind.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fields(error: &ApiError) -> Value {
        serde_json::from_slice::<Value>(&error.body()).unwrap()["error"].take()
    }

    #[test]
    fn kinds_have_status_type_and_code() {
        for (kind, status, kind_name, code, may_retry) in [
            (ErrorKind::InvalidRequest, 400, "invalid_request_error", "invalid_request_error", false),
            (ErrorKind::NotFound, 404, "invalid_request_error", "not_found_error", false),
            (ErrorKind::Blocked, 409, "invalid_request_error", "blocked", false),
            (ErrorKind::Interrupted, 409, "invalid_request_error", "interrupted", false),
            (ErrorKind::Busy, 429, "rate_limit_error", "busy", true),
            (ErrorKind::Budget, 429, "insufficient_quota", "insufficient_quota", false),
            (ErrorKind::Api, 502, "server_error", "api_error", false),
            (ErrorKind::Timeout, 504, "server_error", "timeout", false),
        ] {
            let error = ApiError::new(kind, "m", None);
            assert_eq!((error.status.as_u16(), error.may_retry), (status, may_retry), "{kind}");
            let fields = fields(&error);
            assert_eq!((&fields["type"], &fields["code"]), (&json!(kind_name), &json!(code)), "{kind}");
            let retry = error.into_response().headers()[SHOULD_RETRY].clone();
            assert_eq!(retry == "true", may_retry, "{kind}");
        }
    }

    #[test]
    fn message_ends_with_the_hint() {
        let fields = fields(&ApiError::new(ErrorKind::Blocked, "it asks", Some("answer".to_string())));
        assert_eq!(fields["message"], "it asks\nhint: answer");
        assert_eq!(fields["nerve"], json!({ "error_type": "blocked", "hint": "answer" }));
        assert_eq!(fields["param"], Value::Null);
    }
}
