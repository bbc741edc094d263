//! Errors as `application/problem+json` (RFC 9457).

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use nerve_api::{ErrorKind, ResultMessage};
use nerve_node::error::EngineError;
use serde_json::{Map, Value, json};

use super::request_id::RequestId;

/// An error response. [`Problem::render`] adds the body, where the id of the request is known.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    status: StatusCode,
    error_type: ErrorKind,
    pub(crate) detail: String,
    pub(crate) hint: Option<String>,
    /// Further details: screen, choices, delivery, a run …
    data: Box<Map<String, Value>>,
    warnings: Vec<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, error_type: ErrorKind, detail: impl Into<String>) -> Problem {
        Problem {
            status,
            error_type,
            detail: detail.into(),
            hint: None,
            data: Box::default(),
            warnings: Vec::new(),
        }
    }

    /// The request is invalid.
    pub(crate) fn invalid(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, ErrorKind::InvalidRequest, detail)
    }

    /// A bug in nerve.
    pub(crate) fn internal(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorKind::Internal, detail)
    }

    /// The client lacks permission.
    pub(crate) fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, ErrorKind::Permission, detail)
    }

    /// The client could not be authenticated.
    pub(crate) fn unauthenticated(error: &EngineError) -> Problem {
        let status = match error.kind {
            ErrorKind::Authentication => StatusCode::UNAUTHORIZED,
            ErrorKind::RateLimit => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let problem = Problem::new(status, error.kind, error.message.clone());
        Problem { hint: error.hint.clone(), ..problem }
    }

    /// A request that failed.
    pub(crate) fn of(result: ResultMessage) -> Problem {
        let Value::Object(mut data) = result.data else {
            return Problem::internal(result.error.unwrap_or_default());
        };
        let mut text = |field: &str| match data.shift_remove(field) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let (error_type, hint) = (text("error_type").unwrap_or_default(), text("hint"));
        let detail = result.error.unwrap_or_default();
        // Without details it is a bug.
        let kind = error_type.parse().unwrap_or(ErrorKind::Internal);
        let problem = Problem::new(status_of(kind), kind, detail);
        Problem { hint, data: Box::new(data), warnings: result.warnings, ..problem }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Problem {
        Problem { hint: Some(hint.into()), ..self }
    }

    /// Renders the response with its body.
    pub(crate) fn render(&self, id: &RequestId) -> Response {
        let mut body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or_default(),
            "status": self.status.as_u16(),
            "detail": self.detail,
            "error_type": self.error_type,
            "request_id": id.as_str(),
        });
        if let Value::Object(fields) = &mut body {
            let mut add = |field: &str, value: Option<Value>| {
                if let Some(value) = value {
                    fields.insert(field.to_string(), value);
                }
            };
            add("hint", self.hint.clone().map(Value::from));
            add("data", (!self.data.is_empty()).then(|| Value::Object(*self.data.clone())));
            add("warnings", (!self.warnings.is_empty()).then(|| Value::from(self.warnings.clone())));
        }
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"nerve\""));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        // Stops guessing over one connection, and reading the rest of a body.
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl IntoResponse for Problem {
    /// Without a body: [`Problem::render`] adds it.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Returns the status of a request that failed. Errors of a program or a model's API are gateway errors: 401 is for nerve's own
/// token.
fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::InvalidRequest => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::AlreadyExists
        | ErrorKind::NodeStopped
        | ErrorKind::Blocked
        | ErrorKind::Busy
        | ErrorKind::Interrupted
        | ErrorKind::Cancelled
        | ErrorKind::Budget => StatusCode::CONFLICT,
        ErrorKind::Process | ErrorKind::TooLarge => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
        ErrorKind::Delivery
        | ErrorKind::NoAnswer
        | ErrorKind::Incomplete
        | ErrorKind::Api
        | ErrorKind::Authentication
        | ErrorKind::Permission
        | ErrorKind::RateLimit
        | ErrorKind::Network => StatusCode::BAD_GATEWAY,
        ErrorKind::Lost | ErrorKind::Internal | ErrorKind::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bugs_are_internal_errors() {
        for kind in ErrorKind::names().map(|name| name.parse().unwrap()) {
            let status = status_of(kind);
            let is_bug = matches!(kind, ErrorKind::Internal | ErrorKind::Lost);
            assert_eq!(status == StatusCode::INTERNAL_SERVER_ERROR, is_bug, "{kind:?}: {status}");
            assert_ne!(status, StatusCode::UNAUTHORIZED);
        }
    }
}
