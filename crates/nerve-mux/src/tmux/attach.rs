//! Attaches to panes: new ones, existing ones, and those of an earlier server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_host::backend::PaneError;
use nerve_host::backend::Program;
use nerve_host::registry::start_ticks;
use nerve_types::Size;

use super::client::Tmux;
use super::control::ControlConnection;
use super::formats::SEPARATOR;
use super::parser::{ControlMessage, pane_of};
use super::quoting::{self, program_args};
use super::screen::{self, PaneState};

/// The fields of [`PaneDetails`], in the order in which they are parsed.
const DETAILS: &str = concat!(
    "#{pane_id}\u{1f}#{pane_pid}\u{1f}#{pane_tty}\u{1f}#{pid}\u{1f}#{pane_width}\u{1f}#{pane_height}\u{1f}#{session_id}\u{1f}",
    "#{session_name}\u{1f}#{pane_current_path}\u{1f}#{socket_path}"
);
/// Runs in a new pane until the real program is started.
const PLACEHOLDER: [&str; 2] = ["sleep", "60"];
/// Time for retries while sessions and servers appear and disappear.
const RETRY_TIMEOUT: Duration = Duration::from_secs(2);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Identity of a pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PaneDetails {
    pub(super) pane: String,
    /// The pane's number: 3 of `%3`.
    pub(super) number: u32,
    /// The program in the pane.
    pub(super) pid: Option<i32>,
    pub(super) tty: Option<PathBuf>,
    /// Process id and start time of tmux's server: another server reuses pane ids.
    pub(super) server: Option<(u32, u64)>,
    pub(super) size: Size,
    /// Id of the session, such as `$1`.
    session_id: String,
    pub(super) session: String,
    pub(super) cwd: Option<PathBuf>,
    pub(super) socket: Option<String>,
}

/// A connection to a pane.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) control: ControlConnection,
    pub(super) details: PaneDetails,
    /// The screen before we attached; empty for a new pane.
    pub(super) screen: Vec<u8>,
}

impl PaneDetails {
    fn parse(text: &str) -> Option<PaneDetails> {
        let fields: Vec<&str> = text.trim_end_matches('\n').splitn(10, SEPARATOR).collect();
        let [pane, pid, tty, server, cols, rows, session_id, session, cwd, socket] = fields.as_slice() else {
            return None;
        };
        let server: Option<u32> = server.parse().ok();
        let some = |text: &str| (!text.is_empty()).then(|| text.to_string());
        Some(PaneDetails {
            pane: (*pane).to_string(),
            number: pane_of(pane)?,
            pid: pid.parse().ok().filter(|pid| *pid > 0),
            tty: some(tty).map(PathBuf::from),
            server: server.and_then(|pid| Some((pid, start_ticks(pid)?))),
            size: Size::new(cols.parse().ok()?, rows.parse().ok()?),
            session_id: (*session_id).to_string(),
            session: (*session).to_string(),
            cwd: some(cwd).map(PathBuf::from),
            socket: some(socket),
        })
    }

    /// Queries a pane by any name that tmux accepts.
    ///
    /// # Errors
    /// [`PaneError`].
    pub(super) async fn of(tmux: &Tmux, target: &str) -> Result<PaneDetails, PaneError> {
        let text = tmux.call(&["display-message", "-p", "-t", target, DETAILS], &[]).await?;
        PaneDetails::parse(&String::from_utf8_lossy(&text))
            .ok_or_else(|| PaneError::NoPane(target.to_string()))
    }
}

/// Attaches to an existing pane and captures its screen.
///
/// # Errors
/// [`PaneError`].
pub(super) async fn attach_pane(tmux: &Tmux, details: PaneDetails) -> Result<Attachment, PaneError> {
    let mut control = attach_session(tmux, &details.session_id).await?;
    let screen = capture(&mut control, &details).await?;
    Ok(Attachment { control, details: PaneDetails { size: screen.1, ..details }, screen: screen.0 })
}

/// Attaches without affecting the session's size or environment.
async fn attach_session(tmux: &Tmux, session: &str) -> Result<ControlConnection, PaneError> {
    let args = ["attach-session", "-E", "-f", "ignore-size", "-t", session];
    Ok(ControlConnection::open(tmux.command(), &args).await?.0)
}

/// Returns the bytes that reproduce a pane's screen, and its size. Discards queued output, which the screen already includes.
pub(super) async fn capture(
    control: &mut ControlConnection,
    details: &PaneDetails,
) -> Result<(Vec<u8>, Size), PaneError> {
    let pane = details.pane.as_str();
    // One command line, so that nothing happens in between.
    let replies = control.run_all(&screen::queries(pane)).await?;
    control.discard_queued(
        |message| matches!(message, ControlMessage::Output { pane, .. } if *pane == details.number),
    );
    let [state, text, below] = replies.as_slice() else { return Err(PaneError::NoPane(pane.to_string())) };
    let state =
        PaneState::parse(&String::from_utf8_lossy(state)).ok_or_else(|| PaneError::NoPane(pane.into()))?;
    let (cols, rows) = state.size();
    Ok((state.repaint(text, Some(below)), Size::new(cols, rows)))
}

