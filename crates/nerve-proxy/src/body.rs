//! Bodies: read whole within limits, or made of bytes that are there.

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

use crate::api_error::Fault;

/// What goes wrong in the middle of a body.
pub(crate) type Broken = Box<dyn std::error::Error + Send + Sync>;
/// A body of whichever kind.
pub(crate) type AnyBody = UnsyncBoxBody<Bytes, Broken>;

/// The largest body of a request, in bytes.
pub(crate) const LIMIT: usize = 64 << 20;
/// The bodies of all requests under way together, in bytes.
const ROOM: usize = 512 << 20;
/// How long a client may pause in the middle of a body.
const PAUSE: Duration = Duration::from_secs(60);
/// How long the whole body of a request may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Memory for the bodies of requests, shared by all of a proxy.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Semaphore>);

/// A part of the [`Room`]; given back when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Place {
    bytes: usize,
    held: Option<OwnedSemaphorePermit>,
}

impl Room {
    pub(crate) fn new() -> Room {
        Room(Arc::new(Semaphore::new(ROOM >> 10)))
    }

    /// Takes room for so many bytes more; false if there is none. Room is given out by the KiB: the bytes of many small pieces fill
    /// the last one first.
    fn grow(&self, place: &mut Place, bytes: usize) -> bool {
        let whole = place.bytes.saturating_add(bytes);
        let Ok(kib) = u32::try_from(whole.div_ceil(1 << 10) - place.bytes.div_ceil(1 << 10)) else {
            return false;
        };
        if kib > 0 {
            let Ok(more) = self.0.clone().try_acquire_many_owned(kib) else { return false };
            match &mut place.held {
                Some(held) => held.merge(more),
                None => place.held = Some(more),
            }
        }
        place.bytes = whole;
        true
    }
}

/// Why a body was not read to its end.
#[derive(Debug)]
pub(crate) enum Unread {
    TooLarge,
    NoRoom,
    TooSlow,
    Broken(Broken),
}

/// Reads a whole body of at most `limit` bytes with no pause longer than `pause`.
pub(crate) async fn read<B>(body: B, limit: usize, pause: Duration) -> Result<Bytes, Unread>
where
    B: Body<Data = Bytes, Error: Into<Broken>> + Unpin,
{
    read_with(body, limit, pause, None, |_| true).await
}

/// The same, by `deadline` if there is one; `has_room` is asked for each piece.
async fn read_with<B>(
    mut body: B,
    limit: usize,
    pause: Duration,
    deadline: Option<Instant>,
    mut has_room: impl FnMut(usize) -> bool,
) -> Result<Bytes, Unread>
where
    B: Body<Data = Bytes, Error: Into<Broken>> + Unpin,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(Unread::TooLarge);
    }
    let mut whole = Vec::new();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // A piece that is there already would be taken even when no time is left.
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Unread::TooSlow);
        }
        let wait = left.map_or(pause, |left| left.min(pause));
        let Ok(next) = tokio::time::timeout(wait, body.frame()).await else { return Err(Unread::TooSlow) };
        let Some(frame) = next else { return Ok(whole.into()) };
        let Ok(data) = frame.map_err(|error| Unread::Broken(error.into()))?.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(Unread::TooLarge);
        }
        if !has_room(data.len()) {
            return Err(Unread::NoRoom);
        }
        whole.extend_from_slice(&data);
    }
}

/// Reads the body of a request; the place is to be kept as long as the body.
pub(crate) async fn of_request<B>(body: B, room: &Room) -> Result<(Bytes, Place), Fault>
where
    B: Body<Data = Bytes, Error: Into<Broken>> + Unpin,
{
    let mut place = Place::default();
    let deadline = Some(Instant::now() + PATIENCE);
    let read = read_with(body, LIMIT, PAUSE, deadline, |bytes| room.grow(&mut place, bytes)).await;
    let bytes = read.map_err(|unread| match unread {
        Unread::TooLarge => {
            Fault::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {} MiB", LIMIT >> 20))
        }
        Unread::TooSlow => Fault::new(
            StatusCode::REQUEST_TIMEOUT,
            format!(
                "the body did not come in time: within {} s, and without a pause of {} s",
                PATIENCE.as_secs(),
                PAUSE.as_secs()
            ),
        ),
        Unread::NoRoom => {
            let message = "the proxy has too many large requests under way: try again";
            Fault::new(StatusCode::SERVICE_UNAVAILABLE, message)
        }
        Unread::Broken(error) => Fault::bad_request(format!("the body ended early: {error}")),
    })?;
    Ok((bytes, place))
}

/// A body of bytes that are there.
pub(crate) fn full(bytes: impl Into<Bytes>) -> AnyBody {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A reply of JSON.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response<AnyBody> {
    let mut reply = Response::new(full(value.to_string()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    reply
}

/// A reply that says what is wrong. `x-should-retry` is for the official clients.
pub(crate) fn refusal(fault: &Fault) -> Response<AnyBody> {
    let mut reply = json(fault.status, &fault.body());
    if fault.status == StatusCode::PAYMENT_REQUIRED {
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

    /// A byte at a time, without an end.
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

    /// How long it took until it was given up.
    async fn given_up(every: Duration) -> Duration {
        let started = Instant::now();
        let fault = of_request(Drip(interval(every)), &Room::new()).await.unwrap_err();
        assert_eq!(fault.status, StatusCode::REQUEST_TIMEOUT, "{fault:?}");
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stands_still_or_drips_is_given_up() {
        let is_about = |time: Duration, limit| time.abs_diff(limit) < Duration::from_millis(100);
        let still = given_up(PAUSE * 100).await;
        assert!(is_about(still, PAUSE), "{still:?}");
        let drips = given_up(PAUSE / 4).await;
        assert!(is_about(drips, PATIENCE), "{drips:?}");
    }

    #[test]
    fn small_pieces_take_no_more_room_than_they_have_bytes() {
        let room = Room::new();
        let (mut small, mut large) = (Place::default(), Place::default());
        assert!((0..ROOM >> 9).all(|_| room.grow(&mut small, 1)), "one KiB each would be twice the room");
        assert_eq!(room.0.available_permits(), (ROOM >> 10) - (ROOM >> 19));
        assert!(room.grow(&mut large, ROOM / 2));
        drop(small);
        assert!(room.grow(&mut large, ROOM / 2) && !room.grow(&mut large, 1));
    }

    #[test]
    fn the_room_is_shared_and_given_back() {
        let room = Room::new();
        let (mut first, mut second) = (Place::default(), Place::default());
        assert!(room.grow(&mut first, ROOM / 2) && room.grow(&mut first, ROOM / 4));
        assert!(room.grow(&mut second, ROOM / 4) && !room.grow(&mut second, 1));
        drop(first);
        assert!(room.grow(&mut second, ROOM / 2) && !room.grow(&mut second, ROOM));
    }
}
