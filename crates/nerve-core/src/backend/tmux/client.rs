//! The command line of tmux: one short process for every call, with a deadline.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::formats::{self, PANES};
use super::{quoting, version};
use crate::backend::pane::{NewPane, PaneError, PaneInfo};
use crate::backend::{Program, close_descriptors};

/// tmux answers from memory: one that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(5);
/// More of an answer is not read: a scrollback of fifty thousand long lines is half of it.
const OUTPUT_LIMIT: u64 = 64 << 20;
/// More of a complaint is not read.
const STDERR_LIMIT: u64 = 16 << 10;
/// The oldest tmux with `send-keys -H`, `ignore-size` and `refresh-client -A`, all of which are used.
pub(super) const MIN_VERSION: (u32, u32) = (3, 2);
pub(super) const NAME: &str = "tmux";

/// Which of a pane's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Those that are visible.
    Screen,
    /// The last so many of scrollback and screen.
    Last(usize),
    /// Scrollback and screen.
    All,
}

/// tmux's command line. Cheap to clone; holds nothing open.
#[derive(Debug, Clone, Default)]
pub struct Tmux {
    socket: Option<String>,
    program: Option<PathBuf>,
}

impl Tmux {
    /// For the server at `socket`: a path (with a `/` in it), or a name as `tmux -L` takes it. `None` is the one that the tmux
    /// command line would take.
    pub fn new(socket: Option<&str>) -> Tmux {
        let socket = socket.filter(|socket| !socket.is_empty()).map(str::to_string);
        Tmux { socket, program: None }
    }

    /// The same with another program than the `tmux` in PATH.
    #[must_use]
    pub fn with_program(self, program: Option<PathBuf>) -> Tmux {
        Tmux { program, ..self }
    }

    /// What `tmux -V` says, without the name: `3.3a`. Needs no server.
    ///
    /// # Errors
    /// [`PaneError::NotInstalled`], [`PaneError::TooOld`] with what was found, [`PaneError::NoAnswer`].
    pub async fn version(&self) -> Result<String, PaneError> {
        let mut command = self.program();
        command.arg("-V");
        let message = String::from_utf8_lossy(&run(command, &[]).await?).trim().to_string();
        if version::parse(&message).is_some_and(|found| found < MIN_VERSION) {
            return Err(PaneError::TooOld { found: message, needed: "tmux 3.2" });
        }
        Ok(message.strip_prefix("tmux ").unwrap_or(&message).to_string())
    }

    /// All panes of the server.
    ///
    /// # Errors
    /// [`PaneError`].
    pub async fn list(&self) -> Result<Vec<PaneInfo>, PaneError> {
        let text = self.call(&["list-panes", "-a", "-F", PANES], &[]).await?;
        Ok(formats::panes(&String::from_utf8_lossy(&text)))
    }

    /// One pane, by its id or as tmux's targets name it (`session:window.pane`).
    ///
    /// # Errors
    /// [`PaneError`]; [`PaneError::NoPane`] if there is none.
    pub async fn pane(&self, target: &str) -> Result<PaneInfo, PaneError> {
        check_target(target)?;
        // It answers with nothing, not with an error, where there is no such pane.
        let text = self.call(&["display-message", "-p", "-t", target, PANES], &[]).await?;
        let found = formats::panes(&String::from_utf8_lossy(&text)).pop();
        found.filter(|pane| !pane.pane.is_empty()).ok_or_else(|| PaneError::NoPane(target.to_string()))
    }

