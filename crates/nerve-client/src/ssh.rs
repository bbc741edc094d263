//! Connects to the server of another machine: `ssh MACHINE nerve connect` carries the line protocol.

use std::io;
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nerve_api::framing::LineReader;
use nerve_api::request::Ping;
use nerve_api::{Message, RequestId, RequestName};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::connection::{Connection, Line, LineSource, StreamSink, encode_request};
use crate::error::ClientError;
use crate::event_router::EventRouter;
use crate::pending_requests::CloseReason;
use crate::ssh_error::{SshError, SshErrorKind};
use crate::ssh_target::{SshSharing, SshTarget};

/// Maximum number of bytes that a shell's startup files may print before the server replies.
const MAX_NOISE: u64 = 64 << 10;
/// Maximum number of bytes kept of the standard error of ssh.
const MAX_STDERR: usize = 16 << 10;
/// Time for which the end of ssh and the rest of its report are awaited after a failure.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Creates the error of a connection that failed.
fn failure(target: &SshTarget, kind: SshErrorKind, reason: impl Into<String>) -> ClientError {
    ClientError::Ssh(Box::new(SshError { kind, target: target.clone(), reason: reason.into() }))
}

/// Connects and waits until the server has replied. After half of the time, logs in without a master connection
/// that does not respond.
pub(crate) async fn open(
    target: &SshTarget,
    router: &Arc<EventRouter>,
    muted: bool,
) -> Result<Connection, ClientError> {
    let start = Instant::now();
    let (half, deadline) = (start + target.timeout / 2, start + target.timeout);
    let begin = SystemTime::now();
    let sharing = target.sharing().await;
    if sharing != SshSharing::Master {
        return open_once(target, sharing, deadline, router, muted).await;
    }
    match timeout_at(half, target.open_forwarded(router, muted)).await {
        Ok(Some(connection)) => return Ok(connection),
        Ok(None) => {}
        Err(_) => {
            target.remove_socket(begin).await;
        }
    }
    let mut attempt = pin!(open_once(target, sharing, deadline, router, muted));
    let connection = match timeout_at(half, &mut attempt).await {
        Ok(outcome) => outcome?,
        Err(_) => {
            return match target.remove_socket(begin).await {
                // The login is older than a sleep or a change of the network. Only a PING was sent.
                true => open_once(target, SshSharing::Off, deadline, router, muted).await,
                false => attempt.await,
            };
        }
    };
    // Later commands gain more than this one loses.
    let _ = timeout_at(half, target.forward(router)).await;
    Ok(connection)
}

/// Starts ssh and waits until the server has replied.
async fn open_once(
    target: &SshTarget,
    sharing: SshSharing,
    deadline: Instant,
    router: &Arc<EventRouter>,
    muted: bool,
) -> Result<Connection, ClientError> {
    let args = ["connect", "--server", &target.server].map(str::to_string);
    let mut command = target.batch_command(&args, sharing);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    // Ctrl+C is for this program, which may handle it.
    command.process_group(0);
    let program = target.ssh.display();
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
            failure(target, SshErrorKind::NotInstalled, format!("{program}: {error}"))
        }
        _ => ClientError::Io { action: format!("cannot start {program}"), source: error },
    })?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(failure(target, SshErrorKind::Failed, "its standard streams are not pipes"));
    };
    let mut stdout = BufReader::new(stdout);
    let mut process = SshProcess { child, report: Report::collect(stderr) };
    let line = encode_request(router, RequestName::Ping, &Ping {})?;
    let start = async {
        // Fails if ssh has ended; its output and its exit status say why.
        let _ = stdin.write_all(&line.bytes).await;
        skip_to_reply(&mut stdout, &line).await
    };
    match timeout_at(deadline, start).await {
        Ok(Ok(Start::Replied)) => {
            let source = SshLines { lines: LineReader::new(stdout), process };
            Ok(Connection::new(source, StreamSink(stdin), router, muted))
        }
        Ok(Ok(Start::Noise)) => {
            let message = format!("the login shell there prints more than {MAX_NOISE} bytes");
            Err(failure(target, SshErrorKind::Failed, message))
        }
        Ok(Ok(Start::Ended) | Err(_)) => {
            drop(stdin);
            let (kind, message) =
                SshError::classify(process.exit_code().await, &process.report.finish().await);
            Err(failure(target, kind, message))
        }
        Err(_) => {
            let message = format!("no reply within {} s", target.timeout.as_secs_f64());
            let reason = match SshError::last_line(&process.report.text()) {
                Some(line) => format!("{message}: {line}"),
                None => message,
            };
            Err(failure(target, SshErrorKind::TimedOut, reason))
        }
    }
}

