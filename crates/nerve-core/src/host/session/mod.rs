//! What a host does: one loop over its terminal, its connections and the snapshots it is asked for.

mod requests;
mod shutdown;

use nerve_record::ssz::snapshot::Response;
use nerve_term::event::{ExitStatus, Size};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::HostSpec;
use super::backlog::{Backlog, encode_output};
use super::clients::{Heard, Links};
use super::exit_ack::{Audience, Witness};
use super::lifecycle::{Due, Life};
use super::metadata::Notes;
use super::protocol::HostEvent;
use super::registry::Entry;
use super::size_policy::Windows;
use super::snapshots::{Asked, Keeper};
use crate::backend::pty::{Pty, READ_LIMIT};
use crate::clock::Clock;
use crate::pump::Pump;
use crate::recorder::Flusher;

/// Input that may wait for the program before orders are read no further.
const INPUT_WAITS: usize = 1 << 20;
/// Faults kept for those who connect late.
const MAX_FAULTS: usize = 8;
/// What a program can have written before it asks for a snapshot and that was not read yet: more than the kernel holds.
const SNAPSHOT_DRAIN: usize = 1 << 20;

/// Where things come from that happen to a host.
pub(super) struct Inbox {
    pub(super) heard: mpsc::Receiver<(u64, Heard)>,
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
    size: Size,
    pump: Pump,
    pty: Pty,
    flusher: Option<Flusher>,
    links: Links,
    windows: Windows,
    backlog: Backlog,
    faults: Vec<String>,
    life: Life,
    witness: Witness,
    notes: Notes,
    /// The highest number of a snapshot so far.
    last_snapshot: u64,
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
            life: Life::new(),
            witness: Witness::new(spec.viewed),
            notes: Notes::new(&spec, entry),
            spec,
            pump,
            pty,
            flusher,
            links,
            faults,
            last_snapshot: 0,
        }
    }

    pub(super) async fn run(mut self, mut inbox: Inbox) -> ExitStatus {
        let mut buffer = Vec::with_capacity(READ_LIMIT);
        while !self.life.is_over() || self.awaits_witness() || !inbox.connected.is_empty() {
            let keeping_up = self.links.keeping_up();
            self.forget_cut();
            let on_disk = self.flusher.as_ref().filter(|flusher| !flusher.has_room());
            let on_disk = on_disk.cloned();
            if !keeping_up || on_disk.is_some() {
                self.life.held_up(Instant::now());
            }
            let open = self.life.is_open();
            let timer = [self.life.deadline(), self.witness.deadline()].into_iter().flatten().min();
            let Pty { output, input, child, .. } = &mut self.pty;
            tokio::select! {
                read = output.read(&mut buffer), if open && keeping_up && on_disk.is_none() => {
                    match read {
                        Ok(0) | Err(_) => self.closed(),
                        Ok(_) => self.output(&buffer),
                    }
                    buffer.clear();
                }
                () = self.links.room(), if !keeping_up => {}
                () = room_on_disk(on_disk.as_ref()), if on_disk.is_some() => {}
                // What a closed terminal does not take is nobody's.
                _ = input.flush(), if open && input.pending() > 0 => {}
                exit = child.wait(), if self.life.exit().is_none() => self.exited(exit),
                Some((stream, inside)) = inbox.connected.recv() => self.connected(stream, inside),
                Some((link, heard)) = inbox.heard.recv() => self.heard(link, heard),
                Some(asked) = inbox.asks.recv() => self.snapshot(asked).await,
                Some(()) = inbox.stops.recv() => self.stop(),
                () = sleep_until(timer), if timer.is_some() => self.timer().await,
            }
            self.links.take_input(!self.life.is_open() || self.pty.input.pending() < INPUT_WAITS);
            self.report_faults();
        }
        self.finish(inbox).await
    }

    fn awaits_witness(&mut self) -> bool {
        let (any_live, any_pending) = (self.links.any_live(), self.links.any_pending());
        self.witness.is_awaited(Audience { any_live, any_pending }, Instant::now())
    }

    /// Those who were cut off look no more.
    fn forget_cut(&mut self) {
        for link in self.links.take_cut() {
            self.gone(link);
        }
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
        self.life.closed();
        self.pty.input.discard();
    }

    fn exited(&mut self, exit: ExitStatus) {
        self.life.exited(exit, Instant::now());
        self.links.tell(&HostEvent::Exited(exit));
    }

    /// Drained, written, synced, then confirmed (seed agent-record §8).
    async fn snapshot(&mut self, asked: Asked) {
        self.drain().await;
        let Asked { id, label, reply } = asked;
        self.last_snapshot = self.last_snapshot.max(id);
        let (at, anchor) = (self.clock.now(), self.pump.offset());
        self.pump.snapshot(at, id, &label);
        let event = HostEvent::Snapshot { at, id, anchor, label: label.clone() };
        self.links.tell(&event);
        self.backlog.mark(event);
        let keeper = match (self.flusher.clone(), self.notes.unrecorded()) {
            (Some(flusher), _) => Keeper::Recording(flusher),
            (None, Some(file)) => Keeper::Passing(file),
            (None, None) => Keeper::Nobody,
        };
        tokio::spawn(async move {
            let noted = keeper.note(id, label, anchor, at).await;
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
        if self.life.is_open() && !matches!(drained, Ok(false)) {
            self.closed();
        }
    }

    async fn timer(&mut self) {
        let now = Instant::now();
        while let Some(due) = self.life.due(now) {
            match due {
                Due::Drain => {
                    self.drain().await;
                    self.closed();
                }
                Due::Signal(signal) => self.pty.control.signal(signal),
                Due::GiveUp => self.closed(),
            }
        }
    }

    fn report_faults(&mut self) {
        for message in self.pump.take_failures() {
            self.fault(message);
        }
    }

    /// Something failed that the session outlives.
    fn fault(&mut self, message: String) {
        self.links.tell(&HostEvent::Fault(message.clone()));
        self.faults.push(message);
        self.faults.truncate(MAX_FAULTS);
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
