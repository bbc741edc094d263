//! A terminal in a host process: bytes come over its control socket, and from its recording what came before.
//!
//! A host outlives us. Taking one over means reading its recording from the start and going on with the connection at that byte;
//! a connection that breaks while the host lives is made again the same way.

mod events;
mod link_state;
mod recording;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nerve_term::driver::Foreground;
use nerve_term::event::{Origin, Size, TsNs};
use rustix::process::Signal;
use tokio::time::Instant;

use self::link_state::LinkState;
use self::recording::RecordedItem;
use super::pty::{Control, WRITE_LIMIT};
use super::{Backend, BackendEvent, Lease, Memory};
use crate::host::protocol::{CHUNK, HostRequest, Window};
use crate::host::registry::Entry;

/// A host has a limit of its own for output after the end, and then writes the rest of its recording: this one is for a disk that
/// hangs.
const DRAIN: Duration = Duration::from_secs(10);
/// Output that is read before what comes now is shown, to who wants to see that: bytes, about what a host has in memory.
const MAX_CATCH_UP: u64 = 4 << 20;
/// Of more than that, so much is read: many screens, and a moment's work.
const KEPT_TAIL: u64 = 512 << 10;
/// Who has typed within this time is at it.
const TYPING_TIMEOUT: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub struct HostedBackend {
    entry: Entry,
    registry: PathBuf,
    link: LinkState,
    terminal: Option<Control>,
    /// Orders on their way.
    requests: VecDeque<u8>,
    /// Output bytes handed out so far.
    off: u64,
    /// What came before we did is over at this byte; not known before the host has greeted.
    caught_up_at: Option<u64>,
    catching_up: bool,
    output: Vec<u8>,
    events: VecDeque<BackendEvent>,
    exited: bool,
    closed: bool,
    /// Why there is no connection.
    disconnect_reason: String,
    /// It was told that a living host does not answer.
    unreachable_reported: bool,
    /// The recording does not have what is missing.
    replay_exhausted: bool,
    /// How many of the host's faults were told.
    faults_reported: usize,
    /// When the last snapshot that was told was taken: what comes twice is told once.
    last_snapshot: TsNs,
    role: Role,
    /// What is now counts more than what was.
    latest_only: bool,
    /// When somebody else has typed last, and who.
    last_input: Option<(Instant, Origin)>,
}

/// What the host is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Ours: we see its program's end, and clear away what is left of it.
    Driver,
    /// Somebody else's, which we look at through a window and type into.
    Viewer(Window),
}

impl HostedBackend {
    /// Drives a host that was just started.
    pub fn drive(entry: Entry, registry: PathBuf) -> HostedBackend {
        HostedBackend::new(entry, registry, false, Role::Driver)
    }

    /// Takes over a host that somebody else has driven before, or what one that is gone has left. Everything up to now comes
    /// first, and then [`BackendEvent::CaughtUp`].
    pub fn adopt(entry: Entry, registry: PathBuf) -> HostedBackend {
        HostedBackend::new(entry, registry, true, Role::Driver)
    }

    /// Looks at a host that somebody else drives, beside others who do. Everything up to now comes first, and then
    /// [`BackendEvent::CaughtUp`].
    pub fn view(entry: Entry, registry: PathBuf, window: Window) -> HostedBackend {
        HostedBackend::new(entry, registry, true, Role::Viewer(window))
    }

    /// Another window for a host that is looked at.
    pub fn set_window(&mut self, window: Window) {
        if self.role != Role::Viewer(window) && !matches!(self.link, LinkState::Closed) {
            self.role = Role::Viewer(window);
            // Said with the next greeting otherwise.
            if matches!(self.link, LinkState::Live(_) | LinkState::Replaying(_, _, Some(_))) {
                HostRequest::View(window).enqueue(&mut self.requests);
            }
        }
    }

    /// Asks for the end of the program and of the host.
    pub fn stop(&mut self) {
        HostRequest::Stop.enqueue(&mut self.requests);
    }

    fn new(entry: Entry, registry: PathBuf, catching_up: bool, role: Role) -> HostedBackend {
        HostedBackend {
            link: LinkState::connecting(&entry, Duration::ZERO),
            entry,
            registry,
            terminal: None,
            requests: VecDeque::new(),
            off: 0,
            caught_up_at: None,
            catching_up,
            output: Vec::new(),
            events: VecDeque::new(),
            exited: false,
            closed: false,
            disconnect_reason: String::new(),
            unreachable_reported: false,
            replay_exhausted: false,
            faults_reported: 0,
            last_snapshot: TsNs(0),
            role,
            latest_only: false,
            last_input: None,
        }
    }

    /// For who looks at a flood: what is far behind is left out ([`BackendEvent::Skipped`]), so that what is shown is what there is now.
    #[must_use]
    pub fn latest_only(self) -> HostedBackend {
        HostedBackend { latest_only: true, ..self }
    }

    /// From where on the output is wanted, of which there are so many bytes; `None` if all of it is.
    fn skip_target(&self, written: u64) -> Option<u64> {
        let is_far_behind = self.latest_only && written.saturating_sub(self.off) > MAX_CATCH_UP;
        is_far_behind.then(|| written.saturating_sub(KEPT_TAIL))
    }

    /// What is left of the host is ours to clear away.
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
                            // Told when all of it is read.
                            self.entry.exit.get_or_insert(exit.into());
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
                    let event = match connection.decoded() {
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
                        Ok(false) => self.on_disconnect("it closed the connection"),
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
        true
    }

    fn waiting(&self) -> usize {
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
            "the windows of those who look at it set its size; it can be changed when they have left, or by 'nerve attach --size mine'",
        )
    }

    fn signal(&self, signal: Signal) {
        match &self.terminal {
            Some(terminal) => terminal.signal(signal),
            None => {
                self.entry.signal_child(signal);
                // It stands still, and ends its program and itself when it goes on.
                let _ = self.entry.signal(Signal::TERM);
            }
        }
    }

    fn foreground(&self, closely: bool, kin: &[String]) -> Foreground {
        self.terminal.as_ref().map_or(Foreground::Unknown, |terminal| terminal.foreground(closely, kin))
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
        // Plain fields: it cannot fail.
        HostRequest::Remember(serde_json::to_value(memory).unwrap_or_default()).enqueue(&mut self.requests);
    }

    fn release(&mut self) -> bool {
        true
    }

    fn lease(&mut self, now: TsNs) -> Lease {
        let Some((at, origin)) = self.last_input else { return Lease::Free };
        match TYPING_TIMEOUT.checked_sub(at.elapsed()) {
            Some(left) if !left.is_zero() => {
                let by = match origin {
                    Origin::Injected => "somebody with 'nerve host write'",
                    Origin::User | Origin::Api | Origin::Terminal => "somebody in front of it",
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
