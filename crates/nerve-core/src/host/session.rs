//! What a host does: one loop over its terminal, its connections and the snapshots it is asked for.

use std::time::Duration;

use nerve_record::meta::Meta;
use nerve_record::snapshots::{self, SnapshotLine};
use nerve_record::ssz::snapshot::Response;
use nerve_term::event::{ExitStatus, Origin, Size, TsNs};
use rustix::process::Signal;
use serde::Deserialize;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::HostSpec;
use super::backlog::{Backlog, encode_output};
use super::end::Ending;
use super::link::{self, Hello, Order, Report, Window};
use super::links::{Links, MAX_LINKS, MAX_VIEWERS, Ordered};
use super::registry::Entry;
use super::snapshots::Asked;
use super::windows::Windows;
use crate::backend::Memory;
use crate::backend::pty::{ESCALATION, Pty, READ_LIMIT};
use crate::clock::Clock;
use crate::pump::Pump;
use crate::recorder::Flusher;

/// Input that may wait for the program before orders are read no further.
const INPUT_WAITS: usize = 1 << 20;
/// Faults kept for those who connect late.
const MAX_FAULTS: usize = 8;
/// How long output of a dead program is waited for: a grandchild may hold the terminal open.
const DRAIN: Duration = Duration::from_millis(500);
/// How long the last frames may take to leave.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a viewer that is on its way may take after the program's end.
const VIEWER_COMES: Duration = Duration::from_secs(10);
/// How long somebody who connects waits for the disk.
const DISK_PATIENCE: Duration = Duration::from_secs(1);
/// What a program can have written before it asks for a snapshot and that was not read yet: more than the kernel holds.
const SNAPSHOT_DRAIN: usize = 1 << 20;

/// Where things come from that happen to a host.
pub(super) struct Inbox {
    pub(super) orders: mpsc::Receiver<(u64, Ordered)>,
    pub(super) asks: mpsc::Receiver<Asked>,
    /// With it: whether it comes from within this process, for whose sake the program may be held up.
    pub(super) connected: mpsc::Receiver<(UnixStream, bool)>,
    /// Accepts what comes from without.
    pub(super) _accepting: AbortOnDropHandle<()>,
    pub(super) stops: mpsc::Receiver<()>,
}

/// What is made beside the program.
pub(super) struct Made {
    pub(super) flusher: Option<Flusher>,
    pub(super) links: Links,
    /// What failed already.
    pub(super) faults: Vec<String>,
}

/// A running host.
pub(super) struct Session {
    clock: Clock,
    spec: HostSpec,
    entry: Entry,
    size: Size,
    pump: Pump,
    pty: Pty,
    flusher: Option<Flusher>,
    links: Links,
    windows: Windows,
    backlog: Backlog,
    faults: Vec<String>,
    open: bool,
    exit: Option<ExitStatus>,
    drain_until: Option<Instant>,
    /// The next signal of a stop, and when.
    stopping: Option<(usize, Instant)>,
    /// Somebody has listened.
    heard: bool,
    /// A viewer has come.
    had_viewer: bool,
    /// Somebody has seen the program's end.
    seen: bool,
    /// All is over but nobody has seen it: that is waited for until then.
    awaited_until: Option<Instant>,
    /// The highest number of a snapshot so far.
    last_snapshot: u64,
    /// What is being written beside the recording.
    noting: Option<JoinHandle<()>>,
    /// The recording is whole, and what stands beside it too.
    closed: bool,
}

impl Session {
    pub(super) fn new(
        clock: Clock,
        spec: HostSpec,
        entry: Entry,
        pump: Pump,
        pty: Pty,
        made: Made,
    ) -> Session {
        let Made { flusher, links, faults } = made;
        Session {
            clock,
            size: spec.size(),
            windows: Windows::default(),
            backlog: Backlog::new(spec.size()),
            entry,
            spec,
            pump,
            pty,
            flusher,
            links,
            faults,
            open: true,
            exit: None,
            drain_until: None,
            stopping: None,
            heard: false,
            had_viewer: false,
            seen: false,
            awaited_until: None,
            last_snapshot: 0,
            noting: None,
            closed: false,
        }
    }

