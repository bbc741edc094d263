//! Reads whole bodies within limits, and creates bodies from bytes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::api_error::ApiError;

/// An error in the middle of a body.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// A body of any kind.
pub(crate) type DynBody = UnsyncBoxBody<Bytes, BodyError>;

/// Maximum size of a request body, in bytes.
pub(crate) const MAX_REQUEST_BODY: usize = 64 << 20;
/// Maximum total size of all request bodies in flight, in bytes.
const MAX_BUFFERED: usize = 512 << 20;
/// Longest pause of a client in the middle of a body.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for a whole request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(120);

/// Limits the memory for request bodies; shared by all requests of a proxy.
#[derive(Debug, Clone)]
pub(crate) struct BufferPool(Arc<Semaphore>);

/// A part of the [`BufferPool`]; returned on drop.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    bytes: usize,
    held: Option<OwnedSemaphorePermit>,
}

impl BufferPool {
    pub(crate) fn new() -> BufferPool {
        BufferPool(Arc::new(Semaphore::new(MAX_BUFFERED >> 10)))
    }

    /// Reserves `bytes` more; false if the pool is exhausted. The pool counts KiB: many small pieces fill up the last
    /// KiB before they take another.
    fn reserve(&self, reservation: &mut Reservation, bytes: usize) -> bool {
        let total = reservation.bytes.saturating_add(bytes);
        let Ok(kib) = u32::try_from(total.div_ceil(1 << 10) - reservation.bytes.div_ceil(1 << 10)) else {
            return false;
        };
        if kib > 0 {
            let Ok(more) = self.0.clone().try_acquire_many_owned(kib) else { return false };
            match &mut reservation.held {
                Some(permit) => permit.merge(more),
                None => reservation.held = Some(more),
            }
        }
        reservation.bytes = total;
        true
    }
}

/// Reason why a body could not be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    TooLarge,
    PoolExhausted,
    TimedOut,
    Failed(BodyError),
}

/// Reads a whole body of at most `limit` bytes. Fails after a pause longer than `pause`.
pub(crate) async fn read<B>(body: B, limit: usize, pause: Duration) -> Result<Bytes, ReadError>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    read_with(body, limit, pause, None, |_| true).await
}

/// Reads a whole body, by `deadline` if there is one. `reserve` may refuse each piece.
async fn read_with<B>(
    mut body: B,
    limit: usize,
    pause: Duration,
    deadline: Option<Instant>,
    mut reserve: impl FnMut(usize) -> bool,
) -> Result<Bytes, ReadError>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(ReadError::TooLarge);
    }
    let mut content = Vec::new();
    loop {
        let remaining = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // `timeout` would return a piece that is already there even after the deadline.
        if remaining.is_some_and(|remaining| remaining.is_zero()) {
            return Err(ReadError::TimedOut);
        }
        let wait = remaining.map_or(pause, |remaining| remaining.min(pause));
        let Ok(next) = tokio::time::timeout(wait, body.frame()).await else {
            return Err(ReadError::TimedOut);
        };
        let Some(frame) = next else { return Ok(content.into()) };
        let Ok(data) = frame.map_err(|error| ReadError::Failed(error.into()))?.into_data() else { continue };
        if content.len() + data.len() > limit {
            return Err(ReadError::TooLarge);
        }
        if !reserve(data.len()) {
            return Err(ReadError::PoolExhausted);
        }
        content.extend_from_slice(&data);
    }
}

/// Reads the body of a request. Keep the reservation as long as the body.
pub(crate) async fn read_request<B>(body: B, pool: &BufferPool) -> Result<(Bytes, Reservation), ApiError>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    let mut reservation = Reservation::default();
    let deadline = Some(Instant::now() + BODY_TIMEOUT);
    let read = read_with(body, MAX_REQUEST_BODY, PAUSE_TIMEOUT, deadline, |bytes| {
        pool.reserve(&mut reservation, bytes)
    })
    .await;
    let bytes = read.map_err(|error| match error {
        ReadError::TooLarge => ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {} MiB", MAX_REQUEST_BODY >> 20),
        ),
        ReadError::TimedOut => ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            format!(
                "the body timed out: the limits are {} s in total and {} s without data",
                BODY_TIMEOUT.as_secs(),
                PAUSE_TIMEOUT.as_secs()
            ),
        ),
        ReadError::PoolExhausted => {
            let message = "the proxy has too many large requests in flight: try again";
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message)
        }
        ReadError::Failed(error) => ApiError::bad_request(format!("the body ended early: {error}")),
    })?;
    Ok((bytes, reservation))
}

/// Creates a body from bytes.
pub(crate) fn full(bytes: impl Into<Bytes>) -> DynBody {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// Creates a JSON response.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response<DynBody> {
    let mut reply = Response::new(full(value.to_string()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    reply
}

/// Creates an error response. `x-should-retry` stops the official clients from retrying.
pub(crate) fn error_response(error: &ApiError) -> Response<DynBody> {
    let mut reply = json(error.status, &error.body());
    if error.status == StatusCode::PAYMENT_REQUIRED {
        reply.headers_mut().insert("x-should-retry", http::HeaderValue::from_static("false"));
    }
    reply
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::Frame;
    use tokio::time::{Interval, interval};

    use super::*;

    /// An endless body, one byte at a time.
    struct Drip(Interval);

    impl Body for Drip {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.poll_tick(context).map(|_| Some(Ok(Frame::data(Bytes::from_static(b" ")))))
        }
    }

    /// Returns how long it took until the read timed out.
    async fn time_until_timeout(every: Duration) -> Duration {
        let started = Instant::now();
        let error = read_request(Drip(interval(every)), &BufferPool::new()).await.unwrap_err();
        assert_eq!(error.status, StatusCode::REQUEST_TIMEOUT, "{error:?}");
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_or_slow_body_times_out() {
        let is_about = |time: Duration, limit| time.abs_diff(limit) < Duration::from_millis(100);
        let still = time_until_timeout(PAUSE_TIMEOUT * 100).await;
        assert!(is_about(still, PAUSE_TIMEOUT), "{still:?}");
        let drips = time_until_timeout(PAUSE_TIMEOUT / 4).await;
        assert!(is_about(drips, BODY_TIMEOUT), "{drips:?}");
    }

    #[test]
    fn small_pieces_reserve_only_their_bytes() {
        let pool = BufferPool::new();
        let (mut small, mut large) = (Reservation::default(), Reservation::default());
        assert!(
            (0..MAX_BUFFERED >> 9).all(|_| pool.reserve(&mut small, 1)),
            "one KiB each would be twice the pool"
        );
        assert_eq!(pool.0.available_permits(), (MAX_BUFFERED >> 10) - (MAX_BUFFERED >> 19));
        assert!(pool.reserve(&mut large, MAX_BUFFERED / 2));
        drop(small);
        assert!(pool.reserve(&mut large, MAX_BUFFERED / 2) && !pool.reserve(&mut large, 1));
    }

    #[test]
    fn pool_is_shared_and_returned() {
        let pool = BufferPool::new();
        let (mut first, mut second) = (Reservation::default(), Reservation::default());
        assert!(pool.reserve(&mut first, MAX_BUFFERED / 2) && pool.reserve(&mut first, MAX_BUFFERED / 4));
        assert!(pool.reserve(&mut second, MAX_BUFFERED / 4) && !pool.reserve(&mut second, 1));
        drop(first);
        assert!(pool.reserve(&mut second, MAX_BUFFERED / 2) && !pool.reserve(&mut second, MAX_BUFFERED));
    }
}
