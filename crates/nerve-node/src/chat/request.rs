//! A request to a model's API: sending it, reading the answer as it grows, and retrying.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use nerve_host::clock::Clock;
use nerve_llm::answer::{Answer, PartialAnswer};
use nerve_llm::error::ApiError;
use nerve_llm::http_client::{client, error_chain};
use nerve_llm::sse;
use nerve_llm::{anthropic, openai, retry};
use opentelemetry::{Array, KeyValue};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::error::engine_error;
use super::{ChatSettings, Provider, settings};
use crate::context::{ChunkSink, TurnContext};
use crate::error::EngineError;
use crate::telemetry::{ActiveSpan, count, new_span, set_error};

/// Maximum size of a request and of an answer, in bytes.
pub(super) const MAX_BODY: usize = 16 << 20;
/// Maximum number of bytes read of an error response.
const MAX_ERROR_BODY: usize = 64 << 10;
/// Time to keep reading after the end of an answer.
const TRAILER_TIMEOUT: Duration = Duration::from_secs(2);

/// The endpoint and its key. `Debug` does not show the key.
pub(super) struct Api {
    endpoint: Uri,
    provider: Provider,
    key: Option<String>,
    retries: u32,
    /// Number of requests sent.
    sent: AtomicU32,
}

/// Data that the attempts of a request share.
struct Attempts<'a> {
    body: Bytes,
    context: &'a TurnContext,
    deadline: Instant,
    clock: &'a Clock,
    span: &'a ActiveSpan,
}

/// An answer and how it was obtained.
#[derive(Debug)]
pub(super) struct ApiReply {
    pub(super) answer: Answer,
    /// Number of retries.
    pub(super) retries: u32,
    /// Size of the answer in bytes.
    pub(super) bytes: u64,
}

