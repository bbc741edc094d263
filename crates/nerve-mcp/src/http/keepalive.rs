//! Answers to requests that belong to no session, sent in good time: a client of these cancels a request by closing its connection, and
//! that shows only when something is written to it. So a stream is begun before there is anything to say, and a keepalive_frame of life written to
//! it again and again.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio_util::bytes::Bytes;

use super::Body;

/// What is answered in this time is answered as it is, with its status.
const GRACE: Duration = Duration::from_secs(1);
/// How long a stream may be silent.
const INTERVAL: Duration = Duration::from_secs(2);
/// A comment of server-sent events: clients pass it over.
const COMMENT: &[u8] = b":\n\n";
const EVENT_STREAM: &str = "text/event-stream";

type ResponseFuture = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// How far an answer is.
enum State {
    Waiting(ResponseFuture),
    Sending(Body),
    Done,
}

/// The answer, or a stream that begins now and has it later. The future is dropped when the connection is.
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

/// What comes of it, with a keepalive_frame of life now if nothing has come yet, and wherever it is silent.
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
        let late = is_stream(&response);
        let (_, body) = response.into_parts();
        *state = State::Sending(body);
        if !late {
            // Its status cannot be told any more; what it says can.
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

/// A message that was to be an answer of its own, as an event.
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

    /// An answer that comes when so many signs of life have been read. Time goes on by itself while nothing else does.
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
    async fn what_comes_soon_is_answered_as_it_is_and_what_comes_late_after_signs_of_life() {
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
        // Nothing that a client could read.
        let nothing = response_of("text/plain", StatusCode::INTERNAL_SERVER_ERROR, "the server closes");
        assert_eq!(late(1, nothing).await, "");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_shows_signs_of_life() {
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
