//! A pane of WezTerm as a backend.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nerve_host::backend::pty::WRITE_LIMIT;
use nerve_host::backend::{Backend, BackendEvent, BoxFuture, Lease, Memory, SpawnError};
use nerve_host::clock::Clock;
use nerve_host::pump::Pump;
use nerve_types::Foreground;
use nerve_types::{ExitStatus, Origin, Size, TsNs};
use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::args::RowRange;
use super::input::input_calls;
use super::pane_cache::WeztermServer;
use super::poller::{PaneEvent, PollTarget, Poller, Process, SharedState};
use super::repaint::Repainter;
use super::writer::{Batch, InputWriter};
use crate::handover::Resources;
use crate::pane::{Claim, PaneEntry, Panes};
use crate::pane_text::last_rows;
use crate::tty;

/// Pane events that may be queued.
const MAX_QUEUED_EVENTS: usize = 8;
/// Age from which a refresh of the content is stale.
const MAX_REFRESH_AGE: Duration = Duration::from_millis(300);
/// Exceeds any scrollback; WezTerm clips the range.
const ALL_ROWS: u32 = 1_000_000;

/// The refresh of the content before a prompt is typed.
enum Refresh {
    /// None was requested since the last prompt.
    None,
    /// The poller has been requested to refresh.
    Requested,
    /// The content was current at this time.
    Done { at: TsNs },
}

/// The parts from which a backend is created.
pub(super) struct PaneParts {
    pub(super) server: Arc<WeztermServer>,
    pub(super) panes: Panes,
    pub(super) entry: PaneEntry,
    pub(super) process: Option<Process>,
    /// The program draws its own screen.
    pub(super) full_screen: bool,
}

/// A pane of WezTerm.
pub struct WeztermPane {
    server: Arc<WeztermServer>,
    entry: PaneEntry,
    panes: Panes,
    process: Option<Process>,
    shared: Arc<SharedState>,
    pump: Pump,
    clock: Clock,
    pane_events: mpsc::Receiver<PaneEvent>,
    batches: mpsc::UnboundedSender<Batch>,
    queued_bytes: Arc<AtomicUsize>,
    /// An earlier server drove the pane.
    adopted: bool,
    /// Exclusive right to drive the pane. Missing during a handover.
    claim: Option<Claim>,
    /// The poller and the writer.
    task: Option<AbortOnDropHandle<()>>,
    refresh: Refresh,
    output: Vec<u8>,
    events: VecDeque<BackendEvent>,
    place: Vec<(&'static str, String)>,
    /// The pane is gone, or we have detached from it.
    over: bool,
    exit: ExitStatus,
    /// The pane is left for the next driver.
    released: bool,
}

impl WeztermPane {
    /// Creates the backend for a claimed pane.
    pub(super) fn live(parts: PaneParts, resources: Resources) -> WeztermPane {
        let (mut pane, _, work) = WeztermPane::new(parts);
        pane.set_resources(resources);
        pane.task = Some(AbortOnDropHandle::new(tokio::spawn(work)));
        pane
    }

    /// Creates the backend for the pane of a server that is gone.
    pub(super) fn adopt(
        parts: PaneParts,
        handover: impl Future<Output = Result<Resources, SpawnError>> + Send + 'static,
    ) -> WeztermPane {
        let (mut pane, events, work) = WeztermPane::new(parts);
        pane.adopted = true;
        let task = async move {
            match handover.await {
                Ok(resources) => {
                    if events.send(PaneEvent::TakenOver(Box::new(resources))).await.is_ok() {
                        work.await;
                    }
                }
                // The receiver is gone only with the backend.
                Err(error) => drop(events.send(PaneEvent::NotTakenOver(error.to_string())).await),
            }
        };
        pane.task = Some(AbortOnDropHandle::new(tokio::spawn(task)));
        pane
    }

