//! OpenAI's API behind: what is said is translated on the way.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, USER_AGENT,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame};
use serde_json::{Value, json};

use crate::api_error::Fault;
use crate::body::{self, AnyBody, Broken, Unread};
use crate::headers;
use crate::model;
use crate::relay::Relay;
use crate::request_body::Arriving;
use crate::request_log::Call;
use crate::sse::Parser;
use crate::state::Gateway;
use crate::transform::{self, Options, Stream};
use crate::usage::Reader;

/// The largest event of the upstream, in bytes.
const EVENT: usize = 4 << 20;
/// The largest whole answer, in bytes.
const ANSWER: usize = 64 << 20;
/// The largest error, in bytes.
const ERROR: usize = 1 << 20;

/// Answers a request: by itself, or with what the upstream says to it.
pub(crate) async fn translate(
    gateway: &Gateway,
    request: Request<Arriving>,
    mut call: Call,
) -> Result<Response<AnyBody>, (Fault, Call)> {
    let is_head = request.method() == Method::HEAD;
    match answer(gateway, request, &mut call).await {
        Ok(Answered { mut head, body }) => {
            // Nobody takes the body of an answer to HEAD.
            let body = if is_head { body::full(Bytes::new()) } else { body };
            call.status = Some(head.status.as_u16());
            let reader = Reader::new(headers::text(&head.headers, &CONTENT_TYPE), false);
            let relay = Relay::new(body, call, reader, gateway.config.patience);
            head.version = http::Version::HTTP_11;
            Ok(Response::from_parts(head, relay.boxed_unsync()))
        }
        Err(fault) => Err((fault, call)),
    }
}

struct Answered {
    head: http::response::Parts,
    body: AnyBody,
}

impl From<Response<AnyBody>> for Answered {
    fn from(reply: Response<AnyBody>) -> Answered {
        let (head, body) = reply.into_parts();
        Answered { head, body }
    }
}

async fn answer(gateway: &Gateway, request: Request<Arriving>, call: &mut Call) -> Result<Answered, Fault> {
    let (head, incoming) = request.into_parts();
    let (bytes, place) = body::of_request(incoming, &gateway.room).await?;
    call.asked(&model::asked(&bytes).unwrap_or_default(), &bytes, place);
    let json = || {
        let parsed = serde_json::from_slice::<Value>(&bytes);
        parsed.map_err(|error| Fault::bad_request(format!("the body is no JSON: {error}")))
    };
    match (&head.method, head.uri.path()) {
        // Claude Code asks these to see that somebody is there.
        (&Method::HEAD | &Method::GET, "/" | "/api/hello") => {
            Ok(body::json(StatusCode::OK, &json!({ "message": "hello" })).into())
        }
        (&Method::POST, "/v1/messages/count_tokens") => {
            let count = json!({ "input_tokens": transform::count_tokens(&json()?) });
            let mut reply = body::json(StatusCode::OK, &count);
            reply.headers_mut().insert("x-nerve-estimate", HeaderValue::from_static("true"));
            Ok(reply.into())
        }
        (&Method::POST, "/v1/messages") => ask(gateway, &json()?).await,
        (method, path) => {
            let path: String = path.chars().take(200).collect();
            let message = format!("{method} {path} has no counterpart in a Chat Completions API");
            Err(Fault::new(StatusCode::NOT_FOUND, message))
        }
    }
}

async fn ask(gateway: &Gateway, asked: &Value) -> Result<Answered, Fault> {
    let config = &gateway.config;
    let options = Options {
        model: config.model.clone(),
        newer_limit: config.upstream.is_openai_itself(),
        max_output: config.max_output,
        reasoning: config.reasoning,
    };
    let translated = transform::request(asked, &options)?;
    let onward = onward(gateway, &translated)?;
    gateway.ledger.admit()?;
    let reply = gateway.client.send(onward, &config.upstream).await.map_err(|failed| {
        if !failed.was_sent {
            gateway.ledger.give_back();
        }
        failed.fault
    })?;
    let (head, incoming) = reply.into_parts();
    if !head.status.is_success() {
        return error(gateway, &head, incoming).await;
    }
    let is_events = headers::text(&head.headers, &CONTENT_TYPE).starts_with("text/event-stream");
    if translated.stream {
        let stream = Stream::new(translated.plan);
        return if is_events {
            Ok(events(
                Translated { incoming, parser: Parser::new(EVENT), stream, state: State::Flowing }
                    .boxed_unsync(),
            ))
        } else {
            Ok(events(at_once(stream, &whole(gateway, incoming).await?)))
        };
    }
    let completion: Value = serde_json::from_slice(&whole(gateway, incoming).await?)
        .map_err(|error| Fault::bad_gateway(format!("the upstream's answer is no JSON: {error}")))?;
    Ok(body::json(StatusCode::OK, &transform::response(&completion, &translated.plan)?).into())
}

