//! A terminal in a host process, reached over the host's control socket.
//!
//! A host outlives its clients. A new client reads the recording from the start and continues with the connection at the byte
//! where it ends. After a broken connection it reconnects in the same way.

mod events;
mod link_state;
mod recording;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nerve_types::Foreground;
use nerve_types::{Origin, Size, TsNs};
use rustix::process::Signal;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use self::link_state::LinkState;
use self::recording::RecordedItem;
use super::pty::{Control, WRITE_LIMIT};
use super::{Backend, BackendEvent, Lease, Memory};
use crate::connection::Connection;
use crate::protocol::{CHUNK, HostRequest, Window};
use crate::registry::Entry;

/// Time between exit and end of output. The host has a shorter limit of its own; this one is for a hanging disk.
const DRAIN: Duration = Duration::from_secs(10);
/// Limit of earlier output read before live output with `latest_only`, in bytes. About the size of a host's backlog.
const MAX_CATCH_UP: u64 = 4 << 20;
/// Bytes read with `latest_only` when more than [`MAX_CATCH_UP`] are missing.
const KEPT_TAIL: u64 = 512 << 10;
/// Input within this time counts as typing in progress.
const TYPING_TIMEOUT: Duration = Duration::from_secs(2);

/// A terminal in a host process.
#[derive(Debug)]
pub struct HostedBackend {
    entry: Entry,
    registry: PathBuf,
    link: LinkState,
    terminal: Option<Control>,
    /// Encoded requests that are not sent yet.
    requests: VecDeque<u8>,
    /// Reason for a missing connection.
    disconnect_reason: String,
    /// Output bytes reported so far.
    off: u64,
    output: Vec<u8>,
    catch_up: CatchUp,
    /// The recording does not contain what is missing.
    replay_exhausted: bool,
    events: VecDeque<BackendEvent>,
    reported: Reported,
    program: ProgramState,
    role: Role,
    /// Skip old output if there is too much of it.
    latest_only: bool,
    /// Time and source of the latest input of another client.
    last_input: Option<(Instant, Origin)>,
    /// A client had typed when we connected.
    was_typed: bool,
}

/// The reports so far, so that none is repeated after a reconnect.
#[derive(Debug, Default)]
struct Reported {
    /// Whether a fault says that the living host does not respond.
    unreachable: bool,
    /// Number of the host's faults.
    faults: usize,
    /// Time of the latest snapshot; earlier ones are duplicates.
    last_snapshot: TsNs,
}

/// The state of the program that was reported last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgramState {
    Running,
    /// The program has exited; output may follow.
    Exited,
    /// The program has exited and its output has ended.
    Ended,
}

/// The report of output from before we connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CatchUp {
    /// Complete, or not requested.
    Done,
    /// Begins with the host's greeting.
    Pending,
    /// Ends at this output byte.
    Until(u64),
}

/// Our relation to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// We drive the terminal: we acknowledge the exit and remove the entry of a host that is gone.
    Driver,
    /// We display a terminal that another client drives.
    Viewer(Window),
}

impl HostedBackend {
    /// Connects to a host that was just started.
    pub fn drive(entry: Entry, registry: PathBuf) -> HostedBackend {
        HostedBackend::new(entry, registry, CatchUp::Done, Role::Driver)
    }

    /// Drives a host over an open connection. Later ones go through the control socket.
    pub(crate) fn drive_over(entry: Entry, registry: PathBuf, stream: UnixStream) -> HostedBackend {
        let connecting = AbortOnDropHandle::new(tokio::spawn(Connection::handshake(stream)));
        let link = LinkState::Connecting(connecting);
        HostedBackend::with_link(link, entry, registry, CatchUp::Done, Role::Driver)
    }

    /// Takes over a host, or what a host that is gone has left. Reports everything up to now first, then
    /// [`BackendEvent::CaughtUp`].
    pub fn adopt(entry: Entry, registry: PathBuf) -> HostedBackend {
        HostedBackend::new(entry, registry, CatchUp::Pending, Role::Driver)
    }

    /// Connects as a viewer. Reports everything up to now first, then [`BackendEvent::CaughtUp`].
    pub fn view(entry: Entry, registry: PathBuf, window: Window) -> HostedBackend {
        HostedBackend::new(entry, registry, CatchUp::Pending, Role::Viewer(window))
    }

    /// Changes the window of a viewer.
    pub fn set_window(&mut self, window: Window) {
        if self.role != Role::Viewer(window) && !matches!(self.link, LinkState::Closed) {
            self.role = Role::Viewer(window);
            // Otherwise it is sent when the connection is established.
            if matches!(self.link, LinkState::Live(_) | LinkState::Replaying(_, _, Some(_))) {
                HostRequest::View(window).enqueue(&mut self.requests);
            }
        }
    }

    /// Stops the program and the host.
    pub fn stop(&mut self) {
        HostRequest::Stop.enqueue(&mut self.requests);
    }

    fn new(entry: Entry, registry: PathBuf, catch_up: CatchUp, role: Role) -> HostedBackend {
        let link = LinkState::connecting(&entry, Duration::ZERO);
        HostedBackend::with_link(link, entry, registry, catch_up, role)
    }

    fn with_link(
        link: LinkState,
        entry: Entry,
        registry: PathBuf,
        catch_up: CatchUp,
        role: Role,
    ) -> HostedBackend {
        HostedBackend {
            link,
            entry,
            registry,
            terminal: None,
            requests: VecDeque::new(),
            disconnect_reason: String::new(),
            off: 0,
            output: Vec::new(),
            catch_up,
            replay_exhausted: false,
            events: VecDeque::new(),
            reported: Reported::default(),
            program: ProgramState::Running,
            role,
            latest_only: false,
            last_input: None,
            was_typed: false,
        }
    }

