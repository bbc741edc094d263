//! Serves one HTTP connection, over HTTP/1.1 or HTTP/2.

use std::time::Duration;

use axum::Router;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nerve_node::client_origin::ClientOrigin;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Site;
use super::activity::Activity;
use super::body_guard::GuardedBody;
use super::connection_auth::ConnectionAuth;
use super::gate;
use super::idle_timeout::{self, IdleTimer};
use super::stream::{Stream, Version};
use crate::client_origin;
use crate::clients::{CLOSE_TIMEOUT, PendingClient};
use crate::link::{HungUp, Link};
use crate::metrics::Transport;

/// Maximum size of a request head in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Time that open responses may take when an unauthenticated connection is to be closed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent HTTP/2 streams.
const MAX_STREAMS: u32 = 100;
/// Flow-control window of a request body in bytes.
const STREAM_WINDOW: u32 = 64 * 1024;
/// Flow-control window of all request bodies of a connection: a body that waits does not block others. Bodies
/// of unauthenticated clients are not read, so this bounds their memory.
const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;
/// Bytes of a response that are buffered for the client.
const SEND_BUFFER_BYTES: usize = 128 * 1024;
/// Interval of HTTP/2 pings, and time that a client may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum number of streams that a client may reset before they are accepted (CVE-2023-44487).
const MAX_PENDING_RESETS: usize = 20;
/// Maximum number of stream errors per connection.
const MAX_STREAM_ERRORS: usize = 100;

/// Reason why a connection ended.
enum End {
    /// The server ended it, or the client finished sending.
    Finished,
    /// The client is gone.
    HungUp,
    /// The server shuts down.
    Closing,
}

/// Serves one connection until it is closed or the server closes.
pub(crate) async fn serve(client: PendingClient, site: Site) {
    let PendingClient { link, peer, slot } = client;
    let Link { read, write, mut hung_up } = link;
    let auth = ConnectionAuth::new(peer.ip(), slot);
    let _connected = site.metrics.as_ref().map(|metrics| metrics.count_connection(Transport::Http));
    let closing = site.closing.clone();
    let mut stream = Stream::new(read, write);
    let version = tokio::select! {
        version = tokio::time::timeout(idle_timeout::PREAUTH, stream.detect_version()) => version,
        () = closing.cancelled() => return,
    };
    let Ok(Ok(Some(version))) = version else { return };
    let client = Client {
        origin: client_origin::network("http", peer),
        auth: auth.clone(),
        router: site.router,
        closing: closing.clone(),
        hung_up: &mut hung_up,
    };
    let served = match version {
        Version::Http1 => client.serve_http1(stream.clone()).await,
        // Boxed: HTTP/2 is rarer, and its larger future must not enlarge all connections.
        Version::Http2 => Box::pin(client.serve_http2(stream.clone())).await,
    };
    let end = served.unwrap_or_else(|error| {
        tracing::debug!(%peer, %error, "a connection broke");
        End::Finished
    });
    auth.tasks.close();
    auth.tasks.wait().await;
    if matches!(end, End::Finished) {
        tokio::select! {
            () = stream.linger() => {}
            () = hung_up => {}
            () = closing.cancelled() => {}
        }
    }
}

/// The client of a connection, and the router that serves its requests.
struct Client<'a> {
    origin: ClientOrigin,
    auth: ConnectionAuth,
    router: Router,
    closing: CancellationToken,
    hung_up: &'a mut HungUp,
}

