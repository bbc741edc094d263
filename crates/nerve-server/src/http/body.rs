//! Reads request bodies with limits of size and time.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use nerve_api::ErrorKind;
use nerve_api::framing::MAX_LINE_BYTES;
use tokio::time::Instant;

use super::budget::{Budget, MemoryReservation, SMALL};
use super::problem::Problem;

/// Time that a whole body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(120);
/// Time that may pass between two chunks.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(20);

/// A request body, and the memory reserved for it.
#[derive(Debug)]
pub(crate) struct ReceivedBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) memory: MemoryReservation,
}

/// Reads a whole body, at most as long as a line of the protocol.
///
/// # Errors
/// Returns a problem if the body is too long, too slow or incomplete, or if no memory is available.
pub(crate) async fn read(mut body: Body, budget: &Budget) -> Result<ReceivedBody, Problem> {
    let length_problem = || length_problem(MAX_LINE_BYTES);
    let announced = hyper::body::Body::size_hint(&body).lower();
    if announced > MAX_LINE_BYTES as u64 {
        return Err(length_problem());
    }
    let (mut memory, mut paid) = match hyper::body::Body::size_hint(&body).exact() {
        Some(0) => (MemoryReservation::default(), 0),
        // hyper ensures that a body is not longer than announced.
        Some(_) => (
            budget.reserve_request(usize::try_from(announced).unwrap_or(MAX_LINE_BYTES)).await?,
            MAX_LINE_BYTES,
        ),
        None => (budget.reserve_request(SMALL).await?, SMALL),
    };
    let deadline = Instant::now() + BODY_TIMEOUT;
    // Grows with the received data, not with the announced length.
    let mut bytes = Vec::new();
    loop {
        let until = deadline.min(Instant::now() + CHUNK_TIMEOUT);
        let frame = tokio::time::timeout_at(until, body.frame()).await.map_err(|_| timeout_problem())?;
        let Some(frame) = frame else {
            memory.shrink(bytes.len());
            return Ok(ReceivedBody { bytes, memory });
        };
        let frame = frame.map_err(|error| read_problem(&error))?;
        let Some(data) = frame.data_ref() else { continue };
        if bytes.len() + data.len() > MAX_LINE_BYTES {
            return Err(length_problem());
        }
        if bytes.len() + data.len() > paid {
            memory.merge(budget.reserve_request(MAX_LINE_BYTES).await?);
            paid = MAX_LINE_BYTES;
        }
        bytes.extend_from_slice(data);
    }
}

/// Reads a small body of a client that has not authenticated. It takes nothing from the budget of those that have.
///
/// # Errors
/// Returns a problem if the body is longer than `max` bytes, incomplete, or takes longer than `timeout`.
pub(crate) async fn read_small(body: Body, max: usize, timeout: Duration) -> Result<Bytes, Problem> {
    if hyper::body::Body::size_hint(&body).lower() > max as u64 {
        return Err(length_problem(max));
    }
    let read = tokio::time::timeout(timeout, Limited::new(body, max).collect())
        .await
        .map_err(|_| timeout_problem())?;
    match read {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(length_problem(max)),
        Err(error) => Err(read_problem(&error)),
    }
}

fn length_problem(max: usize) -> Problem {
    let detail = format!("the request body exceeds {max} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorKind::TooLarge, detail)
}

fn timeout_problem() -> Problem {
    Problem::new(StatusCode::REQUEST_TIMEOUT, ErrorKind::Timeout, "the request body timed out")
}

fn read_problem(error: &dyn std::fmt::Display) -> Problem {
    Problem::invalid(format!("the body broke off: {error}"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream::{self, StreamExt};

    use super::*;

    const SOON: Duration = Duration::from_millis(100);

    fn chunks(every: Duration, size: usize) -> Body {
        Body::from_stream(stream::repeat(()).then(move |()| async move {
            tokio::time::sleep(every).await;
            Ok::<_, Infallible>(Bytes::from(vec![b' '; size]))
        }))
    }

    /// Returns how long reading took, and the error.
    async fn refused(body: Body) -> (Duration, String) {
        let started = Instant::now();
        let problem = read(body, &Budget::new()).await.unwrap_err();
        (started.elapsed(), problem.detail)
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_slow_and_endless_bodies_are_rejected() {
        let (time, still) = refused(chunks(Duration::from_secs(3600), 1)).await;
        assert!(still.contains("timed out") && time.abs_diff(CHUNK_TIMEOUT) < SOON, "{time:?} {still}");
        let (time, trickles) = refused(chunks(CHUNK_TIMEOUT / 2, 1)).await;
        assert!(trickles.contains("timed out") && time.abs_diff(BODY_TIMEOUT) < SOON, "{time:?} {trickles}");
        let (_, endless) = refused(chunks(Duration::ZERO, 1 << 20)).await;
        assert!(endless.contains("exceeds"), "{endless}");
        assert_eq!(read(Body::from("{}"), &Budget::new()).await.unwrap().bytes, b"{}");
    }

    #[tokio::test(start_paused = true)]
    async fn small_body_has_limits_of_its_own() {
        let read = async |body| {
            let read = read_small(body, 4, Duration::from_secs(1)).await;
            read.map_or_else(|problem| problem.detail, |bytes| format!("{bytes:?}"))
        };
        assert_eq!(read(Body::from("1234")).await, "b\"1234\"");
        assert_eq!(read(Body::from("12345")).await, "the request body exceeds 4 bytes");
        assert_eq!(read(chunks(Duration::ZERO, 3)).await, "the request body exceeds 4 bytes");
        assert_eq!(read(chunks(Duration::from_secs(2), 1)).await, "the request body timed out");
    }
}
