//! The command line of tmux: one short-lived process per call, with a timeout.

use std::path::PathBuf;
use std::time::Duration;

use nerve_host::backend::Program;
use nerve_host::backend::{PaneError, PaneInfo};
use nerve_types::Size;
use nerve_types::os::close_descriptors;
use tokio::process::Command;

use super::details::{DETAILS, PaneDetails};
use super::formats::{self, PANES};
use super::{ensure_built, quoting, version};
use crate::exec::MultiplexerCli;
use crate::pane::NewPane;
use crate::pane_text::last_rows;

/// tmux answers from memory: a slower one hangs.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The oldest tmux with `send-keys -H`, `ignore-size` and `refresh-client -A`.
pub(super) const MIN_VERSION: (u32, u32) = (3, 2);
pub(super) const NAME: &str = "tmux";
/// The output limit is twice a scrollback of fifty thousand long lines.
pub(super) const TMUX: MultiplexerCli =
    MultiplexerCli { ensure_built, name: NAME, action: "run tmux", output_limit: 64 << 20 };

/// Rows of a pane to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowRange {
    /// The visible rows.
    Screen,
    /// The last rows of scrollback and screen.
    Last(usize),
    /// Scrollback and screen.
    All,
}

/// tmux's command line for one server. Cheap to clone; holds no resources.
#[derive(Debug, Clone, Default)]
pub struct Tmux {
    socket: Option<String>,
    program: Option<PathBuf>,
}

impl Tmux {
    /// Uses the server at `socket`: a path (containing `/`), or a name as for `tmux -L`. `None` is the default of tmux's
    /// command line.
    pub fn new(socket: Option<&str>) -> Tmux {
        let socket = socket.filter(|socket| !socket.is_empty()).map(str::to_string);
        Tmux { socket, program: None }
    }

    /// Uses another program instead of the `tmux` in PATH.
    #[must_use]
    pub fn with_program(self, program: Option<PathBuf>) -> Tmux {
        Tmux { program, ..self }
    }

    /// Returns the version, such as `3.3a`. Needs no server.
    ///
    /// # Errors
    /// [`PaneError::NotInstalled`], [`PaneError::TooOld`], [`PaneError::Timeout`].
    pub async fn version(&self) -> Result<String, PaneError> {
        let mut command = self.program();
        command.arg("-V");
        let message = String::from_utf8_lossy(&run(command, &[]).await?).trim().to_string();
        if version::parse(&message).is_some_and(|found| found < MIN_VERSION) {
            return Err(PaneError::TooOld { found: message, needed: "tmux 3.2" });
        }
        Ok(message.strip_prefix("tmux ").unwrap_or(&message).to_string())
    }

    /// Lists all panes of the server.
    ///
    /// # Errors
    /// [`PaneError`].
    pub async fn list(&self) -> Result<Vec<PaneInfo>, PaneError> {
        let text = self.call(&["list-panes", "-a", "-F", PANES], &[]).await?;
        Ok(formats::panes(&String::from_utf8_lossy(&text)))
    }

    /// Queries a pane by its id or a tmux target (`session:window.pane`).
    ///
    /// # Errors
    /// [`PaneError`]; [`PaneError::NoPane`] if it does not exist.
    pub async fn pane(&self, target: &str) -> Result<PaneInfo, PaneError> {
        check_target(target)?;
        // tmux prints nothing instead of an error if the pane does not exist.
        let text = self.call(&["display-message", "-p", "-t", target, PANES], &[]).await?;
        let pane = formats::panes(&String::from_utf8_lossy(&text)).pop();
        pane.filter(|pane| !pane.pane.is_empty()).ok_or_else(|| PaneError::NoPane(target.to_string()))
    }

