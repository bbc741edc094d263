//! The only module that runs `wezterm cli`.
//!
//! Two of its calls can crash or freeze the server with all panes of the user. One is a text range that ends before it
//! starts, the other sends exact bytes to a program that does not read. [`RowRange`] excludes the first. For the second, [`Keys`] are short and
//! [`Wezterm::keys`] waits until earlier input is read. Every call has a timeout and an output limit and never starts a server.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nerve_host::backend::Program;
use nerve_host::backend::{PaneError, PaneInfo};
use parking_lot::Mutex;
use tokio::process::Command;
use tokio::time::Instant;

use super::args::{Keys, RowRange};
use super::exec::{NAME, run};
use super::listing::{self, ListedPane};
use crate::pane::NewPane;
use crate::tty;

/// Default timeout of a call.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Unread bytes allowed in a terminal when exact bytes are sent. The kernel buffers 4095; the server froze at 12,000.
const MAX_UNREAD: usize = 1024;
/// Interval of checks for an unread paste.
const POLL_INTERVAL: Duration = Duration::from_millis(15);

/// `wezterm cli` for one server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Wezterm {
    program: PathBuf,
    socket: Option<String>,
    timeout: Duration,
    cache: Arc<Mutex<Cache>>,
}

#[derive(Debug, Default)]
struct Cache {
    /// Terminal devices by pane id.
    ttys: HashMap<String, PathBuf>,
    /// Bytes sent to each pane since its program was last seen to have read everything.
    sent: HashMap<String, usize>,
}

impl Wezterm {
    /// Uses the server at `socket` [default: `$WEZTERM_UNIX_SOCKET`, otherwise WezTerm's choice]. The program is
    /// `$NERVE_WEZTERM` if set, otherwise `wezterm` in PATH.
    pub fn new(socket: Option<String>) -> Wezterm {
        let program = std::env::var_os("NERVE_WEZTERM").filter(|program| !program.is_empty());
        let of_environment = || std::env::var("WEZTERM_UNIX_SOCKET").ok();
        Wezterm {
            program: program.map_or_else(|| NAME.into(), PathBuf::from),
            socket: socket.or_else(of_environment).filter(|socket| !socket.is_empty()),
            timeout: DEFAULT_TIMEOUT,
            cache: Arc::default(),
        }
    }

    /// Uses another program.
    #[must_use]
    pub fn with_program(mut self, program: PathBuf) -> Wezterm {
        self.program = program;
        self
    }

    /// Sets the timeout of each call [default: 5 s].
    #[must_use]
    pub fn with_limit(mut self, timeout: Duration) -> Wezterm {
        self.timeout = timeout;
        self
    }

    /// Identifies the server and the program used for it.
    pub(super) fn key(&self) -> (PathBuf, Option<String>) {
        (self.program.clone(), self.socket.clone())
    }

    /// Returns the server's socket, if given.
    pub fn socket(&self) -> Option<&str> {
        self.socket.as_deref()
    }

    /// Lists all panes in the order of their ids.
    ///
    /// # Errors
    /// [`PaneError`]: not installed, no server, timeout.
    pub async fn list(&self) -> Result<Vec<PaneInfo>, PaneError> {
        Ok(self.list_panes().await?.into_iter().map(ListedPane::into_info).collect())
    }

    pub(super) async fn list_panes(&self) -> Result<Vec<ListedPane>, PaneError> {
        let json = self.run(&["list", "--format", "json"], &[]).await?;
        let panes = listing::parse(&json)
            .map_err(|error| PaneError::Refused(format!("cannot parse wezterm's list of panes: {error}")))?;
        let ttys = panes.iter().filter_map(|pane| Some((pane.id(), pane.tty.clone()?))).collect();
        let mut cache = self.cache.lock();
        cache.ttys = ttys;
        cache.sent.retain(|id, _| panes.iter().any(|pane| pane.id() == *id));
        drop(cache);
        Ok(panes)
    }

    /// Queries a pane.
    ///
    /// # Errors
    /// NoPane; see [`Wezterm::list`].
    pub async fn pane_info(&self, pane: &str) -> Result<PaneInfo, PaneError> {
        Ok(self.find(pane).await?.into_info())
    }

    pub(super) async fn find(&self, pane: &str) -> Result<ListedPane, PaneError> {
        let id = parse_pane_id(pane)?;
        let listed = self.list_panes().await?.into_iter().find(|listed| listed.pane_id == id);
        listed.ok_or_else(|| PaneError::NoPane(pane.to_string()))
    }

