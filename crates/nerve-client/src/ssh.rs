//! Connects to the server of another machine: `ssh MACHINE nerve connect` carries the line protocol.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use nerve_api::RequestName;
use nerve_api::request::Ping;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::connection::{Connection, Line};
use crate::endpoint::encode_request;
use crate::error::ClientError;
use crate::event_router::EventRouter;
use crate::ssh_error::{SshError, SshErrorKind};

/// Options of each connection. The user's own ssh configuration decides everything else.
///
/// nerve cannot answer a prompt of ssh, and needs neither a terminal nor forwardings. A peer that no longer responds is noticed
/// after a minute.
const OPTIONS: [&str; 6] = [
    "BatchMode=yes",
    "RequestTTY=no",
    "RemoteCommand=none",
    "ClearAllForwardings=yes",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
];
/// Maximum number of bytes that a shell's startup files may print before the server replies.
const MAX_NOISE: u64 = 64 << 10;
/// Maximum number of bytes kept of what ssh reports.
const MAX_STDERR: usize = 16 << 10;
/// Time for which the end of ssh and the rest of its report are awaited after a failure.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// The program of ssh, unless another one is set.
const DEFAULT_PROGRAM: &str = "ssh";

/// A server on another machine that is reached through ssh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshTarget {
    user: Option<String>,
    host: String,
    port: Option<u16>,
    /// The ssh program. Default: `ssh`.
    pub ssh: OsString,
    /// The nerve program on the machine: a name, or a path that may begin with `~/`. Default: `nerve`.
    pub nerve: String,
    /// Name of the server on the machine. Default: `default`.
    pub server: String,
    /// Time limit for connecting, until the server has replied. Default: 15 s.
    pub timeout: Duration,
}

impl SshTarget {
    /// Parses `ssh://[USER@]HOST[:PORT]`. Returns `None` for another address. A user or host that begins with a dash, or has characters
    /// other than letters, digits, `.`, `_`, `-` and, in brackets, `:`, is rejected: it could become an option or a command.
    pub fn parse(url: &str) -> Option<SshTarget> {
        let place = url.strip_prefix("ssh://")?;
        let place = place.strip_suffix('/').unwrap_or(place);
        let (user, place) = match place.split_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, place),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':')?)),
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        let in_brackets = place.starts_with('[');
        if !is_plain(host, in_brackets) || user.is_some_and(|user| !is_plain(user, false)) {
            return None;
        }
        let port = match port {
            Some(port) => Some(port.parse().ok().filter(|port| *port != 0)?),
            None => None,
        };
        Some(SshTarget {
            user: user.map(str::to_string),
            host: host.to_string(),
            port,
            ssh: DEFAULT_PROGRAM.into(),
            nerve: "nerve".to_string(),
            server: "default".to_string(),
            timeout: Duration::from_secs(15),
        })
    }

    /// Prepares `ssh -t` that runs nerve on the machine in the user's terminal.
    pub fn interactive_command(&self, args: &[String]) -> std::process::Command {
        let mut command = std::process::Command::new(&self.ssh);
        command.args(["-t", "-o", "RemoteCommand=none"]).args(self.place(args));
        command
    }

    /// Prepares `ssh` that runs nerve on the machine without a terminal.
    fn batch_command(&self, args: &[String]) -> Command {
        let mut command = Command::new(&self.ssh);
        for option in OPTIONS {
            command.args(["-o", option]);
        }
        let seconds = self.timeout.as_secs().max(1);
        command.args(["-o", &format!("ConnectTimeout={seconds}")]).args(self.place(args));
        command
    }

    /// Returns port, host and remote command. ssh passes the command to the login shell there as one text.
    fn place(&self, args: &[String]) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(port) = self.port {
            words.extend(["-p".to_string(), port.to_string()]);
        }
        words.extend(["--".to_string(), self.user_and_host()]);
        let program = match self.nerve.strip_prefix("~/") {
            Some(path) => format!("~/{}", quote(path)),
            None => quote(&self.nerve),
        };
        let args = args.iter().map(|arg| quote(arg));
        words.push(std::iter::once(program).chain(args).collect::<Vec<_>>().join(" "));
        words
    }

    fn user_and_host(&self) -> String {
        match &self.user {
            Some(user) => format!("{user}@{}", self.host),
            None => self.host.clone(),
        }
    }

    fn failed(&self, kind: SshErrorKind, message: impl Into<String>) -> ClientError {
        let address = match self.port {
            Some(port) => format!("{}:{port}", self.user_and_host()),
            None => self.user_and_host(),
        };
        let (destination, reason) = (self.to_string(), message.into());
        ClientError::Ssh(Box::new(SshError { kind, address, destination, reason }))
    }
}

/// The words after `ssh`: `-p PORT USER@HOST`.
impl fmt::Display for SshTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(port) = self.port {
            write!(f, "-p {port} ")?;
        }
        f.write_str(&self.user_and_host())
    }
}

/// Returns true if a user or host means only itself, for ssh and for the commands in its configuration.
fn is_plain(word: &str, with_colons: bool) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte) || (with_colons && byte == b':');
    !word.is_empty() && word.len() <= 255 && !word.starts_with('-') && word.bytes().all(is_allowed)
}

