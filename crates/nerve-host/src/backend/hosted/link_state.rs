//! The connection to a host: connecting, replaying the recording, live, and what follows when the connection or the host is
//! gone.

use std::io;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::super::BackendEvent;
use super::super::pty::{Control, ESCALATION};
use super::recording::{RecordedItem, read_recording};
use super::{CatchUp, HostedBackend, ProgramState, Role};
use crate::connection::Connection;
use crate::protocol::HostRequest;
use crate::registry::{self, Entry};

/// Time for connecting to a living host before a fault is reported.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between connection attempts, and between checks for the end of an orphaned program.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Pause before reconnecting to a host that accepts no more clients.
const FULL_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Since this protocol version a host's backlog includes size changes and snapshots.
const VERSION_WITH_MARKS: u32 = 2;

/// Connection to the host.
#[derive(Debug)]
pub(super) enum LinkState {
    Connecting(AbortOnDropHandle<io::Result<Connection>>),
    /// Reads the recording from an output byte on, then continues with the connection, if there is one.
    Replaying(mpsc::Receiver<RecordedItem>, u64, Option<Connection>),
    Live(Connection),
    Closed,
}

impl HostedBackend {
    pub(super) fn on_connected(&mut self, mut connection: Connection) {
        let terminal = connection.terminal.take();
        self.terminal =
            terminal.and_then(|terminal| Control::from_descriptor(terminal, connection.hello.child).ok());
        let hello = &connection.hello;
        self.was_typed |= hello.was_typed;
        let (total, new) = hello.faults_after(self.reported.faults);
        self.events.extend(new.iter().cloned().map(BackendEvent::Fault));
        self.reported.faults = total;
        self.reported.unreachable = false;
        let is_catching_up = self.catch_up != CatchUp::Done;
        if is_catching_up {
            self.catch_up = CatchUp::Until(hello.off);
        }
        // The window and input take effect while the recording is still being read.
        if let Role::Viewer(window) = self.role {
            HostRequest::View(window).enqueue(&mut self.requests);
        }
        // The recording has size changes and snapshots; the backlog of an older host has only output.
        let backlog_suffices = self.role != Role::Driver && hello.version >= VERSION_WITH_MARKS;
        let past = is_catching_up && self.off == 0 && hello.off > 0 && !backlog_suffices;
        if (past || hello.oldest > self.off)
            && hello.recording.is_some()
            && self.skip_target(hello.off).is_none()
        {
            let (path, to) = (hello.recording.clone().unwrap_or_default(), hello.recorded);
            self.link = LinkState::Replaying(read_recording(path, self.off, to), self.off, Some(connection));
        } else {
            self.go_live(connection);
        }
    }

    pub(super) fn go_live(&mut self, connection: Connection) {
        match self.skip_target(connection.hello.off) {
            Some(off) => HostRequest::Subscribe { off, allow_gap: true }.enqueue(&mut self.requests),
            None => {
                let allow_gap = connection.hello.recording.is_none() || self.replay_exhausted;
                HostRequest::Subscribe { off: self.off, allow_gap }.enqueue(&mut self.requests);
            }
        }
        self.link = LinkState::Live(connection);
        self.check_caught_up();
    }

    /// Retries a living host. Reads what is missing from the recording of one that is gone.
    pub(super) fn on_connect_failed(&mut self, error: &io::Error) {
        if error.kind() == io::ErrorKind::QuotaExceeded && self.role != Role::Driver {
            self.link = LinkState::Closed;
            self.events.push_back(BackendEvent::Lost(error.to_string()));
            return;
        }
        if self.entry.is_alive() {
            if !std::mem::replace(&mut self.reported.unreachable, true) {
                let (id, pid) = (&self.entry.id, self.entry.pid);
                self.events.push_back(BackendEvent::Fault(format!(
                    "its host (pid {pid}) does not respond: {error}; 'nerve host stop {id}' ends it"
                )));
            }
            let full = error.kind() == io::ErrorKind::QuotaExceeded;
            self.link =
                LinkState::connecting(&self.entry, if full { FULL_RETRY_INTERVAL } else { Duration::ZERO });
            return;
        }
        if let Some(entry) = registry::entry(&self.registry, &self.entry.id) {
            // The entry may contain the exit status by now.
            self.entry = entry;
        }
        self.disconnect_reason = error.to_string();
        match &self.entry.recording {
            Some(path) => {
                self.link =
                    LinkState::Replaying(read_recording(path.clone(), self.off, None), self.off, None);
            }
            None => self.on_host_gone(),
        }
    }

