//! Errors as `application/problem+json` (RFC 9457).

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use nerve_api::reply::{BudgetExceeded, ErrorDetails, RunEnded};
use nerve_api::value::Delivery;
use nerve_api::{Envelope, ErrorKind};
use nerve_node::error::EngineError;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::request_id::RequestId;
use crate::reply_context::Failure;

/// An error response. [`Problem::render`] adds the body once the id of the request is known.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    status: StatusCode,
    error_type: ErrorKind,
    pub(crate) detail: String,
    pub(crate) hint: Option<String>,
    /// Further details in their encoded form, if there are any: a [`Data`].
    data: Option<Box<RawValue>>,
    warnings: Vec<String>,
}

/// The details of an error that are no member of the problem itself.
#[derive(Serialize)]
struct Data<'a> {
    #[serde(flatten)]
    run: Option<&'a RunEnded>,
    #[serde(skip_serializing_if = "Option::is_none")]
    screen: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    choices: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<Delivery>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exceeded: Option<&'a BudgetExceeded>,
}

/// The body of the response.
#[derive(Serialize)]
struct ProblemBody<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    error_type: ErrorKind,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

impl Problem {
    pub(crate) fn new(status: StatusCode, error_type: ErrorKind, detail: impl Into<String>) -> Problem {
        Problem { status, error_type, detail: detail.into(), hint: None, data: None, warnings: Vec::new() }
    }

    /// Creates an error of this kind, with the status of a request that failed.
    pub(crate) fn of_kind(error_type: ErrorKind, detail: impl Into<String>) -> Problem {
        Problem::new(status_of(error_type), error_type, detail)
    }

    /// Returns the problem of an invalid request.
    pub(crate) fn invalid(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, ErrorKind::InvalidRequest, detail)
    }

    /// Returns the problem of a bug in nerve.
    pub(crate) fn internal(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorKind::Internal, detail)
    }

    /// Returns the problem of a client that lacks permission.
    pub(crate) fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, ErrorKind::Permission, detail)
    }

    /// Returns the problem of a client whose role does not allow its request.
    pub(crate) fn permission_denied(error: EngineError) -> Problem {
        let problem = Problem::forbidden(error.message);
        Problem { hint: error.hint, ..problem }
    }

    /// Returns the problem of a client that could not be authenticated.
    pub(crate) fn unauthenticated(error: &EngineError) -> Problem {
        let status = match error.kind {
            ErrorKind::Authentication => StatusCode::UNAUTHORIZED,
            ErrorKind::RateLimit => StatusCode::TOO_MANY_REQUESTS,
            ErrorKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let problem = Problem::new(status, error.kind, error.message.clone());
        Problem { hint: error.hint.clone(), ..problem }
    }

    /// Returns the problem of a request that failed.
    pub(crate) fn of(failure: &Failure, envelope: &Envelope<'_>) -> Problem {
        let ErrorDetails { error_type, hint, screen, choices, delivery, text, exceeded, run } =
            &*failure.details;
        let data = Data {
            run: run.as_deref(),
            screen: screen.as_deref(),
            choices,
            delivery: *delivery,
            text: text.as_deref(),
            exceeded: exceeded.as_ref(),
        };
        // The data are maps with text keys, lists and plain values, so this cannot fail.
        let data = to_raw_value(&envelope.data(&data)).ok().filter(|data| data.get() != "{}");
        let problem = Problem::of_kind(*error_type, failure.message.clone());
        Problem { hint: hint.clone(), data, warnings: envelope.warnings.to_vec(), ..problem }
    }

    /// Returns the status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the kind of error.
    pub(crate) fn kind(&self) -> ErrorKind {
        self.error_type
    }

    /// Returns the size of the encoded details in bytes.
    pub(crate) fn data_bytes(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.get().len())
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Problem {
        Problem { hint: Some(hint.into()), ..self }
    }

    /// Encodes the body.
    pub(crate) fn body(&self, request_id: &str) -> Vec<u8> {
        let body = ProblemBody {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or_default(),
            status: self.status.as_u16(),
            detail: &self.detail,
            error_type: self.error_type,
            request_id,
            hint: self.hint.as_deref(),
            data: self.data.as_deref(),
            warnings: &self.warnings,
        };
        // Texts and encoded JSON: this cannot fail.
        serde_json::to_vec(&body).unwrap_or_default()
    }

    /// Encodes a whole response that ends its connection, for requests that are not read.
    pub(crate) fn raw_response(&self) -> Vec<u8> {
        let (body, status) = (self.body(""), self.status);
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), &body].concat()
    }

    /// Renders the response with its body.
    pub(crate) fn render(&self, id: &RequestId) -> Response {
        let mut response = Response::new(Body::from(self.body(id.as_str())));
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

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Problem {
        Problem::of(&Failure::from(error), &Envelope::default())
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
