//! One connection: HTTP/1.1 or HTTP/2, as its client begins.

use std::time::Duration;

use axum::Router;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Site;
use super::activity::Activity;
use super::body_guard::GuardedBody;
use super::gate::{self, ConnectionAuth};
use super::idle_timeout::{self, IdleTimer};
use super::stream::{Stream, Version};
use crate::connection::{HungUp, Link};
use crate::metrics::Transport;
use crate::tcp::PendingClient;

/// The longest head, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// How long the rest of an answer may take when the server goes down.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long answers that are under way may take when a slot is to leave.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests at a time over one connection of HTTP/2.
const MAX_STREAMS: u32 = 100;
/// What a client may send of a body before it is read, in bytes.
const STREAM_WINDOW: u32 = 64 * 1024;
/// The same of all bodies of a connection: one that waits does not hold up the others. Nobody reads those of strangers, so this is what
/// one costs until it is answered.
const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;
/// Bytes of an answer that wait for the client to take them.
const SEND_BUFFER_BYTES: usize = 128 * 1024;
/// How often a client of HTTP/2 is asked whether it is still there, and how long it may take to say so.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Requests that a client takes back before they are looked at; more end the connection (CVE-2023-44487).
const MAX_PENDING_RESETS: usize = 20;
/// Errors in single requests of a connection; more end it.
const MAX_STREAM_ERRORS: usize = 100;

/// Why a connection ends.
enum End {
    /// We have ended it, or the client has sent its last.
    Finished,
    /// Nobody is there any more.
    HungUp,
    /// The server goes down.
    Closing,
}

/// Serves one connection until it is closed, or until the server closes.
pub(crate) async fn serve(client: PendingClient, site: Site) {
    let PendingClient { link, peer, slot } = client;
    let Link { read, write, mut hung_up } = link;
    let auth = ConnectionAuth::new(peer.ip(), slot);
    let _connected = site.metrics.as_ref().map(|metrics| metrics.connected(Transport::Http));
    let closing = site.closing.clone();
    let mut stream = Stream::new(read, write);
    let version = tokio::select! {
        version = tokio::time::timeout(idle_timeout::PREAUTH, stream.detect_version()) => version,
        () = closing.cancelled() => return,
    };
    let Ok(Ok(Some(version))) = version else { return };
    let client =
        Client { auth: auth.clone(), router: site.router, closing: closing.clone(), hung_up: &mut hung_up };
    let served = match version {
        Version::Http1 => client.over_http1(stream.clone()).await,
        // In a place of its own: most connections are not of this kind, and none is to be larger for it.
        Version::Http2 => Box::pin(client.over_http2(stream.clone())).await,
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

struct Client<'a> {
    auth: ConnectionAuth,
    router: Router,
    closing: CancellationToken,
    hung_up: &'a mut HungUp,
}

impl Client<'_> {
    async fn over_http1(self, stream: Stream) -> hyper::Result<End> {
        let Client { auth, router, closing, hung_up } = self;
        let timeout = IdleTimer::new(auth.clone());
        let router = TowerToHyperService::new(router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(auth.clone());
            router.call(request)
        });
        let connection = http1::Builder::new()
            .timer(timeout)
            .header_read_timeout(idle_timeout::PREAUTH)
            // Who sends no more may still wait for the answer: curl does not, `nc -N` and many a library do.
            .half_close(true)
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(gate::MAX_HEADERS)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::pin!(connection);
        tokio::select! {
            biased;
            served = connection.as_mut() => served.map(|()| End::Finished),
            () = hung_up => Ok(End::HungUp),
            () = closing.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let last = tokio::time::timeout(CLOSE_TIMEOUT, connection).await;
                last.unwrap_or(Ok(())).map(|()| End::Closing)
            }
        }
    }

    async fn over_http2(self, stream: Stream) -> hyper::Result<End> {
        let Client { auth, router, closing, hung_up } = self;
        let activity = Activity::new();
        let service = {
            let (auth, activity) = (auth.clone(), activity.clone());
            let router = TowerToHyperService::new(router);
            service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(auth.clone());
                let active = activity.begin();
                let answered = router.call(request);
                async move {
                    let answer: Result<Response<axum::body::Body>, _> = answered.await;
                    let active = active.with_abort_token(&TaskExecutor::abort_token());
                    answer.map(|answer| answer.map(|body| GuardedBody::new(body, active)))
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
                () = auth.closing(), if !is_draining => {
                    if !auth.is_authenticated() {
                        break (DRAIN_TIMEOUT, End::Finished);
                    }
                    // It asks for nothing more, and what it has asked for with the token it gets, however long that takes.
                    connection.as_mut().graceful_shutdown();
                    is_draining = true;
                }
                () = activity.idle(&auth) => break (CLOSE_TIMEOUT, End::Finished),
            }
        };
        connection.as_mut().graceful_shutdown();
        tokio::time::timeout(timeout, connection).await.unwrap_or(Ok(())).map(|()| end)
    }
}

