//! The HTTP server: routes a request by path to its protocol.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::answer::{Answer, BodyEnd, Reply};
use super::requests::{RecordedRequest, Requests};
use super::script::{Prompt, Script};
use super::stream::{self, Event};
use super::{anthropic, gemini, openai};

/// Bodies of at least this many bytes are rejected.
const BODY_LIMIT_EXCEEDED: usize = (64 << 20) + 1;
/// Time that connections get to end after a shutdown.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

/// A running scripted model. Stops when dropped or [shut down](MockModel::shutdown).
#[derive(Debug)]
pub struct MockModel {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    server: JoinHandle<io::Result<()>>,
}

#[derive(Debug)]
struct Shared {
    script: Script,
    requests: Requests,
    /// Number of replies; ids are derived from it, so that runs are reproducible.
    replies: AtomicU64,
    /// Number of requests for an answer.
    served: AtomicUsize,
    stopped: watch::Receiver<bool>,
}

/// Starts a scripted model on `addr`; port 0 selects a free port.
///
/// # Errors
/// The address cannot be bound.
pub async fn serve(addr: SocketAddr, script: Script) -> io::Result<MockModel> {
    let listener = TcpListener::bind(addr).await?;
    let addr = listener.local_addr()?;
    let (stop, stopped) = watch::channel(false);
    let shared = Arc::new(Shared {
        script,
        requests: Requests::default(),
        replies: AtomicU64::new(0),
        served: AtomicUsize::new(0),
        stopped,
    });
    let app = Router::new().fallback(handle).with_state(shared.clone());
    let mut stopping = stop.subscribe();
    let stop_signal = async move {
        // An error means that the sender was dropped, which also stops the server.
        let _ = stopping.wait_for(|stopped| *stopped).await;
    };
    let server =
        tokio::spawn(async move { axum::serve(listener, app).with_graceful_shutdown(stop_signal).await });
    Ok(MockModel { addr, shared, stop, server })
}

impl MockModel {
    /// Starts a scripted model on a free port of loopback.
    ///
    /// # Panics
    /// The system has no free port.
    pub async fn start(script: Script) -> MockModel {
        let started = serve(([127, 0, 0, 1], 0).into(), script).await;
        started.unwrap_or_else(|error| panic!("cannot start the model: {error}"))
    }

    /// Returns the listening address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns `http://ADDR`, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Returns the requests, oldest first; at most the last 10,000.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.all()
    }

    /// Stops the server: aborts pending responses and frees the port.
    ///
    /// # Errors
    /// Serving failed earlier.
    pub async fn shutdown(mut self) -> io::Result<()> {
        self.stop.send_replace(true);
        match tokio::time::timeout(SHUTDOWN_LIMIT, &mut self.server).await {
            Ok(ended) => ended.map_err(io::Error::other)?,
            Err(_) => {
                self.server.abort();
                Ok(())
            }
        }
    }
}