/// Quotes a word for the shell on the machine, if necessary.
fn quote(word: &str) -> String {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:=@%+,".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_safe) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Starts ssh and waits until the server has replied.
pub(crate) async fn open(
    target: &SshTarget,
    router: &Arc<EventRouter>,
    muted: bool,
) -> Result<Connection, ClientError> {
    let deadline = Instant::now() + target.timeout;
    let args = ["connect", "--server", &target.server].map(str::to_string);
    let mut command = target.batch_command(&args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    // Ctrl+C is for this program, which may handle it.
    command.process_group(0);
    let program = target.ssh.display();
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
            target.failed(SshErrorKind::NotInstalled, format!("{program}: {error}"))
        }
        _ => ClientError::Io { action: format!("cannot start {program}"), source: error },
    })?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(target.failed(SshErrorKind::Failed, "it has no pipes"));
    };
    let mut output = SshOutput { stdout: BufReader::new(stdout), child, report: Report::collect(stderr) };
    let line = encode_request(router, RequestName::Ping, &Ping {})?;
    let replied = async {
        // If ssh has ended, its output and its exit status say more.
        let _ = stdin.write_all(&line.bytes).await;
        output.skip_to_reply(&line).await
    };
    match timeout_at(deadline, replied).await {
        Ok(Ok(Start::Replied)) => Ok(Connection::over(output, stdin, router, muted)),
        Ok(Ok(Start::Noise)) => {
            let message = format!("the login shell there prints more than {MAX_NOISE} bytes");
            Err(target.failed(SshErrorKind::Failed, message))
        }
        Ok(Ok(Start::Ended) | Err(_)) => {
            drop(stdin);
            let (kind, message) = output.explain_end().await;
            Err(target.failed(kind, message))
        }
        Err(_) => {
            let message = format!("no reply within {:.0} s", target.timeout.as_secs_f64());
            Err(target.failed(SshErrorKind::TimedOut, message))
        }
    }
}

/// How the output of ssh begins.
enum Start {
    Replied,
    /// The output ended before a reply.
    Ended,
    Noise,
}

/// The output of ssh, with its process, which ends when this is dropped.
struct SshOutput {
    stdout: BufReader<ChildStdout>,
    child: Child,
    report: Report,
}

impl SshOutput {
    /// Reads up to the reply to the first request. Skips what the login shell prints before.
    async fn skip_to_reply(&mut self, request: &Line) -> io::Result<Start> {
        #[derive(Deserialize)]
        struct Reply {
            request_id: String,
        }
        let (id, mut skipped) = (request.id.to_string(), 0);
        while skipped < MAX_NOISE {
            let mut line = Vec::new();
            let read = (&mut self.stdout).take(MAX_NOISE).read_until(b'\n', &mut line).await?;
            if read == 0 {
                return Ok(Start::Ended);
            }
            if serde_json::from_slice::<Reply>(&line).is_ok_and(|reply| reply.request_id == id) {
                return Ok(Start::Replied);
            }
            skipped += read as u64;
        }
        Ok(Start::Noise)
    }

    /// Explains why ssh has ended.
    async fn explain_end(mut self) -> (SshErrorKind, String) {
        let exit = match timeout(EXIT_TIMEOUT, self.child.wait()).await {
            Ok(Ok(exit)) => Some(exit),
            _ => None,
        };
        let report = self.report.finish().await;
        SshError::classify(exit.and_then(|exit: ExitStatus| exit.code()), &report)
    }
}

impl AsyncRead for SshOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdout).poll_read(context, buffer)
    }
}

/// What ssh reports on its standard error, read all the time so that ssh never waits.
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
        let _ = timeout(EXIT_TIMEOUT, &mut self.reader).await;
        String::from_utf8_lossy(&self.text.lock()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_user_host_and_port() {
        let shown = |url: &str| SshTarget::parse(url).map(|target| target.to_string());
        assert_eq!(shown("ssh://work").as_deref(), Some("work"));
        assert_eq!(shown("ssh://me@work.example.com:2222").as_deref(), Some("-p 2222 me@work.example.com"));
        assert_eq!(shown("ssh://me@[fe80::1]:22").as_deref(), Some("-p 22 me@fe80::1"));
        assert_eq!(shown("ssh://[::1]/").as_deref(), Some("::1"));
    }

    #[test]
    fn address_that_could_be_an_option_or_command_is_rejected() {
        for url in [
            "work",
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://-l@host",
            "ssh://me@-host",
            "ssh://@host",
            "ssh://me@",
            "ssh://a b",
            "ssh://a;b",
            "ssh://$(x)",
            "ssh://`x`@h",
            "ssh://h%h",
            "ssh://a:0",
            "ssh://a:70000",
            "ssh://a:x",
            "ssh://::1",
            "ssh://[::1]x",
            "ssh://a/b",
            "ssh://a@b@c",
            "ssh://h\n",
        ] {
            assert_eq!(SshTarget::parse(url), None, "{url}");
        }
    }

    #[test]
    fn remote_command_is_one_quoted_text_after_the_host() {
        let mut target = SshTarget::parse("ssh://me@work:22").unwrap();
        target.nerve = "~/my tools/it's".to_string();
        let words = target.place(&["connect".to_string(), "a b".to_string()]);
        assert_eq!(words, ["-p", "22", "--", "me@work", r"~/'my tools/it'\''s' connect 'a b'"]);
        target.nerve = "/opt/nerve-0.1/bin/nerve".to_string();
        assert_eq!(target.place(&[]).last().unwrap(), "/opt/nerve-0.1/bin/nerve");
    }
}