    pub(super) async fn run(mut self, mut inbox: Inbox) -> ExitStatus {
        let mut buffer = Vec::with_capacity(READ_LIMIT);
        while self.open || self.exit.is_none() || self.awaits_witness() || !inbox.connected.is_empty() {
            let keeping_up = self.links.keeping_up();
            for link in self.links.take_cut() {
                self.gone(link);
            }
            let on_disk = self.flusher.as_ref().filter(|flusher| !flusher.has_room());
            let on_disk = on_disk.cloned();
            if self.drain_until.is_some() && (!keeping_up || on_disk.is_some()) {
                // Only time in which it is read counts.
                self.drain_until = Some(Instant::now() + DRAIN);
            }
            let timer = [self.drain_until, self.stopping.map(|(_, at)| at), self.awaited_until]
                .into_iter()
                .flatten()
                .min();
            let Pty { output, input, child, .. } = &mut self.pty;
            tokio::select! {
                read = output.read(&mut buffer), if self.open && keeping_up && on_disk.is_none() => {
                    match read {
                        Ok(0) | Err(_) => self.closed(),
                        Ok(_) => self.output(&buffer),
                    }
                    buffer.clear();
                }
                () = self.links.room(), if !keeping_up => {}
                () = room_on_disk(on_disk.as_ref()), if on_disk.is_some() => {}
                // What a closed terminal does not take is nobody's.
                _ = input.flush(), if self.open && input.pending() > 0 => {}
                exit = child.wait(), if self.exit.is_none() => self.exited(exit),
                Some((stream, inside)) = inbox.connected.recv() => self.connected(stream, inside),
                Some((link, ordered)) = inbox.orders.recv() => self.ordered(link, ordered),
                Some(asked) = inbox.asks.recv() => self.snapshot(asked).await,
                Some(()) = inbox.stops.recv() => self.stop(),
                () = sleep_until(timer), if timer.is_some() => self.timer().await,
            }
            self.links.take_input(!self.open || self.pty.input.pending() < INPUT_WAITS);
            self.report_faults();
        }
        self.finish(inbox).await
    }

    /// Somebody should have seen the end, and may still: whoever started this was not quick enough to listen, or listens and has
    /// not said that it saw.
    fn awaits_witness(&mut self) -> bool {
        let viewer_to_come = self.spec.viewed && !self.had_viewer;
        let over = self.seen || (self.heard && !self.links.any_live());
        if over && !viewer_to_come && !self.links.any_pending() {
            return false;
        }
        let patience = if viewer_to_come { VIEWER_COMES } else { FAREWELL };
        let until = *self.awaited_until.get_or_insert_with(|| Instant::now() + patience);
        Instant::now() < until
    }

    fn output(&mut self, bytes: &[u8]) {
        let at = self.clock.now();
        let off = self.pump.offset();
        self.pump.output(at, bytes);
        self.backlog.push(bytes);
        if self.links.any_live() {
            let mut frames = Vec::with_capacity(bytes.len() + 64);
            encode_output(at, off, bytes, &mut frames);
            self.links.send_all(frames);
        }
    }

    /// There is no more output. Whoever listens is told when all of it is written, see [`Session::finish`].
    fn closed(&mut self) {
        self.open = false;
        self.pty.input.discard();
    }

    fn exited(&mut self, exit: ExitStatus) {
        self.exit = Some(exit);
        self.links.send_all(encoded(&Report::Exited(exit)));
        if self.open {
            self.drain_until = Some(Instant::now() + DRAIN);
        }
    }

    fn connected(&mut self, stream: UnixStream, inside: bool) {
        if !inside && self.links.is_full() {
            return Links::refuse(stream, &encoded(&Report::Fault(full(MAX_LINKS))));
        }
        let link = self.links.add(stream, inside);
        self.with_written(link, Ordered::Greet);
    }

