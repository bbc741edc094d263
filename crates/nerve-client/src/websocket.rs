//! Connects to a server's WebSocket, each message of which is a line of the protocol.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use nerve_api::ErrorKind;
use nerve_api::framing::MAX_LINE_BYTES;
use nerve_api::reply::ErrorDetails;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, Uri, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::connection::{Connection, LineSink, LineSource};
use crate::error::{ClientError, ServerError};
use crate::event_router::EventRouter;
use crate::pending_requests::CloseReason;
use crate::tcp;
use crate::tls::Tls;

/// Path of the WebSocket.
const PATH: &str = "/api/events";
/// Time after which a silent server is gone: it sends a ping every 30 seconds.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum number of characters quoted from an unexpected response.
const MAX_QUOTED_CHARS: usize = 200;

/// Opens the WebSocket of the server at `url`.
///
/// # Errors
/// Returns [`ClientError::Io`] if the server cannot be reached or its certificate is not trusted, a
/// [`ServerError`] if it refuses, and [`ClientError::Protocol`] if the URL is invalid or the response does
/// not come from a nerve server.
pub(crate) async fn open(
    url: &str,
    token: &str,
    tls: &Tls,
    router: &Arc<EventRouter>,
    muted: bool,
) -> Result<Connection, ClientError> {
    let server = ServerUrl::parse(url, tls)?;
    let stream = tcp::connect(server.host, server.port).await?;
    match server.tls {
        None => upgrade(&server, stream, token, router, muted).await,
        Some(tls) => upgrade(&server, tls.connect(stream, server.host).await?, token, router, muted).await,
    }
}

/// The components of a server's URL.
#[derive(Debug, PartialEq, Eq)]
struct ServerUrl<'a> {
    url: &'a str,
    /// Host without the brackets of an IPv6 address.
    host: &'a str,
    port: u16,
    /// Authority as in the Host header.
    authority: &'a str,
    tls: Option<&'a Tls>,
}

impl<'a> ServerUrl<'a> {
    fn parse(url: &'a str, tls: &'a Tls) -> Result<ServerUrl<'a>, ClientError> {
        let wrong = |problem: &str| ClientError::Protocol(format!("{url:?}: {problem}"));
        let form = "expected http://host:port or https://host:port";
        let (scheme, authority) = url.split_once("://").ok_or_else(|| wrong(form))?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if authority.contains('@') {
            // Not quoted, since it contains a password.
            let problem = "the URL must not contain a user name or password: pass the token separately";
            return Err(ClientError::Protocol(problem.to_string()));
        }
        if authority.is_empty() || authority.contains(['/', '?', '#']) {
            return Err(wrong(form));
        }
        let (tls, default_port) = match (scheme.to_ascii_lowercase().as_str(), tls) {
            ("http", Tls::Off) => (None, 80),
            ("http", _) => return Err(wrong("TLS needs https://")),
            ("https", Tls::Off) => return Err(wrong("https:// needs Tls::Public or Tls::Authorities")),
            ("https", tls) => (Some(tls), 443),
            _ => return Err(wrong(form)),
        };
        let parsed: Uri = format!("ws://{authority}{PATH}").parse().map_err(|_| wrong(form))?;
        let host_len = parsed.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong(form))?.len();
        let port = match parsed.port() {
            Some(_) => parsed.port_u16().ok_or_else(|| wrong(form))?,
            None if authority.len() > host_len => return Err(wrong(form)),
            None => default_port,
        };
        let host = &authority[..host_len];
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Ok(ServerUrl { url, host, port, authority, tls })
    }
}

async fn upgrade<S>(
    server: &ServerUrl<'_>,
    stream: S,
    token: &str,
    router: &Arc<EventRouter>,
    muted: bool,
) -> Result<Connection, ClientError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken =
        |source| ClientError::Io { action: format!("cannot open the WebSocket at {}", server.url), source };
    let wrong = |problem: &str| ClientError::Protocol(format!("{}: {problem}", server.url));
    let mut request = format!("ws://{}{PATH}", server.authority)
        .into_client_request()
        .map_err(|error| wrong(&error.to_string()))?;
    let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| ClientError::Protocol("the token contains invalid characters".to_string()))?;
    bearer.set_sensitive(true);
    request.headers_mut().insert(header::AUTHORIZATION, bearer);
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_LINE_BYTES))
        .max_frame_size(Some(MAX_LINE_BYTES));
    match client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => {
            let (sink, stream) = socket.split();
            Ok(Connection::new(MessageSource(stream), MessageSink(sink), router, muted))
        }
        Err(Error::Http(response)) => Err(rejection(server, &response)),
        Err(Error::Io(source)) => Err(broken(source)),
        // The connection ended before the handshake.
        Err(Error::Protocol(ProtocolError::HandshakeIncomplete) | Error::ConnectionClosed) => {
            Err(broken(io::ErrorKind::UnexpectedEof.into()))
        }
        Err(error) => Err(wrong(&format!("not a nerve server: {error}"))),
    }
}

