//! Serves Anthropic's Messages API with an OpenAI upstream.

use futures_util::FutureExt;
use futures_util::stream::unfold;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, USER_AGENT,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use nerve_llm::sse::Parser;
use serde_json::{Value, json};

use crate::api_error::ApiError;
use crate::body::{self, BodyError, DynBody, ReadError};
use crate::headers;
use crate::network_body::NetworkBody;
use crate::relay::Relay;
use crate::request_log::RequestLog;
use crate::request_summary;
use crate::state::ProxyState;
use crate::transform::{self, StreamTranslator, TranslatedRequest, TranslationOptions};
use crate::usage::UsageReader;

/// Maximum size of an upstream event, in bytes.
const MAX_EVENT: usize = 4 << 20;
/// Maximum size of an answer that is not streamed, in bytes.
const MAX_ANSWER: usize = 64 << 20;
/// Maximum size of an error body, in bytes.
const MAX_ERROR: usize = 1 << 20;

/// Answers a request, with an answer of the upstream if necessary.
pub(crate) async fn handle(
    state: &ProxyState,
    request: Request<NetworkBody>,
    mut request_log: RequestLog,
) -> Result<Response<DynBody>, (ApiError, RequestLog)> {
    let is_head = request.method() == Method::HEAD;
    match answer(state, request, &mut request_log).await {
        Ok(response) => {
            let (mut head, body) = response.into_parts();
            // A response to HEAD has no body.
            let body = if is_head { body::full(Bytes::new()) } else { body };
            request_log.record_status(head.status);
            let reader = UsageReader::new(headers::text(&head.headers, &CONTENT_TYPE), false);
            let relay = Relay::new(body, request_log, reader, state.config.upstream_timeout);
            head.version = http::Version::HTTP_11;
            Ok(Response::from_parts(head, relay.boxed_unsync()))
        }
        Err(error) => Err((error, request_log)),
    }
}

async fn answer(
    state: &ProxyState,
    request: Request<NetworkBody>,
    request_log: &mut RequestLog,
) -> Result<Response<DynBody>, ApiError> {
    let (head, incoming) = request.into_parts();
    let (bytes, reservation) = body::read_request(incoming, &state.buffers).await?;
    request_log.record_request(&request_summary::parse(&bytes).unwrap_or_default(), &bytes, reservation);
    let json = || {
        let parsed = serde_json::from_slice::<Value>(&bytes);
        parsed.map_err(|error| ApiError::bad_request(format!("the body is not JSON: {error}")))
    };
    match (&head.method, head.uri.path()) {
        // Claude Code's connectivity checks.
        (&Method::HEAD | &Method::GET, "/" | "/api/hello") => {
            Ok(body::json(StatusCode::OK, &json!({ "message": "hello" })))
        }
        (&Method::POST, "/v1/messages/count_tokens") => {
            let count = json!({ "input_tokens": transform::count_tokens(&json()?) });
            let mut response = body::json(StatusCode::OK, &count);
            response.headers_mut().insert("x-nerve-estimate", HeaderValue::from_static("true"));
            Ok(response)
        }
        (&Method::POST, "/v1/messages") => complete(state, &json()?).await,
        (method, path) => {
            let path: String = path.chars().take(200).collect();
            let message = format!("{method} {path} has no equivalent in Chat Completions");
            Err(ApiError::new(StatusCode::NOT_FOUND, message))
        }
    }
}

async fn complete(state: &ProxyState, body: &Value) -> Result<Response<DynBody>, ApiError> {
    let config = &state.config;
    let options = TranslationOptions {
        model: config.model.clone(),
        use_max_completion_tokens: config.upstream.is_openai(),
        max_output: config.max_output,
        reasoning: config.reasoning,
    };
    let translated = transform::translate_request(body, &options)?;
    let upstream_request = upstream_request(state, &translated)?;
    state.ledger.admit()?;
    let reply = state.client.send(upstream_request, &config.upstream).await.map_err(|send_error| {
        if !send_error.was_sent {
            state.ledger.refund();
        }
        send_error.error
    })?;
    let (head, incoming) = reply.into_parts();
    if !head.status.is_success() {
        return upstream_error(state, &head, incoming).await;
    }
    let is_events = headers::text(&head.headers, &CONTENT_TYPE).starts_with("text/event-stream");
    if translated.stream {
        let stream = StreamTranslator::new(translated.plan);
        return if is_events {
            let parser = Parser::new(MAX_EVENT);
            let translation = Translation { incoming, parser, stream, phase: Phase::Streaming };
            Ok(event_stream(StreamBody::new(unfold(translation, Translation::next)).boxed_unsync()))
        } else {
            Ok(event_stream(answer_as_stream(stream, &read_answer(state, incoming).await?)))
        };
    }
    let completion: Value = serde_json::from_slice(&read_answer(state, incoming).await?)
        .map_err(|error| ApiError::bad_gateway(format!("the upstream's answer is not JSON: {error}")))?;
    Ok(body::json(StatusCode::OK, &transform::translate_response(&completion, &translated.plan)?))
}

