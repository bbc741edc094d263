//! Attaches to panes.

use std::path::PathBuf;

use nerve_host::backend::PaneError;
use nerve_host::registry::start_ticks;
use nerve_types::Size;

use super::client::Tmux;
use super::control::ControlConnection;
use super::formats::SEPARATOR;
use super::parser::{ControlMessage, pane_of};
use super::screen::{self, PaneState};

/// The fields of [`PaneDetails`], in the order in which they are parsed.
const DETAILS: &str = concat!(
    "#{pane_id}\u{1f}#{pane_pid}\u{1f}#{pane_tty}\u{1f}#{pid}\u{1f}#{pane_width}\u{1f}#{pane_height}\u{1f}#{session_id}\u{1f}",
    "#{session_name}\u{1f}#{pane_current_path}\u{1f}#{socket_path}"
);

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
    /// The screen before we attached.
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
    ControlConnection::open(tmux.command(), &args).await
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