impl Client<'_> {
    /// Serves HTTP/1.1 until one side ends.
    async fn serve_http1(self, stream: Stream) -> hyper::Result<End> {
        let Client { origin, auth, router, closing, hung_up } = self;
        let timeout = IdleTimer::new(auth.clone());
        let router = TowerToHyperService::new(router);
        let input = stream.clone();
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(auth.clone());
            request.extensions_mut().insert(input.clone());
            client_origin::scope(origin.clone(), router.call(request))
        });
        let connection = http1::Builder::new()
            .timer(timeout)
            .header_read_timeout(idle_timeout::PREAUTH)
            // A client that has finished sending may still wait for the response: `nc -N` and many libraries do.
            .half_close(true)
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(gate::MAX_HEADERS)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::pin!(connection);
        let mut is_draining = false;
        loop {
            tokio::select! {
                biased;
                served = connection.as_mut() => return served.map(|()| End::Finished),
                () = &mut *hung_up => return Ok(End::HungUp),
                () = closing.cancelled() => break,
                () = auth.wait_for_close(), if !is_draining => {
                    connection.as_mut().graceful_shutdown();
                    is_draining = true;
                }
            }
        }
        connection.as_mut().graceful_shutdown();
        tokio::time::timeout(CLOSE_TIMEOUT, connection).await.unwrap_or(Ok(())).map(|()| End::Closing)
    }

    /// Serves HTTP/2 until one side ends, or nothing happens for long.
    async fn serve_http2(self, stream: Stream) -> hyper::Result<End> {
        let Client { origin, auth, router, closing, hung_up } = self;
        let activity = Activity::new();
        let service = {
            let (auth, activity) = (auth.clone(), activity.clone());
            let router = TowerToHyperService::new(router);
            service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(auth.clone());
                let active = activity.begin();
                let responding = client_origin::scope(origin.clone(), router.call(request));
                async move {
                    let response: Result<Response<axum::body::Body>, _> = responding.await;
                    let active = active.with_abort_token(&TaskExecutor::abort_token());
                    response.map(|response| response.map(|body| GuardedBody::new(body, active)))
                }
            })
        };
        let connection = http2::Builder::new(TaskExecutor(auth.tasks.clone()))
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
            .max_local_error_reset_streams(MAX_STREAM_ERRORS)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_INTERVAL)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let mut is_draining = false;
        let (timeout, end) = loop {
            tokio::select! {
                biased;
                served = connection.as_mut() => return served.map(|()| End::Finished),
                () = &mut *hung_up => return Ok(End::HungUp),
                () = closing.cancelled() => break (CLOSE_TIMEOUT, End::Closing),
                () = auth.wait_for_close(), if !is_draining => {
                    if !auth.is_authenticated() {
                        break (DRAIN_TIMEOUT, End::Finished);
                    }
                    // No new requests are accepted, but those made with the old token are answered, however long that takes.
                    connection.as_mut().graceful_shutdown();
                    is_draining = true;
                }
                () = activity.wait_until_idle(&auth) => break (CLOSE_TIMEOUT, End::Finished),
            }
        };
        connection.as_mut().graceful_shutdown();
        tokio::time::timeout(timeout, connection).await.unwrap_or(Ok(())).map(|()| end)
    }
}

/// Runs the requests of an HTTP/2 connection, which are awaited when it ends.
#[derive(Debug, Clone)]
struct TaskExecutor(TaskTracker);

tokio::task_local! {
    /// Aborts the request that the current task works on.
    static ABORT: CancellationToken;
}

impl TaskExecutor {
    /// Returns the token that aborts the current task's request.
    fn abort_token() -> CancellationToken {
        ABORT.try_with(CancellationToken::clone).unwrap_or_default()
    }
}

