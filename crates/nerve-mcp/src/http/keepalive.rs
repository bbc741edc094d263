//! Sends keepalive comments in responses to requests without a session.
//!
//! A client cancels such a request by closing its connection, which is detected only by writing to it. A
//! response that takes long therefore becomes an event stream at once, with comments while there is nothing
//! to send.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio_util::bytes::Bytes;

use super::Body;

/// Responses within this time are sent unchanged, with their status.
const GRACE: Duration = Duration::from_secs(1);
/// Maximum silence of a stream.
const INTERVAL: Duration = Duration::from_secs(2);
/// A comment in an event stream, which clients ignore.
const COMMENT: &[u8] = b":\n\n";
const EVENT_STREAM: &str = "text/event-stream";

type ResponseFuture = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Progress of a response.
enum State {
    Waiting(ResponseFuture),
    Sending(Body),
    Done,
}

/// Returns the response, or a stream that will contain it. Both are dropped with the connection.
pub(super) async fn answer(
    response: impl Future<Output = Response<Body>> + Send + 'static,
) -> Response<Body> {
    let mut response: ResponseFuture = Box::pin(response);
    let state = match tokio::time::timeout(GRACE, &mut response).await {
        Ok(response) if !is_stream(&response) => return response,
        Ok(response) => {
            let (parts, body) = response.into_parts();
            return Response::from_parts(parts, with_keepalive(State::Sending(body)));
        }
        Err(_) => State::Waiting(response),
    };
    let mut response = Response::new(with_keepalive(state));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    response
}

fn is_stream<B>(response: &Response<B>) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    response.status() == StatusCode::OK && kind.is_some_and(|kind| kind.as_bytes() == EVENT_STREAM.as_bytes())
}

/// Returns the response as a stream with comments: at once if nothing has arrived yet, and during silence.
fn with_keepalive(state: State) -> Body {
    let frames =
        stream::unfold((matches!(state, State::Waiting(_)), state), |(at_once, mut state)| async move {
            if at_once {
                return Some((keepalive_frame(), (false, state)));
            }
            let frame = next(&mut state).await?;
            Some((frame, (false, state)))
        });
    StreamBody::new(frames.map(Ok)).boxed_unsync()
}

fn keepalive_frame() -> Frame<Bytes> {
    Frame::data(Bytes::from_static(COMMENT))
}

async fn next(state: &mut State) -> Option<Frame<Bytes>> {
    if let State::Waiting(response) = state {
        let Ok(response) = tokio::time::timeout(INTERVAL, response).await else {
            return Some(keepalive_frame());
        };
        let is_event_stream = is_stream(&response);
        let (_, body) = response.into_parts();
        *state = State::Sending(body);
        if !is_event_stream {
            // The status was already sent; the body becomes an event.
            let State::Sending(body) = std::mem::replace(state, State::Done) else { return None };
            return event(body).await;
        }
    }
    let State::Sending(body) = state else { return None };
    match tokio::time::timeout(INTERVAL, body.frame()).await {
        Ok(frame) => frame.and_then(Result::ok),
        Err(_) => Some(keepalive_frame()),
    }
}

/// Converts a message to an event.
async fn event(body: Body) -> Option<Frame<Bytes>> {
    let Ok(whole) = body.collect().await;
    let message: serde_json::Value = serde_json::from_slice(&whole.to_bytes()).ok()?;
    Some(Frame::data(Bytes::from(format!("data: {message}\n\n"))))
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    fn response_of(kind: &'static str, status: StatusCode, text: &'static str) -> Response<Body> {
        let mut response = Response::new(Full::from(text).boxed_unsync());
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }

    async fn text(response: Response<Body>) -> String {
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    async fn soon(response: Response<Body>) -> Response<Body> {
        answer(std::future::ready(response)).await
    }

    /// Completes a response after `signs` comments were read. Paused time advances while everything waits.
    async fn late(signs: usize, response: Response<Body>) -> String {
        let (give, given) = oneshot::channel();
        let mut reply = answer(async { given.await.unwrap() }).await;
        assert_eq!(reply.status(), StatusCode::OK);
        for _ in 0..signs {
            assert_eq!(piece(reply.body_mut()).await, Some(":\n\n".to_string()));
        }
        give.send(response).unwrap();
        text(reply).await
    }

    async fn piece(body: &mut Body) -> Option<String> {
        let frame = body.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn fast_response_is_unchanged_and_slow_one_becomes_stream() {
        let bad = || response_of("application/json", StatusCode::BAD_REQUEST, r#"{"id": 1}"#);
        let at_once = soon(bad()).await;
        assert_eq!(
            (at_once.status(), text(at_once).await.as_str()),
            (StatusCode::BAD_REQUEST, r#"{"id": 1}"#)
        );
        assert_eq!(late(3, bad()).await, "data: {\"id\":1}\n\n");
        let stream = || response_of(EVENT_STREAM, StatusCode::OK, "data: 1\n\n");
        assert_eq!(text(soon(stream()).await).await, "data: 1\n\n");
        assert_eq!(late(1, stream()).await, "data: 1\n\n");
        // A body without a message.
        let nothing = response_of("text/plain", StatusCode::INTERNAL_SERVER_ERROR, "the server closes");
        assert_eq!(late(1, nothing).await, "");
    }

    #[tokio::test(start_paused = true)]
    async fn silent_stream_contains_comments() {
        let (say, silent) = mpsc::unbounded_channel();
        let silent = stream::unfold(silent, |mut silent: mpsc::UnboundedReceiver<&'static str>| async {
            let text = silent.recv().await?;
            Some((Ok(Frame::data(Bytes::from(text))), silent))
        });
        let mut response = response_of(EVENT_STREAM, StatusCode::OK, "");
        *response.body_mut() = StreamBody::new(silent).boxed_unsync();
        let mut body = soon(response).await.into_body();
        let comment = Some(":\n\n".to_string());
        for _ in 0..2 {
            assert_eq!((piece(&mut body).await, piece(&mut body).await), (comment.clone(), comment.clone()));
            say.send("data: x\n\n").unwrap();
            assert_eq!(piece(&mut body).await, Some("data: x\n\n".to_string()));
        }
        assert_eq!((piece(&mut body).await, piece(&mut body).await), (comment.clone(), comment));
        drop(say);
        assert_eq!(piece(&mut body).await, None);
    }
}
