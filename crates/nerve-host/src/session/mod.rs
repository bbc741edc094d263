//! The event loop of a host: terminal, clients and snapshot requests.

mod requests;
mod shutdown;

use nerve_record::ssz::snapshot::Response;
use nerve_types::{ExitStatus, Size};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::HostSpec;
use super::backlog::{Backlog, encode_output};
use super::clients::Clients;
use super::exit_ack::{ExitAck, Listeners};
use super::faults::Faults;
use super::lifecycle::{Action, Lifecycle};
use super::metadata::HostMetadata;
use super::protocol::HostEvent;
use super::reader::ClientEvent;
use super::registry::Entry;
use super::size_policy::SizePolicy;
use super::snapshots::{SnapshotRequest, SnapshotStore};
use crate::backend::pty::{Pty, READ_LIMIT};
use crate::clock::WallClock;
use crate::pump::Pump;
use crate::recorder::Flusher;

/// Bytes of input that may wait for the program before more input is held back.
const MAX_PENDING_INPUT: usize = 1 << 20;
/// Output read before a snapshot is taken: more than the kernel buffers.
const SNAPSHOT_DRAIN: usize = 1 << 20;
/// The id of no client.
const NO_CLIENT: u64 = u64::MAX;

/// The event sources of a host.
pub(super) struct Inbox {
    pub(super) client_events: mpsc::Receiver<(u64, ClientEvent)>,
    pub(super) snapshot_requests: mpsc::Receiver<SnapshotRequest>,
    /// A new connection, and whether it comes from within this process. An internal client may hold up the program.
    pub(super) connections: mpsc::Receiver<(UnixStream, bool)>,
    /// Accepts connections on the control socket.
    pub(super) _acceptor: AbortOnDropHandle<()>,
    pub(super) owner_requests: mpsc::Receiver<OwnerRequest>,
}

/// A request of the process that runs the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerRequest {
    /// Stop the program.
    Stop,
    /// Create deleted or damaged files again.
    Repair,
}

/// The parts of a session that are created before the program.
pub(super) struct Parts {
    pub(super) flusher: Option<Flusher>,
    pub(super) clients: Clients,
    /// Makes listeners create their sockets again.
    pub(super) repairs: watch::Sender<()>,
    /// Failures so far.
    pub(super) faults: Vec<String>,
}

/// A running host.
pub(super) struct Session {
    clock: WallClock,
    spec: HostSpec,
    size: Size,
    pump: Pump,
    pty: Pty,
    flusher: Option<Flusher>,
    clients: Clients,
    repairs: watch::Sender<()>,
    size_policy: SizePolicy,
    backlog: Backlog,
    faults: Faults,
    lifecycle: Lifecycle,
    exit_ack: ExitAck,
    metadata: HostMetadata,
    /// The highest snapshot id so far.
    last_snapshot: u64,
    /// A client has typed since the driver stored its state.
    was_typed: bool,
}

impl Session {
    pub(super) fn new(
        clock: WallClock,
        spec: HostSpec,
        entry: Entry,
        pump: Pump,
        pty: Pty,
        parts: Parts,
    ) -> Session {
        let Parts { flusher, clients, repairs, faults } = parts;
        Session {
            clock,
            size: spec.size(),
            size_policy: SizePolicy::new(spec.size()),
            backlog: Backlog::new(spec.size()),
            lifecycle: Lifecycle::new(),
            exit_ack: ExitAck::new(spec.viewed),
            metadata: HostMetadata::new(&spec, entry),
            spec,
            pump,
            pty,
            flusher,
            clients,
            repairs,
            faults: faults.into_iter().collect(),
            last_snapshot: 0,
            was_typed: false,
        }
    }

    pub(super) async fn run(mut self, mut inbox: Inbox) -> ExitStatus {
        let mut buffer = Vec::with_capacity(READ_LIMIT);
        while !self.lifecycle.is_finished() || self.should_wait_for_ack() || !inbox.connections.is_empty() {
            let may_read = self.clients.check_backpressure();
            self.remove_disconnected();
            let on_disk = self.flusher.as_ref().filter(|flusher| !flusher.has_room());
            let on_disk = on_disk.cloned();
            let flusher = self.flusher.clone();
            if !may_read || on_disk.is_some() {
                self.lifecycle.on_reading_paused(Instant::now());
            }
            let open = self.lifecycle.is_output_open();
            let timer = [self.lifecycle.deadline(), self.exit_ack.deadline()].into_iter().flatten().min();
            let Pty { output, input, child, .. } = &mut self.pty;
            tokio::select! {
                read = output.read(&mut buffer), if open && may_read && on_disk.is_none() => {
                    match read {
                        Ok(0) | Err(_) => self.on_output_closed(),
                        Ok(_) => self.on_output(&buffer),
                    }
                    buffer.clear();
                }
                () = self.clients.wait_for_progress(), if !may_read => {}
                () = wait_for_disk(on_disk.as_ref()), if on_disk.is_some() => {}
                // Reported below.
                () = wait_for_notices(flusher.as_ref()), if flusher.is_some() => {}
                // A closed terminal discards input.
                _ = input.flush(), if open && input.pending() > 0 => {}
                exit = child.wait(), if self.lifecycle.exit().is_none() => self.on_exit(exit),
                Some((stream, is_internal)) = inbox.connections.recv() => self.on_connect(stream, is_internal),
                Some((client, event)) = inbox.client_events.recv() => self.on_client_event(client, event),
                Some(request) = inbox.snapshot_requests.recv() => self.take_snapshot(request).await,
                Some(request) = inbox.owner_requests.recv() => match request {
                    OwnerRequest::Stop => self.stop(),
                    OwnerRequest::Repair => self.repair(),
                },
                () = sleep_until(timer), if timer.is_some() => self.on_timer().await,
            }
            self.clients.set_accepts_input(
                !self.lifecycle.is_output_open() || self.pty.input.pending() < MAX_PENDING_INPUT,
            );
            self.report_faults();
        }
        self.finish(inbox).await
    }