/// The settings of a new pane.
pub(super) struct NewPaneSpec<'a> {
    pub(super) session: &'a str,
    pub(super) name: &'a str,
    pub(super) size: Size,
    pub(super) cwd: &'a Path,
}

/// Creates a pane and starts a program in it. The connection exists before the program starts, so that no output is missed.
///
/// # Errors
/// [`PaneError`]: nothing is left running.
pub(super) async fn create_pane(
    tmux: &Tmux,
    new: &NewPaneSpec<'_>,
    run: &Program,
) -> Result<Attachment, PaneError> {
    quoting::check_session(new.session)?;
    let (mut control, pane) = create_placeholder(tmux, new).await?;
    match start_program(&mut control, &pane, new, run).await {
        Ok(details) => Ok(Attachment { control, details, screen: Vec::new() }),
        Err(error) => {
            // Otherwise it closes when the placeholder ends.
            let _ = control.run(&["kill-pane", "-t", &pane]).await;
            Err(error)
        }
    }
}

/// Creates a window in an existing session, or a new session.
async fn create_placeholder(
    tmux: &Tmux,
    new: &NewPaneSpec<'_>,
) -> Result<(ControlConnection, String), PaneError> {
    let deadline = tokio::time::Instant::now() + RETRY_TIMEOUT;
    loop {
        let created = match tmux.has_session(new.session).await? {
            true => new_window(tmux, new).await,
            false => new_session(tmux, new).await,
        };
        let should_retry = match &created {
            // The session just ended, or does not exist yet.
            Err(PaneError::NoPane(_) | PaneError::NoServer(_)) => true,
            // Another process created it first.
            Err(PaneError::Refused(message)) => message.contains("duplicate session"),
            _ => false,
        };
        if !should_retry || tokio::time::Instant::now() >= deadline {
            return created;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

async fn new_window(tmux: &Tmux, new: &NewPaneSpec<'_>) -> Result<(ControlConnection, String), PaneError> {
    let mut control = attach_session(tmux, &format!("={}", new.session)).await?;
    let target = format!("={}:", new.session);
    let mut args = vec!["new-window", "-d", "-P", "-F", "#{pane_id}", "-t", &target, "-n", new.name];
    args.extend(PLACEHOLDER);
    let pane = control.run(&args).await?.trim().to_string();
    Ok((control, pane))
}

async fn new_session(tmux: &Tmux, new: &NewPaneSpec<'_>) -> Result<(ControlConnection, String), PaneError> {
    let (cols, rows) = (new.size.cols.to_string(), new.size.rows.to_string());
    let mut args = vec!["new-session", "-s", new.session, "-n", new.name, "-x", &cols, "-y", &rows];
    args.extend(["-f", "ignore-size", "-P", "-F", "#{pane_id}"]);
    args.extend(PLACEHOLDER);
    let (control, pane) = ControlConnection::open(tmux.command(), &args).await?;
    Ok((control, pane.trim().to_string()))
}

/// Replaces the placeholder by the program.
async fn start_program(
    control: &mut ControlConnection,
    pane: &str,
    new: &NewPaneSpec<'_>,
    run: &Program,
) -> Result<PaneDetails, PaneError> {
    // Keeps the exit status and the final screen.
    control.run(&["set-option", "-p", "-t", pane, "remain-on-exit", "on"]).await?;
    // Suppresses the text that tmux would write over the screen. Older versions lack the option.
    control.run(&["set-option", "-p", "-q", "-t", pane, "remain-on-exit-format", ""]).await?;
    let before = details(control, pane).await?;
    if before.size != new.size && !has_interactive_client(control, &before.session_id).await? {
        let (cols, rows) = (new.size.cols.to_string(), new.size.rows.to_string());
        control.run(&["resize-window", "-t", pane, "-x", &cols, "-y", &rows]).await?;
    }
    // tmux expands formats in the directory.
    let cwd = new.cwd.display().to_string().replace('#', "##");
    let mut args = vec!["respawn-pane".into(), "-k".into(), "-t".into(), pane.to_string(), "-c".into(), cwd];
    args.extend(program_args(&run.argv, &run.env, &run.env_remove));
    control.run(&args).await?;
    details(control, pane).await
}

async fn details(control: &mut ControlConnection, pane: &str) -> Result<PaneDetails, PaneError> {
    let text = control.run(&["display-message", "-p", "-t", pane, DETAILS]).await?;
    PaneDetails::parse(&text).ok_or_else(|| PaneError::NoPane(pane.to_string()))
}

/// Returns true if a person is attached to the session and so determines its size.
async fn has_interactive_client(control: &mut ControlConnection, session: &str) -> Result<bool, PaneError> {
    let clients = control.run(&["list-clients", "-t", session, "-F", "#{client_control_mode}"]).await?;
    Ok(clients.lines().any(|control| control != "1"))
}