/// Converts a rejected upgrade to an error. The status determines its type, and the body the message if it is
/// a problem document.
fn rejection(server: &ServerUrl<'_>, response: &Response) -> ClientError {
    let body = response.body().as_deref().unwrap_or_default();
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let field = |name: &str| problem.get(name).and_then(Value::as_str).map(str::to_string);
    let status = response.status();
    let kind = match status {
        StatusCode::UNAUTHORIZED => ErrorKind::Authentication,
        StatusCode::FORBIDDEN => ErrorKind::Permission,
        StatusCode::NOT_FOUND => ErrorKind::NotFound,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => ErrorKind::Busy,
        _ => {
            let detail = field("detail").unwrap_or_else(|| {
                String::from_utf8_lossy(body).trim().chars().take(MAX_QUOTED_CHARS).collect()
            });
            let colon = if detail.is_empty() { "" } else { ": " };
            return ClientError::Protocol(format!(
                "{}{PATH} returned HTTP {} instead of a WebSocket{colon}{detail}",
                server.url,
                status.as_u16()
            ));
        }
    };
    let plain = || match status {
        StatusCode::UNAUTHORIZED => "the token is wrong".to_string(),
        StatusCode::NOT_FOUND => format!("no {PATH} at {}: is it a nerve server?", server.url),
        _ => format!("{}{PATH} returned HTTP {}", server.url, status.as_u16()),
    };
    let message = field("detail").unwrap_or_else(plain);
    let data = ErrorDetails { hint: field("hint"), ..ErrorDetails::of(kind) };
    ClientError::Server(Box::new(ServerError::new(Some(message), data)))
}

struct MessageSource<S>(SplitStream<WebSocketStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> LineSource for MessageSource<S> {
    async fn next(&mut self) -> Result<Vec<u8>, CloseReason> {
        loop {
            let silent =
                |_| CloseReason::Broken(format!("no data received for {} s", SILENCE_TIMEOUT.as_secs()));
            // This also answers the server's pings.
            match tokio::time::timeout(SILENCE_TIMEOUT, self.0.next()).await.map_err(silent)? {
                Some(Ok(Message::Text(text))) => return Ok(Bytes::from(text).into()),
                Some(Ok(Message::Binary(bytes))) => return Ok(bytes.into()),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_))) | None => return Err(CloseReason::ByServer),
                Some(Err(error)) => return Err(close_reason(error)),
            }
        }
    }
}

fn close_reason(error: Error) -> CloseReason {
    match error {
        Error::Io(error) => CloseReason::broken(&error),
        Error::Capacity(_) => {
            CloseReason::InvalidData(format!("the server sent a message of over {MAX_LINE_BYTES} bytes"))
        }
        // A server that was killed sends no close frame.
        Error::ConnectionClosed | Error::AlreadyClosed => CloseReason::ByServer,
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => CloseReason::ByServer,
        error => CloseReason::InvalidData(format!("the server violated the WebSocket protocol: {error}")),
    }
}

struct MessageSink<S>(SplitSink<WebSocketStream<S>, Message>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> LineSink for MessageSink<S> {
    async fn send(&mut self, line: &[u8]) -> io::Result<()> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let text = Utf8Bytes::try_from(Bytes::copy_from_slice(line)).map_err(io::Error::other)?;
        self.0.send(Message::Text(text)).await.map_err(|error| match error {
            Error::Io(error) => error,
            Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::BrokenPipe.into(),
            error => io::Error::other(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_split_into_host_and_port() {
        let public = Tls::Public;
        for (url, tls, host, port, authority) in [
            ("http://localhost:7070", &Tls::Off, "localhost", 7070, "localhost:7070"),
            ("http://localhost", &Tls::Off, "localhost", 80, "localhost"),
            ("HTTP://127.0.0.1:1/", &Tls::Off, "127.0.0.1", 1, "127.0.0.1:1"),
            ("https://example.com", &public, "example.com", 443, "example.com"),
            ("https://[::1]:8443/", &public, "::1", 8443, "[::1]:8443"),
        ] {
            let server = ServerUrl::parse(url, tls).unwrap();
            assert_eq!((server.host, server.port, server.authority), (host, port, authority), "{url}");
        }
        for wrong in
            ["", "localhost:1", "ftp://x", "http://", "http:///", "http://x/path", "http://x?a", "http://x:y"]
        {
            assert!(ServerUrl::parse(wrong, &Tls::Off).is_err(), "{wrong}");
        }
        for wrong in ["http://x:70000", "http://:80", "http://x:", "http://a b"] {
            assert!(ServerUrl::parse(wrong, &Tls::Off).is_err(), "{wrong}");
        }
        assert!(ServerUrl::parse("http://x", &public).is_err());
        assert!(ServerUrl::parse("https://x", &Tls::Off).is_err());
        let secret = ServerUrl::parse("http://me:secret@x", &Tls::Off).unwrap_err();
        assert!(!secret.to_string().contains("secret"));
    }
}