    /// Creates the backend without resources. Also returns the sender of its events, and the work of its poller and writer.
    fn new(
        parts: PaneParts,
    ) -> (WeztermPane, mpsc::Sender<PaneEvent>, impl Future<Output = ()> + Send + 'static) {
        let PaneParts { server, panes, entry, process, full_screen } = parts;
        let (events, pane_events) = mpsc::channel(MAX_QUEUED_EVENTS);
        let (batches, inbox) = mpsc::unbounded_channel();
        let (shared, queued_bytes) = (Arc::new(SharedState::default()), Arc::new(AtomicUsize::default()));
        let (pane, expected) = (entry.pane.clone(), entry.pid);
        let target = PollTarget { server: server.clone(), pane: pane.clone(), process, expected };
        let repainter = Repainter::new(full_screen);
        let poller = Poller::new(target, repainter, shared.clone(), events.clone());
        let writer = InputWriter {
            server: server.clone(),
            pane,
            process,
            shared: shared.clone(),
            batches: inbox,
            queued_bytes: queued_bytes.clone(),
            events: events.clone(),
        };
        let work = async move {
            tokio::join!(poller.run(), writer.run());
        };
        let pane = WeztermPane {
            server,
            entry,
            panes,
            process,
            shared,
            pump: Pump::default(),
            clock: Clock::start(),
            pane_events,
            batches,
            queued_bytes,
            adopted: false,
            claim: None,
            task: None,
            refresh: Refresh::None,
            output: Vec::new(),
            events: VecDeque::new(),
            place: Vec::new(),
            over: false,
            exit: ExitStatus::Unknown,
            released: false,
        };
        (pane, events, work)
    }

    fn set_resources(&mut self, resources: Resources) {
        (self.pump, self.claim) = (resources.pump, Some(resources.claim));
        self.events.extend(resources.faults.into_iter().map(BackendEvent::Fault));
        if resources.flusher.is_none() {
            self.entry.recording = None;
        }
    }

    fn on_pane_event(&mut self, event: PaneEvent) {
        let now = self.clock.now();
        match event {
            PaneEvent::TakenOver(resources) => {
                self.set_resources(*resources);
                if self.entry.recording.is_some() {
                    self.pump.gap(now);
                    self.events.push_back(BackendEvent::Skipped(self.pump.offset()));
                }
            }
            PaneEvent::NotTakenOver(reason) => {
                (self.over, self.released) = (true, true);
                self.events.extend([BackendEvent::CaughtUp, BackendEvent::Lost(reason)]);
            }
            PaneEvent::Size(size) => {
                self.pump.resize(now, size);
                self.events.push_back(BackendEvent::Resized(size));
            }
            PaneEvent::Output(bytes) => {
                self.pump.output(now, &bytes);
                self.output = bytes;
                self.events.push_back(BackendEvent::Output);
            }
            PaneEvent::Place(place) => {
                self.place = place;
                self.events.push_back(BackendEvent::PlaceChanged);
            }
            PaneEvent::FirstPoll if std::mem::take(&mut self.adopted) => {
                self.events.push_back(BackendEvent::CaughtUp)
            }
            PaneEvent::FirstPoll => {}
            PaneEvent::Refreshed => {
                self.refresh = Refresh::Done { at: now };
                self.events.push_back(BackendEvent::LeaseChanged);
            }
            PaneEvent::Gap => self.events.push_back(BackendEvent::Skipped(self.pump.offset())),
            PaneEvent::Fault(message) => self.events.push_back(BackendEvent::Fault(message)),
            PaneEvent::Exited(exit) => self.on_end(BackendEvent::Exited(exit), exit),
            PaneEvent::Gone(reason) => self.on_end(BackendEvent::Gone(reason), ExitStatus::Unknown),
        }
    }

    fn on_end(&mut self, event: BackendEvent, exit: ExitStatus) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        if self.adopted {
            // The pane may never have been polled.
            self.events.push_back(BackendEvent::CaughtUp);
        }
        self.exit = exit;
        self.task = None;
        self.panes.forget(&self.entry);
        self.events.extend([event, BackendEvent::Closed]);
    }

    fn finish_recording(&mut self) {
        let now = self.clock.now();
        self.pump.exit(now, self.exit);
        // After a failure, only the exit is missing.
        let _ = self.panes.finish_recording(&self.entry, self.exit, now);
    }
}

impl Drop for WeztermPane {
    fn drop(&mut self) {
        if self.over && !self.released {
            self.finish_recording();
        }
    }
}

impl Backend for WeztermPane {
    async fn next(&mut self) -> BackendEvent {
        loop {
            self.events.extend(self.pump.take_failures().into_iter().map(BackendEvent::Fault));
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            match self.pane_events.recv().await {
                Some(event) => self.on_pane_event(event),
                // There are no more events.
                None => std::future::pending().await,
            }
        }
    }

