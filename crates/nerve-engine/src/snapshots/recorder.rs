//! Client of a recorder's snapshot socket.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nerve_node::error::EngineError;
use nerve_record::ssz::frame::{MAX_MESSAGE, decode_frame};
use nerve_record::ssz::snapshot::{Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::enclosing_session::EnclosingSession;

/// Address of a recorder's snapshot socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Recorder {
    Unix(PathBuf),
    /// `host:port`.
    Tcp(String),
}

/// The confirmation that a snapshot is in the recording and on disk.
#[derive(Debug, Clone, Copy)]
pub struct Confirmation {
    /// Output offset of the snapshot, in bytes.
    pub anchor: u64,
    /// Nanoseconds since the Unix epoch.
    pub at_ns: u64,
}

/// A snapshot that was not confirmed.
#[derive(Debug)]
pub(super) enum ConfirmError {
    /// The snapshot is not in the recording.
    NotRecorded(EngineError),
    /// The snapshot may be in the recording.
    Unknown(EngineError),
}

impl ConfirmError {
    pub(super) fn into_error(self) -> EngineError {
        let (ConfirmError::NotRecorded(error) | ConfirmError::Unknown(error)) = self;
        error
    }
}

impl Recorder {
    /// Returns the recorder of the enclosing session.
    pub(super) fn enclosing(session: &EnclosingSession) -> Result<Recorder, EngineError> {
        session.socket().map(Recorder::parse).ok_or_else(|| {
            let message = "not inside a recorded terminal: neither NERVE_RECORDER_SOCKET nor \
                           AH_RECORDER_IPC_SOCKET is set";
            EngineError::not_found(message).hint(
                "run it in a terminal of 'nerve record' or of a node, or select one with --recording or --recorder-socket",
            )
        })
    }

    pub(super) fn parse(text: &str) -> Recorder {
        match text.strip_prefix("tcp:") {
            Some(address) => Recorder::Tcp(address.to_string()),
            None => Recorder::Unix(text.strip_prefix("uds:").unwrap_or(text).into()),
        }
    }

    /// Requests a snapshot and waits for its confirmation.
    pub(super) fn request_snapshot(
        &self,
        id: u64,
        label: Option<&str>,
        timeout: Duration,
    ) -> Result<Confirmation, ConfirmError> {
        let request = Request::Snapshot { id, label: label.unwrap_or_default().into() };
        let refused = |why: String| ConfirmError::NotRecorded(EngineError::process(why));
        let frame = request.frame().map_err(|error| refused(error.to_string()))?;
        // Installs no Ctrl+C handler, so that Ctrl+C still ends the command.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| refused(format!("cannot start the runtime: {error}")))?;
        let answer = runtime.block_on(async { tokio::time::timeout(timeout, self.exchange(&frame)).await });
        let response = match answer {
            Ok(answer) => answer?,
            Err(_) => {
                let message =
                    format!("the recorder at {self} did not confirm within {} s", timeout.as_secs_f64());
                let error = EngineError::timeout(message);
                return Err(ConfirmError::Unknown(error.hint("its disk may be busy; try again")));
            }
        };
        match response {
            Response::Success { id: echoed, anchor, at_ns } if echoed == id => {
                Ok(Confirmation { anchor, at_ns })
            }
            Response::Success { id: other, .. } => {
                Err(self.protocol_error(&format!("it confirmed snapshot {other} instead of {id}")))
            }
            Response::Error { message } => {
                Err(refused(format!("the recorder refused the snapshot: {message}")))
            }
        }
    }

    async fn exchange(&self, frame: &[u8]) -> Result<Response, ConfirmError> {
        let reply = match self {
            Recorder::Unix(path) => match UnixStream::connect(path).await {
                Ok(stream) => exchange_frame(stream, frame).await,
                Err(error) => return Err(self.unreachable(&error)),
            },
            Recorder::Tcp(address) => match TcpStream::connect(address).await {
                Ok(stream) => exchange_frame(stream, frame).await,
                Err(error) => return Err(self.unreachable(&error)),
            },
        };
        let body = reply.map_err(|error| self.protocol_error(&error.to_string()))?;
        Response::decode(&body).map_err(|error| self.protocol_error(&error.to_string()))
    }

    fn unreachable(&self, error: &io::Error) -> ConfirmError {
        let error = EngineError::not_found(format!("no recorder at {self}: {error}"));
        ConfirmError::NotRecorded(
            error.hint(
                "the recording has ended or uses another socket; list running sessions: nerve host list",
            ),
        )
    }

    fn protocol_error(&self, why: &str) -> ConfirmError {
        let message = format!("the recorder at {self} did not confirm the snapshot: {why}");
        ConfirmError::Unknown(EngineError::process(message))
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recorder::Unix(path) => write!(f, "{}", path.display()),
            Recorder::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// Sends a frame and reads the body of the reply.
async fn exchange_frame(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    frame: &[u8],
) -> io::Result<Vec<u8>> {
    // A recorder that refuses early may have replied before it closed the connection.
    let sent = stream.write_all(frame).await;
    let mut read = Vec::new();
    loop {
        if let Some(body) = decode_frame(&mut read, MAX_MESSAGE).map_err(io::Error::other)? {
            return Ok(body);
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) if sent.is_err() => {
                return Err(sent.err().unwrap_or(io::ErrorKind::BrokenPipe.into()));
            }
            Ok(0) => return Err(io::Error::other("connection closed without a reply")),
            Ok(count) => read.extend_from_slice(&piece[..count]),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_path_unless_prefixed_with_tcp() {
        assert_eq!(Recorder::parse("/run/a.sock"), Recorder::Unix("/run/a.sock".into()));
        assert_eq!(Recorder::parse("uds:/run/a.sock"), Recorder::Unix("/run/a.sock".into()));
        assert_eq!(Recorder::parse("tcp:127.0.0.1:80"), Recorder::Tcp("127.0.0.1:80".into()));
        assert_eq!(Recorder::parse("tcp:[::1]:80").to_string(), "tcp:[::1]:80");
    }
}