fn upstream_request(state: &ProxyState, translated: &TranslatedRequest) -> Result<Request<Bytes>, ApiError> {
    let config = &state.config;
    let uri = config
        .upstream
        .completions_uri()
        .ok_or_else(|| ApiError::bad_gateway("the upstream's address is invalid"))?;
    let mut request = Request::new(Bytes::from(translated.body.to_string()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    let accepted = if translated.stream { "text/event-stream" } else { "application/json" };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static(accepted));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("nerve-proxy/", env!("CARGO_PKG_VERSION"))));
    if let Some(key) = &config.api_key {
        let bearer = headers::bearer(key)
            .ok_or_else(|| ApiError::bad_gateway("the proxy's key is not valid in a header"))?;
        headers.insert(AUTHORIZATION, bearer);
    }
    *request.headers_mut() = headers;
    Ok(request)
}

async fn read_answer(state: &ProxyState, incoming: NetworkBody) -> Result<Bytes, ApiError> {
    body::read(incoming, MAX_ANSWER, state.config.upstream_timeout).await.map_err(|unread| match unread {
        ReadError::TooLarge => {
            ApiError::bad_gateway(format!("the upstream's answer is larger than {} MiB", MAX_ANSWER >> 20))
        }
        ReadError::TimedOut | ReadError::PoolExhausted => {
            ApiError::new(StatusCode::GATEWAY_TIMEOUT, "the upstream timed out in the middle of its answer")
        }
        ReadError::Failed(error) => {
            ApiError::bad_gateway(format!("the upstream failed in the middle of its answer: {error}"))
        }
    })
}

/// Translates the upstream's error and keeps its `retry-after`.
async fn upstream_error(
    state: &ProxyState,
    head: &http::response::Parts,
    incoming: NetworkBody,
) -> Result<Response<DynBody>, ApiError> {
    let bytes = body::read(incoming, MAX_ERROR, state.config.upstream_timeout).await.unwrap_or_default();
    let text = || Value::from(String::from_utf8_lossy(&bytes).trim().to_string());
    let error_body = serde_json::from_slice::<Value>(&bytes).unwrap_or_else(|_| json!({ "message": text() }));
    let error = match head.status.is_client_error() || head.status.is_server_error() {
        true => transform::api_error(head.status, &error_body),
        // A redirect, for example: it is not followed, and the client could not use it.
        false => ApiError::bad_gateway(format!(
            "the upstream answered {}: is its address right?",
            head.status.as_u16()
        )),
    };
    let mut response = body::error_response(&error);
    if let Some(when) = head.headers.get(RETRY_AFTER) {
        response.headers_mut().insert(RETRY_AFTER, when.clone());
    }
    Ok(response)
}

fn event_stream(body: DynBody) -> Response<DynBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Turns a complete answer into a stream, for an upstream that ignored `stream`.
fn answer_as_stream(mut stream: StreamTranslator, answer: &[u8]) -> DynBody {
    let mut events = stream.push(&String::from_utf8_lossy(answer));
    if let Ok(text) = &mut events {
        match stream.finish() {
            Ok(end) => text.push_str(&end),
            Err(error) => text.push_str(&transform::error_event(&error)),
        }
    }
    body::full(events.unwrap_or_else(|error| transform::error_event(&error)))
}

/// The upstream's stream, translated to Anthropic's.
struct Translation {
    incoming: NetworkBody,
    parser: Parser,
    stream: StreamTranslator,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Streaming,
    /// The last event has been sent. The rest of the upstream's body is read so that its connection can be reused.
    Draining,
    Done,
}

impl Translation {
    /// Translates a piece. An error becomes the last event.
    fn translate(&mut self, bytes: &[u8]) -> String {
        let mut out = String::new();
        let events = self.parser.push(bytes).map_err(|_| {
            ApiError::bad_gateway(format!("the upstream sent an event larger than {} MiB", MAX_EVENT >> 20))
        });
        let events = events.and_then(|events| {
            for event in events {
                out.push_str(&self.stream.push(&event.data)?);
            }
            Ok(())
        });
        match events {
            Ok(()) if self.stream.has_ended() => self.phase = Phase::Draining,
            Ok(()) => {}
            Err(error) => {
                out.push_str(&transform::error_event(&error));
                self.phase = Phase::Done;
            }
        }
        out
    }

    /// Returns the next frame, and the translation for the frames after it.
    async fn next(mut self) -> Option<(Result<Frame<Bytes>, BodyError>, Translation)> {
        while self.phase == Phase::Streaming {
            match self.incoming.frame().await {
                Some(Ok(frame)) => {
                    let out = self.translate(&frame.into_data().unwrap_or_default());
                    if !out.is_empty() {
                        return Some((Ok(Frame::data(out.into())), self));
                    }
                }
                Some(Err(error)) => {
                    self.phase = Phase::Done;
                    return Some((Err(error), self));
                }
                None => {
                    self.phase = Phase::Done;
                    let end = self.stream.finish().map(|text| Frame::data(text.into()));
                    return Some((end.map_err(|error| error.message.into()), self));
                }
            }
        }
        if self.phase == Phase::Draining {
            // The client has everything and does not wait for the upstream.
            let _ = self.incoming.frame().now_or_never();
        }
        None
    }
}