    /// Reports the end of a host that is gone.
    pub(super) fn on_host_gone(&mut self) {
        self.link = LinkState::Closed;
        if std::mem::replace(&mut self.catch_up, CatchUp::Done) != CatchUp::Done {
            self.events.push_back(BackendEvent::CaughtUp);
        }
        // Closing our descriptor closes the program's terminal.
        self.terminal = None;
        match (self.program, self.entry.exit) {
            (ProgramState::Running, Some(exit)) => {
                self.events.extend([BackendEvent::Exited(exit), BackendEvent::Closed]);
            }
            (ProgramState::Running, None) => {
                let (pid, reason) = (self.entry.pid, &self.disconnect_reason);
                let message = format!("its host (pid {pid}) is gone, and its program with it: {reason}");
                self.events.push_back(BackendEvent::Lost(message));
                if self.role == Role::Driver {
                    tokio::spawn(end_program(self.entry.clone()));
                }
            }
            (ProgramState::Exited, _) => self.events.push_back(BackendEvent::Closed),
            (ProgramState::Ended, _) => {}
        }
        self.remove_entry();
    }

    /// Reconnects after the connection broke.
    pub(super) fn on_disconnect(&mut self, why: &str) {
        if self.program == ProgramState::Ended {
            self.link = LinkState::Closed;
            self.remove_entry();
            return;
        }
        if !self.requests.is_empty() {
            let message = format!("{} bytes of requests to the host may be lost: {why}", self.requests.len());
            self.events.push_back(BackendEvent::Fault(message));
            // A request may have been sent in part, and no other frame must follow a torn one.
            self.requests.clear();
        }
        self.link = LinkState::connecting(&self.entry, Duration::ZERO);
    }

    /// Continues from the recording when the host's backlog no longer covers our position.
    pub(super) fn on_behind(&mut self, recorded: Option<u64>) {
        let LinkState::Live(connection) = std::mem::replace(&mut self.link, LinkState::Closed) else {
            return;
        };
        match (&connection.hello.recording, recorded) {
            (Some(path), Some(to)) if to > self.off && self.skip_target(to).is_none() => {
                let items = read_recording(path.clone(), self.off, Some(to));
                self.link = LinkState::Replaying(items, self.off, Some(connection));
            }
            _ => {
                let off = recorded.and_then(|to| self.skip_target(to)).unwrap_or(self.off);
                HostRequest::Subscribe { off, allow_gap: true }.enqueue(&mut self.requests);
                self.link = LinkState::Live(connection);
            }
        }
    }
}

impl LinkState {
    /// Starts to connect after a pause.
    pub(super) fn connecting(entry: &Entry, pause: Duration) -> LinkState {
        let control = entry.runtime.join(crate::CONTROL);
        let entry = entry.clone();
        LinkState::Connecting(AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let deadline = Instant::now() + CONNECT_TIMEOUT;
            loop {
                let opened = tokio::time::timeout_at(deadline, Connection::open(&control)).await;
                match opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    // Out of descriptors, or about to end: retry until the deadline.
                    Err(error)
                        if error.kind() != io::ErrorKind::QuotaExceeded
                            && entry.is_alive()
                            && Instant::now() < deadline =>
                    {
                        tokio::time::sleep(RETRY_INTERVAL).await;
                    }
                    connected => return connected,
                }
            }
        })))
    }
}

/// Ends the program of a host that is gone. It has lost its terminal and may ignore that.
async fn end_program(entry: Entry) {
    for (signal, pause) in ESCALATION {
        entry.signal_child(signal);
        let deadline = Instant::now() + pause;
        while entry.has_child() && Instant::now() < deadline {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}
