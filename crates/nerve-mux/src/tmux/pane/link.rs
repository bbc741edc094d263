//! The connection to a pane: its state, and how it is established again.

use nerve_host::backend::{BackendEvent, PaneError};
use nerve_types::os::start_time;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use crate::handover::Resources;
use crate::pane::PaneEntry;
use crate::tmux::attach::{Attachment, attach_pane};
use crate::tmux::client::Tmux;
use crate::tmux::control::ControlConnection;
use crate::tmux::details::PaneDetails;

/// Connection to the pane.
#[derive(Debug)]
pub(super) enum LinkState {
    Connecting(AbortOnDropHandle<Result<AttachedConnection, AttachError>>),
    Live(Box<ControlConnection>),
    /// The recording is being completed.
    Closing {
        /// Completes the recording and returns an error message.
        completing: JoinHandle<Option<String>>,
        /// Reported when that is done.
        last_event: Option<BackendEvent>,
    },
    Closed,
}

/// A new connection to the pane.
#[derive(Debug)]
pub(in crate::tmux) struct AttachedConnection {
    pub(in crate::tmux) attachment: Attachment,
    /// Set when a server attaches for the first time.
    pub(in crate::tmux) resources: Option<Resources>,
}

/// Error of attaching.
#[derive(Debug)]
pub(in crate::tmux) struct AttachError {
    /// The message.
    pub(in crate::tmux) reason: String,
    /// The pane no longer exists, so its entry is removed.
    pub(in crate::tmux) gone: bool,
}

/// Connects to a pane again if it is still the same.
pub(in crate::tmux) async fn reattach(tmux: &Tmux, entry: &PaneEntry) -> Result<Attachment, AttachError> {
    let pane = &entry.pane;
    let is_gone = |error: &PaneError| matches!(error, PaneError::NoPane(_) | PaneError::NoServer(_));
    let attach_error = |error: PaneError| {
        let why = match &error {
            PaneError::NoServer(_) => format!("pane {pane} is gone with its tmux server"),
            PaneError::NoPane(_) => format!("pane {pane} is gone: it was closed"),
            error => format!("pane {pane} cannot be reached: {error}"),
        };
        AttachError { reason: why, gone: is_gone(&error) }
    };
    let details = tmux.details(pane).await.map_err(attach_error)?;
    if let Some(what) = replacement_reason(&details, entry) {
        return Err(AttachError { reason: format!("pane {pane} is gone: {what}"), gone: true });
    }
    attach_pane(tmux, details).await.map_err(attach_error)
}

/// Returns why a pane is no longer the same.
fn replacement_reason(details: &PaneDetails, entry: &PaneEntry) -> Option<&'static str> {
    if entry.server.is_some() && details.server != entry.server {
        return Some("another tmux server is running now");
    }
    let started = || details.pid.and_then(start_time);
    let is_other = details.pid != entry.pid || entry.started.is_some() && started() != entry.started;
    (entry.pid.is_some() && is_other).then_some("another program runs in it")
}
