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

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use nerve_host::backend::PaneError;
use nerve_host::backend::{BackendEvent, SpawnError};
use nerve_host::clock::Clock;
use nerve_host::manager::{Label, QUALITY};
use nerve_host::pump::Pump;
use nerve_host::recorder::Recorder;
use nerve_host::tap::Tap;
use nerve_types::os::start_time;
use nerve_types::{ExitStatus, Size};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use self::pane::Refresh;
use self::pane_cache::WeztermServer;
use self::poller::{PollTarget, Poller, Process, SharedState};
use self::repaint::Repainter;
use self::writer::InputWriter;
use crate::pane::{Claim, PaneContext, PaneEntry, Panes, TerminalKind};

pub use args::{Keys, Range};
pub use client::Wezterm;
pub use pane::WeztermPane;

/// Pane events that may be queued.
const MAX_QUEUED_EVENTS: usize = 8;

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
    let mut entry = context.new_entry(TerminalKind::Wezterm);
    entry.socket = server.wezterm.socket().map(str::to_string);
    entry.pane = listed.id();
    entry.pid = process.map(|process| process.pid);
    entry.started = process.map(|process| process.started);
    let (recorder, faults) = context.register(&mut entry, size, true);
    let events = faults.into_iter().map(BackendEvent::Fault).collect();
    let panes = context.panes.clone();
    let builder = PaneBuilder { server, panes, entry: entry.clone(), process, claim: Some(claim), events };
    let taps = recorder.into_iter().map(|tap| Box::new(tap) as Box<dyn Tap>).collect();
    Ok((builder.build(Pump::new(taps), Repainter::new(context.full_screen), false), entry, size))
}

/// Takes over the pane of a server that is gone. Failures are reported as events of the backend. Also returns the updated entry.
pub fn adopt(panes: &Panes, mut entry: PaneEntry, full_screen: bool) -> (WeztermPane, PaneEntry) {
    let server = server_of(panes, entry.socket.clone());
    let mut events = VecDeque::new();
    let claim = ensure_built().map_err(SpawnError::from);
    let claim = claim.and_then(|()| claim_pane(panes, &server, &entry.pane, &entry.label));
    // Another program in the pane means that ours is gone.
    let process = entry.pid.and_then(|pid| {
        let started = start_time(pid)?;
        Some(Process { pid, started: entry.started.unwrap_or(started) })
    });
    let mut pump = Pump::default();
    match (&claim, entry.recording.clone()) {
        (Err(error), _) => events.extend([BackendEvent::CaughtUp, BackendEvent::Lost(error.to_string())]),
        (Ok(_), Some(path)) => match Recorder::resume(&path, QUALITY) {
            Ok((recorder, off)) => {
                pump = Pump::resume(vec![Box::new(recorder)], off);
                pump.gap(Clock::start().now());
                events.push_back(BackendEvent::Skipped(off));
            }
            Err(error) => {
                events.push_back(BackendEvent::Fault(format!("cannot continue the recording: {error}")));
                entry.recording = None;
            }
        },
        (Ok(_), None) => {}
    }
    let (panes, claim) = (panes.clone(), claim.ok());
    let builder = PaneBuilder { server, panes, entry: entry.clone(), process, claim, events };
    (builder.build(pump, Repainter::new(full_screen), true), entry)
}

/// The parts of a backend.
struct PaneBuilder {
    server: Arc<WeztermServer>,
    panes: Panes,
    entry: PaneEntry,
    process: Option<Process>,
    claim: Option<Claim>,
    events: VecDeque<BackendEvent>,
}

impl PaneBuilder {
    /// Creates the backend, and starts its poller and writer if we have the claim.
    fn build(self, pump: Pump, repainter: Repainter, adopted: bool) -> WeztermPane {
        let PaneBuilder { server, panes, entry, process, claim, events } = self;
        let (sender, pane_events) = mpsc::channel(MAX_QUEUED_EVENTS);
        let (batches, inbox) = mpsc::unbounded_channel();
        let (shared, waiting) = (Arc::new(SharedState::default()), Arc::new(AtomicUsize::default()));
        let mut tasks = Vec::new();
        if claim.is_some() {
            let pid = entry.pid;
            let target =
                PollTarget { server: server.clone(), pane: entry.pane.clone(), process, expected: pid };
            let poller = Poller::new(target, repainter, shared.clone(), sender.clone());
            let writer = InputWriter {
                server: server.clone(),
                pane: entry.pane.clone(),
                process,
                shared: shared.clone(),
                batches: inbox,
                waiting: waiting.clone(),
                events: sender,
            };
            tasks.push(AbortOnDropHandle::new(tokio::spawn(poller.run())));
            tasks.push(AbortOnDropHandle::new(tokio::spawn(writer.run())));
        }
        WeztermPane {
            over: claim.is_none(),
            exit: ExitStatus::Unknown,
            released: claim.is_none(),
            server,
            entry,
            panes,
            process,
            shared,
            pump,
            clock: Clock::start(),
            pane_events,
            batches,
            waiting,
            adopted,
            _claim: claim,
            tasks,
            refresh: Refresh::None,
            output: Vec::new(),
            events,
            place: Vec::new(),
        }
    }
}

fn server_of(panes: &Panes, socket: Option<String>) -> Arc<WeztermServer> {
    let wezterm = Wezterm::new(socket);
    WeztermServer::shared(match &panes.wezterm {
        Some(program) => wezterm.with_program(program.clone()),
        None => wezterm,
    })
}

fn claim_pane(panes: &Panes, server: &WeztermServer, pane: &str, label: &Label) -> Result<Claim, SpawnError> {
    panes.claim(TerminalKind::Wezterm, server.wezterm.socket(), pane, label)
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
