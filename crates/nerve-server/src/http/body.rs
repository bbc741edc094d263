//! The body of a request: read within bounds of size and time, after its sender was let in.

use std::time::Duration;

use axum::body::Body;
use http::StatusCode;
use http_body_util::BodyExt;
use nerve_api::framing::MAX_LINE_BYTES;
use tokio::time::Instant;

use super::budget::{Budget, SMALL, Share};
use super::problem::Problem;

/// How long a body may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long it may pause.
const PAUSE: Duration = Duration::from_secs(20);

/// All that was sent, and the memory that was given for it.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) bytes: Vec<u8>,
    pub(crate) share: Share,
}

/// All of a body, at most as long as a line of the wire.
///
/// # Errors
/// It is too long, comes too slowly, or breaks off; others have the memory that it takes.
pub(crate) async fn read(mut body: Body, budget: &Budget) -> Result<Sent, Problem> {
    let too_long = || {
        let detail = format!("a body holds at most {MAX_LINE_BYTES} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    let announced = hyper::body::Body::size_hint(&body).lower();
    if announced > MAX_LINE_BYTES as u64 {
        return Err(too_long());
    }
    let (mut share, mut paid) = match hyper::body::Body::size_hint(&body).exact() {
        Some(0) => (Share::default(), 0),
        // It is not longer than it says: hyper sees to that.
        Some(_) => (budget.body(usize::try_from(announced).unwrap_or(MAX_LINE_BYTES)).await?, MAX_LINE_BYTES),
        None => (budget.body(SMALL).await?, SMALL),
    };
    let late = || Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not come in time");
    let deadline = Instant::now() + PATIENCE;
    // Grown with what comes, not with what is announced.
    let mut bytes = Vec::new();
    loop {
        let until = deadline.min(Instant::now() + PAUSE);
        let frame = tokio::time::timeout_at(until, body.frame()).await.map_err(|_| late())?;
        let Some(frame) = frame else {
            share.shrink(bytes.len());
            return Ok(Sent { bytes, share });
        };
        let frame = frame.map_err(|error| Problem::invalid(format!("the body broke off: {error}")))?;
        let Some(data) = frame.data_ref() else { continue };
        if bytes.len() + data.len() > MAX_LINE_BYTES {
            return Err(too_long());
        }
        if bytes.len() + data.len() > paid {
            share.join(budget.body(MAX_LINE_BYTES).await?);
            paid = MAX_LINE_BYTES;
        }
        bytes.extend_from_slice(data);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Bytes;
    use futures_util::stream::{self, StreamExt};

    use super::*;

    const SOON: Duration = Duration::from_millis(100);

    fn chunks(every: Duration, size: usize) -> Body {
        Body::from_stream(stream::repeat(()).then(move |()| async move {
            tokio::time::sleep(every).await;
            Ok::<_, Infallible>(Bytes::from(vec![b' '; size]))
        }))
    }

    /// How long it took, and what was said.
    async fn refused(body: Body) -> (Duration, String) {
        let started = Instant::now();
        let problem = read(body, &Budget::new()).await.unwrap_err();
        (started.elapsed(), problem.detail)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stands_still_trickles_or_does_not_end_is_given_up() {
        let (time, still) = refused(chunks(Duration::from_secs(3600), 1)).await;
        assert!(still.contains("in time") && time.abs_diff(PAUSE) < SOON, "{time:?} {still}");
        let (time, trickles) = refused(chunks(PAUSE / 2, 1)).await;
        assert!(trickles.contains("in time") && time.abs_diff(PATIENCE) < SOON, "{time:?} {trickles}");
        let (_, endless) = refused(chunks(Duration::ZERO, 1 << 20)).await;
        assert!(endless.contains("at most"), "{endless}");
        assert_eq!(read(Body::from("{}"), &Budget::new()).await.unwrap().bytes, b"{}");
    }
}
