//! Converts the events of a host into backend events. Each byte and each snapshot is reported once, even if it arrives again
//! after a reconnect.

use nerve_vt::terminal::Snapshot;
use tokio::time::Instant;

use super::recording::snapshot;
use super::{CatchUp, HostedBackend, LinkState, ProgramState, Role};
use crate::backend::BackendEvent;
use crate::protocol::{HostEvent, HostRequest};

impl HostedBackend {
    pub(super) fn output_at(&mut self, off: u64, mut bytes: Vec<u8>) -> Option<BackendEvent> {
        if off > self.off {
            let message = match self.role {
                Role::Driver => format!("output bytes {}..{off} are lost", self.off),
                Role::Viewer(_) if self.latest_only => {
                    format!(
                        "{} MB of earlier output are not shown while the program runs",
                        (off - self.off) / 1_000_000
                    )
                }
                Role::Viewer(_) if self.off == 0 => {
                    format!("not recorded: the first {off} bytes of output are no longer available")
                }
                Role::Viewer(_) => {
                    format!("output bytes {}..{off} are not shown: the viewer was too slow", self.off)
                }
            };
            self.events.extend([BackendEvent::Fault(message), BackendEvent::Skipped(off)]);
            self.off = off;
            let position = self.events.len();
            if let Some(output) = self.output_at(off, bytes) {
                // The output comes before the events that it causes.
                self.events.insert(position, output);
            }
            return None;
        }
        let repeated = usize::try_from(self.off - off).unwrap_or(usize::MAX).min(bytes.len());
        bytes.drain(..repeated);
        if bytes.is_empty() {
            return None;
        }
        self.off += bytes.len() as u64;
        self.output = bytes;
        self.check_caught_up();
        Some(BackendEvent::Output)
    }

    pub(super) fn check_caught_up(&mut self) {
        if matches!(self.catch_up, CatchUp::Until(end) if self.off >= end) {
            self.catch_up = CatchUp::Done;
            self.events.push_back(BackendEvent::CaughtUp);
        }
    }

    pub(super) fn on_host_event(&mut self, event: HostEvent) -> Option<BackendEvent> {
        match event {
            HostEvent::Output { off, bytes, .. } => self.output_at(off, bytes),
            HostEvent::Resized(size) => Some(BackendEvent::Resized(size)),
            HostEvent::Snapshot { at, id, anchor, label } => self.snapshot(snapshot(at, id, anchor, &label)),
            HostEvent::Fault(message) => {
                self.reported.faults += 1;
                Some(BackendEvent::Fault(message))
            }
            HostEvent::Behind { recorded } => {
                self.on_behind(recorded);
                None
            }
            HostEvent::Exited(exit) => {
                self.program = ProgramState::Exited;
                if self.role == Role::Driver {
                    HostRequest::AckExit.enqueue(&mut self.requests);
                }
                Some(BackendEvent::Exited(exit))
            }
            HostEvent::Closed => {
                // A host reports the exit first.
                if self.program == ProgramState::Exited {
                    self.program = ProgramState::Ended;
                }
                Some(BackendEvent::Closed)
            }
            HostEvent::Typed { origin } => {
                self.last_input = Some((Instant::now(), origin));
                None
            }
            HostEvent::Full(why) => {
                self.link = LinkState::Closed;
                Some(BackendEvent::Lost(why))
            }
            HostEvent::Hello(_) => None,
        }
    }

    /// Reports a snapshot unless it has been reported already.
    pub(super) fn snapshot(&mut self, snapshot: Snapshot) -> Option<BackendEvent> {
        let last = &mut self.reported.last_snapshot;
        let new = snapshot.at > *last;
        *last = snapshot.at.max(*last);
        new.then_some(BackendEvent::Snapshot(snapshot))
    }
}
