//! Notifies another program over HTTP: a signed POST with a JSON body, retried on failure.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::uri::{Scheme, Uri};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use nerve_api::ErrorKind;
use nerve_api::reply::WebhookAttempt;
use ring::hmac;

use nerve_host::clock::Clock;
use nerve_llm::http_client::{client, error_chain};
use nerve_node::error::EngineError;
use nerve_node::telemetry::TraceContext;
use nerve_types::text::hex;

/// Number of retries.
const MAX_RETRIES: u32 = 5;
/// Pause before the first retry; it doubles each time.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Timeout of one attempt, including the response.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes read from a response, whose content is ignored.
const MAX_RESPONSE: usize = 64 << 10;
/// Maximum bytes of a URL.
const MAX_URL: usize = 2048;
/// Maximum bytes of a secret.
const MAX_SECRET: usize = 4096;

/// A URL and the secret for signatures. `Debug` prints neither path nor secret.
#[derive(Clone)]
pub(crate) struct Webhook {
    url: Uri,
    secret: Option<String>,
}

/// A message to deliver.
#[derive(Debug, Clone)]
pub(crate) struct WebhookMessage {
    /// Value of `X-Nerve-Event`.
    pub(crate) event: &'static str,
    /// Value of `X-Nerve-Delivery`, the same for all attempts.
    pub(crate) id: String,
    /// The JSON body.
    pub(crate) body: Bytes,
    /// The trace that the message is part of.
    pub(crate) trace: Option<Arc<TraceContext>>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Webhook");
        shown.field("origin", &self.origin()).field("signed", &self.is_signed()).finish_non_exhaustive()
    }
}

impl Webhook {
    /// Checks a URL and a secret.
    ///
    /// # Errors
    /// InvalidRequest: the URL is invalid, not `http` or `https`, or contains a user; the secret is empty or too long.
    pub(crate) fn new(url: &str, secret: Option<String>) -> Result<Webhook, EngineError> {
        let invalid = |problem: &str| {
            EngineError::invalid_request(format!("the webhook's {problem}"))
                .hint("give a URL such as https://example.com/done")
        };
        if url.len() > MAX_URL {
            return Err(invalid(&format!("URL is longer than {MAX_URL} bytes")));
        }
        let uri: Uri = url.parse().map_err(|_| invalid("URL is invalid"))?;
        if !uri.scheme().is_some_and(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme)) {
            return Err(invalid("URL must begin with http:// or https://"));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(invalid("URL has a user or a password in it, which is not sent"));
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(invalid("URL has no host"));
        }
        match &secret {
            Some(secret) if secret.is_empty() => Err(invalid("secret is empty")),
            Some(secret) if secret.len() > MAX_SECRET => {
                Err(invalid(&format!("secret is longer than {MAX_SECRET} bytes")))
            }
            _ => Ok(Webhook { url: uri, secret }),
        }
    }

    /// Returns scheme, host and port, the part of the URL that may be shown.
    pub(crate) fn origin(&self) -> String {
        let authority = self.url.authority().map(|authority| authority.as_str()).unwrap_or_default();
        format!("{}://{authority}", self.url.scheme_str().unwrap_or_default())
    }

    /// Returns true if requests are signed.
    pub(crate) fn is_signed(&self) -> bool {
        self.secret.is_some()
    }

    /// Sends until it succeeds or the retries are used up, and passes each attempt to `on_attempt`. Returns true on success.
    pub(crate) async fn deliver(
        &self,
        delivery: &WebhookMessage,
        first_pause: Duration,
        mut on_attempt: impl FnMut(WebhookAttempt),
    ) -> bool {
        let clock = Clock::start();
        let mut pause = first_pause;
        for left in (0..=MAX_RETRIES).rev() {
            let at = clock.now();
            let outcome = match tokio::time::timeout(
                ATTEMPT_TIMEOUT,
                self.post(delivery, at.0 / 1_000_000_000),
            )
            .await
            {
                Ok(outcome) => outcome.map_err(|error| (ErrorKind::Network, error)),
                Err(_) => {
                    let error = format!("no answer within {} s", ATTEMPT_TIMEOUT.as_secs());
                    Err((ErrorKind::Timeout, error))
                }
            };
            let attempted_at = at.into();
            let should_retry = match outcome {
                Ok(status) => {
                    on_attempt(WebhookAttempt {
                        attempted_at,
                        status: Some(status.as_u16()),
                        ..Default::default()
                    });
                    if status.is_success() {
                        return true;
                    }
                    is_retryable(status)
                }
                Err((kind, error)) => {
                    on_attempt(WebhookAttempt {
                        attempted_at,
                        status: None,
                        error: Some(error),
                        error_type: Some(kind),
                    });
                    true
                }
            };
            if !should_retry || left == 0 {
                return false;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        false
    }

    async fn post(&self, delivery: &WebhookMessage, seconds: u64) -> Result<StatusCode, String> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("nerve/", env!("CARGO_PKG_VERSION")))
            .header("X-Nerve-Event", delivery.event)
            .header("X-Nerve-Delivery", &delivery.id)
            .header("X-Nerve-Timestamp", seconds);
        if let Some(secret) = &self.secret {
            request = request.header("X-Nerve-Signature", signature(secret, seconds, &delivery.body));
        }
        let mut request =
            request.body(Full::new(delivery.body.clone())).map_err(|error| error.to_string())?;
        if let Some(trace) = &delivery.trace {
            trace.put_into(request.headers_mut());
        }
        let answer = client().request(request).await.map_err(|error| error_chain(&error))?;
        let status = answer.status();
        // A response that is read completely lets the connection be reused.
        let _ = Limited::new(answer.into_body(), MAX_RESPONSE).collect().await;
        Ok(status)
    }
}