    /// Creates a pane in its own window, or next to another one, and returns its id. Checks the program, its directory and
    /// its start, which the command line does not.
    ///
    /// # Errors
    /// Refused: no such program or directory, or the program did not start; see [`Wezterm::list`].
    pub async fn spawn(&self, pane: &NewPane) -> Result<String, PaneError> {
        let mut command = Command::new(&self.program);
        for (name, cells) in [("initial_cols", pane.size.cols), ("initial_rows", pane.size.rows)] {
            if cells > 0 {
                command.arg("--config").arg(format!("{name}={cells}"));
            }
        }
        command.args(["cli", "--no-auto-start"]);
        match &pane.split {
            Some(pane) => {
                parse_pane_id(pane)?;
                command.args(["split-pane", "--pane-id", pane, "--right"]);
            }
            None => drop(command.args(["spawn", "--new-window"])),
        }
        let cwd = pane.cwd.clone().map(std::path::absolute).transpose();
        if let Some(cwd) = cwd.map_err(system("resolve the working directory"))? {
            command.arg("--cwd").arg(cwd);
        }
        if let Some(workspace) = pane.session.as_ref().filter(|_| pane.split.is_none()) {
            command.arg("--workspace").arg(workspace);
        }
        if !pane.argv.is_empty() {
            command.arg("--").args(program_args(pane)?);
        }
        // The pane inherits the environment of this call, which keeps secrets off the command line.
        command.envs(pane.env.iter().filter(|(name, _)| !is_reserved_var(name)));
        for name in ["LINES", "COLUMNS", "WEZTERM_PANE"] {
            command.env_remove(name);
        }
        let answer = self.call(command, &[]).await?;
        let id = String::from_utf8_lossy(&answer).trim().to_string();
        parse_pane_id(&id).map_err(|_| {
            PaneError::Refused(format!("wezterm printed '{id}' instead of the new pane's id"))
        })?;
        self.check_spawned(&id).await?;
        Ok(id)
    }

    /// Checks that the program has started. Otherwise the pane exists without a device and shows the reason.
    async fn check_spawned(&self, id: &str) -> Result<(), PaneError> {
        let listed = match self.find(id).await {
            Err(PaneError::NoPane(_)) => {
                return Err(PaneError::Refused("the program ended at once, and its pane with it".into()));
            }
            listed => listed?,
        };
        if listed.tty.is_some() {
            return Ok(());
        }
        let message = self.text(id, RowRange::screen(listed.size.rows), false).await.unwrap_or_default();
        // The empty pane is useless.
        let _ = self.kill(id).await;
        Err(PaneError::Refused(format!("wezterm could not start the program: {}", message.trim())))
    }

    /// Types text as a paste through stdin; it may be long and cannot freeze the server. Programs without bracketed paste
    /// receive line ends as Enter. Paste markers inside are removed.
    ///
    /// # Errors
    /// NoPane; Refused: invalid UTF-8; see [`Wezterm::list`]. After Timeout the text may still arrive.
    pub async fn paste(&self, pane: &str, text: &[u8]) -> Result<(), PaneError> {
        if std::str::from_utf8(text).is_err() {
            return Err(PaneError::Refused("wezterm accepts only UTF-8 text".into()));
        }
        parse_pane_id(pane)?;
        self.count_sent(pane, text.len());
        self.run(&["send-text", "--pane-id", pane], text).await?;
        Ok(())
    }

    /// Types a few exact bytes, once the program has read everything that was pasted before.
    ///
    /// # Errors
    /// NoPane; Refused: the program does not read, and nothing was sent; see [`Wezterm::list`]. After Timeout the bytes may
    /// still arrive.
    pub async fn keys(&self, pane: &str, keys: &Keys) -> Result<(), PaneError> {
        parse_pane_id(pane)?;
        self.wait_until_read(pane).await?;
        self.count_sent(pane, keys.len());
        let args = ["send-text", "--no-paste", "--pane-id", pane];
        self.run(&args, keys.as_bytes()).await.map(drop)
    }