    /// Asks the recorder how much is in the file, and comes back with it as an order.
    fn with_written(&self, link: u64, then: fn(Option<u64>) -> Ordered) {
        let (orders, flusher) = (self.links.orders(), self.flusher.clone());
        tokio::spawn(async move {
            let written = match flusher {
                // A disk that hangs must not keep anybody from the terminal.
                Some(flusher) => match tokio::time::timeout(DISK_PATIENCE, flusher.flush(false)).await {
                    Ok(Ok(written)) => Some(written.off),
                    Ok(Err(_)) | Err(_) => None,
                },
                None => None,
            };
            // A host that is over answers nobody.
            let _ = orders.send((link, then(written))).await;
        });
    }

    fn ordered(&mut self, link: u64, ordered: Ordered) {
        let order = match ordered {
            Ordered::Order(order) => order,
            Ordered::Greet(recorded) => return self.greet(link, recorded),
            Ordered::Behind(recorded) => {
                return self.links.send(link, encoded(&Report::Behind { recorded }));
            }
            Ordered::Gone => return self.gone(link),
        };
        let now = self.clock.now();
        match order {
            Order::From { off, whatever } => self.listen_from(link, off, whatever),
            Order::Input { origin, bytes } => {
                if self.open && self.pty.input.push(&bytes) {
                    let hidden = self.pty.control.hides_input() && origin != Origin::Terminal;
                    self.pump.input(now, &bytes, origin, hidden);
                    if origin != Origin::Terminal {
                        self.links.send_others(link, &encoded(&Report::Typed { origin }));
                    }
                }
            }
            Order::Resize(size) => match self.windows.size() {
                // Somebody looks: their windows count. Whoever waits for an answer gets it.
                Some(_) => self.links.send_all(encoded(&Report::Resized(self.size))),
                None => self.resize(size),
            },
            Order::View(window) => self.view(link, window),
            Order::Stop => self.stop(),
            Order::Seen => self.seen = true,
            // What stands beside the recording has its last word.
            Order::Remember(_) if self.closed => {}
            Order::Remember(memory) => self.remember(memory),
        }
    }

    fn view(&mut self, link: u64, window: Window) {
        if self.links.is_full_of_viewers(link) {
            self.links.send(link, encoded(&Report::Full(full(MAX_VIEWERS))));
            return self.gone(link);
        }
        // One that was cut off comes again on another connection.
        if let Some(inside) = self.links.is_viewer(link) {
            // The recorder's own connection only says the size: nobody sees anything by it.
            self.had_viewer |= !inside;
            self.windows.set(link, window);
            self.fit();
        }
    }

    fn gone(&mut self, link: u64) {
        self.links.remove(link);
        self.windows.forget(link);
        self.fit();
    }

    /// Gives the terminal the size that those who look want. When nobody does any more, it stays as it is.
    fn fit(&mut self) {
        if let Some(size) = self.windows.size().filter(|size| *size != self.size) {
            self.resize(size);
        }
    }

    fn resize(&mut self, size: Size) {
        match self.pty.control.resize(size) {
            Ok(()) => {
                self.size = size;
                self.pump.resize(self.clock.now(), size);
                self.backlog.mark(Report::Resized(size));
            }
            // The program has ended, and its terminal with it.
            Err(_) if !self.open => {}
            Err(error) => self.faults_add(format!("the terminal takes no other size: {error}")),
        }
        self.links.send_all(encoded(&Report::Resized(self.size)));
    }

    fn greet(&mut self, link: u64, recorded: Option<u64>) {
        let hello = Hello {
            version: link::VERSION,
            child: self.entry.child,
            cols: self.size.cols,
            rows: self.size.rows,
            off: self.pump.offset(),
            oldest: self.backlog.oldest,
            recorded,
            recording: self.spec.recording.clone(),
            faults: self.faults.clone(),
            label: self.spec.label.clone(),
        };
        match self.pty.control.descriptor() {
            Ok(terminal) => self.links.greet(link, &Report::Hello(Box::new(hello)), terminal),
            // Out of descriptors: whoever wants in tries again.
            Err(_) => self.links.remove(link),
        }
    }

