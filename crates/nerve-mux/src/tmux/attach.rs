//! Attaches to panes.

use nerve_host::backend::PaneError;
use nerve_types::Size;

use super::client::Tmux;
use super::control::ControlConnection;
use super::details::PaneDetails;
use super::parser::ControlMessage;
use super::screen::{self, PaneState};

/// A connection to a pane.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) control: ControlConnection,
    pub(super) details: PaneDetails,
    /// The screen before we attached.
    pub(super) screen: Vec<u8>,
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
