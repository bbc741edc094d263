//! Answers plaintext HTTP on a TLS port with an error in plaintext.

use std::io;

use tokio::net::TcpStream;

use super::problem::Problem;
use crate::clients::CLOSE_TIMEOUT;
use crate::refusal;

/// Returns true if the first byte is that of a plaintext request: a capital letter. No TLS record begins with one (RFC 8446 §5.1).
pub(crate) async fn is_plaintext_http(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let count = stream.peek(&mut first).await?;
    Ok(count > 0 && first[0].is_ascii_uppercase())
}

/// Answers with an error and closes. The request is not parsed.
pub(crate) async fn refuse(stream: TcpStream) -> io::Error {
    let problem =
        Problem::invalid("this port requires TLS, but the request is not encrypted").hint("use https://");
    refusal::refuse(stream, &problem.raw_response(), CLOSE_TIMEOUT).await;
    io::Error::new(io::ErrorKind::InvalidData, "unencrypted HTTP on a TLS port")
}
