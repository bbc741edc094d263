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

use std::path::PathBuf;
use std::time::Duration;

use nerve_record::ahr::AhrError;
use nerve_types::Size;

pub use client::{Range, Tmux};
pub use pane::TmuxPane;

use self::attach::attach_pane;
use self::details::PaneDetails;
use self::pane::{AttachError, AttachedConnection, PaneParts, Resources, reattach};
use crate::pane::{Claim, PaneContext, PaneEntry, Panes, TerminalKind};
use nerve_host::backend::{PaneError, SpawnError};
use nerve_host::manager::{Label, QUALITY};
use nerve_host::pump::Pump;
use nerve_host::recorder::Recorder;
use nerve_host::tap::Tap;
use nerve_types::os::start_time;

/// Time that an ending server gets to release its panes and recordings.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between attempts.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

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
    let mut entry = context.new_entry(TerminalKind::Tmux);
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
    let attaching = take_over(tmux.clone(), panes.clone(), entry.clone());
    TmuxPane::adopt(PaneParts { tmux, panes: panes.clone(), entry }, attaching)
}

async fn take_over(tmux: Tmux, panes: Panes, entry: PaneEntry) -> Result<AttachedConnection, AttachError> {
    let attachment = reattach(&tmux, &entry).await?;
    let claim =
        retry(|| claim(&panes, &attachment.details, &entry.label).map_err(|error| error.to_string())).await;
    let claim = claim.map_err(|why| AttachError { reason: why, gone: false })?;
    let mut faults = Vec::new();
    let resumed = match &entry.recording {
        Some(path) => resume(path.clone()).await.unwrap_or_else(|error| {
            faults.push(format!("cannot continue the recording: {error}"));
            None
        }),
        None => None,
    };
    let (flusher, pump) = match resumed {
        Some((recorder, off)) => {
            let flusher = recorder.flusher();
            (Some(flusher), Pump::resume(vec![Box::new(recorder)], off))
        }
        None => (None, Pump::default()),
    };
    Ok(AttachedConnection { attachment, resources: Some(Resources { claim, pump, flusher, faults }) })
}

/// Continues a recording. Blocking, because it reads the end of the file.
async fn resume(path: PathBuf) -> Result<Option<(Recorder, u64)>, String> {
    let resume = move || {
        let deadline = std::time::Instant::now() + HANDOVER_TIMEOUT;
        loop {
            match Recorder::resume(&path, QUALITY) {
                // The previous writer is still finishing it.
                Err(AhrError::Busy { .. }) if std::time::Instant::now() < deadline => {
                    std::thread::sleep(POLL_INTERVAL);
                }
                resumed => return resumed.map(Some).map_err(|error| error.to_string()),
            }
        }
    };
    tokio::task::spawn_blocking(resume).await.unwrap_or_else(|error| Err(error.to_string()))
}

/// Retries during a handover.
async fn retry<T, E>(mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let deadline = tokio::time::Instant::now() + HANDOVER_TIMEOUT;
    loop {
        match attempt() {
            Err(_) if tokio::time::Instant::now() < deadline => tokio::time::sleep(POLL_INTERVAL).await,
            done => return done,
        }
    }
}

fn claim(panes: &Panes, details: &PaneDetails, label: &Label) -> Result<Claim, SpawnError> {
    panes.claim(TerminalKind::Tmux, details.socket.as_deref(), &details.pane, label)
}

/// Fails in a build without the feature.
fn ensure_built() -> Result<(), PaneError> {
    if cfg!(feature = "tmux") { Ok(()) } else { Err(PaneError::NotBuilt("tmux")) }
}
