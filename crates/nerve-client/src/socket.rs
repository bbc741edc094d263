//! A server over HTTP: its WebSocket, each message of which is a line of the wire.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
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

use crate::connection::{Connection, Incoming, Outgoing};
use crate::error::{ClientError, ServerError};
use crate::inbox::Inbox;
use crate::pending::Closed;
use crate::tls::Tls;
use crate::way::tcp;

/// Where the WebSocket is.
const PATH: &str = "/api/events";
/// A server asks every 30 seconds whether its client is there: one that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(90);
/// What is quoted of an answer that is no problem of a nerve server's, in characters.
const QUOTED: usize = 200;

/// Opens the WebSocket of the server at `url`.
///
/// # Errors
/// [`ClientError::Io`] when nobody listens there or its certificate is not believed; a [`ServerError`] when it refuses;
/// [`ClientError::Protocol`] when what answers is no nerve server, or `url` is none of one.
pub(crate) async fn open(
    url: &str,
    token: &str,
    tls: &Tls,
    inbox: &Arc<Inbox>,
    muted: bool,
) -> Result<Connection, ClientError> {
    let site = Site::parse(url, tls)?;
    let stream = tcp(site.host, site.port).await?;
    match site.tls {
        None => upgrade(&site, stream, token, inbox, muted).await,
        Some(tls) => upgrade(&site, tls.connect(stream, site.host).await?, token, inbox, muted).await,
    }
}

/// What a URL says of a server.
#[derive(Debug, PartialEq, Eq)]
struct Site<'a> {
    url: &'a str,
    /// Without the brackets of an IPv6 address.
    host: &'a str,
    port: u16,
    /// As the header Host has it.
    authority: &'a str,
    tls: Option<&'a Tls>,
}

impl<'a> Site<'a> {
    fn parse(url: &'a str, tls: &'a Tls) -> Result<Site<'a>, ClientError> {
        let wrong = |why: &str| ClientError::Protocol(format!("{url:?}: {why}"));
        let form = "expected http://host:port or https://host:port";
        let (scheme, authority) = url.split_once("://").ok_or_else(|| wrong(form))?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if authority.contains('@') {
            // Not repeated: there is a password in it.
            let problem = "a URL with a user name or a password: the token is given beside it";
            return Err(ClientError::Protocol(problem.to_string()));
        }
        if authority.is_empty() || authority.contains(['/', '?', '#']) {
            return Err(wrong(form));
        }
        let (tls, usual) = match (scheme.to_ascii_lowercase().as_str(), tls) {
            ("http", Tls::Off) => (None, 80),
            ("http", _) => return Err(wrong("TLS needs https://")),
            ("https", Tls::Off) => return Err(wrong("https:// needs Tls::Public or Tls::Authorities")),
            ("https", tls) => (Some(tls), 443),
            _ => return Err(wrong(form)),
        };
        let parsed: Uri = format!("ws://{authority}{PATH}").parse().map_err(|_| wrong(form))?;
        let host = parsed.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong(form))?.len();
        let port = match parsed.port() {
            Some(_) => parsed.port_u16().ok_or_else(|| wrong(form))?,
            None if authority.len() > host => return Err(wrong(form)),
            None => usual,
        };
        let host = &authority[..host];
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Ok(Site { url, host, port, authority, tls })
    }
}

async fn upgrade<S>(
    site: &Site<'_>,
    stream: S,
    token: &str,
    inbox: &Arc<Inbox>,
    muted: bool,
) -> Result<Connection, ClientError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |source| ClientError::Io { action: format!("no WebSocket at {}", site.url), source };
    let wrong = |what: &str| ClientError::Protocol(format!("{}: {what}", site.url));
    let mut request = format!("ws://{}{PATH}", site.authority)
        .into_client_request()
        .map_err(|error| wrong(&error.to_string()))?;
    let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| ClientError::Protocol("the token has characters that no token has".to_string()))?;
    bearer.set_sensitive(true);
    request.headers_mut().insert(header::AUTHORIZATION, bearer);
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_LINE_BYTES))
        .max_frame_size(Some(MAX_LINE_BYTES));
    match client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => {
            let (sink, stream) = socket.split();
            Ok(Connection::new(Messages(stream), Sending(sink), inbox, muted))
        }
        Err(Error::Http(response)) => Err(refused(site, &response)),
        Err(Error::Io(source)) => Err(broken(source)),
        // The connection ended first.
        Err(Error::Protocol(ProtocolError::HandshakeIncomplete) | Error::ConnectionClosed) => {
            Err(broken(io::ErrorKind::UnexpectedEof.into()))
        }
        Err(error) => Err(wrong(&format!("what answers is no nerve server: {error}"))),
    }
}