impl Api {
    /// Creates the API that the settings describe. `variable` looks up the key.
    ///
    /// # Errors
    /// InvalidRequest: the key's variable is not set or holds no valid key.
    pub(super) fn new(
        settings: &ChatSettings,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Api, EngineError> {
        let key = match settings::key_variable(settings) {
            None => None,
            Some(name) => {
                let key = variable(name).map(|key| key.trim().to_string()).filter(|key| !key.is_empty());
                Some(key.ok_or_else(|| missing_key_error(name))?)
            }
        };
        if key.as_ref().is_some_and(|key| HeaderValue::from_str(key).is_err()) {
            let message = format!(
                "{} is not a valid key: it contains characters that are not allowed in a header",
                settings::key_variable(settings).unwrap_or_default()
            );
            return Err(EngineError::invalid_request(message));
        }
        Ok(Api {
            endpoint: settings::endpoint(settings)?,
            provider: settings.provider,
            key,
            retries: settings.retries,
            sent: AtomicU32::new(0),
        })
    }

    /// Sends the request, with retries, and returns the answer. Each attempt counts as an API call. Text goes to the context's
    /// chunks as it arrives; from then on the request is not retried.
    ///
    /// # Errors
    /// The API's error, or the error of the connection. Cancelled: the context is cancelled.
    pub(super) async fn send(
        &self,
        body: &Value,
        context: &TurnContext,
        deadline: Instant,
        clock: &Clock,
    ) -> Result<ApiReply, EngineError> {
        let model = body["model"].as_str().unwrap_or_default().to_string();
        let before = self.sent();
        let body = Bytes::from(body.to_string());
        if body.len() > MAX_BODY {
            let message = format!("the conversation is too long: the request has {} bytes", body.len());
            return Err(EngineError::invalid_request(message).hint(format!(
                "the limit is {MAX_BODY} bytes: clear the conversation, or continue in a fork of an earlier turn"
            )));
        }
        let span = self.begin_span(&model, context);
        let attempts = Attempts { body, context, deadline, clock, span: &span };
        let result = self.send_with_retries(&attempts).await;
        let retries = self.sent().saturating_sub(before + 1);
        span.end(|span| {
            span.set("nerve.retries", count(retries));
            match &result {
                Ok(reply) => describe(&reply.answer, span),
                Err(error) => set_error(span, error),
            }
        });
        result
    }

    /// Begins the span of a request. Its attempts have no spans of their own.
    fn begin_span(&self, model: &str, context: &TurnContext) -> ActiveSpan {
        let usual_port = if self.endpoint.scheme_str() == Some("http") { 80 } else { 443 };
        let span = new_span!(
            "chat",
            otel.kind = "client",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = self.provider.as_str(),
            gen_ai.request.model = model,
            server.address = self.endpoint.host(),
            server.port = i64::from(self.endpoint.port_u16().unwrap_or(usual_port))
        );
        ActiveSpan::begin(span, context.trace_context(), || format!("chat {model}"))
    }

    async fn send_with_retries(&self, attempts: &Attempts<'_>) -> Result<ApiReply, EngineError> {
        let Attempts { context, deadline, span, .. } = *attempts;
        let mut tries = 0;
        loop {
            context.add_api_call(0.0);
            self.sent.fetch_add(1, Ordering::Relaxed);
            tries += 1;
            let mut has_output = false;
            let attempt = self.try_once(attempts, &mut has_output);
            let error = tokio::select! {
                biased;
                () = context.cancellation().cancelled() => return Err(crate::cancellation::cancelled_error()),
                result = attempt => match result {
                    Ok((answer, bytes)) => return Ok(ApiReply { answer, retries: tries - 1, bytes }),
                    Err(error) => error,
                },
            };
            let pause = retry::pause(tries - 1, error.wait());
            let pause = pause.filter(|_| error.is_transient() && !has_output && tries <= self.retries);
            // There is no point in waiting if the deadline comes first.
            let Some(pause) = pause.filter(|pause| Instant::now() + *pause < deadline) else {
                return Err(self.without_key(engine_error(&error, &self.host(), tries)));
            };
            tracing::debug!(host = %self.host(), ?pause, tries, "retrying the request");
            span.add_event("nerve.retry", || {
                let delay_ms = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
                vec![
                    KeyValue::new("nerve.attempt", count(tries + 1)),
                    KeyValue::new("nerve.delay_ms", delay_ms),
                ]
            });
            tokio::select! {
                () = sleep(pause) => {}
                () = context.cancellation().cancelled() => return Err(crate::cancellation::cancelled_error()),
            }
        }
    }

    /// Returns the number of requests sent.
    pub(super) fn sent(&self) -> u32 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the host for messages.
    pub(super) fn host(&self) -> String {
        self.endpoint.authority().map(ToString::to_string).unwrap_or_default()
    }

    /// Sends the request once. `has_output` is set when text has been passed on.
    async fn try_once(
        &self,
        attempts: &Attempts<'_>,
        has_output: &mut bool,
    ) -> Result<(Answer, u64), ApiError> {
        let body = Full::new(attempts.body.clone());
        let mut request = Request::post(self.endpoint.clone()).body(body).map_err(network)?;
        *request.headers_mut() = self.headers();
        if let Some(trace) = attempts.span.context() {
            trace.put_into(request.headers_mut());
        }
        let response = client().request(request).await.map_err(network)?;
        if !response.status().is_success() {
            return Err(read_error(response, attempts.clock).await);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_whole = kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("application/json"));
        let mut reader = AnswerReader {
            provider: self.provider,
            partial: PartialAnswer::default(),
            chunks: attempts.context.chunks(),
            has_output,
            bytes: 0,
        };
        match is_whole {
            true => reader.read_whole(response.into_body()).await?,
            false => reader.read_stream(response.into_body()).await?,
        }
        let bytes = reader.bytes as u64;
        Ok((reader.partial.finish()?, bytes))
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("nerve/", env!("CARGO_PKG_VERSION"))));
        let (name, key) = match (self.provider, &self.key) {
            (Provider::Anthropic, key) => {
                headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
                (HeaderName::from_static("x-api-key"), key.clone())
            }
            (Provider::Openai, key) => (AUTHORIZATION, key.as_ref().map(|key| format!("Bearer {key}"))),
        };
        if let Some(Ok(mut value)) = key.map(|key| HeaderValue::from_str(&key)) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers
    }

    /// Removes the key from an error: an API that rejects a key may repeat it.
    fn without_key(&self, mut error: EngineError) -> EngineError {
        if let Some(key) = &self.key {
            error.message = error.message.replace(key.as_str(), "***");
        }
        error
    }
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Reads one answer.
struct AnswerReader<'a> {
    provider: Provider,
    partial: PartialAnswer,
    chunks: Option<&'a ChunkSink>,
    /// Some text was passed on.
    has_output: &'a mut bool,
    bytes: usize,
}