impl<F> Executor<F> for TaskExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        let abort_token = CancellationToken::new();
        let task = ABORT.scope(abort_token.clone(), task);
        // While a client does not read, hyper does not poll the body, so the body cannot end itself. Dropping
        // the task resets the stream (RST_STREAM); other streams of the connection are not affected.
        self.0.spawn(abort_token.run_until_cancelled_owned(task));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;

    use axum::Extension;
    use axum::body::{Body, Bytes};
    use axum::routing::get;
    use http::StatusCode;
    use http_body_util::{BodyExt, Empty};
    use hyper::client::conn::http2 as client;
    use hyper_util::rt::TokioExecutor;
    use tokio::sync::Notify;
    use tokio::time::{Instant, timeout};

    use super::*;

    type Send = client::SendRequest<Empty<Bytes>>;

    /// Connects an authenticated client, with a window of 64 KiB for each response.
    async fn authenticated_client(router: Router) -> Send {
        let (auth, clients) = ConnectionAuth::for_test();
        assert!(auth.set_authenticated(&clients).is_ok());
        let (theirs, ours) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(ours);
        let stream = Stream::new(Box::new(read), Box::new(write));
        tokio::spawn(async move {
            let (closing, mut hung_up): (_, HungUp) =
                (CancellationToken::new(), Box::pin(std::future::pending()));
            let origin = ClientOrigin::default();
            Client { origin, auth, router, closing, hung_up: &mut hung_up }.serve_http2(stream).await
        });
        let mut builder = client::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(STREAM_WINDOW);
        let (send, connection) = builder.handshake(TokioIo::new(theirs)).await.unwrap();
        tokio::spawn(connection);
        send
    }

    /// Sends a request and returns the head of its response.
    async fn request(send: &Send, path: &str) -> Response<Incoming> {
        let request = Request::get(format!("http://localhost{path}")).body(Empty::new()).unwrap();
        send.clone().send_request(request).await.unwrap()
    }

    async fn read_body(response: Response<Incoming>) -> Bytes {
        response.into_body().collect().await.unwrap().to_bytes()
    }

    /// A response that signals its start, and is sent when it is released.
    #[derive(Debug, Clone, Default)]
    struct HeldResponse {
        started: Arc<Notify>,
        released: Arc<Notify>,
    }

    impl HeldResponse {
        fn router(&self) -> Router {
            let held = self.clone();
            let answer = async move || {
                held.started.notify_one();
                held.released.notified().await;
                "late"
            };
            Router::new().route("/late", get(answer))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_token_does_not_abort_earlier_requests() {
        let wrong = async |Extension(auth): Extension<ConnectionAuth>| {
            auth.close();
            StatusCode::UNAUTHORIZED
        };
        let held = HeldResponse::default();
        let send = authenticated_client(held.router().route("/wrong", get(wrong))).await;
        let mut before = pin!(async { read_body(request(&send, "/late").await).await });
        let is_started = tokio::select! {
            biased;
            _ = before.as_mut() => false,
            () = held.started.notified() => true,
        };
        assert!(is_started);
        assert_eq!(request(&send, "/wrong").await.status(), StatusCode::UNAUTHORIZED);
        // Longer than an unauthenticated client would get.
        assert!(timeout(DRAIN_TIMEOUT * 30, before.as_mut()).await.is_err());
        held.released.notify_one();
        assert_eq!(before.await, Bytes::from("late"));
        // The connection accepts no further requests.
        tokio::time::timeout(Duration::from_secs(1), async {
            while !send.is_closed() {
                tokio::task::yield_now().await
            }
        })
        .await
        .unwrap();
    }

    /// A chunk of a body that signals when it is dropped.
    struct NotifyOnDrop(Vec<u8>, Arc<Notify>);

    impl AsRef<[u8]> for NotifyOnDrop {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for NotifyOnDrop {
        fn drop(&mut self) {
            self.1.notify_one();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_stream_is_reset_alone() {
        let held = HeldResponse::default();
        // The other response completes when this one was aborted.
        let released = held.released.clone();
        let long = async move || Body::from(Bytes::from_owner(NotifyOnDrop(vec![b'x'; 1 << 20], released)));
        let send = authenticated_client(held.router().route("/long", get(long))).await;
        let (other, started) = (async { read_body(request(&send, "/late").await).await }, Instant::now());
        // Nothing is read from it until it is aborted.
        let stalled = request(&send, "/long");
        let (other, stalled) = tokio::join!(other, stalled);
        assert_eq!(other, Bytes::from("late"));
        assert!(stalled.into_body().collect().await.is_err());
        assert!(started.elapsed() < Duration::from_secs(301), "{:?}", started.elapsed());
    }
}