/// The server's own words, where the answer has them; its status says which kind of error it is in any case.
fn refused(site: &Site<'_>, response: &Response) -> ClientError {
    let body = response.body().as_deref().unwrap_or_default();
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let said = |name: &str| problem.get(name).and_then(Value::as_str).map(str::to_string);
    let status = response.status();
    let kind = match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => "busy",
        _ => {
            let said = said("detail")
                .unwrap_or_else(|| String::from_utf8_lossy(body).trim().chars().take(QUOTED).collect());
            let colon = if said.is_empty() { "" } else { ": " };
            return ClientError::Protocol(format!(
                "{}{PATH} answers HTTP {} and no WebSocket{colon}{said}",
                site.url,
                status.as_u16()
            ));
        }
    };
    let plain = || match status {
        StatusCode::UNAUTHORIZED => "the token is wrong".to_string(),
        StatusCode::NOT_FOUND => format!("there is no {PATH} at {}: is it a nerve server?", site.url),
        _ => format!("{}{PATH} answers HTTP {}", site.url, status.as_u16()),
    };
    let message = said("detail").unwrap_or_else(plain);
    let data = ErrorDetails { hint: said("hint"), ..ErrorDetails::of(kind) };
    ClientError::Server(Box::new(ServerError::new(Some(message), data)))
}

struct Messages<S>(SplitStream<WebSocketStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Incoming for Messages<S> {
    async fn next(&mut self) -> Result<Vec<u8>, Closed> {
        loop {
            let silent = |_| Closed::Broken(format!("nothing came for {} s", SILENCE.as_secs()));
            // Also answers the server's pings.
            match tokio::time::timeout(SILENCE, self.0.next()).await.map_err(silent)? {
                Some(Ok(Message::Text(text))) => return Ok(Bytes::from(text).into()),
                Some(Ok(Message::Binary(bytes))) => return Ok(bytes.into()),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_))) | None => return Err(Closed::ByServer),
                Some(Err(error)) => return Err(why(error)),
            }
        }
    }
}

fn why(error: Error) -> Closed {
    match error {
        Error::Io(error) => Closed::broken(&error),
        Error::Capacity(_) => {
            Closed::Garbled(format!("the server sent a message of over {MAX_LINE_BYTES} bytes"))
        }
        // One that is killed says no farewell.
        Error::ConnectionClosed | Error::AlreadyClosed => Closed::ByServer,
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Closed::ByServer,
        error => Closed::Garbled(format!("the server broke the rules of WebSockets: {error}")),
    }
}

struct Sending<S>(SplitSink<WebSocketStream<S>, Message>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Outgoing for Sending<S> {
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
    fn a_url_is_a_scheme_a_host_and_a_port() {
        let public = Tls::Public;
        for (url, tls, host, port, authority) in [
            ("http://localhost:7070", &Tls::Off, "localhost", 7070, "localhost:7070"),
            ("http://localhost", &Tls::Off, "localhost", 80, "localhost"),
            ("HTTP://127.0.0.1:1/", &Tls::Off, "127.0.0.1", 1, "127.0.0.1:1"),
            ("https://example.com", &public, "example.com", 443, "example.com"),
            ("https://[::1]:8443/", &public, "::1", 8443, "[::1]:8443"),
        ] {
            let site = Site::parse(url, tls).unwrap();
            assert_eq!((site.host, site.port, site.authority), (host, port, authority), "{url}");
        }
        for wrong in
            ["", "localhost:1", "ftp://x", "http://", "http:///", "http://x/path", "http://x?a", "http://x:y"]
        {
            assert!(Site::parse(wrong, &Tls::Off).is_err(), "{wrong}");
        }
        for wrong in ["http://x:70000", "http://:80", "http://x:", "http://a b"] {
            assert!(Site::parse(wrong, &Tls::Off).is_err(), "{wrong}");
        }
        assert!(Site::parse("http://x", &public).is_err());
        assert!(Site::parse("https://x", &Tls::Off).is_err());
        let secret = Site::parse("http://me:secret@x", &Tls::Off).unwrap_err();
        assert!(!secret.to_string().contains("secret"));
    }
}
