//! The connection of a call, to notice that its client has left.

use axum::extract::Request;

use crate::http::stream::Stream;

/// The connection of a call over HTTP/1.1. Over HTTP/2, a client that leaves resets its request, which drops the call.
#[derive(Clone)]
pub(super) struct ClientConnection(Option<Stream>);

impl ClientConnection {
    /// Takes the connection of a request.
    pub(super) fn take(request: &mut Request) -> ClientConnection {
        ClientConnection(request.extensions_mut().remove::<Stream>())
    }

    /// Completes when the client has closed the connection. Must not be polled before the body is read.
    pub(super) async fn closed(&self) {
        match &self.0 {
            Some(stream) => stream.input_ended().await,
            None => std::future::pending().await,
        }
    }
}