    /// Makes a pane in a window of its own, in a new or an existing session (`nerve` if none is named), and says which. The window
    /// closes with its program.
    ///
    /// # Errors
    /// [`PaneError`].
    pub async fn spawn(&self, new: &NewPane) -> Result<String, PaneError> {
        self.version().await?;
        let session = new.session.as_deref().unwrap_or(quoting::SESSION);
        quoting::check_session(session)?;
        // tmux would make a pane of it all the same, which is gone before anybody looks.
        if !new.argv.is_empty() {
            let (argv, cwd, env) = (new.argv.clone(), new.cwd.clone(), new.env.clone());
            let program = Program { argv, cwd, env, env_remove: Vec::new() };
            program.find().map_err(|error| PaneError::Refused(error.to_string()))?;
        }
        let mut error = None;
        // Between the question and the deed, somebody else may make the session, or end it.
        for _ in 0..3 {
            let exists = self.has_session(session).await?;
            match self.call(&quoting::create_command(new, session, exists), &[]).await {
                Ok(text) => return Ok(String::from_utf8_lossy(&text).trim().to_string()),
                Err(PaneError::Refused(message)) if message.contains("duplicate session") => {
                    error = Some(PaneError::Refused(message));
                }
                Err(PaneError::NoPane(message)) => error = Some(PaneError::NoPane(message)),
                Err(error) => return Err(error),
            }
        }
        Err(error.unwrap_or(PaneError::NoServer(NAME)))
    }

