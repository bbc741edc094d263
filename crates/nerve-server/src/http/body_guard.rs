//! Bodies of answers that hold something until they are sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};

/// A body is given to hyper in pieces of so many bytes: of a large one only that much is on its way, and the rest here.
const PIECE: usize = 64 * 1024;

/// A body, and what is dropped with it when all of it has left, or nobody wants it any more.
pub(super) struct Holding<T> {
    body: Body,
    /// What is left of a piece.
    rest: Bytes,
    held: T,
}

/// What wants to know how a body is taken.
pub(super) trait Watch {
    /// Another piece is wanted.
    fn wanted(&self) {}
    /// One was given.
    fn given(&self) {}
}

impl<T: Watch> Holding<T> {
    pub(super) fn new(body: Body, held: T) -> Holding<T> {
        Holding { body, rest: Bytes::new(), held }
    }
}

impl<T: Watch + Unpin> hyper::body::Body for Holding<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.held.wanted();
        if self.rest.is_empty() {
            let frame = match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                ended => return Poll::Ready(ended),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
        let piece = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(piece);
        self.held.given();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use hyper::body::Body as _;

    use super::*;

    impl Watch for () {}

    #[tokio::test]
    async fn a_long_body_comes_in_pieces_and_says_how_long_it_is() {
        let mut body = Holding::new(Body::from(vec![b'x'; 3 * PIECE + 5]), ());
        let mut sizes = Vec::new();
        loop {
            let left = 3 * PIECE + 5 - sizes.iter().sum::<usize>();
            assert_eq!(body.size_hint().exact(), Some(left as u64));
            if body.is_end_stream() {
                break;
            }
            let Some(frame) = body.frame().await else { break };
            sizes.push(frame.unwrap().into_data().unwrap().len());
        }
        assert_eq!(sizes, [PIECE, PIECE, PIECE, 5]);
    }
}