impl AnswerReader<'_> {
    /// Reads events until the answer ends.
    async fn read_stream(&mut self, mut body: Incoming) -> Result<(), ApiError> {
        let mut parser = sse::Parser::new(MAX_BODY);
        loop {
            let frame = match self.partial.ended {
                false => body.frame().await,
                // Token counts may follow, and a connection that is read to its end can be reused.
                true => timeout(TRAILER_TIMEOUT, body.frame()).await.unwrap_or(None),
            };
            let bytes = match frame {
                None => return Ok(()),
                Some(Err(_)) if self.partial.ended => return Ok(()),
                Some(Err(error)) => return Err(network(error)),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            self.bytes += bytes.len();
            if self.bytes > MAX_BODY {
                return Err(ApiError::TooLarge(MAX_BODY));
            }
            for event in parser.push(&bytes).map_err(|_| ApiError::TooLarge(MAX_BODY))? {
                let piece = match self.provider {
                    Provider::Anthropic => anthropic::event(&mut self.partial, &event.data)?,
                    Provider::Openai => openai::event(&mut self.partial, &event.data)?,
                };
                self.emit(piece);
            }
        }
    }

    /// Reads an answer from an API that does not stream although it was asked to.
    async fn read_whole(&mut self, body: Incoming) -> Result<(), ApiError> {
        let (bytes, is_all) = read_up_to(body, MAX_BODY).await?;
        if !is_all {
            return Err(ApiError::TooLarge(MAX_BODY));
        }
        self.bytes = bytes.len();
        let json: Value =
            serde_json::from_slice(&bytes).map_err(|error| ApiError::Malformed(error.to_string()))?;
        let piece = match self.provider {
            Provider::Anthropic => anthropic::whole(&mut self.partial, &json)?,
            Provider::Openai => openai::whole(&mut self.partial, &json)?,
        };
        self.emit(piece);
        Ok(())
    }

    fn emit(&mut self, piece: Option<String>) {
        if let (Some(piece), Some(chunks)) = (piece, self.chunks) {
            *self.has_output = true;
            chunks(&piece);
        }
    }
}

/// Adds an answer's attributes to a span, without its text.
fn describe(answer: &Answer, span: &ActiveSpan) {
    span.set_some("gen_ai.response.model", answer.model.clone());
    let reasons = Array::String(vec![answer.finish.clone().into()]);
    span.set("gen_ai.response.finish_reasons", opentelemetry::Value::Array(reasons));
    span.set("gen_ai.usage.input_tokens", count(answer.usage.prompt));
    span.set("gen_ai.usage.output_tokens", count(answer.usage.completion));
}

/// Converts a response with an error status.
async fn read_error(response: Response<Incoming>, clock: &Clock) -> ApiError {
    let (head, body) = response.into_parts();
    let header = |name: HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok());
    let wait = header(RETRY_AFTER).and_then(|value| retry::parse_retry_after(value, clock.now()));
    if head.status.is_redirection() {
        // Only the host: the rest of the URL may contain secrets.
        let to = header(LOCATION).and_then(|to| to.parse::<Uri>().ok());
        let to = to.and_then(|to| Some(format!("redirect to {}", to.host()?)));
        return ApiError::Status { status: head.status.as_u16(), message: to.unwrap_or_default(), wait };
    }
    // If the body cannot be read, only the status is reported.
    let body = read_up_to(body, MAX_ERROR_BODY).await.map(|(body, _)| body).unwrap_or_default();
    ApiError::of_status(head.status.as_u16(), &body, wait)
}

/// Reads at most `limit` bytes. Returns them, and whether that is the whole body.
async fn read_up_to(mut body: Incoming, limit: usize) -> Result<(Vec<u8>, bool), ApiError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        bytes.extend_from_slice(&frame.map_err(network)?.into_data().unwrap_or_default());
        if bytes.len() > limit {
            bytes.truncate(limit);
            return Ok((bytes, false));
        }
    }
    Ok((bytes, true))
}

fn network(error: impl std::error::Error) -> ApiError {
    ApiError::Network(error_chain(&error))
}

fn missing_key_error(name: &str) -> EngineError {
    EngineError::invalid_request(format!("no API key: the variable {name} is not set"))
        .hint(format!("set {name} where the server is started, or for the node (`--env`), or name another variable as api_key_env (`--api-key-env`; '' sends no key)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-0123456789";

    fn api(provider: Provider) -> Api {
        let set = |name: &str| name.ends_with("_API_KEY").then(|| format!(" {KEY}\n"));
        Api::new(&ChatSettings::new(provider, "m"), set).unwrap()
    }

    #[test]
    fn key_is_sent_as_each_api_expects_and_not_shown() {
        let headers = api(Provider::Anthropic).headers();
        assert_eq!(headers["x-api-key"], KEY);
        assert_eq!(headers["anthropic-version"], anthropic::VERSION);
        assert!(headers["x-api-key"].is_sensitive() && !headers.contains_key(AUTHORIZATION));
        let headers = api(Provider::Openai).headers();
        assert_eq!(headers[AUTHORIZATION], format!("Bearer {KEY}"));
        assert!(!headers.contains_key("x-api-key"));
        for shown in [format!("{headers:?}"), format!("{:?}", api(Provider::Openai))] {
            assert!(!shown.contains(KEY), "{shown}");
        }
    }

    #[test]
    fn no_key_is_sent_if_no_variable_is_named() {
        let settings =
            ChatSettings { api_key_env: Some(String::new()), ..ChatSettings::new(Provider::Openai, "m") };
        let headers = Api::new(&settings, |_| Some(KEY.to_string())).unwrap().headers();
        assert!(!headers.contains_key(AUTHORIZATION));
    }
}
