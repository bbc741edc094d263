//! HTTP: the wire's commands as resources, events as SSE and over a WebSocket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;

use crate::access::Door;
use crate::serving::Serving;
use crate::tcp::Visitor;

/// How long a client may take to send the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// What all requests share.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) serving: Arc<Serving>,
    pub(crate) door: Arc<Door>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Site {
    pub(crate) fn new(serving: Arc<Serving>, door: Arc<Door>, address: SocketAddr) -> Site {
        Site { serving, door, address }
    }
}

/// Serves one connection until it is closed, or until the server closes.
pub(crate) async fn serve(visitor: Visitor, site: Site) {
    let Visitor { link, peer, stranger } = visitor;
    let closing = site.serving.closing.clone();
    let io = TokioIo::new(tokio::io::join(link.read, link.write));
    let service = TowerToHyperService::new(router(site));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(io, service)
        .with_upgrades();
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    drop(stranger);
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "a connection broke");
    }
}

fn router(site: Site) -> Router {
    Router::new().route("/health", get(async || "ok")).with_state(site)
}