fn onward(gateway: &Gateway, translated: &transform::Request) -> Result<Request<Bytes>, Fault> {
    let config = &gateway.config;
    let uri =
        config.upstream.completions().ok_or_else(|| Fault::bad_gateway("the upstream's address is none"))?;
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
            .ok_or_else(|| Fault::bad_gateway("the proxy's key is no text for a header"))?;
        headers.insert(AUTHORIZATION, bearer);
    }
    *request.headers_mut() = headers;
    Ok(request)
}

async fn whole(gateway: &Gateway, incoming: Arriving) -> Result<Bytes, Fault> {
    body::read(incoming, ANSWER, gateway.config.patience).await.map_err(|unread| match unread {
        Unread::TooLarge => {
            Fault::bad_gateway(format!("the upstream's answer is larger than {} MiB", ANSWER >> 20))
        }
        Unread::TooSlow | Unread::NoRoom => {
            Fault::new(StatusCode::GATEWAY_TIMEOUT, "the upstream stopped in the middle of its answer")
        }
        Unread::Broken(error) => {
            Fault::bad_gateway(format!("the upstream broke off in the middle of its answer: {error}"))
        }
    })
}

/// The upstream's error, with when to try again.
async fn error(
    gateway: &Gateway,
    head: &http::response::Parts,
    incoming: Arriving,
) -> Result<Answered, Fault> {
    let bytes = body::read(incoming, ERROR, gateway.config.patience).await.unwrap_or_default();
    let text = || Value::from(String::from_utf8_lossy(&bytes).trim().to_string());
    let told = serde_json::from_slice::<Value>(&bytes).unwrap_or_else(|_| json!({ "message": text() }));
    let fault = match head.status.is_client_error() || head.status.is_server_error() {
        true => transform::fault(head.status, &told),
        // A redirect, say: it is not followed, and the client could do nothing with it.
        false => Fault::bad_gateway(format!(
            "the upstream answered {}: is its address right?",
            head.status.as_u16()
        )),
    };
    let mut reply = body::refusal(&fault);
    if let Some(when) = head.headers.get(RETRY_AFTER) {
        reply.headers_mut().insert(RETRY_AFTER, when.clone());
    }
    Ok(reply.into())
}

fn events(body: AnyBody) -> Answered {
    let mut reply = Response::new(body);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply.into()
}

/// A stream was asked for, and the answer came whole.
fn at_once(mut stream: Stream, answer: &[u8]) -> AnyBody {
    let mut told = stream.push(&String::from_utf8_lossy(answer));
    if let Ok(text) = &mut told {
        match stream.finish() {
            Ok(end) => text.push_str(&end),
            Err(fault) => text.push_str(&transform::failure(&fault)),
        }
    }
    body::full(told.unwrap_or_else(|fault| transform::failure(&fault)))
}

/// The upstream's stream as Anthropic's.
struct Translated {
    incoming: Arriving,
    parser: Parser,
    stream: Stream,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Flowing,
    /// The last event is out: the rest of the upstream's is read, so that its connection can be kept.
    Draining,
    Over,
}

impl Translated {
    /// What follows from a piece; an error is the last event.
    fn take(&mut self, bytes: &[u8]) -> String {
        let mut out = String::new();
        let told = self.parser.push(bytes).map_err(|_| {
            Fault::bad_gateway(format!("the upstream sent an event larger than {} MiB", EVENT >> 20))
        });
        let told = told.and_then(|events| {
            for event in events {
                out.push_str(&self.stream.push(&event.data)?);
            }
            Ok(())
        });
        match told {
            Ok(()) if self.stream.has_ended() => self.state = State::Draining,
            Ok(()) => {}
            Err(fault) => {
                out.push_str(&transform::failure(&fault));
                self.state = State::Over;
            }
        }
        out
    }
}

impl Body for Translated {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        while this.state != State::Over {
            let polled = Pin::new(&mut this.incoming).poll_frame(context);
            if this.state == State::Draining {
                // The client has all: it does not wait for the upstream.
                this.state = State::Over;
                return Poll::Ready(None);
            }
            let bytes = match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Poll::Ready(Some(Err(error))) => {
                    this.state = State::Over;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => {
                    this.state = State::Over;
                    let last = this.stream.finish();
                    return Poll::Ready(Some(
                        last.map(|text| Frame::data(text.into())).map_err(|fault| fault.message.into()),
                    ));
                }
            };
            let out = this.take(&bytes);
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out.into()))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.state == State::Over
    }
}
