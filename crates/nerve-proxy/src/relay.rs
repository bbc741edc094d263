//! Streams a response to the client while counting its tokens.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use nerve_llm::http_client::error_chain;
use tokio::time::{Instant, Sleep};

use crate::body::{BodyError, DynBody};
use crate::headers;
use crate::report::CallOutcome;
use crate::request_log::RequestLog;
use crate::usage::UsageReader;

/// A response body that reports to the log and the budget. If the upstream fails, it ends with an error, so that the
/// client's connection breaks too.
pub(crate) struct Relay {
    body: DynBody,
    request_log: RequestLog,
    reader: UsageReader,
    timeout: Duration,
    idle_timer: Pin<Box<Sleep>>,
    is_finished: bool,
}

impl Relay {
    pub(crate) fn new(
        body: DynBody,
        request_log: RequestLog,
        reader: UsageReader,
        timeout: Duration,
    ) -> Relay {
        let idle_timer = Box::pin(tokio::time::sleep(timeout));
        let mut relay = Relay { body, request_log, reader, timeout, idle_timer, is_finished: false };
        // A response without a body is never polled.
        if relay.body.is_end_stream() {
            relay.finish(CallOutcome::Whole, None);
        }
        relay
    }

    fn finish(&mut self, outcome: CallOutcome, error: Option<&str>) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        if outcome == CallOutcome::Whole {
            self.reader.finish();
        }
        self.record_usage();
        // A complete stream may still report an error.
        match self.reader.error() {
            Some(error) => self.request_log.record_outcome(CallOutcome::Broken, Some(error)),
            None => self.request_log.record_outcome(outcome, error),
        }
        self.request_log.finish();
    }

    fn record_usage(&mut self) {
        self.request_log.record_usage(self.reader.usage(), self.reader.model());
    }

    fn fail(&mut self, error: BodyError) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.finish(CallOutcome::Broken, Some(&error_chain(&*error)));
        Poll::Ready(Some(Err(error)))
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    headers::strip_trailers(trailers);
                }
                if let Some(data) = frame.data_ref() {
                    this.request_log.record_bytes(data);
                    this.reader.push(data);
                }
                this.idle_timer.as_mut().reset(Instant::now() + this.timeout);
                // Clients do not wait for the end of the body after the last event, so the totals must be updated
                // before they see it.
                if this.body.is_end_stream() || this.reader.has_stopped() {
                    this.finish(CallOutcome::Whole, None);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => this.fail(error),
            Poll::Ready(None) => {
                this.finish(CallOutcome::Whole, None);
                Poll::Ready(None)
            }
            Poll::Pending => match this.idle_timer.as_mut().poll(context) {
                Poll::Ready(()) => {
                    let seconds = this.timeout.as_secs();
                    this.fail(format!("the upstream was silent for {seconds} s").into())
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
        // The client disconnected: count the usage reported so far.
        if !self.is_finished {
            self.record_usage();
        }
    }
}
