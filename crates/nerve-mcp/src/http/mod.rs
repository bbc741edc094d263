//! The same over streamable HTTP, for many clients at a time.
//!
//! Who may come in, and how long a request may be, is for what stands before this: it is given whole requests of clients that were let
//! in. Of the two ages of the protocol, the older one has sessions (`sessions`), whose answers outlive a connection that breaks
//! (`answers`); in the newer one each request stands for itself, and a client that closes its connection cancels it.
//!
//! | module | what it is |
//! |---|---|
//! | `sessions` | how many clients there are, and which of them give way |
//! | `pulse` | how it is noticed that the client of a request without a session is gone |
//! | `answers` | the messages of one request, for who comes again to read them |

mod answers;
mod pulse;
mod sessions;

use std::borrow::Cow;
use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

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

use self::sessions::Sessions;
use crate::Config;
use crate::server::{McpServer, Shelf};

/// Where clients look for it on a server, unless told otherwise.
pub const PATH: &str = "/mcp";
/// The longest message, in bytes: as long as a line of nerve's own wire.
const MAX_MESSAGE: usize = nerve_api::framing::MAX_LINE_BYTES;
/// How often a silent stream says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The header that names a session.
const SESSION: &str = "mcp-session-id";
/// The header that names the last message that a client has read.
const LAST_EVENT: &str = "last-event-id";

/// What an answer says, as it comes.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

tokio::task_local! {
    /// The request that is answered asked for a session, and there is no room for one.
    static NO_ROOM: Cell<bool>;
}

/// Serves clients over HTTP, whoever listens for them. Clones serve the same clients.
#[derive(Clone)]
pub struct HttpService {
    service: StreamableHttpService<McpServer, Sessions>,
    sessions: Arc<Sessions>,
    /// What serves a session, or a request without one.
    servers: TaskTracker,
}

impl std::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpService").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

impl HttpService {
    /// Serves until `closing`: then all sessions and answers end. Nodes are left as they are. Must be called within a tokio runtime.
    pub fn new(config: Config, closing: CancellationToken) -> HttpService {
        let (gone, ended) = (CancellationToken::new(), CancellationToken::new());
        let shelf = Arc::new(Shelf::new(config, gone.clone()));
        let sessions = Arc::new(Sessions::new(gone.clone()));
        let settings = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_sse_keep_alive(Some(HEARTBEAT))
            .with_max_request_body_bytes(MAX_MESSAGE)
            .with_cancellation_token(ended.clone());
        let servers = TaskTracker::new();
        let make = {
            let (gone, servers) = (gone.clone(), servers.clone());
            move || Ok(McpServer::counted(Arc::clone(&shelf), gone.clone(), servers.token()))
        };
        let service = StreamableHttpService::new(make, Arc::clone(&sessions), settings);
        let (watched, counted) = (Arc::clone(&sessions), servers.clone());
        tokio::spawn(async move {
            closing.run_until_cancelled(watched.end_idle_ones()).await;
            // In this order: calls that end now were not cancelled by their clients.
            gone.cancel();
            ended.cancel();
            counted.close();
        });
        HttpService { service, sessions, servers }
    }

    /// Done when it was closed and all that was served has ended: each session, and each request without one, has sent its last message
    /// or dropped it. A runtime that ends sooner takes sessions the one they send to, and that is a fault to them.
    pub async fn ended(self) {
        self.servers.wait().await;
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Full<Bytes>>) -> Response<Body> {
        if let Some(id) = session(&request) {
            if request.method() == Method::DELETE && !self.sessions.has(&id) {
                return refused(StatusCode::NOT_FOUND, "there is no such session: it has ended");
            }
            if request.method() == Method::GET && self.wants_what_is_not_there(&id, &request) {
                // An empty answer would let clients ask again and again; with this status they do not.
                return empty(StatusCode::NO_CONTENT);
            }
        }
        let stands_alone = request.method() == Method::POST
            && session(&request).is_none()
            && !begins_session(request.body()).await;
        let answering = handle(self.service.clone(), request);
        if stands_alone { pulse::answer(answering).await } else { answering.await }
    }

    /// It comes again to read the rest of an answer of which there is no more.
    fn wants_what_is_not_there<B>(&self, id: &SessionId, request: &Request<B>) -> bool {
        let last = request.headers().get(LAST_EVENT).and_then(|last| last.to_str().ok());
        last.is_some_and(|last| self.sessions.has_nothing_after(id, last))
    }
}

/// It asks for a session, whose id is in the head of the answer: that head cannot be sent before there is one.
async fn begins_session(body: &Full<Bytes>) -> bool {
    #[derive(Deserialize)]
    struct Asked<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
    }
    let Ok(whole) = body.clone().collect().await;
    serde_json::from_slice::<Asked<'_>>(&whole.to_bytes()).is_ok_and(|asked| asked.method == "initialize")
}

async fn handle(
    service: StreamableHttpService<McpServer, Sessions>,
    request: Request<Full<Bytes>>,
) -> Response<Body> {
    let answering = async {
        let response = service.handle(request).await;
        (response, NO_ROOM.with(Cell::get))
    };
    let (response, no_room) = NO_ROOM.scope(Cell::new(false), answering).await;
    if !no_room {
        return response.map(BodyExt::boxed_unsync);
    }
    let words = format!(
        "too many sessions: there are {} clients; end one of them, or try again later",
        sessions::MOST
    );
    let mut response = refused(StatusCode::SERVICE_UNAVAILABLE, &words);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(sessions::GIVES_WAY.as_secs()));
    response
}

/// The session that a request names; one that is no text is none of ours.
fn session<B>(request: &Request<B>) -> Option<SessionId> {
    let id = request.headers().get(SESSION)?;
    Some(id.to_str().unwrap_or_default().into())
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Full::default().boxed_unsync());
    *response.status_mut() = status;
    response
}

/// An error that answers no request in particular.
fn refused(status: StatusCode, message: &str) -> Response<Body> {
    let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": message } });
    let mut response = empty(status);
    *response.body_mut() = Full::from(error.to_string()).boxed_unsync();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_first_request_of_a_session_begins_one() {
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