/// Returns `sha256=` and the hexadecimal HMAC-SHA256 of `timestamp.body`.
fn signature(secret: &str, seconds: u64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(format!("{seconds}.").as_bytes());
    context.update(body);
    format!("sha256={}", hex(context.sign().as_ref()))
}

/// Returns true for a status that may change on a retry.
fn is_retryable(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nerve_node::error::ErrorKind;

    #[test]
    fn invalid_urls_and_secrets_are_rejected() {
        let good = ["http://127.0.0.1:8080/x?y=1", "https://example.com", "http://[::1]:9/"];
        for url in good {
            assert!(Webhook::new(url, None).is_ok(), "{url}");
        }
        let long = format!("http://a/{}", "x".repeat(MAX_URL));
        let bad = [
            "",
            "x",
            "/path",
            "ftp://a/b",
            "file:///etc/passwd",
            "http://",
            "http://u:p@h/",
            "http:// a",
            &long,
        ];
        for url in bad {
            let error = Webhook::new(url, None).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidRequest, "{url}");
        }
        assert!(Webhook::new(good[0], Some(String::new())).is_err());
        assert!(Webhook::new(good[0], Some("x".repeat(MAX_SECRET + 1))).is_err());
    }

    #[test]
    fn debug_hides_secret_and_path() {
        let hook = Webhook::new("https://example.com:1/T0KEN?k=v", Some("hush".to_string())).unwrap();
        let shown = format!("{hook:?}");
        assert!(shown.contains("https://example.com:1"), "{shown}");
        assert!(!shown.contains("T0KEN") && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn signature_matches_openssl() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac secret
        let expected = "sha256=49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686";
        assert_eq!(signature("secret", 1_700_000_000, br#"{"a":1}"#), expected);
    }

    fn delivery() -> WebhookMessage {
        WebhookMessage { event: "RESULT_READY", id: "1".to_string(), body: "{}".into(), trace: None }
    }

    async fn attempts(url: &str) -> (bool, Vec<WebhookAttempt>) {
        let mut all = Vec::new();
        let hook = Webhook::new(url, None).unwrap();
        let delivered = hook.deliver(&delivery(), FIRST_PAUSE, |attempt| all.push(attempt)).await;
        (delivered, all)
    }

    #[tokio::test(start_paused = true)]
    async fn silent_server_gets_six_attempts_of_ten_seconds() {
        // Accepted into the backlog only.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let began = tokio::time::Instant::now();
        let (delivered, all) = attempts(&format!("http://{}/", silent.local_addr().unwrap())).await;
        assert!(!delivered && all.len() == 6, "{all:?}");
        assert!(all.iter().all(|attempt| attempt.status.is_none() && attempt.error.is_some()), "{all:?}");
        // Six attempts of ten seconds, and pauses of 1, 2, 4, 8 and 16.
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(90) && took < Duration::from_secs(93), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn refused_connection_is_retried_with_pauses() {
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/secret-path", closed.local_addr().unwrap());
        drop(closed);
        let (delivered, all) = attempts(&url).await;
        assert!(!delivered && all.len() == 6, "{all:?}");
        for attempt in all {
            let error = attempt.error.unwrap();
            assert!(!error.is_empty() && !error.contains("secret-path"), "{error}");
        }
    }

    #[test]
    fn only_temporary_statuses_are_retried() {
        for (status, should_retry) in [
            (500, true),
            (503, true),
            (599, true),
            (408, true),
            (429, true),
            (400, false),
            (404, false),
            (410, false),
            (301, false),
        ] {
            assert_eq!(is_retryable(StatusCode::from_u16(status).unwrap()), should_retry, "{status}");
        }
    }
}
