//! Panes of tmux, over its control mode.
//!
//! | file | contents |
//! |---|---|
//! | `client`, `formats`, `version` | the command line, one process per call; for callers without a node |
//! | `control`, `parser`, `quoting` | a connection in control mode |
//! | `attach`, `details` | attaching to panes; their identity |
//! | `screen` | a pane's screen as bytes |
//! | `pane` | a pane as a backend, with `input`, `input_lease`, `query_queue`, `exit_status` |

mod attach;
mod client;
mod control;
mod details;
mod exit_status;
mod formats;
mod input;
mod input_lease;
mod pane;
mod parser;
mod query_queue;
mod quoting;
mod screen;
mod version;

use nerve_types::{Multiplexer, Size};

pub use client::{RowRange, Tmux};
pub use pane::TmuxPane;

use self::attach::attach_pane;
use self::details::PaneDetails;
use self::pane::{AttachError, AttachedConnection, PaneParts, reattach};
use crate::handover::{Resources, take_over};
use crate::pane::{Claim, PaneContext, PaneEntry, Panes};
use nerve_host::backend::{PaneError, SpawnError};
use nerve_host::manager::Label;
use nerve_host::pump::Pump;
use nerve_host::recorder::Recorder;
use nerve_host::tap::Tap;
use nerve_types::os::start_time;

/// Attaches to an existing pane. Also returns the pane's entry and size.
///
/// # Errors
/// [`SpawnError`]: the pane does not exist, or another process drives it.
pub async fn start(context: PaneContext<'_>) -> Result<(TmuxPane, PaneEntry, Size), SpawnError> {
    let tmux = Tmux::new(context.socket).with_program(context.panes.tmux.clone());
    tmux.version().await?;
    let details = tmux.details(context.pane).await?;
    // First, so that two processes never type into one pane.
    let claim = claim(context.panes, &details, context.label)?;
    let attachment = attach_pane(&tmux, details).await?;
    let details = &attachment.details;
    let size = details.size;
    let mut entry = context.new_entry(Multiplexer::Tmux);
    entry.socket = details.socket.clone().or(entry.socket);
    entry.server = details.server;
    entry.session = Some(details.session.clone());
    entry.pane = details.pane.clone();
    entry.pid = details.pid;
    entry.started = details.pid.and_then(start_time);
    // The pane keeps its own working directory.
    entry.cwd = entry.cwd.or_else(|| details.cwd.clone());
    let (recorder, faults) = context.register(&mut entry, size, false);
    let flusher = recorder.as_ref().map(Recorder::flusher);
    let pump = Pump::new(recorder.into_iter().map(|tap| Box::new(tap) as Box<dyn Tap>).collect());
    // The socket's path does not depend on the environment.
    let tmux = Tmux::new(entry.socket.as_deref()).with_program(context.panes.tmux.clone());
    let parts = PaneParts { tmux, panes: context.panes.clone(), entry: entry.clone() };
    let backend = TmuxPane::live(parts, attachment, Resources { claim, pump, flusher, faults });
    Ok((backend, entry, size))
}

/// Takes over the pane of a server that is gone. Failures are reported as events of the backend.
pub fn adopt(panes: &Panes, entry: PaneEntry) -> TmuxPane {
    let tmux = Tmux::new(entry.socket.as_deref()).with_program(panes.tmux.clone());
    let attaching = attach_again(tmux.clone(), panes.clone(), entry.clone());
    TmuxPane::adopt(PaneParts { tmux, panes: panes.clone(), entry }, attaching)
}

async fn attach_again(tmux: Tmux, panes: Panes, entry: PaneEntry) -> Result<AttachedConnection, AttachError> {
    let attachment = reattach(&tmux, &entry).await?;
    let claim = || claim(&panes, &attachment.details, &entry.label);
    let resources = take_over(claim, entry.recording.clone()).await;
    let resources = resources.map_err(|error| AttachError { reason: error.to_string(), gone: false })?;
    Ok(AttachedConnection { attachment, resources: Some(resources) })
}

fn claim(panes: &Panes, details: &PaneDetails, label: &Label) -> Result<Claim, SpawnError> {
    panes.claim(Multiplexer::Tmux, details.socket.as_deref(), &details.pane, label)
}

/// Fails in a build without the feature.
fn ensure_built() -> Result<(), PaneError> {
    if cfg!(feature = "tmux") { Ok(()) } else { Err(PaneError::NotBuilt("tmux")) }
}