    /// Is there a session of exactly this name?
    ///
    /// # Errors
    /// [`PaneError`], but none where there is no server.
    pub async fn has_session(&self, name: &str) -> Result<bool, PaneError> {
        match self.call(&["has-session", "-t", &format!("={name}")], &[]).await {
            Ok(_) => Ok(true),
            Err(PaneError::NoPane(_) | PaneError::NoServer(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Types text as a paste: byte for byte, in brackets if the program asks for them.
    ///
    /// # Errors
    /// [`PaneError`].
    pub async fn paste(&self, pane: &str, bytes: &[u8]) -> Result<(), PaneError> {
        self.pane(pane).await?;
        if bytes.is_empty() {
            return Ok(());
        }
        let buffer = buffer_name();
        self.call(&["load-buffer", "-b", &buffer, "-"], bytes).await?;
        let pasted = self.call(&["paste-buffer", "-p", "-r", "-d", "-b", &buffer, "-t", pane], &[]).await;
        if pasted.is_err() {
            // It would stay for ever; that this fails too is no more news.
            let _ = self.call(&["delete-buffer", "-b", &buffer], &[]).await;
        }
        pasted.map(drop)
    }

    /// Types bytes exactly. Those of a pane in copy mode go to copy mode.
    ///
    /// # Errors
    /// [`PaneError`].
    pub async fn keys(&self, pane: &str, bytes: &[u8]) -> Result<(), PaneError> {
        check_target(pane)?;
        for chunk in bytes.chunks(1000) {
            let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
            let mut words = vec!["send-keys", "-t", pane, "-H"];
            words.extend(hex.iter().map(String::as_str));
            self.call(&words, &[]).await?;
        }
        Ok(())
    }

    /// Text of a pane: rows with their trailing blanks cut, rows that the terminal wrapped joined, empty rows at the end dropped.
    ///
    /// # Errors
    /// [`PaneError`].
    pub async fn text(&self, pane: &str, range: Range) -> Result<String, PaneError> {
        let mut words = vec!["capture-pane", "-p", "-J", "-t", pane];
        if range != Range::Screen {
            words.extend(["-S", "-"]);
        }
        let text = self.call(&words, &[]).await?;
        let text = String::from_utf8_lossy(&text);
        let rows: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
        let from = match range {
            Range::Last(count) => rows.len().saturating_sub(count),
            Range::Screen | Range::All => 0,
        };
        Ok(rows[from..].join("\n"))
    }

    /// Closes a pane, and ends its program with it.
    ///
    /// # Errors
    /// [`PaneError`].
    pub async fn kill(&self, pane: &str) -> Result<(), PaneError> {
        check_target(pane)?;
        self.call(&["kill-pane", "-t", pane], &[]).await.map(drop)
    }

    /// Runs tmux with these words and gives what it printed.
    pub(super) async fn call<S: AsRef<str>>(&self, words: &[S], input: &[u8]) -> Result<Vec<u8>, PaneError> {
        let mut command = self.command();
        command.args(words.iter().map(|word| quoting::escape_argument(word.as_ref())));
        run(command, input).await
    }

    fn program(&self) -> Command {
        match &self.program {
            Some(path) => Command::new(path),
            None => Command::new(NAME),
        }
    }

    /// tmux for this server, in an environment where it does not think of itself as nested.
    pub(super) fn command(&self) -> Command {
        let mut command = self.program();
        // What it prints is UTF-8, whatever the locale says.
        command.arg("-u");
        match &self.socket {
            Some(path) if path.contains('/') => drop(command.args(["-S", path])),
            Some(name) => drop(command.args(["-L", name])),
            None => {
                if let Some(path) = enclosing_socket() {
                    command.arg("-S").arg(path);
                }
            }
        }
        command.env_remove("TMUX").env_remove("TMUX_PANE").kill_on_drop(true);
        close_descriptors(&mut command);
        command
    }
}

/// For no name, tmux takes the pane that somebody looks at, or that we run in.
fn check_target(target: &str) -> Result<(), PaneError> {
    match target.trim().is_empty() {
        true => Err(PaneError::NoPane("it has an empty name".to_string())),
        false => Ok(()),
    }
}

/// The server whose pane we run in: the one that the command line would take.
fn enclosing_socket() -> Option<PathBuf> {
    let value = std::env::var("TMUX").ok()?;
    value.split(',').next().filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// A buffer that nobody else uses.
pub(super) fn buffer_name() -> String {
    format!("nerve-{}", uuid::Uuid::new_v4().simple())
}

/// Runs a command and gives what it printed on its standard output.
async fn run(mut command: Command, input: &[u8]) -> Result<Vec<u8>, PaneError> {
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => PaneError::NotInstalled(NAME),
        _ => PaneError::System { what: "run tmux", error },
    })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let exchange = async {
        let write = async {
            if let Some(mut stdin) = stdin {
                // One that reads no more says why on its standard error.
                let _ = stdin.write_all(input).await;
            }
        };
        let (output, stderr_text, ()) =
            tokio::join!(read(stdout, OUTPUT_LIMIT), read(stderr, STDERR_LIMIT), write);
        let status = child.wait().await;
        (output, stderr_text, status)
    };
    let (output, stderr_text, status) =
        tokio::time::timeout(TIMEOUT, exchange).await.map_err(|_| PaneError::NoAnswer(NAME, TIMEOUT))?;
    let status = status.map_err(|error| PaneError::System { what: "wait for tmux", error })?;
    if status.success() {
        Ok(output)
    } else {
        Err(stderr_error(&String::from_utf8_lossy(&stderr_text), status))
    }
}

async fn read(from: Option<impl AsyncRead + Unpin>, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // What was read before an error is what there is.
        let _ = from.take(limit).read_to_end(&mut bytes).await;
    }
    bytes
}

fn stderr_error(message: &str, status: ExitStatus) -> PaneError {
    let message = message.trim();
    if message.is_empty() {
        PaneError::Refused(format!("tmux ended with {status}"))
    } else {
        parse_error(message)
    }
}

/// What tmux's words mean.
pub(super) fn parse_error(message: &str) -> PaneError {
    let no_server = ["no server running", "error connecting to", "lost server", "server exited"];
    if no_server.iter().any(|words| message.contains(words)) {
        return PaneError::NoServer(NAME);
    }
    match message.split_once("can't find ").and_then(|(_, rest)| rest.split_once(": ")) {
        Some((_, target)) => PaneError::NoPane(target.lines().next().unwrap_or(target).to_string()),
        None => PaneError::Refused(format!("tmux: {message}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tmux_complains_of() {
        let no_server = "error connecting to /tmp/tmux-0/x (No such file or directory)";
        assert!(matches!(parse_error(no_server), PaneError::NoServer("tmux")));
        assert!(matches!(parse_error("no server running on /tmp/tmux-0/default"), PaneError::NoServer(_)));
        let PaneError::NoPane(pane) = parse_error("can't find pane: %9") else { panic!() };
        assert_eq!(pane, "%9");
        let PaneError::Refused(message) = parse_error("duplicate session: a") else { panic!() };
        assert_eq!(message, "tmux: duplicate session: a");
    }
}
