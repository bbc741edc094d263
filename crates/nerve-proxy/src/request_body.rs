//! Bodies that come over a network.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response, Version};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use crate::body::Broken;
use crate::pool::Ticket;

/// A body that comes in pieces, with an end that is one.
///
/// In HTTP/2 a stream may be reset with `NO_ERROR`, and a connection closed after a `GOAWAY` with `NO_ERROR`, in the middle of a body.
/// hyper ends such a body as if it were whole (RFC 9113 §8.1 allows that for what a client sends). Here it is whole when the other side
/// said so (`END_STREAM`), and broken otherwise.
#[derive(Debug)]
pub(crate) struct Arriving {
    incoming: Incoming,
    must_say_its_end: bool,
    /// Given back with the body.
    _ticket: Option<Ticket>,
}

impl Arriving {
    /// The body of a request.
    pub(crate) fn request(request: Request<Incoming>) -> Request<Arriving> {
        let must_say_its_end = request.version() == Version::HTTP_2;
        request.map(|incoming| Arriving { incoming, must_say_its_end, _ticket: None })
    }

    /// The body of a reply; its request is under way as long as it comes.
    pub(crate) fn reply(reply: Response<Incoming>, ticket: Ticket) -> Response<Arriving> {
        let must_say_its_end = reply.version() == Version::HTTP_2;
        reply.map(|incoming| Arriving { incoming, must_say_its_end, _ticket: Some(ticket) })
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match Pin::new(&mut self.incoming).poll_frame(context) {
            Poll::Ready(None) if self.must_say_its_end && !self.incoming.is_end_stream() => {
                Poll::Ready(Some(Err("the stream was closed before its end".into())))
            }
            Poll::Ready(Some(frame)) => Poll::Ready(Some(frame.map_err(Broken::from))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