impl Drop for MockModel {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Messages,
    Responses,
    Completions,
    Gemini,
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let body = match announced {
        Some(BODY_LIMIT_EXCEEDED..) => None,
        _ => axum::body::to_bytes(body, BODY_LIMIT_EXCEEDED - 1).await.ok(),
    };
    let Some(body) = body else {
        return Protocol::Messages.error(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 64 MiB");
    };
    let json: Option<Value> = serde_json::from_slice(&body).ok();
    let number = shared.requests.record(&head, json.as_ref().unwrap_or(&Value::Null), body.len());
    match route(&head.method, head.uri.path()) {
        None => not_found(&head.method, &head.uri),
        Some(Route::Hello) => Json(json!({ "message": "hello" })).into_response(),
        Some(Route::Models) => Json(openai::models()).into_response(),
        Some(Route::Count(protocol)) => {
            Json(protocol.count_tokens(&json.unwrap_or_default())).into_response()
        }
        Some(Route::Answer { protocol, stream }) => match json {
            None => protocol.error(StatusCode::BAD_REQUEST, "the body is not JSON"),
            Some(json) => {
                let stream = stream.unwrap_or(json["stream"] == true);
                answer(&shared, number, protocol, &json, stream).await
            }
        },
    }
}

/// The endpoint of a path.
enum Route {
    Hello,
    Models,
    Count(Protocol),
    /// `stream` is requested by the path or by the body.
    Answer {
        protocol: Protocol,
        stream: Option<bool>,
    },
}

fn route(method: &Method, path: &str) -> Option<Route> {
    if method == Method::HEAD || method == Method::GET {
        return match path {
            "/" | "/api/hello" => Some(Route::Hello),
            "/v1/models" => Some(Route::Models),
            _ => None,
        };
    }
    if method != Method::POST {
        return None;
    }
    let in_body = |protocol| Some(Route::Answer { protocol, stream: None });
    match path {
        "/v1/messages" => in_body(Protocol::Messages),
        "/v1/responses" => in_body(Protocol::Responses),
        "/v1/chat/completions" => in_body(Protocol::Completions),
        "/v1/messages/count_tokens" => Some(Route::Count(Protocol::Messages)),
        _ => match path.strip_prefix("/v1beta/models/")?.split_once(':')?.1 {
            "streamGenerateContent" => Some(Route::Answer { protocol: Protocol::Gemini, stream: Some(true) }),
            "generateContent" => Some(Route::Answer { protocol: Protocol::Gemini, stream: Some(false) }),
            "countTokens" => Some(Route::Count(Protocol::Gemini)),
            _ => None,
        },
    }
}

fn not_found(method: &Method, uri: &Uri) -> Response {
    let message = format!("{method} {} is not scripted", uri.path());
    (StatusCode::NOT_FOUND, Json(anthropic::error(StatusCode::NOT_FOUND, &message))).into_response()
}

async fn answer(
    shared: &Arc<Shared>,
    number: u64,
    protocol: Protocol,
    body: &Value,
    stream: bool,
) -> Response {
    let prompt = protocol.prompt(body);
    let nth = shared.served.fetch_add(1, Ordering::Relaxed);
    let scripted = shared.script.first.get(nth).cloned();
    let reply = match scripted.unwrap_or_else(|| shared.script.answer(&prompt)) {
        Answer::Reply(reply) => reply,
        Answer::Error { status, message } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return protocol.error(status, &message);
        }
        Answer::Raw(raw) => return stream::raw(&raw),
    };
    let mut stopped = shared.stopped.clone();
    tokio::select! {
        () = tokio::time::sleep(reply.after) => {}
        _ = stopped.wait_for(|stopped| *stopped) => return protocol.error(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    }
    let id = shared.replies.fetch_add(1, Ordering::Relaxed) + 1;
    if stream {
        let state = shared.clone();
        let sent = move || state.requests.answered(number);
        let mut events = protocol.events(&reply, body, id, &prompt.tools);
        if reply.is_cut {
            events.truncate(stream::end_of_text(&events, &reply.text()));
        }
        let end = if reply.is_cut { BodyEnd::Broken } else { BodyEnd::Whole };
        stream::respond(events, end, stopped, sent)
    } else if reply.is_cut {
        stream::reset()
    } else {
        shared.requests.answered(number);
        Json(protocol.whole(&reply, body, id, &prompt.tools)).into_response()
    }
}

impl Protocol {
    fn prompt(self, body: &Value) -> Prompt {
        match self {
            Protocol::Messages => anthropic::prompt(body),
            Protocol::Responses => openai::responses_prompt(body),
            Protocol::Completions => openai::chat_prompt(body),
            Protocol::Gemini => gemini::prompt(body),
        }
    }

    fn events(self, reply: &Reply, body: &Value, id: u64, tools: &[String]) -> Vec<Event> {
        match self {
            Protocol::Messages => anthropic::events(reply, body, id, tools),
            Protocol::Responses => openai::response_events(reply, body, id, tools),
            Protocol::Completions => openai::completion_events(reply, body, id, tools),
            Protocol::Gemini => gemini::events(reply, body, tools),
        }
    }

    fn whole(self, reply: &Reply, body: &Value, id: u64, tools: &[String]) -> Value {
        match self {
            Protocol::Messages => anthropic::message(reply, body, id, tools),
            Protocol::Responses => openai::response(reply, body, id, tools),
            Protocol::Completions => openai::completion(reply, body, id, tools),
            Protocol::Gemini => gemini::whole(reply, body, tools),
        }
    }

    fn count_tokens(self, body: &Value) -> Value {
        match self {
            Protocol::Gemini => gemini::count_tokens(body),
            _ => anthropic::count_tokens(body),
        }
    }

    fn error(self, status: StatusCode, message: &str) -> Response {
        let body = match self {
            Protocol::Messages => anthropic::error(status, message),
            Protocol::Responses | Protocol::Completions => openai::error(message),
            Protocol::Gemini => gemini::error(status, message),
        };
        (status, Json(body)).into_response()
    }
}
