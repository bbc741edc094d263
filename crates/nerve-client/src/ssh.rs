//! Connects to the server of another machine: `ssh MACHINE nerve connect` carries the line protocol.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nerve_api::framing::LineReader;
use nerve_api::request::Ping;
use nerve_api::{Message, RequestId, RequestName};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::connection::{Connection, Line, LineSource, StreamSink};
use crate::endpoint::encode_request;
use crate::error::ClientError;
use crate::event_router::EventRouter;
use crate::pending_requests::CloseReason;
use crate::ssh_error::{SshError, SshErrorKind};

/// Options of each connection. The user's own ssh configuration decides everything else.
///
/// nerve needs no forwardings: the machine gets no access to the user's agent and display. `ClearAllForwardings` affects ports only.
/// A peer that no longer responds is noticed after a minute.
const OPTIONS: [&str; 6] = [
    "RemoteCommand=none",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
];
/// Further options of a connection without a terminal, over which no prompt of ssh can be answered.
const BATCH_OPTIONS: [&str; 2] = ["BatchMode=yes", "RequestTTY=no"];
/// Time by which ssh gives up earlier than nerve, so that its own report is the reason of the failure.
const SSH_MARGIN: Duration = Duration::from_secs(1);
/// Maximum number of bytes that a shell's startup files may print before the server replies.
const MAX_NOISE: u64 = 64 << 10;
/// Maximum number of bytes kept of the standard error of ssh.
const MAX_STDERR: usize = 16 << 10;
/// Time for which the end of ssh and the rest of its report are awaited after a failure.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Default of [`SshTarget::ssh`].
const DEFAULT_PROGRAM: &str = "ssh";
/// Default of [`SshTarget::server`].
const DEFAULT_SERVER: &str = "default";

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
        let authority = url.strip_prefix("ssh://")?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (user, authority) = match authority.split_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, authority),
        };
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':')?)),
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let in_brackets = authority.starts_with('[');
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
            server: DEFAULT_SERVER.to_string(),
            timeout: Duration::from_secs(15),
        })
    }

    /// Prepares `ssh -t` that runs nerve on the machine in the user's terminal.
    pub fn interactive_command(&self, args: &[String]) -> std::process::Command {
        let mut command = std::process::Command::new(&self.ssh);
        command.arg("-t").args(self.options(&[])).args(self.destination_args(args));
        command
    }

    /// Prepares `ssh` that runs nerve on the machine without a terminal.
    fn batch_command(&self, args: &[String]) -> Command {
        let mut command = Command::new(&self.ssh);
        command.args(self.options(&BATCH_OPTIONS)).args(self.destination_args(args));
        command
    }

    /// Returns the options of ssh, each after `-o`.
    fn options(&self, more: &[&str]) -> Vec<String> {
        let seconds = self.timeout.saturating_sub(SSH_MARGIN).as_secs().max(1);
        let options = OPTIONS.iter().chain(more).map(|option| (*option).to_string());
        let options = options.chain([format!("ConnectTimeout={seconds}")]);
        options.flat_map(|option| ["-o".to_string(), option]).collect()
    }

    /// Returns port, host and remote command. ssh passes the command to the login shell there as one text.
    fn destination_args(&self, args: &[String]) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(port) = self.port {
            words.extend(["-p".to_string(), port.to_string()]);
        }
        words.extend(["--".to_string(), self.user_and_host(), self.remote_command(args)]);
        words
    }

    /// Returns the command that runs nerve, for the login shell on the machine.
    fn remote_command(&self, args: &[String]) -> String {
        let program = match self.nerve.strip_prefix("~/") {
            Some(path) => format!("~/{}", quote(path)),
            None => quote(&self.nerve),
        };
        let args = args.iter().map(|arg| quote(arg));
        std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
    }

    /// Returns the command line for the user's local shell that runs nerve on the machine. The name of the server follows
    /// `server_option`; both are left out for the default server.
    pub(crate) fn shell_command(&self, words: &[&str], server_option: &[&str]) -> String {
        let mut args: Vec<String> = words.iter().map(|word| (*word).to_string()).collect();
        if self.server != DEFAULT_SERVER {
            args.extend(server_option.iter().map(|word| (*word).to_string()));
            args.push(self.server.clone());
        }
        let remote = self.remote_command(&args);
        let is_plain = remote.split(' ').all(|word| quote(word) == word);
        format!("ssh {self} {}", if is_plain { remote } else { quote(&remote) })
    }

    /// Returns the address, `ssh://[USER@]HOST[:PORT]`.
    pub(crate) fn url(&self) -> String {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("ssh://{user}{host}{port}")
    }

    fn user_and_host(&self) -> String {
        match &self.user {
            Some(user) => format!("{user}@{}", self.host),
            None => self.host.clone(),
        }
    }

    /// Returns user, host and port: `USER@HOST:PORT`.
    pub(crate) fn address(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.user_and_host()),
            None => self.user_and_host(),
        }
    }

    fn error(&self, kind: SshErrorKind, reason: impl Into<String>) -> ClientError {
        ClientError::Ssh(Box::new(SshError { kind, target: self.clone(), reason: reason.into() }))
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

/// Returns true if a user or host has no special meaning for ssh and for the commands in its configuration.
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
            target.error(SshErrorKind::NotInstalled, format!("{program}: {error}"))
        }
        _ => ClientError::Io { action: format!("cannot start {program}"), source: error },
    })?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(target.error(SshErrorKind::Failed, "its standard streams are not pipes"));
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
            Err(target.error(SshErrorKind::Failed, message))
        }
        Ok(Ok(Start::Ended) | Err(_)) => {
            drop(stdin);
            let (kind, message) =
                SshError::classify(process.exit_code().await, &process.report.finish().await);
            Err(target.error(kind, message))
        }
        Err(_) => {
            let message = format!("no reply within {} s", target.timeout.as_secs_f64());
            let reason = match SshError::last_line(&process.report.text()) {
                Some(line) => format!("{message}: {line}"),
                None => message,
            };
            Err(target.error(SshErrorKind::TimedOut, reason))
        }
    }
}