    /// Creates a pane and returns its id: next to another one, or in its own window in an existing or new session [default: `nerve`].
    /// The pane closes with its program.
    ///
    /// # Errors
    /// [`PaneError`].
    pub async fn spawn(&self, new: &NewPane) -> Result<String, PaneError> {
        self.version().await?;
        let session = new.session.as_deref().unwrap_or(quoting::SESSION);
        quoting::check_session(session)?;
        // tmux would create a pane even for a missing program, and close it at once.
        if !new.argv.is_empty() {
            let (argv, cwd, env) = (new.argv.clone(), new.cwd.clone(), new.env.clone());
            let program = Program { argv, cwd, env, env_remove: Vec::new() };
            program.find().map_err(|error| PaneError::Refused(error.to_string()))?;
        }
        if let Some(pane) = &new.split {
            check_target(pane)?;
            let text = self.call(&quoting::create_command(new, session, true), &[]).await?;
            return Ok(String::from_utf8_lossy(&text).trim().to_string());
        }
        let mut error = None;
        // Another process may create or end the session between check and command.
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

    /// Creates a pane like [`Tmux::spawn`]. If no person is attached to its session, its window gets the requested size. Also returns
    /// the path of the server's socket.
    ///
    /// # Errors
    /// [`PaneError`].
    pub(crate) async fn spawn_sized(&self, new: &NewPane) -> Result<(String, Option<String>), PaneError> {
        let pane = self.spawn(new).await?;
        let explain = |error| match error {
            PaneError::NoPane(_) | PaneError::NoServer(_) => {
                PaneError::Refused("the program in the new pane ended at once".to_string())
            }
            error => error,
        };
        let details = self.details(&pane).await.map_err(explain)?;
        let clients = ["list-clients", "-t", &details.session, "-F", "#{client_control_mode}"];
        let clients = self.call(&clients, &[]).await.map_err(explain)?;
        let is_attached = String::from_utf8_lossy(&clients).lines().any(|is_control| is_control != "1");
        if details.size != new.size && !is_attached && new.split.is_none() {
            self.resize(&pane, new.size).await.map_err(explain)?;
        }
        Ok((pane, details.socket))
    }

    /// Shows the pane to the clients of its session and gives it the focus.
    ///
    /// # Errors
    /// [`PaneError`].
    pub async fn focus(&self, pane: &str) -> Result<(), PaneError> {
        check_target(pane)?;
        for command in ["select-window", "select-pane"] {
            self.call(&[command, "-t", pane], &[]).await?;
        }
        Ok(())
    }

    /// Resizes a pane: its window, unless the window has several panes.
    ///
    /// # Errors
    /// [`PaneError`].
    pub async fn resize(&self, pane: &str, size: Size) -> Result<(), PaneError> {
        check_target(pane)?;
        let (cols, rows) = (size.cols.to_string(), size.rows.to_string());
        let count = self.call(&["display-message", "-p", "-t", pane, "#{window_panes}"], &[]).await?;
        let command = if count.trim_ascii() == b"1" { "resize-window" } else { "resize-pane" };
        self.call(&[command, "-t", pane, "-x", &cols, "-y", &rows], &[]).await.map(drop)
    }

    /// Returns true if a session of exactly this name exists.
    ///
    /// # Errors
    /// [`PaneError`]; a missing server is not an error.
    async fn has_session(&self, name: &str) -> Result<bool, PaneError> {
        match self.call(&["has-session", "-t", &format!("={name}")], &[]).await {
            Ok(_) => Ok(true),
            Err(PaneError::NoPane(_) | PaneError::NoServer(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Types text as a paste, bracketed if the program has enabled that.
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
            // Otherwise the buffer would stay. The first error is the one to report.
            let _ = self.call(&["delete-buffer", "-b", &buffer], &[]).await;
        }
        pasted.map(drop)
    }

    /// Types exact bytes. In copy mode, tmux interprets them.
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

    /// Returns the text of a pane: wrapped rows joined, trailing blanks and empty rows at the end removed.
    ///
    /// # Errors
    /// [`PaneError`].
    pub async fn text(&self, pane: &str, range: RowRange) -> Result<String, PaneError> {
        let mut words = vec!["capture-pane", "-p", "-J", "-t", pane];
        if range != RowRange::Screen {
            words.extend(["-S", "-"]);
        }
        let text = self.call(&words, &[]).await?;
        let count = match range {
            RowRange::Last(count) => count,
            RowRange::Screen | RowRange::All => usize::MAX,
        };
        Ok(last_rows(&String::from_utf8_lossy(&text), count))
    }

    /// Closes a pane and ends its program.
    ///
    /// # Errors
    /// [`PaneError`].
    pub async fn kill(&self, pane: &str) -> Result<(), PaneError> {
        check_target(pane)?;
        self.call(&["kill-pane", "-t", pane], &[]).await.map(drop)
    }

    /// Queries the identity of a pane by any name that tmux accepts.
    ///
    /// # Errors
    /// [`PaneError`].
    pub(super) async fn details(&self, target: &str) -> Result<PaneDetails, PaneError> {
        let text = self.call(&["display-message", "-p", "-t", target, DETAILS], &[]).await?;
        PaneDetails::parse(&String::from_utf8_lossy(&text))
            .ok_or_else(|| PaneError::NoPane(target.to_string()))
    }

    /// Runs tmux and returns its standard output.
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

    /// Returns a tmux command for this server, in an environment where tmux does not consider itself nested.
    pub(super) fn command(&self) -> Command {
        let mut command = self.program();
        // UTF-8 output regardless of the locale.
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
        command.env_remove("TMUX").env_remove("TMUX_PANE");
        close_descriptors(&mut command);
        command
    }
}

/// Rejects an empty target, which tmux would resolve to the current pane.
fn check_target(target: &str) -> Result<(), PaneError> {
    match target.trim().is_empty() {
        true => Err(PaneError::NoPane("the name is empty".to_string())),
        false => Ok(()),
    }
}

/// Returns the socket of the tmux server whose pane we run in.
fn enclosing_socket() -> Option<PathBuf> {
    let value = std::env::var("TMUX").ok()?;
    value.split(',').next().filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Returns a unique buffer name.
pub(super) fn buffer_name() -> String {
    format!("nerve-{}", uuid::Uuid::new_v4().simple())
}

/// Runs a command and returns its standard output.
async fn run(command: Command, input: &[u8]) -> Result<Vec<u8>, PaneError> {
    let output = TMUX.run(command, input, TIMEOUT).await?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    match String::from_utf8_lossy(&output.stderr).trim() {
        "" => Err(PaneError::Refused(format!("tmux ended with {}", output.status))),
        message => Err(parse_error(message)),
    }
}

/// Interprets an error message of tmux.
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
    fn classifies_error_messages() {
        let no_server = "error connecting to /tmp/tmux-0/x (No such file or directory)";
        assert!(matches!(parse_error(no_server), PaneError::NoServer("tmux")));
        assert!(matches!(parse_error("no server running on /tmp/tmux-0/default"), PaneError::NoServer(_)));
        let PaneError::NoPane(pane) = parse_error("can't find pane: %9") else { panic!() };
        assert_eq!(pane, "%9");
        let PaneError::Refused(message) = parse_error("duplicate session: a") else { panic!() };
        assert_eq!(message, "tmux: duplicate session: a");
    }
}
