//! Bodies: read whole within limits, or made of bytes that are there.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::fault::Fault;

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

/// Memory for the bodies of requests, shared by all of a proxy.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Semaphore>);

/// A part of the [`Room`]; given back when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Place(Option<OwnedSemaphorePermit>);

impl Room {
    pub(crate) fn new() -> Room {
        Room(Arc::new(Semaphore::new(ROOM >> 10)))
    }

    /// Takes room for so many bytes more; false if there is none.
    fn grow(&self, place: &mut Place, bytes: usize) -> bool {
        let Ok(kib) = u32::try_from(bytes.div_ceil(1 << 10)) else { return false };
        let Ok(more) = self.0.clone().try_acquire_many_owned(kib) else { return false };
        match &mut place.0 {
            Some(held) => held.merge(more),
            None => place.0 = Some(more),
        }
        true
    }
}

/// Why a body was not read to its end.
#[derive(Debug)]
pub(crate) enum Unread {
    TooLarge,
    NoRoom,
    TooSlow,
    Broken(hyper::Error),
}

/// Reads a whole body of at most `limit` bytes with no pause longer than `pause`.
pub(crate) async fn read(body: Incoming, limit: usize, pause: Duration) -> Result<Bytes, Unread> {
    read_with(body, limit, pause, |_| true).await
}

/// The same; `has_room` is asked for each piece.
async fn read_with(
    mut body: Incoming,
    limit: usize,
    pause: Duration,
    mut has_room: impl FnMut(usize) -> bool,
) -> Result<Bytes, Unread> {
    if body.size_hint().lower() > limit as u64 {
        return Err(Unread::TooLarge);
    }
    let mut whole = Vec::new();
    loop {
        let Ok(next) = tokio::time::timeout(pause, body.frame()).await else { return Err(Unread::TooSlow) };
        let Some(frame) = next else { return Ok(whole.into()) };
        let Ok(data) = frame.map_err(Unread::Broken)?.into_data() else { continue };
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
pub(crate) async fn of_request(body: Incoming, room: &Room) -> Result<(Bytes, Place), Fault> {
    let mut place = Place::default();
    let read = read_with(body, LIMIT, PAUSE, |bytes| room.grow(&mut place, bytes)).await;
    let bytes = read.map_err(|unread| match unread {
        Unread::TooLarge => {
            Fault::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {} MiB", LIMIT >> 20))
        }
        Unread::TooSlow => Fault::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("no more of the body came for {} s", PAUSE.as_secs()),
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
    use super::*;

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