    fn listen_from(&mut self, link: u64, off: u64, whatever: bool) {
        if off < self.backlog.oldest && !whatever {
            return self.with_written(link, Ordered::Behind);
        }
        let from = off.clamp(self.backlog.oldest, self.pump.offset());
        let mut frames = self.backlog.frames_since(from, self.clock.now());
        if let Some(exit) = self.exit {
            Report::Exited(exit).encode(&mut frames);
        }
        self.links.send(link, frames);
        self.links.make_live(link);
        self.heard = true;
    }

    /// Kept for whoever drives the terminal next.
    fn remember(&mut self, memory: serde_json::Value) {
        let before = self.meta();
        self.entry.memory = memory;
        if let Err(error) = self.entry.store(&self.spec.registry) {
            self.faults_add(format!("the host's entry cannot be written: {error}"));
        }
        let meta = self.meta();
        if let Some(path) = self.spec.recording.clone().filter(|_| meta != before) {
            // Beside the bytes: it waits for the disk. One that fails is told at the end, when it is written again.
            let before = self.noting.take();
            self.noting = Some(tokio::spawn(async move {
                // One after the other: the last one counts.
                if let Some(before) = before {
                    let _ = before.await;
                }
                let _ = tokio::task::spawn_blocking(move || meta.store(&path)).await;
            }));
        }
    }

    /// What stands beside the recording, with what is known of the agent's own conversation: who looks at it later has no host to ask.
    fn meta(&self) -> Meta {
        let memory = Memory::deserialize(&self.entry.memory).unwrap_or_default();
        let Memory { transcript, agent_session, .. } = memory;
        Meta { transcript, agent_session, ..self.spec.meta(TsNs(self.entry.started)) }
    }

    /// Drained, written, synced, then confirmed (seed agent-record §8).
    async fn snapshot(&mut self, asked: Asked) {
        self.drain().await;
        let Asked { id, label, reply } = asked;
        self.last_snapshot = self.last_snapshot.max(id);
        let (at, anchor) = (self.clock.now(), self.pump.offset());
        self.pump.snapshot(at, id, &label);
        let report = Report::Snapshot { at, id, anchor, label: label.clone() };
        self.links.send_all(encoded(&report));
        self.backlog.mark(report);
        let flusher = self.flusher.clone();
        tokio::spawn(async move {
            let noted = match flusher {
                Some(flusher) => note_snapshot(&flusher, id, label, anchor, at).await,
                None => Ok(()),
            };
            // Whoever asked may have gone meanwhile; the snapshot stays.
            let _ = reply.send(match noted {
                Ok(()) => Response::Success { id, anchor, at_ns: at.0 },
                Err(message) => Response::Error { message },
            });
        });
    }

    /// Takes what the program has written up to now.
    async fn drain(&mut self) {
        let mut bytes = Vec::new();
        let drained = self.pty.output.drain(&mut bytes, SNAPSHOT_DRAIN).await;
        if !bytes.is_empty() {
            self.output(&bytes);
        }
        if self.open && !matches!(drained, Ok(false)) {
            self.closed();
        }
    }

    fn stop(&mut self) {
        self.stopping.get_or_insert_with(|| (0, Instant::now()));
    }

    async fn timer(&mut self) {
        let now = Instant::now();
        if self.drain_until.is_some_and(|at| at <= now) && self.open {
            self.drain_until = None;
            self.drain().await;
            self.closed();
        }
        if let Some((level, at)) = self.stopping
            && at <= now
        {
            let Some((signal, pause)) = ESCALATION.get(level) else {
                // Killed and still not gone: it hangs in the kernel. Nobody waits for that.
                self.stopping = None;
                self.exit.get_or_insert(ExitStatus::Unknown);
                return self.closed();
            };
            self.pty.control.signal(*signal);
            self.stopping = Some((level + 1, now + *pause));
        }
    }

    fn report_faults(&mut self) {
        for message in self.pump.take_failures() {
            self.faults_add(message);
        }
    }

    fn faults_add(&mut self, message: String) {
        self.links.send_all(encoded(&Report::Fault(message.clone())));
        self.faults.push(message);
        self.faults.truncate(MAX_FAULTS);
    }

