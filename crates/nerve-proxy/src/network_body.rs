//! Detects request and response bodies that end early.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response, Version};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use crate::body::BodyError;
use crate::pool::Permit;

/// A streamed body that reports a missing end as an error.
///
/// In HTTP/2 a stream may be reset with `NO_ERROR`, or a connection closed after a `GOAWAY` with `NO_ERROR`, in the
/// middle of a body. hyper ends such a body as if it were complete (RFC 9113 §8.1 allows that for requests). This type
/// requires the peer's `END_STREAM`.
#[derive(Debug)]
pub(crate) struct NetworkBody {
    incoming: Incoming,
    needs_end_stream: bool,
    /// Released together with the body.
    _permit: Option<Permit>,
}

impl NetworkBody {
    /// Wraps the body of a request.
    pub(crate) fn from_request(request: Request<Incoming>) -> Request<NetworkBody> {
        let needs_end_stream = request.version() == Version::HTTP_2;
        request.map(|incoming| NetworkBody { incoming, needs_end_stream, _permit: None })
    }

    /// Wraps the body of a response, whose request stays active until the body is dropped.
    pub(crate) fn from_response(response: Response<Incoming>, permit: Permit) -> Response<NetworkBody> {
        let needs_end_stream = response.version() == Version::HTTP_2;
        response.map(|incoming| NetworkBody { incoming, needs_end_stream, _permit: Some(permit) })
    }
}

impl Body for NetworkBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match Pin::new(&mut self.incoming).poll_frame(context) {
            Poll::Ready(None) if self.needs_end_stream && !self.incoming.is_end_stream() => {
                Poll::Ready(Some(Err("the stream was closed before its end".into())))
            }
            Poll::Ready(Some(frame)) => Poll::Ready(Some(frame.map_err(BodyError::from))),
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