/// Result of the wait for the first reply.
pub(crate) enum Start {
    Replied,
    /// The output ended before a reply.
    Ended,
    /// More than [`MAX_NOISE`] bytes precede the reply.
    Noise,
}

/// Reads up to the reply to the first request. Skips what the login shell prints before.
pub(crate) async fn skip_to_reply(
    stdout: &mut BufReader<impl AsyncRead + Unpin>,
    request: &Line,
) -> io::Result<Start> {
    let (id, mut skipped) = (request.id.to_string(), 0);
    while skipped < MAX_NOISE {
        let mut line = Vec::new();
        let read = (&mut *stdout).take(MAX_NOISE).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Ok(Start::Ended);
        }
        if is_reply(&line, &id) {
            return Ok(Start::Replied);
        }
        skipped += read as u64;
    }
    Ok(Start::Noise)
}

/// Returns true if a line is the reply to a request. A shell that echoes its input prints the request, too.
fn is_reply(line: &[u8], id: &str) -> bool {
    match serde_json::from_slice(line) {
        Ok(Message::Result(result)) => result.request_id == Some(RequestId::Text(id.to_string())),
        _ => false,
    }
}

/// The lines of a server that is reached through ssh. ssh ends when this is dropped.
struct SshLines {
    lines: LineReader<BufReader<ChildStdout>>,
    process: SshProcess,
}

impl LineSource for SshLines {
    /// Returns the next line. If ssh has failed, its report is the reason of the end.
    async fn next(&mut self) -> Result<Vec<u8>, CloseReason> {
        match LineSource::next(&mut self.lines).await {
            Err(CloseReason::ByServer) => {
                let exit = self.process.exit_code().await;
                if exit == Some(0) {
                    return Err(CloseReason::ByServer);
                }
                Err(CloseReason::Broken(SshError::classify(exit, &self.process.report.finish().await).1))
            }
            result => result,
        }
    }
}

/// A process of ssh, and its report.
struct SshProcess {
    child: Child,
    report: Report,
}

impl SshProcess {
    /// Waits for the end of ssh. Returns `None` if it does not end in time, or a signal ended it.
    async fn exit_code(&mut self) -> Option<i32> {
        let exit = timeout(EXIT_TIMEOUT, self.child.wait()).await;
        exit.ok().and_then(Result::ok).and_then(|exit| exit.code())
    }
}

/// The standard error of ssh, read continuously so that ssh never blocks.
struct Report {
    text: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Drop for Report {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Report {
    fn collect(mut stderr: ChildStderr) -> Report {
        let text = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&text);
        let reader = tokio::spawn(async move {
            let mut buffer = [0; 1024];
            while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
                let mut text = collected.lock();
                let room = MAX_STDERR.saturating_sub(text.len()).min(read);
                text.extend_from_slice(&buffer[..room]);
            }
        });
        Report { text, reader }
    }

    /// Returns the report after ssh has ended. A master connection that stays in the background may hold its pipe open.
    async fn finish(&mut self) -> String {
        if !self.reader.is_finished() {
            let _ = timeout(EXIT_TIMEOUT, &mut self.reader).await;
        }
        self.text()
    }

    /// Returns the report so far.
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoed_request_is_not_its_reply() {
        let reply = br#"{"type":"result","success":true,"data":{},"error":null,"request_id":"7"}"#;
        assert!(is_reply(reply, "7"));
        assert!(!is_reply(reply, "8"));
        for other in [r#"{"command_type":"PING","request_id":"7"}"#, r#"{"request_id":"7"}"#, "7", ""] {
            assert!(!is_reply(other.as_bytes(), "7"), "{other}");
        }
    }
}
