//! Answers plaintext HTTP on a TLS port with an error in plaintext.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::problem::Problem;

/// Time and bytes for reading the rest of the request, so that the client gets to see the answer.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 64 * 1024;

/// Returns true if the first byte is that of a plaintext request: a capital letter. No TLS record begins with one (RFC 8446 §5.1).
pub(crate) async fn is_plaintext_http(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let count = stream.peek(&mut first).await?;
    Ok(count > 0 && first[0].is_ascii_uppercase())
}

/// Answers with an error and closes. The request is not parsed.
pub(crate) async fn refuse(mut stream: TcpStream) -> io::Error {
    let problem =
        Problem::invalid("this port requires TLS, but the request is not encrypted").hint("use https://");
    let body = problem.body("");
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let answering = async {
        stream.write_all(&[head.as_bytes(), &body].concat()).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(LINGER, answering).await;
    io::Error::new(io::ErrorKind::InvalidData, "unencrypted HTTP on a TLS port")
}