    /// Skips output that is far behind ([`BackendEvent::Skipped`]), so that the display is current even after a flood.
    #[must_use]
    pub fn latest_only(self) -> HostedBackend {
        HostedBackend { latest_only: true, ..self }
    }

    /// Returns the output offset to continue at if output has to be skipped. `written`: output bytes so far.
    fn skip_target(&self, written: u64) -> Option<u64> {
        let is_far_behind = self.latest_only && written.saturating_sub(self.off) > MAX_CATCH_UP;
        is_far_behind.then(|| written.saturating_sub(KEPT_TAIL))
    }

    /// Removes what is left of the host if we drive it.
    fn remove_entry(&self) {
        if self.role == Role::Driver {
            self.entry.forget(&self.registry);
        }
    }
}

impl HostRequest {
    fn enqueue(&self, requests: &mut VecDeque<u8>) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        requests.extend(bytes);
    }
}

impl Backend for HostedBackend {
    async fn next(&mut self) -> BackendEvent {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            match &mut self.link {
                LinkState::Connecting(connecting) => match connecting.await {
                    Ok(Ok(connection)) => self.on_connected(connection),
                    Ok(Err(error)) => self.on_connect_failed(&error),
                    Err(error) => self.on_connect_failed(&io::Error::other(error)),
                },
                LinkState::Replaying(items, from, connection) => {
                    match recording::next(items, connection.as_mut(), &mut self.requests).await {
                        Some(RecordedItem::Output { off, bytes }) => {
                            if let Some(event) = self.output_at(off, bytes) {
                                return event;
                            }
                        }
                        Some(RecordedItem::Event(BackendEvent::Snapshot(snapshot))) => {
                            if let Some(event) = self.snapshot(snapshot) {
                                return event;
                            }
                        }
                        Some(RecordedItem::Event(BackendEvent::Exited(exit))) => {
                            // Reported after everything is read.
                            self.entry.exit.get_or_insert(exit);
                        }
                        Some(RecordedItem::Event(event)) => return event,
                        None => match connection.take() {
                            Some(connection) => {
                                self.replay_exhausted = *from == self.off;
                                self.go_live(connection);
                            }
                            None => self.on_host_gone(),
                        },
                    }
                }
                LinkState::Live(connection) => {
                    let event = match connection.next_buffered() {
                        Ok(event) => event,
                        Err(error) => {
                            self.on_disconnect(&error.to_string());
                            continue;
                        }
                    };
                    if let Some(event) = event {
                        if let Some(event) = self.on_host_event(event) {
                            return event;
                        }
                        continue;
                    }
                    match connection.exchange(&mut self.requests).await {
                        Ok(true) => {}
                        Ok(false) => self.on_disconnect("the host closed the connection"),
                        Err(error) => self.on_disconnect(&error.to_string()),
                    }
                }
                LinkState::Closed => std::future::pending().await,
            }
        }
    }

    fn output(&self) -> &[u8] {
        &self.output
    }

    fn write(&mut self, _now: TsNs, bytes: &[u8], origin: Origin) -> bool {
        if matches!(self.link, LinkState::Closed) || self.requests.len() + bytes.len() > WRITE_LIMIT {
            return false;
        }
        for chunk in bytes.chunks(CHUNK) {
            HostRequest::Input { origin, bytes: chunk.to_vec() }.enqueue(&mut self.requests);
        }
        if let LinkState::Live(connection) = &mut self.link {
            connection.try_send(&mut self.requests);
        }
        true
    }

    fn queued_input(&self) -> usize {
        self.requests.len()
    }

    fn resize(&mut self, _now: TsNs, size: Size) -> io::Result<()> {
        if matches!(self.link, LinkState::Closed) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        HostRequest::Resize(size).enqueue(&mut self.requests);
        Ok(())
    }

    fn resize_refusal(&self) -> Option<&'static str> {
        Some(
            "the windows of its viewers determine the size; change it after they have left, or with 'nerve attach --size mine'",
        )
    }

    fn signal(&self, signal: Signal) {
        match &self.terminal {
            Some(terminal) => terminal.signal(signal),
            None => {
                self.entry.signal_child(signal);
                // The host is unresponsive; it ends its program and itself once it continues.
                let _ = self.entry.signal(Signal::TERM);
            }
        }
    }

    fn foreground(&self, detailed: bool, shells: &[String]) -> Foreground {
        self.terminal.as_ref().map_or(Foreground::Unknown, |terminal| terminal.foreground(detailed, shells))
    }

    fn drain_time(&self) -> Duration {
        DRAIN
    }

    fn pid(&self) -> Option<i32> {
        Some(self.entry.child)
    }

    fn hides_input(&self) -> bool {
        self.terminal.as_ref().is_some_and(Control::hides_input)
    }

    fn remember(&mut self, memory: &Memory) {
        // Cannot fail: the fields are plain data.
        HostRequest::Remember(serde_json::to_value(memory).unwrap_or_default()).enqueue(&mut self.requests);
    }

    fn was_typed(&self) -> bool {
        self.was_typed
    }

    fn release(&mut self) -> bool {
        true
    }

    fn lease(&mut self, now: TsNs) -> Lease {
        let Some((at, origin)) = self.last_input else { return Lease::Free };
        match TYPING_TIMEOUT.checked_sub(at.elapsed()) {
            Some(left) if !left.is_zero() => {
                let by = match origin {
                    Origin::Injected => "another client with 'nerve host write'",
                    Origin::User | Origin::Api | Origin::Terminal => "a person at the terminal",
                };
                Lease::Held { by: by.to_string(), until: now + left }
            }
            Some(_) | None => {
                self.last_input = None;
                Lease::Free
            }
        }
    }
}
