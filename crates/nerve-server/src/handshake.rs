//! The handshake of the line protocol over TCP: the first line must be AUTHENTICATE with the token. An
//! authenticated client is served as on the Unix socket; any other gets nothing but an error.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nerve_api::reply::Authenticated;
use nerve_node::error::{EngineError, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::access::Authenticator;
use crate::clients::{CLOSE_TIMEOUT, Clients, PendingClient};
use crate::line::error_line;
use crate::link::{Link, ReadHalf, WriteHalf};
use crate::metrics::Transport;
use crate::requests::{self, Credentials};
use crate::state::ServerState;
use crate::{client_origin, connection};

/// Time that a client may take to authenticate.
const AUTH_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes read from an unauthenticated client.
const MAX_LINE_BYTES: usize = 4096;

/// Authenticates a client and serves it until it leaves or the server closes.
pub(crate) async fn serve(
    client: PendingClient,
    state: Arc<ServerState>,
    authenticator: Arc<Authenticator>,
    clients: Clients,
) {
    let PendingClient { link, peer, slot } = client;
    let _connected = state.hub.metrics.count_connection(Transport::Tcp);
    let Link { mut read, mut write, hung_up } = link;
    let handshake = async {
        let (line, rest) = match wait_for_first_line(&mut read).await? {
            FirstLine::Line { line, rest } => (line, rest),
            FirstLine::Refused(error) => return Some(Err(error_line(error, ErrorKind::InvalidRequest))),
        };
        let Credentials { token, context } = match requests::parse_credentials(&line) {
            Ok(request) => request,
            Err(refusal) => return Some(Err(refusal)),
        };
        match authenticator.authenticate(token.as_deref(), peer.ip()).await {
            Ok(credential) if slot.authenticate() => {
                Some(Ok((context.ok_line(Authenticated { authenticated: true }), rest, credential)))
            }
            Ok(_) => Some(Err(context.error_line(EngineError::busy(clients.reject())))),
            // Answering would cost as much as serving the client.
            Err(error) if error.kind == ErrorKind::RateLimit => None,
            Err(error) => Some(Err(context.error_line(error))),
        }
    };
    let outcome = tokio::select! {
        outcome = handshake => outcome,
        () = state.closing.cancelled() => return,
    };
    match outcome {
        Some(Ok((reply, rest, credential))) => {
            if !send_line(&mut write, &reply).await {
                return;
            }
            let read: ReadHalf =
                if rest.is_empty() { read } else { Box::new(io::Cursor::new(rest).chain(read)) };
            let served = connection::serve(Link { read, write, hung_up }, Some(credential), state);
            client_origin::scope(client_origin::network("tcp", peer), served).await;
        }
        Some(Err(refusal)) => refuse(read, write, &refusal).await,
        None => {}
    }
}

enum FirstLine {
    /// A line without its newline, and the bytes after it.
    Line { line: Vec<u8>, rest: Vec<u8> },
    /// The error message for the client.
    Refused(String),
}

/// Reads the first line that is not blank. Returns `None` if the client left.
async fn wait_for_first_line(read: &mut ReadHalf) -> Option<FirstLine> {
    let timed_out = || FirstLine::Refused(format!("no AUTHENTICATE within {} s", AUTH_TIMEOUT.as_secs()));
    match tokio::time::timeout(AUTH_TIMEOUT, read_first_line(read)).await {
        Ok(line) => line.ok().flatten(),
        Err(_) => Some(timed_out()),
    }
}

async fn read_first_line(read: &mut ReadHalf) -> io::Result<Option<FirstLine>> {
    let mut bytes = Vec::new();
    let mut remaining = MAX_LINE_BYTES;
    loop {
        if remaining == 0 {
            return Ok(Some(FirstLine::Refused(format!(
                "AUTHENTICATE must come within {MAX_LINE_BYTES} bytes"
            ))));
        }
        let count = read.take(remaining as u64).read_buf(&mut bytes).await?;
        if count == 0 {
            // The last line may lack its newline.
            let has_line = !bytes.trim_ascii().is_empty();
            return Ok(has_line.then_some(FirstLine::Line { line: bytes, rest: Vec::new() }));
        }
        remaining -= count;
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            let rest = bytes.split_off(end + 1);
            let line = std::mem::replace(&mut bytes, rest);
            if !line.trim_ascii().is_empty() {
                return Ok(Some(FirstLine::Line { line, rest: bytes }));
            }
        }
    }
}

/// Sends a last line and closes the connection.
async fn refuse(read: ReadHalf, mut write: WriteHalf, line: &[u8]) {
    let send_line = async { send_line(&mut write, line).await && write.shutdown().await.is_ok() };
    if matches!(tokio::time::timeout(CLOSE_TIMEOUT, send_line).await, Ok(true)) {
        connection::linger(read, CLOSE_TIMEOUT).await;
    }
}

async fn send_line(write: &mut WriteHalf, line: &[u8]) -> bool {
    let writing = async {
        write.write_all(line).await?;
        write.flush().await
    };
    matches!(tokio::time::timeout(CLOSE_TIMEOUT, writing).await, Ok(Ok(())))
}
