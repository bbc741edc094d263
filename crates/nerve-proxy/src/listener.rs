//! The port of a proxy: connections, their limits, and going down.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api_error::Fault;
use crate::auth;
use crate::body::{self, AnyBody, Broken};
use crate::connection_limit::{Asking, Seat, Seats};
use crate::request_body::Arriving;
use crate::request_log::{Call, Outcome};
use crate::state::{Behind, Gateway};
use crate::{headers, openai, passthrough};

/// How long a client that was let in may take to send the head of its next request.
const HEAD_PATIENCE: Duration = Duration::from_secs(60);
/// The longest head, in bytes.
const HEAD: usize = 64 << 10;
/// How long an HTTP/2 connection that is told to go may take to do so.
const GOODBYE: Duration = Duration::from_secs(5);
/// HTTP/2: requests of one connection at once (RFC 9113 §6.5.2 recommends no fewer).
const STREAMS: u32 = 100;
/// HTTP/2: streams that a client may open and reset before its connection is closed (CVE-2023-44487, CVE-2025-8671).
const RESETS: usize = 100;
/// HTTP/2: what waits to be sent on one stream, in bytes.
const UNSENT: usize = 64 << 10;
/// HTTP/2: how often a client is asked whether it is there, and how long it may take to say so.
const ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// After an error of `accept`: too many open files do not go away at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Takes clients until `stop`, then waits up to `shutdown_patience` for answers under way.
pub(crate) async fn run(listener: TcpListener, gateway: Arc<Gateway>, stop: CancellationToken) {
    let (seats, tasks) = (Seats::default(), TaskTracker::new());
    let abort = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(seat) = seats.take() else {
            tracing::warn!("too many connections: one was turned away");
            continue;
        };
        let (seat, gateway, stop, abort) = (Arc::new(seat), gateway.clone(), stop.clone(), abort.clone());
        let streams = Streams { tasks: tasks.clone(), abort: abort.clone() };
        tasks.spawn(async move {
            tokio::select! {
                () = serve(stream, gateway, seat.clone(), streams, stop) => {}
                () = seat.lost() => tracing::debug!("a connection that was not let in was closed"),
                () = abort.cancelled() => {}
            }
        });
    }
    drop(listener);
    tasks.close();
    if tokio::time::timeout(gateway.config.shutdown_patience, tasks.wait()).await.is_err() {
        abort.cancel();
        tasks.wait().await;
    }
}

async fn serve(
    stream: TcpStream,
    gateway: Arc<Gateway>,
    seat: Arc<Seat>,
    streams: Streams,
    stop: CancellationToken,
) {
    // A token of an answer is one small write.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection is gone");
        return;
    }
    let guest = seat.clone();
    let service = service_fn(move |request| answer(gateway.clone(), guest.clone(), request));
    let protocols = protocols(streams);
    let connection = protocols.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        // Over HTTP/1.1 its own limit may be first; over HTTP/2 there is none.
        () = seat.quiet(HEAD_PATIENCE) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                served = connection => served,
                () = seat.quiet(GOODBYE) => return,
            }
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection broke");
    }
}

/// HTTP/1.1, and HTTP/2 for who begins with it, with their limits.
fn protocols(streams: Streams) -> Builder<Streams> {
    let mut builder = Builder::new(streams);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD as u32)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(RESETS)
        .max_send_buf_size(UNSENT)
        .keep_alive_interval(ALIVE.0)
        .keep_alive_timeout(ALIVE.1);
    builder
}

/// Runs the streams of HTTP/2 connections: a shutdown waits for them too.
#[derive(Debug, Clone)]
struct Streams {
    tasks: TaskTracker,
    abort: CancellationToken,
}

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.tasks.spawn(self.abort.clone().run_until_cancelled_owned(stream));
    }
}

async fn answer(
    gateway: Arc<Gateway>,
    seat: Arc<Seat>,
    request: Request<Incoming>,
) -> Result<Response<AnyBody>, Infallible> {
    let (head, incoming) = request.into_parts();
    let call = Call::begin(gateway.clone(), &head);
    let id = HeaderValue::from_str(call.id()).ok();
    let allowed = auth::check(&head, gateway.config.client_token.as_ref()).and_then(|()| {
        seat.let_in();
        let full = "the proxy has too many requests under way: try again";
        seat.ask().ok_or_else(|| Fault::new(StatusCode::SERVICE_UNAVAILABLE, full))
    });
    let request = Arriving::request(Request::from_parts(head, incoming));
    let (answered, asking) = match (allowed, gateway.behind) {
        (Err(fault), _) => (Err((fault, call)), None),
        (Ok(asking), Behind::Anthropic) => {
            (passthrough::pass_on(&gateway, request, call).await, Some(asking))
        }
        (Ok(asking), Behind::OpenAi) => (openai::translate(&gateway, request, call).await, Some(asking)),
    };
    let mut reply = answered.unwrap_or_else(|(fault, call)| refuse(&fault, call));
    reply.headers_mut().extend(id.map(|id| (headers::REQUEST_ID, id)));
    Ok(reply.map(|body| Counted { body, _asking: asking }.boxed_unsync()))
}

/// The body of a reply; its request has its place until it has gone out.
struct Counted {
    body: AnyBody,
    _asking: Option<Asking>,
}

impl Body for Counted {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn refuse(fault: &Fault, mut call: Call) -> Response<AnyBody> {
    call.status = Some(fault.status.as_u16());
    call.outcome = Outcome::Refused(fault.message.clone());
    body::refusal(fault)
}
