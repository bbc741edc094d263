//! The first line over TCP: AUTHENTICATE with the token. Who sends it is served as on the Unix socket; nobody else is sent anything but an
//! error.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nerve_api::framing::LineReader;
use nerve_core::error::{EngineError, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::access::Door;
use crate::connection::{self, Link, ReadHalf, WriteHalf};
use crate::convert;
use crate::metrics::Transport;
use crate::requests::{self, Credentials};
use crate::server::{CLOSE_PATIENCE, Clients};
use crate::serving::Serving;
use crate::tcp::Visitor;

/// How long a client may take to show its token.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are read of a client before it has sent a whole line: a token fits.
const MOST: usize = 4096;

/// Serves a client that shows the token, until it is gone or the server closes.
pub(crate) async fn serve(visitor: Visitor, serving: Arc<Serving>, door: Arc<Door>, clients: Clients) {
    let Visitor { link, peer, stranger } = visitor;
    let _connected = serving.hub.metrics.connected(Transport::Tcp);
    let Link { mut read, mut write, hung_up } = link;
    let entering = async {
        let (line, rest) = match first_line(&mut read).await? {
            First::Line { line, rest } => (line, rest),
            First::Refused(error) => return Some(Err(convert::error_line(error))),
        };
        let Credentials { token, answer } = match requests::credentials(&line) {
            Ok(request) => request,
            Err(refusal) => return Some(Err(refusal)),
        };
        match door.knock(token.as_deref(), peer.ip()).await {
            Ok(pass) => match clients.place() {
                Some(place) => Some(Ok((answer.authenticated(), rest, place, pass))),
                None => Some(Err(answer.failed(EngineError::new(ErrorKind::Busy, clients.too_many())))),
            },
            // The answer would cost what its place does.
            Err(error) if error.kind == ErrorKind::RateLimit => None,
            Err(error) => Some(Err(answer.failed(error))),
        }
    };
    let entered = tokio::select! {
        entered = entering => entered,
        () = serving.closing.cancelled() => return,
    };
    match entered {
        Some(Ok((answer, rest, _place, pass))) => {
            drop(stranger);
            if told(&mut write, &answer).await {
                let read: ReadHalf =
                    if rest.is_empty() { read } else { Box::new(io::Cursor::new(rest).chain(read)) };
                let sent_away = connection::sent_away(pass);
                connection::talk(LineReader::new(read), write, hung_up, sent_away, serving).await;
            }
        }
        Some(Err(refusal)) => refuse(read, write, &refusal).await,
        None => {}
    }
}

enum First {
    /// A line, without its end, and what came after it.
    Line { line: Vec<u8>, rest: Vec<u8> },
    /// Why there is none.
    Refused(String),
}

/// The first line that is not blank; `None`: the client left.
async fn first_line(read: &mut ReadHalf) -> Option<First> {
    let late = || First::Refused(format!("no AUTHENTICATE within {} s", PATIENCE.as_secs()));
    match tokio::time::timeout(PATIENCE, read_first_line(read)).await {
        Ok(first) => first.ok().flatten(),
        Err(_) => Some(late()),
    }
}

async fn read_first_line(read: &mut ReadHalf) -> io::Result<Option<First>> {
    let mut bytes = Vec::new();
    let mut left = MOST;
    loop {
        if left == 0 {
            return Ok(Some(First::Refused(format!("AUTHENTICATE must come within {MOST} bytes"))));
        }
        let count = read.take(left as u64).read_buf(&mut bytes).await?;
        if count == 0 {
            // A last line may lack its end.
            let sent = !bytes.trim_ascii().is_empty();
            return Ok(sent.then_some(First::Line { line: bytes, rest: Vec::new() }));
        }
        left -= count;
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            let rest = bytes.split_off(end + 1);
            let line = std::mem::replace(&mut bytes, rest);
            if !line.trim_ascii().is_empty() {
                return Ok(Some(First::Line { line, rest: bytes }));
            }
        }
    }
}

/// Closes with a last line.
async fn refuse(read: ReadHalf, mut write: WriteHalf, line: &[u8]) {
    let told = async { told(&mut write, line).await && write.shutdown().await.is_ok() };
    if matches!(tokio::time::timeout(CLOSE_PATIENCE, told).await, Ok(true)) {
        connection::linger(read, CLOSE_PATIENCE).await;
    }
}

async fn told(write: &mut WriteHalf, line: &[u8]) -> bool {
    let writing = async {
        write.write_all(line).await?;
        write.flush().await
    };
    matches!(tokio::time::timeout(CLOSE_PATIENCE, writing).await, Ok(Ok(())))
}
