//! The port of a proxy: connections, their limits, and going down.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::{self, AnyBody};
use crate::call::{Call, Outcome};
use crate::door;
use crate::fault::Fault;
use crate::gateway::{Behind, Gateway};
use crate::seats::{Seat, Seats};
use crate::{headers, openai, passthrough};

/// How long a client that was let in may take to send the head of its next request.
const HEAD_PATIENCE: Duration = Duration::from_secs(60);
/// The longest head, in bytes.
const HEAD: usize = 64 << 10;
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
        let (gateway, stop, abort) = (gateway.clone(), stop.clone(), abort.clone());
        tasks.spawn(async move {
            tokio::select! {
                () = serve(stream, gateway, &seat, stop) => {}
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

async fn serve(stream: TcpStream, gateway: Arc<Gateway>, seat: &Seat, stop: CancellationToken) {
    // A token of an answer is one small write.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection is gone");
        return;
    }
    let service = service_fn(|request| answer(gateway.clone(), seat, request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection broke");
    }
}

async fn answer(
    gateway: Arc<Gateway>,
    seat: &Seat,
    request: Request<Incoming>,
) -> Result<Response<AnyBody>, Infallible> {
    let (head, incoming) = request.into_parts();
    let call = Call::begin(gateway.clone(), &head);
    let id = HeaderValue::from_str(call.id()).ok();
    let allowed = door::check(&head, gateway.config.client_token.as_ref());
    if allowed.is_ok() {
        seat.let_in();
    }
    let request = Request::from_parts(head, incoming);
    let answered = match (allowed, gateway.behind) {
        (Err(fault), _) => Err((fault, call)),
        (Ok(()), Behind::Anthropic) => passthrough::pass_on(&gateway, request, call).await,
        (Ok(()), Behind::OpenAi) => openai::translate(&gateway, request, call).await,
    };
    let mut reply = answered.unwrap_or_else(|(fault, call)| refuse(&fault, call));
    reply.headers_mut().extend(id.map(|id| (headers::REQUEST_ID, id)));
    Ok(reply)
}

fn refuse(fault: &Fault, mut call: Call) -> Response<AnyBody> {
    call.status = Some(fault.status.as_u16());
    call.outcome = Outcome::Refused(fault.message.clone());
    body::refusal(fault)
}