/// Where requests of HTTP/2 are worked on: they are waited for when the connection ends.
#[derive(Debug, Clone)]
struct TaskExecutor(TaskTracker);

tokio::task_local! {
    /// Of the request that a task works on: ends it before its answer was taken.
    static ABORT: CancellationToken;
}

impl TaskExecutor {
    /// What ends the one that this is called in.
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
        // hyper asks a body for nothing while its client takes nothing, so the body cannot end itself. Whose task is dropped is reset
        // (RST_STREAM), and the others of its connection go on.
        self.0.spawn(abort_token.run_until_cancelled_owned(task));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
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
    use crate::server::Clients;

    type Send = client::SendRequest<Empty<Bytes>>;

    /// A client that is in, with a window of 64 KiB for each answer.
    async fn authenticated_client(router: Router) -> Send {
        let (clients, peer) = (Clients::new(1), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let auth = ConnectionAuth::new(peer, clients.preauth.acquire(peer).0);
        assert!(auth.set_authenticated(&clients, crate::access::Credential::for_test()).is_ok());
        let (theirs, ours) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(ours);
        let stream = Stream::new(Box::new(read), Box::new(write));
        tokio::spawn(async move {
            let (closing, mut hung_up): (_, HungUp) =
                (CancellationToken::new(), Box::pin(std::future::pending()));
            Client { auth, router, closing, hung_up: &mut hung_up }.over_http2(stream).await
        });
        let mut builder = client::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(STREAM_WINDOW);
        let (send, connection) = builder.handshake(TokioIo::new(theirs)).await.unwrap();
        tokio::spawn(connection);
        send
    }

    async fn ask(send: &Send, path: &str) -> Response<Incoming> {
        let request = Request::get(format!("http://localhost{path}")).body(Empty::new()).unwrap();
        send.clone().send_request(request).await.unwrap()
    }

    async fn text(answer: Response<Incoming>) -> Bytes {
        answer.into_body().collect().await.unwrap().to_bytes()
    }

    /// An answer that is begun, and given when it is told to be.
    #[derive(Debug, Clone, Default)]
    struct Late {
        begun: Arc<Notify>,
        given: Arc<Notify>,
    }

    impl Late {
        fn router(&self) -> Router {
            let late = self.clone();
            let answer = async move || {
                late.begun.notify_one();
                late.given.notified().await;
                "late"
            };
            Router::new().route("/late", get(answer))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_token_of_one_who_is_in_takes_no_answer_of_those_before_it() {
        let wrong = async |Extension(auth): Extension<ConnectionAuth>| {
            auth.close();
            StatusCode::UNAUTHORIZED
        };
        let late = Late::default();
        let send = authenticated_client(late.router().route("/wrong", get(wrong))).await;
        let mut before = pin!(async { text(ask(&send, "/late").await).await });
        let is_begun = tokio::select! {
            biased;
            _ = before.as_mut() => false,
            () = late.begun.notified() => true,
        };
        assert!(is_begun);
        assert_eq!(ask(&send, "/wrong").await.status(), StatusCode::UNAUTHORIZED);
        // Longer than one who is sent away has.
        assert!(timeout(DRAIN_TIMEOUT * 30, before.as_mut()).await.is_err());
        late.given.notify_one();
        assert_eq!(before.await, Bytes::from("late"));
        // AfterSend it is the last.
        tokio::time::timeout(Duration::from_secs(1), async {
            while !send.is_closed() {
                tokio::task::yield_now().await
            }
        })
        .await
        .unwrap();
    }

    /// A piece of an answer that tells when nobody has it any more.
    struct Piece(Vec<u8>, Arc<Notify>);

    impl AsRef<[u8]> for Piece {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Piece {
        fn drop(&mut self) {
            self.1.notify_one();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_is_given_up_and_no_other_with_it() {
        let late = Late::default();
        // The other one is answered when this one was given up.
        let given = late.given.clone();
        let long = async move || Body::from(Bytes::from_owner(Piece(vec![b'x'; 1 << 20], given)));
        let send = authenticated_client(late.router().route("/long", get(long))).await;
        let (other, started) = (async { text(ask(&send, "/late").await).await }, Instant::now());
        // Nothing of it is taken until it is too late.
        let stalled = ask(&send, "/long");
        let (other, stalled) = tokio::join!(other, stalled);
        assert_eq!(other, Bytes::from("late"));
        assert!(stalled.into_body().collect().await.is_err());
        assert!(started.elapsed() < Duration::from_secs(301), "{:?}", started.elapsed());
    }
}