/// Result of the wait for the first reply.
enum Start {
    Replied,
    /// The output ended before a reply.
    Ended,
    /// More than [`MAX_NOISE`] bytes precede the reply.
    Noise,
}

/// Reads up to the reply to the first request. Skips what the login shell prints before.
async fn skip_to_reply(stdout: &mut BufReader<ChildStdout>, request: &Line) -> io::Result<Start> {
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
        let words = target.destination_args(&["connect".to_string(), "a b".to_string()]);
        assert_eq!(words, ["-p", "22", "--", "me@work", r"~/'my tools/it'\''s' connect 'a b'"]);
        target.nerve = "/opt/nerve-0.1/bin/nerve".to_string();
        assert_eq!(target.destination_args(&[]).last().unwrap(), "/opt/nerve-0.1/bin/nerve");
    }

    #[test]
    fn ssh_forwards_nothing_and_gives_up_before_nerve() {
        let target = SshTarget { timeout: Duration::from_secs(5), ..SshTarget::parse("ssh://work").unwrap() };
        let batch = target.batch_command(&[]).as_std().get_args().map(|arg| arg.to_owned()).collect();
        let interactive = target.interactive_command(&[]).get_args().map(|arg| arg.to_owned()).collect();
        let all: [Vec<OsString>; 2] = [batch, interactive];
        for args in all {
            for option in ["ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes", "ConnectTimeout=4"]
            {
                assert!(args.iter().any(|arg| arg == option), "{option}: {args:?}");
            }
            assert!(args.iter().any(|arg| arg == "ServerAliveInterval=15"), "{args:?}");
        }
    }

    #[test]
    fn command_for_the_user_has_program_and_server() {
        let mut target = SshTarget::parse("ssh://me@[::1]:22").unwrap();
        assert_eq!(target.url(), "ssh://me@[::1]:22");
        let command = |target: &SshTarget| target.shell_command(&["connect"], &["--server"]);
        assert_eq!(command(&target), "ssh -p 22 me@::1 nerve connect");
        target.server = "night".to_string();
        assert_eq!(command(&target), "ssh -p 22 me@::1 nerve connect --server night");
        // The shell on this machine must not expand the home directory.
        target.nerve = "~/bin/nerve".to_string();
        assert_eq!(command(&target), "ssh -p 22 me@::1 '~/bin/nerve connect --server night'");
    }

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