    fn should_wait_for_ack(&mut self) -> bool {
        let (has_subscribed, has_connecting) = (self.clients.has_subscribed(), self.clients.has_connecting());
        self.exit_ack.should_wait(Listeners { has_subscribed, has_connecting }, Instant::now())
    }

    /// Cleans up after clients that were disconnected.
    fn remove_disconnected(&mut self) {
        for client in self.clients.take_disconnected() {
            self.on_disconnect(client);
        }
    }

    fn on_output(&mut self, bytes: &[u8]) {
        let at = self.clock.now();
        let off = self.pump.offset();
        self.pump.output(at, bytes);
        self.backlog.push(bytes);
        if self.clients.has_subscribed() {
            let mut frames = Vec::with_capacity(bytes.len() + 64);
            encode_output(at, off, bytes, &mut frames);
            self.clients.broadcast_frames(frames);
        }
    }

    /// Records the end of the output. Clients are notified after everything is written, see [`Session::finish`].
    fn on_output_closed(&mut self) {
        self.lifecycle.on_output_closed();
        self.pty.input.discard();
    }

    fn on_exit(&mut self, exit: ExitStatus) {
        self.lifecycle.on_exit(exit, Instant::now());
        self.clients.broadcast(&HostEvent::Exited(exit));
    }

    /// Takes a snapshot: drains the output, writes, syncs, then confirms.
    async fn take_snapshot(&mut self, request: SnapshotRequest) {
        self.drain().await;
        let SnapshotRequest { id, label, reply } = request;
        self.last_snapshot = self.last_snapshot.max(id);
        let (at, anchor) = (self.clock.now(), self.pump.offset());
        let dropped = self.dropped_records();
        self.pump.snapshot(at, id, &label);
        if self.dropped_records() != dropped {
            let outage = self.flusher.as_ref().and_then(Flusher::outage);
            let reason = outage.unwrap_or_else(|| "its record was dropped".to_string());
            let _ = reply.send(Response::Error { message: format!("cannot record the snapshot: {reason}") });
            return;
        }
        let event = HostEvent::Snapshot { at, id, anchor, label: label.clone() };
        self.clients.broadcast(&event);
        self.backlog.mark(event);
        let store = match (self.flusher.clone(), self.metadata.unrecorded()) {
            (Some(flusher), _) => SnapshotStore::Recording(flusher),
            (None, Some(file)) => SnapshotStore::Unrecorded(file),
            (None, None) => SnapshotStore::None,
        };
        tokio::spawn(async move {
            let confirmed = store.confirm(id, label, anchor, at).await;
            // The requester may be gone; the snapshot stays.
            let _ = reply.send(match confirmed {
                Ok(()) => Response::Success { id, anchor, at_ns: at.0 },
                Err(message) => Response::Error { message },
            });
        });
    }

    /// Returns the number of records that the recorder has dropped.
    fn dropped_records(&self) -> u64 {
        self.flusher.as_ref().map_or(0, Flusher::dropped_records)
    }

    /// Reads what the program has written so far.
    async fn drain(&mut self) {
        let mut bytes = Vec::new();
        let drained = self.pty.output.drain(&mut bytes, SNAPSHOT_DRAIN).await;
        if !bytes.is_empty() {
            self.on_output(&bytes);
        }
        if self.lifecycle.is_output_open() && !matches!(drained, Ok(false)) {
            self.on_output_closed();
        }
    }

    /// Creates deleted or damaged files of the host again.
    fn repair(&mut self) {
        self.repairs.send_replace(());
        if let Err(error) = self.metadata.repair() {
            self.add_fault(format!("cannot write the host's entry: {error}"));
        }
        if let Some(flusher) = self.flusher.clone() {
            let events = self.clients.event_sender();
            // A hanging disk must not block access to the terminal.
            tokio::spawn(async move {
                if let Err(error) = flusher.restore_file().await {
                    // Fails only when the host has ended.
                    let _ = events.send((NO_CLIENT, ClientEvent::NotRestored(error))).await;
                }
            });
        }
    }

    async fn on_timer(&mut self) {
        let now = Instant::now();
        while let Some(action) = self.lifecycle.next_action(now) {
            match action {
                Action::Drain => {
                    self.drain().await;
                    self.on_output_closed();
                }
                Action::Signal(signal) => self.pty.control.signal(signal),
                Action::GiveUp => self.on_output_closed(),
            }
        }
    }

    fn report_faults(&mut self) {
        for message in self.pump.take_failures() {
            self.add_fault(message);
        }
    }

    /// Records a non-fatal failure and notifies clients.
    fn add_fault(&mut self, message: String) {
        self.clients.broadcast(&HostEvent::Fault(message.clone()));
        self.faults.push(message);
    }
}

async fn wait_for_disk(flusher: Option<&Flusher>) {
    match flusher {
        Some(flusher) => flusher.room().await,
        None => std::future::pending().await,
    }
}

async fn wait_for_notices(flusher: Option<&Flusher>) {
    match flusher {
        Some(flusher) => flusher.noticed().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