    /// Waits until exact bytes can no longer freeze the server.
    async fn wait_until_read(&self, pane: &str) -> Result<(), PaneError> {
        if !self.cache.lock().ttys.contains_key(pane) {
            self.find(pane).await?;
        }
        let deadline = Instant::now() + self.timeout;
        let mut empty_before = false;
        loop {
            let (tty, sent) = {
                let cache = self.cache.lock();
                (cache.ttys.get(pane).cloned(), cache.sent.get(pane).copied().unwrap_or(0))
            };
            let unread = tty.and_then(|tty| tty::unread(&tty));
            // A single empty read may fall between two pieces of a paste.
            let empty = unread == Some(0);
            if empty && (empty_before || sent <= MAX_UNREAD) {
                self.cache.lock().sent.remove(pane);
                return Ok(());
            }
            if sent <= MAX_UNREAD && unread.is_none_or(|unread| unread <= MAX_UNREAD) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(PaneError::Refused(format!(
                    "the program in pane {pane} has not read earlier input; nothing was sent because that could freeze wezterm"
                )));
            }
            empty_before = empty;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns the text of a pane, one line per row (a wrapped line is several). `escapes` includes styles as escape sequences.
    ///
    /// # Errors
    /// NoPane; see [`Wezterm::list`].
    pub async fn text(&self, pane: &str, range: RowRange, escapes: bool) -> Result<String, PaneError> {
        parse_pane_id(pane)?;
        let (start, end) = (range.start(), range.end());
        let mut args =
            vec!["get-text", "--pane-id", pane, "--start-line", start.as_str(), "--end-line", end.as_str()];
        args.extend(escapes.then_some("--escapes"));
        let text = self.run(&args, &[]).await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Gives the pane the focus of its window.
    ///
    /// # Errors
    /// NoPane; see [`Wezterm::list`].
    pub async fn activate(&self, pane: &str) -> Result<(), PaneError> {
        parse_pane_id(pane)?;
        self.run(&["activate-pane", "--pane-id", pane], &[]).await.map(drop)
    }

    /// Closes the pane; its program gets SIGHUP.
    ///
    /// # Errors
    /// NoPane; see [`Wezterm::list`].
    pub async fn kill(&self, pane: &str) -> Result<(), PaneError> {
        parse_pane_id(pane)?;
        self.run(&["kill-pane", "--pane-id", pane], &[]).await.map(drop)
    }

    fn count_sent(&self, pane: &str, bytes: usize) {
        *self.cache.lock().sent.entry(pane.to_string()).or_default() += bytes;
    }

    async fn run(&self, args: &[&str], input: &[u8]) -> Result<Vec<u8>, PaneError> {
        let mut command = Command::new(&self.program);
        command.args(["cli", "--no-auto-start"]).args(args);
        self.call(command, input).await
    }

    async fn call(&self, mut command: Command, input: &[u8]) -> Result<Vec<u8>, PaneError> {
        if let Some(socket) = &self.socket {
            command.env("WEZTERM_UNIX_SOCKET", socket);
        }
        run(command, input, self.timeout).await
    }
}

/// Returns the command for the pane. Variables that would affect the call itself are set through `env`.
fn program_args(pane: &NewPane) -> Result<Vec<OsString>, PaneError> {
    let (argv, cwd, env) = (pane.argv.clone(), pane.cwd.clone(), pane.env.clone());
    let program = Program { argv, cwd, env, env_remove: Vec::new() };
    let path = program.find().map_err(|error| PaneError::Refused(error.to_string()))?;
    let reserved = program.env.iter().filter(|(name, _)| is_reserved_var(name));
    let assignments: Vec<OsString> = reserved.map(|(name, value)| format!("{name}={value}").into()).collect();
    let mut args: Vec<OsString> = Vec::new();
    if !assignments.is_empty() {
        args.push("env".into());
        args.extend(assignments);
    }
    args.push(path.into_os_string());
    args.extend(program.argv.into_iter().skip(1).map(OsString::from));
    Ok(args)
}

/// Returns true for variables that affect the command line itself: its settings, libraries and server.
fn is_reserved_var(name: &str) -> bool {
    let prefixes = ["WEZTERM", "XDG_", "LD_", "DYLD_"];
    ["HOME", "PATH", "USER", "DISPLAY", "TMPDIR"].contains(&name)
        || name.starts_with("WAYLAND")
        || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Parses a pane id; anything but a number is rejected before it reaches the command line.
fn parse_pane_id(pane: &str) -> Result<u64, PaneError> {
    let digits = pane.bytes().all(|byte| byte.is_ascii_digit());
    let id = pane.parse().ok().filter(|_| digits);
    id.ok_or_else(|| PaneError::NoPane(pane.to_string()))
}

fn system(action: &'static str) -> impl FnOnce(io::Error) -> PaneError {
    move |error| PaneError::System { action, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pane_ids_are_numbers() {
        for pane in ["", "-1", "+1", "%3", "1 2", "--help", "99999999999999999999999"] {
            assert!(matches!(parse_pane_id(pane), Err(PaneError::NoPane(_))), "{pane}");
        }
        assert_eq!(parse_pane_id("17").unwrap(), 17);
    }
}