    fn output(&self) -> &[u8] {
        &self.output
    }

    fn write(&mut self, now: TsNs, bytes: &[u8], origin: Origin) -> bool {
        if self.over || self.claim.is_none() || self.queued_input() + bytes.len() > WRITE_LIMIT {
            return false;
        }
        let Some(batch) = input_calls(bytes) else {
            let message = "a WezTerm pane accepts only UTF-8 input";
            self.events.push_back(BackendEvent::Fault(message.into()));
            return false;
        };
        let size: usize = batch.iter().map(super::input::InputCall::size).sum();
        self.queued_bytes.fetch_add(size, Ordering::Relaxed);
        let is_queued = self.batches.send(batch).is_ok();
        if is_queued {
            self.pump.input(now, bytes, origin, self.hides_input());
        }
        is_queued
    }

    fn queued_input(&self) -> usize {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    /// Fails: a pane has the size of its window.
    fn resize(&mut self, _now: TsNs, _size: Size) -> io::Result<()> {
        let message = "cannot resize a WezTerm pane: create another node, or resize WezTerm's window";
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    /// Does nothing: the program is not ours.
    fn signal(&self, _signal: Signal) {}

    fn foreground(&self, detailed: bool, shells: &[String]) -> Foreground {
        if self.queued_input() > 0 || self.shared.is_behind() {
            // With pending input or unseen output, silence is no sign of idleness.
            return Foreground::Awake;
        }
        let process = self.process.filter(|process| process.is_alive());
        process.map_or(Foreground::Unknown, |process| tty::foreground(process.pid, detailed, shells))
    }

    fn hides_input(&self) -> bool {
        self.shared.tty.get().is_some_and(|tty| tty::hides_input(tty))
    }

    fn remember(&mut self, memory: &Memory) {
        self.entry.memory = memory.clone();
        if let Err(error) = self.panes.store(&self.entry) {
            let message = format!("cannot write the pane's entry: {error}");
            self.events.push_back(BackendEvent::Fault(message));
        }
    }

    fn drain_time(&self) -> Duration {
        Duration::ZERO
    }

    fn pid(&self) -> Option<i32> {
        self.process.map(|process| process.pid)
    }

    fn release(&mut self) -> bool {
        self.released |= !self.over;
        !self.over
    }

    /// Reads the pane's own text, which may be newer than the last poll.
    fn live_text(&self, lines: Option<usize>) -> Option<BoxFuture<io::Result<String>>> {
        if self.over {
            return None;
        }
        let (server, pane) = (self.server.clone(), self.entry.pane.clone());
        let rows = self.shared.rows.load(Ordering::Relaxed);
        let back = lines.map_or(ALL_ROWS, |lines| u32::try_from(lines).unwrap_or(ALL_ROWS));
        Some(Box::pin(async move {
            let range = RowRange::with_scrollback(rows, back);
            let text = server.wezterm.text(&pane, range, false).await.map_err(io::Error::other)?;
            Ok(last_rows(&text, lines.unwrap_or(usize::MAX)))
        }))
    }

    fn is_approximate(&self) -> bool {
        true
    }

    /// Grants the lease once after a refresh: a person may have typed since the last poll.
    fn lease(&mut self, now: TsNs) -> Lease {
        match std::mem::replace(&mut self.refresh, Refresh::Requested) {
            Refresh::Done { at } if now.since(at) < MAX_REFRESH_AGE => {
                self.refresh = Refresh::None;
                return Lease::Free;
            }
            // A second request would end after the prompt has begun, and would seem fresh to the next prompt.
            Refresh::Requested => {}
            Refresh::None | Refresh::Done { .. } => {
                self.shared.refresh.store(true, Ordering::Relaxed);
                self.shared.wake.notify_one();
            }
        }
        Lease::Pending
    }

    fn is_foreign(&self) -> bool {
        true
    }

    /// Detaches from the pane.
    fn end(&mut self, _signal: Signal) {
        self.on_end(BackendEvent::Exited(ExitStatus::Unknown), ExitStatus::Unknown);
    }

    fn set_watchful(&mut self, watchful: bool) {
        if self.shared.watchful.swap(watchful, Ordering::Relaxed) != watchful && watchful {
            self.shared.wake.notify_one();
        }
    }

    fn place(&self) -> &[(&'static str, String)] {
        &self.place
    }
}
