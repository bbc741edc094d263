//! Accepts connections, enforces their limits, and shuts them down.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use nerve_types::connection_limit::ConnectionLimiter;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api_error::ApiError;
use crate::auth;
use crate::body::{self, DynBody};
use crate::config::Provider;
use crate::connection::{self, Connection};
use crate::network_body::NetworkBody;
use crate::report::CallOutcome;
use crate::request_log::RequestLog;
use crate::state::ProxyState;
use crate::{headers, openai, passthrough};

/// Time limit for an authenticated client to send the head of its next request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a request head, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// Time that an HTTP/2 connection gets to close after GOAWAY.
const GOAWAY_TIMEOUT: Duration = Duration::from_secs(5);
/// HTTP/2: concurrent requests per connection (RFC 9113 §6.5.2 recommends at least 100).
const MAX_STREAMS: u32 = 100;
/// HTTP/2: streams that a client may open and reset before its connection is closed (CVE-2023-44487, CVE-2025-8671).
const MAX_RESETS: usize = 100;
/// HTTP/2: send buffer of one stream, in bytes.
const MAX_SEND_BUFFER: usize = 64 << 10;
/// HTTP/2: ping interval, and time limit for the reply to a ping.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// Pause after an error of `accept`, for example when file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts clients until `stop`, then waits up to `shutdown_timeout` for answers in flight.
pub(crate) async fn run(listener: TcpListener, state: Arc<ProxyState>, stop: CancellationToken) {
    let (limiter, tasks) = (ConnectionLimiter::new(connection::LIMITS), TaskTracker::new());
    let permits = Arc::new(Semaphore::new(connection::MAX_ACTIVE));
    let abort = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some((slot, _)) = limiter.accept(peer.ip()) else {
            tracing::warn!("connection refused: all slots are in use");
            continue;
        };
        let connection = Arc::new(Connection::new(slot, permits.clone()));
        let (state, stop, abort) = (state.clone(), stop.clone(), abort.clone());
        let executor = StreamExecutor { tasks: tasks.clone(), abort: abort.clone() };
        tasks.spawn(async move {
            tokio::select! {
                () = serve(stream, state, connection.clone(), executor, stop) => {}
                () = connection.wait_evicted() => tracing::debug!("unauthenticated connection closed"),
                () = abort.cancelled() => {}
            }
        });
    }
    drop(listener);
    tasks.close();
    if tokio::time::timeout(state.config.shutdown_timeout, tasks.wait()).await.is_err() {
        abort.cancel();
        tasks.wait().await;
    }
}

async fn serve(
    stream: TcpStream,
    state: Arc<ProxyState>,
    client: Arc<Connection>,
    executor: StreamExecutor,
    stop: CancellationToken,
) {
    // Streamed tokens are small writes that must not be delayed.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "connection lost");
        return;
    }
    let answering = client.clone();
    let service = service_fn(move |request| answer(state.clone(), answering.clone(), request));
    let protocols = protocols(executor);
    let connection = protocols.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        // HTTP/1.1 also has a limit of its own; HTTP/2 has none.
        () = client.wait_idle(HEAD_TIMEOUT) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                served = connection => served,
                () = client.wait_idle(GOAWAY_TIMEOUT) => return,
            }
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "connection failed");
    }
}

/// Returns a server for HTTP/1.1, and for HTTP/2 with prior knowledge, with their limits.
fn protocols(executor: StreamExecutor) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(executor);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD as u32)
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_RESETS)
        .max_send_buf_size(MAX_SEND_BUFFER)
        .keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1);
    builder
}

/// Runs the streams of HTTP/2 connections. A shutdown waits for them too.
#[derive(Debug, Clone)]
struct StreamExecutor {
    tasks: TaskTracker,
    abort: CancellationToken,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.tasks.spawn(self.abort.clone().run_until_cancelled_owned(stream));
    }
}

async fn answer(
    state: Arc<ProxyState>,
    client: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<DynBody>, Infallible> {
    let (head, incoming) = request.into_parts();
    let request_log = RequestLog::begin(state.clone(), &head);
    let id = HeaderValue::from_str(request_log.id()).ok();
    let allowed = auth::check(&head, state.config.client_token.as_ref()).and_then(|()| {
        client.mark_authenticated();
        let full = "the proxy has too many requests in flight: try again";
        client.acquire_request().ok_or_else(|| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, full))
    });
    let request = NetworkBody::from_request(Request::from_parts(head, incoming));
    let (result, permit) = match (allowed, state.provider) {
        (Err(error), _) => (Err((error, request_log)), None),
        (Ok(permit), Provider::Anthropic) => {
            (passthrough::forward(&state, request, request_log).await, Some(permit))
        }
        (Ok(permit), Provider::OpenAi) => (openai::handle(&state, request, request_log).await, Some(permit)),
    };
    let mut reply = result.unwrap_or_else(|(error, request_log)| error_response(&error, request_log));
    reply.headers_mut().extend(id.map(|id| (headers::REQUEST_ID, id)));
    // The body owns the permit until it has been sent.
    let with_permit = move |error| {
        let _held = &permit;
        error
    };
    Ok(reply.map(|body| body.map_err(with_permit).boxed_unsync()))
}

fn error_response(error: &ApiError, mut request_log: RequestLog) -> Response<DynBody> {
    request_log.record_status(error.status);
    request_log.record_outcome(CallOutcome::Refused, Some(&error.message));
    body::error_response(error)
}
