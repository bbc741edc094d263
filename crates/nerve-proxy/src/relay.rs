//! A reply on its way to the client: each piece goes on as it comes, and is looked at in passing.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::body::{AnyBody, Broken};
use crate::client::in_words;
use crate::headers;
use crate::request_log::{Call, Outcome};
use crate::usage::Reader;

/// A body that tells the log and the budget what passes. An upstream that breaks off ends it with an error, so that the client's
/// connection breaks off too.
pub(crate) struct Relay {
    body: AnyBody,
    call: Call,
    reader: Reader,
    patience: Duration,
    silence: Pin<Box<Sleep>>,
    is_settled: bool,
}

impl Relay {
    pub(crate) fn new(body: AnyBody, call: Call, reader: Reader, patience: Duration) -> Relay {
        let silence = Box::pin(tokio::time::sleep(patience));
        let mut relay = Relay { body, call, reader, patience, silence, is_settled: false };
        // Replies without a body are never asked for one.
        if relay.body.is_end_stream() {
            relay.settle(Outcome::Whole);
        }
        relay
    }

    fn settle(&mut self, mut outcome: Outcome) {
        if std::mem::replace(&mut self.is_settled, true) {
            return;
        }
        if outcome == Outcome::Whole {
            self.reader.end();
        }
        self.note();
        // A stream that ends well may say that the answer did not.
        if let Some(error) = self.reader.error() {
            outcome = Outcome::Broken(error.to_string());
        }
        self.call.outcome = outcome;
        self.call.tell();
    }

    fn note(&mut self) {
        self.call.ends(self.reader.usage(), self.reader.model());
    }

    fn break_off(&mut self, error: Broken) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.settle(Outcome::Broken(in_words(&*error)));
        Poll::Ready(Some(Err(error)))
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    headers::of_trailers(trailers);
                }
                if let Some(data) = frame.data_ref() {
                    this.call.sends(data);
                    this.reader.take(data);
                }
                this.silence.as_mut().reset(Instant::now() + this.patience);
                // Clients do not wait for the end of a body whose stream has told its last: it counts before they see that.
                if this.body.is_end_stream() || this.reader.has_stopped() {
                    this.settle(Outcome::Whole);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => this.break_off(error),
            Poll::Ready(None) => {
                this.settle(Outcome::Whole);
                Poll::Ready(None)
            }
            Poll::Pending => match this.silence.as_mut().poll(context) {
                Poll::Ready(()) => {
                    let seconds = this.patience.as_secs();
                    this.break_off(format!("the upstream said nothing more for {seconds} s").into())
                }
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The client left: what was told until then counts.
        if !self.is_settled {
            self.note();
        }
    }
}
