//! Response bodies that hold a resource until they are sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};

/// Maximum size of a chunk handed to hyper: of a large body, only that much is buffered there.
const MAX_CHUNK_BYTES: usize = 64 * 1024;

/// A body with a guard, which is dropped when the body is sent or no longer wanted.
pub(super) struct GuardedBody<T> {
    body: Body,
    /// The unsent rest of a frame.
    remaining: Bytes,
    guard: T,
}

/// Observes how a body is consumed.
pub(super) trait BodyObserver {
    /// Called when another chunk is requested.
    fn on_poll(&self) {}
    /// Called when a chunk is handed out.
    fn on_chunk(&self) {}
}

impl<T: BodyObserver> GuardedBody<T> {
    pub(super) fn new(body: Body, guard: T) -> GuardedBody<T> {
        GuardedBody { body, remaining: Bytes::new(), guard }
    }
}

impl<T: BodyObserver + Unpin> hyper::body::Body for GuardedBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.guard.on_poll();
        if self.remaining.is_empty() {
            let frame = match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                ended => return Poll::Ready(ended),
            };
            match frame.into_data() {
                Ok(data) => self.remaining = data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
        let chunk = self.remaining.len().min(MAX_CHUNK_BYTES);
        let chunk = self.remaining.split_to(chunk);
        self.guard.on_chunk();
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, remaining) = (self.body.size_hint(), self.remaining.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + remaining);
        }
        hint.set_lower(hint.lower() + remaining);
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use hyper::body::Body as _;

    use super::*;

    impl BodyObserver for () {}

    #[tokio::test]
    async fn long_body_is_split_and_reports_its_size() {
        let mut body = GuardedBody::new(Body::from(vec![b'x'; 3 * MAX_CHUNK_BYTES + 5]), ());
        let mut sizes = Vec::new();
        loop {
            let left = 3 * MAX_CHUNK_BYTES + 5 - sizes.iter().sum::<usize>();
            assert_eq!(body.size_hint().exact(), Some(left as u64));
            if body.is_end_stream() {
                break;
            }
            let Some(frame) = body.frame().await else { break };
            sizes.push(frame.unwrap().into_data().unwrap().len());
        }
        assert_eq!(sizes, [MAX_CHUNK_BYTES, MAX_CHUNK_BYTES, MAX_CHUNK_BYTES, 5]);
    }
}
