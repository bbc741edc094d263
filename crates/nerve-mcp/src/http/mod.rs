//! The MCP server over streamable HTTP, for many clients.
//!
//! Authentication and limits of requests are the HTTP server's task: this module receives complete requests
//! of authenticated clients. In the older revision of the protocol, clients have sessions (`sessions`), whose
//! responses survive a broken connection (`response_log`). In the newer one, requests are independent, and
//! closing the connection cancels a request.
//!
//! | module | contents |
//! |---|---|
//! | `sessions` | the sessions of clients, their limit and eviction |
//! | `keepalive` | detects disconnected clients of requests without a session |
//! | `response_log` | the messages of one response, for clients that reconnect |

mod keepalive;
mod response_log;
mod sessions;

use std::borrow::Cow;
use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::json;
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::sessions::{SESSION_LIMIT_REACHED, Sessions};
use crate::Config;
use crate::context::ServerContext;
use crate::server::McpServer;

/// Default path on a server.
pub const PATH: &str = "/mcp";
/// Maximum length of a message in bytes, the same as for a line of nerve's own protocol.
const MAX_MESSAGE: usize = nerve_api::framing::MAX_LINE_BYTES;
/// Interval of keepalive comments on a silent stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Header with the session's id.
const SESSION_HEADER: &str = "mcp-session-id";
/// Header with the id of the last message that the client has read.
const LAST_EVENT_HEADER: &str = "last-event-id";

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Serves MCP clients over HTTP. Clones share their state.
#[derive(Clone)]
pub struct HttpService {
    service: StreamableHttpService<McpServer, Sessions>,
    sessions: Arc<Sessions>,
    /// Tracks the servers of sessions and of requests without one.
    servers: TaskTracker,
}

impl std::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpService").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

impl HttpService {
    /// Creates the service. When `closing` is cancelled, all sessions and responses end; nodes are not
    /// affected. Must be called within a tokio runtime.
    pub fn new(config: Config, closing: CancellationToken) -> HttpService {
        let (disconnected, ended) = (CancellationToken::new(), CancellationToken::new());
        let context = Arc::new(ServerContext::new(config, disconnected.clone()));
        let sessions = Arc::new(Sessions::new(disconnected.clone()));
        let settings = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_sse_keep_alive(Some(HEARTBEAT))
            .with_max_request_body_bytes(MAX_MESSAGE)
            .with_cancellation_token(ended.clone());
        let servers = TaskTracker::new();
        let make = {
            let (disconnected, servers) = (disconnected.clone(), servers.clone());
            move || Ok(McpServer::tracked(Arc::clone(&context), disconnected.clone(), servers.token()))
        };
        let service = StreamableHttpService::new(make, Arc::clone(&sessions), settings);
        let (watched, tracker) = (Arc::clone(&sessions), servers.clone());
        tokio::spawn(async move {
            closing.run_until_cancelled(watched.end_idle()).await;
            // In this order, so that calls that end now do not count as cancelled by their clients.
            disconnected.cancel();
            ended.cancel();
            tracker.close();
        });
        HttpService { service, sessions, servers }
    }

    /// Waits until the service was closed and every session and request has sent or dropped its last message.
    /// The runtime must not end earlier: it would close the sessions' channels first, and the sessions would
    /// report errors.
    pub async fn ended(self) {
        self.servers.wait().await;
    }

    /// Handles one request.
    pub fn answer(&self, request: Request<Full<Bytes>>) -> BoxFuture<'_, Response<Body>> {
        // Boxed: otherwise callers' crates would compile the protocol's SDK again.
        Box::pin(async move {
            if let Some(id) = session(&request) {
                if request.method() == Method::DELETE && !self.sessions.has(&id) {
                    return error_response(StatusCode::NOT_FOUND, "unknown session: it may have ended");
                }
                if request.method() == Method::GET && self.resumes_complete_response(&id, &request) {
                    // After an empty response, clients would retry for ever; after this status they do not.
                    return empty_response(StatusCode::NO_CONTENT);
                }
            }
            let is_sessionless = request.method() == Method::POST
                && session(&request).is_none()
                && !begins_session(request.body()).await;
            let response = handle(self.service.clone(), request);
            if is_sessionless { keepalive::answer(response).await } else { response.await }
        })
    }

    /// Returns true if a client wants to resume a response that it has read completely.
    fn resumes_complete_response<B>(&self, id: &SessionId, request: &Request<B>) -> bool {
        let last = request.headers().get(LAST_EVENT_HEADER).and_then(|last| last.to_str().ok());
        last.is_some_and(|last| self.sessions.is_read_to_end(id, last))
    }
}

/// Returns true if the request starts a session. The head of its response contains the session's id and
/// cannot be sent early.
async fn begins_session(body: &Full<Bytes>) -> bool {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
    }
    let Ok(whole) = body.clone().collect().await;
    serde_json::from_slice::<Envelope<'_>>(&whole.to_bytes())
        .is_ok_and(|envelope| envelope.method == "initialize")
}

async fn handle(
    service: StreamableHttpService<McpServer, Sessions>,
    request: Request<Full<Bytes>>,
) -> Response<Body> {
    let exchange = async {
        let response = service.handle(request).await;
        (response, SESSION_LIMIT_REACHED.with(Cell::get))
    };
    let (response, limit_reached) = SESSION_LIMIT_REACHED.scope(Cell::new(false), exchange).await;
    if !limit_reached {
        return response.map(BodyExt::boxed_unsync);
    }
    let message =
        format!("too many sessions: the limit is {}; end one, or retry later", sessions::MAX_SESSIONS);
    let mut response = error_response(StatusCode::SERVICE_UNAVAILABLE, &message);
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(sessions::EVICTABLE_AFTER.as_secs()));
    response
}

/// Returns the session id of a request; an unreadable one becomes an unknown id.
fn session<B>(request: &Request<B>) -> Option<SessionId> {
    let id = request.headers().get(SESSION_HEADER)?;
    Some(id.to_str().unwrap_or_default().into())
}

fn empty_response(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Full::default().boxed_unsync());
    *response.status_mut() = status;
    response
}

/// Creates an error that answers no request in particular.
fn error_response(status: StatusCode, message: &str) -> Response<Body> {
    let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": message } });
    let mut response = empty_response(status);
    *response.body_mut() = Full::from(error.to_string()).boxed_unsync();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_initialize_starts_session() {
        for (text, begins) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"method":"x"}}"#, true),
            (r#"{"params":{},"method":"initi\u0061lize"}"#, true),
            (r#"{"method":"tools/call","params":{"method":"initialize"}}"#, false),
            (r#"{"method":"notifications/initialized"}"#, false),
            (r#"{"method":1}"#, false),
            ("initialize", false),
        ] {
            assert_eq!(begins_session(&Full::from(text)).await, begins, "{text}");
        }
    }
}