    async fn finish(mut self, mut inbox: Inbox) -> ExitStatus {
        let exit = self.exit.unwrap_or(ExitStatus::Unknown);
        let ended = self.clock.now();
        // Whatever its group left behind must not outlive it.
        self.pty.control.signal(Signal::HUP);
        let ending = Ending::of(&self.spec, self.last_snapshot, ended, self.pump.offset());
        if let Some(ending) = &ending {
            ending.mark(&mut self.pump);
            self.links.send_all(encoded(&ending.report()));
        }
        self.pump.exit(ended, exit);
        self.report_faults();
        let meta = Meta { ended_at: Some(ended), exit: Some(exit), ..self.meta() };
        if let Some(noting) = self.noting.take() {
            let _ = noting.await;
        }
        let (path, closed) = (self.spec.recording.clone(), meta.clone());
        let taps = self.pump.take_taps();
        // Writes the last block and syncs: not on the thread that still sends the last frames.
        let closing = tokio::task::spawn_blocking(move || {
            drop(taps);
            path.map_or(Ok(()), |path| closed.store(&path))
        });
        if let Ok(Err(error)) = closing.await {
            self.faults_add(format!("the metadata lacks the end: {error}"));
        }
        // Whoever hears that it is over finds a whole recording, and no host.
        let seen = self.seen;
        if seen {
            self.entry.forget(&self.spec.registry);
        } else {
            self.entry.exit = Some(exit.into());
            // Without it the entry says that the host was killed: as near as can be.
            let _ = self.entry.store(&self.spec.registry);
        }
        self.closed = true;
        self.flusher = None;
        if let Some(ending) = ending
            && let Some(note) = self.serving(&mut inbox, ending.keep()).await
        {
            let meta = Meta { end_note: Some(note), ..meta };
            let path = self.spec.recording.clone().unwrap_or_default();
            // It is only a note.
            let _ = tokio::task::spawn_blocking(move || meta.store(&path)).await;
        }
        if self.seen && !seen {
            self.entry.forget(&self.spec.registry);
        }
        self.links.send_all(encoded(&Report::Closed));
        let deadline = Instant::now() + FAREWELL;
        while !self.links.drained() && Instant::now() < deadline {
            self.links.room().await;
        }
        exit
    }
}

impl Session {
    /// Waits for something at the end, and answers whoever is connected or comes meanwhile.
    async fn serving<T>(&mut self, inbox: &mut Inbox, something: impl Future<Output = T>) -> T {
        let mut something = std::pin::pin!(something);
        loop {
            self.links.keeping_up();
            for link in self.links.take_cut() {
                self.gone(link);
            }
            tokio::select! {
                done = &mut something => return done,
                Some((stream, inside)) = inbox.connected.recv() => self.connected(stream, inside),
                Some((link, ordered)) = inbox.orders.recv() => self.ordered(link, ordered),
                // It is over already.
                Some(()) = inbox.stops.recv() => {}
            }
        }
    }
}

async fn room_on_disk(flusher: Option<&Flusher>) {
    match flusher {
        Some(flusher) => flusher.room().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn full(others: usize) -> String {
    format!(
        "{others} others are connected to this host already, and it takes no more; 'nerve attach' ends with ctrl+] d"
    )
}

fn encoded(report: &Report) -> Vec<u8> {
    let mut frames = Vec::new();
    report.encode(&mut frames);
    frames
}

async fn note_snapshot(
    flusher: &Flusher,
    id: u64,
    label: String,
    anchor: u64,
    at: TsNs,
) -> Result<(), String> {
    flusher.flush(true).await.map_err(|error| format!("the snapshot is not recorded: {error}"))?;
    let label = Some(label).filter(|label| !label.is_empty());
    let line =
        SnapshotLine { id, ts_ns: at.0, label, kind: "manual".into(), anchor_byte: anchor, files: None };
    let path = flusher.path().to_path_buf();
    let appended = tokio::task::spawn_blocking(move || snapshots::append(&path, &line)).await;
    let failed = |error: String| format!("the list of snapshots cannot be written: {error}");
    appended.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
}
