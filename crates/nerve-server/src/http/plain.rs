//! Who speaks HTTP in the clear at a port with TLS is told so, in the clear.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long such a client may take to send the rest, and how many bytes of it are read, so that it gets to see the answer.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 64 * 1024;

/// Whether the first byte that comes is of a request in the clear: a capital letter, which TLS does not begin with (RFC 8446 §5.1).
pub(crate) async fn is_spoken(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let count = stream.peek(&mut first).await?;
    Ok(count > 0 && first[0].is_ascii_uppercase())
}

/// Says what is wrong, and closes. What was sent is not looked at.
pub(crate) async fn refuse(mut stream: TcpStream) -> io::Error {
    let body = json!({
        "type": "about:blank", "title": "Bad Request", "status": 400, "error_type": "invalid_request_error",
        "detail": "this port speaks TLS, and the request came in the clear", "hint": "ask with https://",
        "request_id": "",
    })
    .to_string();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let telling = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(LINGER, telling).await;
    io::Error::new(io::ErrorKind::InvalidData, "HTTP in the clear at a port with TLS")
}
