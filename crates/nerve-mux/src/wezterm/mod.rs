//! Panes of WezTerm, over its command line.
//!
//! The command line has no output stream, so a pane is polled (`poller`, `schedule`) and changes are converted into the bytes
//! that repaint it (`repaint`). These bytes are modelled and recorded, and the recording is marked as screen states. Input is
//! sent call by call (`writer`).

mod args;
mod client;
mod exec;
mod input;
mod listing;
mod pane;
mod pane_cache;
mod poller;
mod repaint;
mod rows;
mod schedule;
mod writer;

use std::sync::Arc;

use nerve_host::backend::{PaneError, SpawnError};
use nerve_host::manager::Label;
use nerve_host::pump::Pump;
use nerve_host::recorder::Recorder;
use nerve_host::tap::Tap;
use nerve_types::os::start_time;
use nerve_types::{Multiplexer, Size};

use self::pane::PaneParts;
use self::pane_cache::WeztermServer;
use self::poller::Process;
use crate::handover::{Resources, take_over};
use crate::pane::{Claim, PaneContext, PaneEntry, Panes};

pub use args::{Keys, RowRange};
pub use client::Wezterm;
pub use pane::WeztermPane;

/// Attaches to an existing pane. Also returns the pane's entry and size.
///
/// # Errors
/// [`SpawnError`]: the pane does not exist, another process drives it, or its program has ended.
pub async fn start(context: PaneContext<'_>) -> Result<(WeztermPane, PaneEntry, Size), SpawnError> {
    ensure_built()?;
    let server = server_of(context.panes, context.socket.map(str::to_string));
    let listed = server.wezterm.find(context.pane).await.map_err(spawn_error)?;
    let process = Process::of(&listed);
    if process.is_none() && listed.tty.as_ref().is_some_and(|tty| tty.exists()) {
        // `exit_behavior="Hold"` keeps its pane.
        let message = format!("the program in pane {} has ended", listed.id());
        return Err(SpawnError::Multiplexer(message));
    }
    let claim = claim_pane(context.panes, &server, &listed.id(), context.label)?;
    let size = Size::new(listed.size.cols, listed.size.rows);
    let mut entry = context.new_entry(Multiplexer::Wezterm);
    entry.socket = server.wezterm.socket().map(str::to_string);
    entry.pane = listed.id();
    entry.pid = process.map(|process| process.pid);
    entry.started = process.map(|process| process.started);
    let (recorder, faults) = context.register(&mut entry, size, true);
    let flusher = recorder.as_ref().map(Recorder::flusher);
    let pump = Pump::new(recorder.into_iter().map(|tap| Box::new(tap) as Box<dyn Tap>).collect());
    let panes = context.panes.clone();
    let parts = PaneParts { server, panes, entry: entry.clone(), process, full_screen: context.full_screen };
    Ok((WeztermPane::live(parts, Resources { claim, pump, flusher, faults }), entry, size))
}

/// Takes over the pane of a server that is gone. Failures are reported as events of the backend.
pub fn adopt(panes: &Panes, entry: PaneEntry, full_screen: bool) -> WeztermPane {
    let server = server_of(panes, entry.socket.clone());
    // Another program in the pane means that ours is gone.
    let process = entry.pid.and_then(|pid| {
        let started = start_time(pid)?;
        Some(Process { pid, started: entry.started.unwrap_or(started) })
    });
    let handover = claim_again(server.clone(), panes.clone(), entry.clone());
    let parts = PaneParts { server, panes: panes.clone(), entry, process, full_screen };
    WeztermPane::adopt(parts, handover)
}

async fn claim_again(
    server: Arc<WeztermServer>,
    panes: Panes,
    entry: PaneEntry,
) -> Result<Resources, SpawnError> {
    ensure_built()?;
    take_over(|| claim_pane(&panes, &server, &entry.pane, &entry.label), entry.recording.clone()).await
}

fn server_of(panes: &Panes, socket: Option<String>) -> Arc<WeztermServer> {
    let wezterm = Wezterm::new(socket);
    WeztermServer::shared(match &panes.wezterm {
        Some(program) => wezterm.with_program(program.clone()),
        None => wezterm,
    })
}

fn claim_pane(panes: &Panes, server: &WeztermServer, pane: &str, label: &Label) -> Result<Claim, SpawnError> {
    panes.claim(Multiplexer::Wezterm, server.wezterm.socket(), pane, label)
}

fn spawn_error(error: PaneError) -> SpawnError {
    let what_to_do = match &error {
        PaneError::NotInstalled(_) => "; install WezTerm, or choose another backend",
        PaneError::NoServer(_) => "; start WezTerm, or `wezterm-mux-server --daemonize`",
        PaneError::NoPane(pane) => return SpawnError::NoPane(pane.clone()),
        _ => "",
    };
    SpawnError::Multiplexer(format!("{error}{what_to_do}"))
}

/// Fails in a build without the feature.
fn ensure_built() -> Result<(), PaneError> {
    if cfg!(feature = "wezterm") { Ok(()) } else { Err(PaneError::NotBuilt("WezTerm")) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nerve_host::backend::{Backend, BackendEvent};
    use nerve_host::manager::QUALITY;
    use nerve_record::ahr::AhrError;
    use tokio::time::timeout;

    use super::*;

    /// Time in which nothing may happen. The handover has 3 seconds.
    const PAUSE: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn adopted_pane_waits_for_ending_server() {
        let folder = tempfile::tempdir().unwrap();
        let panes = Panes {
            claims: folder.path().join("claims"),
            wezterm: Some(folder.path().join("none")),
            ..Panes::default()
        };
        let path = folder.path().join("r.ahr");
        let time = serde_json::json!({ "secs": 1, "nanos": 0 });
        let label = serde_json::json!({
            "server": "s", "node": "n", "argv": ["sh"], "profile": "generic", "parser": "none",
            "ready_timeout": time, "response_timeout": time, "history": false,
        });
        let entry = serde_json::json!({
            "id": "e", "session_id": "r", "terminal": "wezterm", "pane": "7", "label": label, "recording": path,
        });
        let entry: PaneEntry = serde_json::from_value(entry).unwrap();
        let server = server_of(&panes, None);
        let label = entry.label.clone();
        let claim = claim_pane(&panes, &server, "7", &label).unwrap();
        let recorder = Recorder::create(&path, QUALITY).unwrap();
        let mut pane = adopt(&panes, entry, false);
        timeout(PAUSE, pane.next()).await.unwrap_err();
        drop(claim);
        timeout(PAUSE, pane.next()).await.unwrap_err();
        drop(recorder);
        assert!(matches!(pane.next().await, BackendEvent::Skipped(0)));
        assert!(matches!(Recorder::resume(&path, QUALITY), Err(AhrError::Busy { .. })));
        assert!(claim_pane(&panes, &server, "7", &label).is_err());
    }
}
