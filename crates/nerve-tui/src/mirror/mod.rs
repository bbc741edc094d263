//! A local copy of a host's terminal, built from its output.

mod agent_monitor;
mod osc_passthrough;
mod size_rule;

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use nerve_agent::profile::Profiles;
use nerve_host::backend::{Backend, BackendEvent, HostedBackend, Memory};
use nerve_host::clock::Clock;
use nerve_host::protocol::Window;
use nerve_host::registry::Entry;
use nerve_types::{ExitStatus, Origin, Size, TsNs};
use nerve_vt::keys::Input;
use nerve_vt::terminal::{Alert, TerminalState};
use tokio::time::Instant;

use self::agent_monitor::AgentMonitor;
pub(crate) use self::osc_passthrough::{MAX_CLIPBOARD, OscPassthrough};
pub use self::size_rule::SizeRule;
use crate::TuiError;

/// Limits of a burst of output handled at once. The rest is shown in the next frame, so that keys are handled in
/// between.
const MAX_SLICE_TIME: Duration = Duration::from_millis(4);
const MAX_SLICE_BYTES: usize = 512 * 1024;
/// Time limit for the host to accept the last keys.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A change to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorEvent {
    /// The terminal or the agent's state has changed.
    Changed,
    /// The title has changed.
    Title,
    /// The bell rang.
    Bell,
    /// The program has ended and all its output was read. Sent once.
    Ended(ExitStatus),
    /// A problem that the session survives.
    Fault(String),
}

/// A host's terminal, with the state of the agent in it.
pub struct TerminalMirror {
    entry: Entry,
    host: HostedBackend,
    rule: SizeRule,
    /// Origin recorded for typed input.
    origin: Origin,
    clock: Clock,
    terminal: TerminalState,
    agent: AgentMonitor,
    title: String,
    passthrough: OscPassthrough,
    /// True if this viewer started the program, so that earlier notifications are for it too.
    is_owner: bool,
    /// Older output is still being read.
    catching_up: bool,
    changed: bool,
    events: VecDeque<MirrorEvent>,
    exit: Option<ExitStatus>,
    /// [`MirrorEvent::Ended`] was sent or is queued.
    has_ended: bool,
    /// Part of the output is missing in the terminal.
    has_gap: bool,
}

impl std::fmt::Debug for TerminalMirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TerminalMirror")
            .field("host", &self.entry.id)
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}

impl TerminalMirror {
    /// Opens the host with this entry in `registry`, in a window with room for `size`. [`TerminalMirror::next`] makes
    /// the connection. Must be called on a runtime.
    ///
    /// # Errors
    /// None of the profiles matches the program.
    pub fn open(
        entry: Entry,
        registry: &Path,
        profiles: &Profiles,
        rule: SizeRule,
        size: Option<Size>,
    ) -> Result<TerminalMirror, TuiError> {
        let clock = Clock::start();
        let agent = AgentMonitor::new(&entry, profiles, clock.now()).ok_or(TuiError::NoProfile)?;
        let window = size.map_or(Window::Keep, |size| rule.window(size));
        Ok(TerminalMirror {
            host: HostedBackend::view(entry.clone(), registry.to_path_buf(), window),
            rule,
            origin: Origin::User,
            clock,
            terminal: TerminalState::new(Size::new(entry.cols, entry.rows)),
            agent,
            title: String::new(),
            passthrough: OscPassthrough::default(),
            is_owner: false,
            catching_up: true,
            changed: false,
            events: VecDeque::new(),
            exit: None,
            has_ended: false,
            has_gap: false,
            entry,
        })
    }

    /// Reports these problems first.
    #[must_use]
    pub fn with_faults(mut self, faults: impl IntoIterator<Item = String>) -> TerminalMirror {
        self.events.extend(faults.into_iter().map(MirrorEvent::Fault));
        self
    }

    /// Records typed input as injected, because the user is at another terminal.
    #[must_use]
    pub fn with_injected_input(self) -> TerminalMirror {
        TerminalMirror { origin: Origin::Injected, ..self }
    }

    /// Passes on everything the program has sent to the terminal since its start.
    #[must_use]
    pub fn for_owner(self) -> TerminalMirror {
        TerminalMirror { is_owner: true, ..self }
    }

    /// Shows the latest screen before older output, for terminals that may have been flooded ([`HostedBackend::latest_only`]).
    #[must_use]
    pub fn latest(self) -> TerminalMirror {
        TerminalMirror { host: self.host.latest_only(), ..self }
    }

    /// Returns the recording of an ended program if the terminal lacks part of its output.
    pub(crate) fn incomplete_recording(&self) -> Option<&Path> {
        let is_reported = self.has_ended && !self.changed && self.events.is_empty();
        self.entry.recording.as_deref().filter(|_| is_reported && self.has_gap)
    }

    /// Returns the terminal.
    pub(crate) fn into_terminal(self) -> TerminalState {
        self.terminal
    }

    /// Returns the next change; several outputs count as one. Cancel-safe. Pending for ever after
    /// [`MirrorEvent::Ended`].
    pub async fn next(&mut self) -> MirrorEvent {
        loop {
            if let Some(seen) = self.take_event() {
                return seen;
            }
            if self.has_ended {
                return std::future::pending().await;
            }
            let due = self.due();
            let timer = tokio::time::sleep_until(self.clock.instant(due.unwrap_or_default()));
            tokio::select! {
                event = self.host.next() => self.handle_backend_event(event),
                () = timer, if due.is_some() => self.handle_timer(),
            }
            self.drain_backend().await;
        }
    }

    /// Returns a queued event.
    fn take_event(&mut self) -> Option<MirrorEvent> {
        // The end is reported after the output before it.
        let ended = matches!(self.events.front(), Some(MirrorEvent::Ended(_)));
        if (ended || self.events.is_empty()) && std::mem::take(&mut self.changed) {
            return Some(MirrorEvent::Changed);
        }
        self.events.pop_front()
    }

    /// Handles further events that are ready, up to a limit.
    async fn drain_backend(&mut self) {
        let (limit, until) =
            (self.terminal.offset() + MAX_SLICE_BYTES as u64, Instant::now() + MAX_SLICE_TIME);
        while !self.has_ended && self.terminal.offset() < limit && Instant::now() < until {
            tokio::select! {
                biased;
                event = self.host.next() => self.handle_backend_event(event),
                () = std::future::ready(()) => return,
            }
        }
    }

    fn handle_backend_event(&mut self, event: BackendEvent) {
        match event {
            BackendEvent::Output => self.handle_output(),
            BackendEvent::Resized(size) => {
                self.changed |= self.terminal.size() != size;
                self.terminal.resize(size);
                self.agent.schedule_check();
            }
            BackendEvent::Snapshot(snapshot) => {
                self.terminal.record_snapshot(snapshot);
                self.changed = true;
            }
            BackendEvent::CaughtUp => self.handle_caught_up(),
            BackendEvent::Skipped(offset) => {
                self.terminal.skip_to(offset);
                self.has_gap = true;
            }
            BackendEvent::Exited(exit) => {
                self.exit = Some(exit);
                self.agent.exited(self.clock.now(), exit);
                self.changed = true;
            }
            BackendEvent::Closed => self.handle_end(),
            BackendEvent::Fault(message) => self.events.push_back(MirrorEvent::Fault(message)),
            BackendEvent::Lost(message) | BackendEvent::Gone(message) => {
                self.events.push_back(MirrorEvent::Fault(message));
                self.handle_end();
            }
            // Events of panes, which have no host.
            BackendEvent::PlaceChanged | BackendEvent::LeaseChanged => {}
        }
    }

    fn handle_output(&mut self) {
        let now = self.clock.now();
        // The host answers the program's terminal queries.
        let changes = self.terminal.process_data(now, self.host.output());
        self.agent.output(now, self.terminal.offset(), &changes.alerts);
        // Bells and notifications from before this viewer attached are not repeated.
        let is_past = self.catching_up && !self.is_owner;
        self.passthrough.add(&changes.alerts, is_past);
        let rings = !is_past && changes.alerts.contains(&Alert::Bell);
        if rings && !self.events.contains(&MirrorEvent::Bell) {
            self.events.push_back(MirrorEvent::Bell);
        }
        if self.terminal.title() != self.title {
            self.title = self.terminal.title().to_string();
            if !self.catching_up {
                self.events.push_back(MirrorEvent::Title);
            }
        }
        self.changed = true;
    }

    fn handle_caught_up(&mut self) {
        self.catching_up = false;
        let memory: Memory = serde_json::from_value(self.entry.memory.clone()).unwrap_or_default();
        if memory.was_ready {
            self.agent.taken_over(self.clock.now());
        }
        if !self.title.is_empty() {
            self.events.push_back(MirrorEvent::Title);
        }
        self.changed = true;
        self.agent.check_now(self.clock.now());
    }

    fn handle_end(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.catching_up = false;
            self.terminal.expire_frame(TsNs(u64::MAX));
            self.changed = true;
            self.events.push_back(MirrorEvent::Ended(self.exit.unwrap_or(ExitStatus::Unknown)));
        }
    }

    // ---- Time ----

    fn due(&self) -> Option<TsNs> {
        let look = self.agent.due().filter(|_| !self.catching_up);
        look.into_iter().chain(self.terminal.frame_deadline()).min()
    }

    fn handle_timer(&mut self) {
        let now = self.clock.now();
        let due = |at: Option<TsNs>| at.is_some_and(|at| at <= now);
        if due(self.terminal.frame_deadline()) {
            self.terminal.expire_frame(now);
            self.changed = true;
            self.agent.schedule_check();
        }
        if !self.catching_up && due(self.agent.due()) {
            self.changed |= self.agent.check(now, &self.terminal, &self.host);
        }
    }

    // ---- State ----

    /// Returns the terminal.
    pub fn terminal(&self) -> &TerminalState {
        &self.terminal
    }

    /// Returns true while older output is being read.
    pub(crate) fn is_catching_up(&self) -> bool {
        self.catching_up
    }

    /// Takes the notifications, clipboard texts and progress since the last call.
    pub(crate) fn take_passthrough(&mut self) -> OscPassthrough {
        std::mem::take(&mut self.passthrough)
    }

    /// Returns the agent's state and its evidence for display.
    pub fn state(&self) -> (&'static str, String) {
        self.agent.state()
    }

    /// Returns true if the agent reports its tools as they run.
    pub(crate) fn reports_tools(&self) -> bool {
        self.agent.reports_tools()
    }

    /// Returns the host's entry.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    // ---- Requests ----

    /// Sends input in the form the program expects. Returns false if the queue is full or the program has ended;
    /// nothing was sent then.
    pub fn send(&mut self, input: &Input) -> bool {
        self.send_as(input, self.origin)
    }

    /// Sends input with another origin.
    pub(crate) fn send_as(&mut self, input: &Input, origin: Origin) -> bool {
        // Mouse and focus reports are not typing, so they do not take the input lease.
        let origin = match input {
            Input::Key(_) | Input::Paste(_) => origin,
            Input::Mouse(_) | Input::Focus(_) => Origin::Terminal,
        };
        let bytes = input.bytes(self.terminal.modes());
        bytes.is_empty() || (!self.has_ended && self.host.write(self.clock.now(), &bytes, origin))
    }

    /// Waits briefly until the host has accepted all typed input.
    pub async fn flush(&mut self) {
        let flushed = async {
            while self.host.queued_input() > 0 && !self.has_ended {
                tokio::select! {
                    biased;
                    event = self.host.next() => self.handle_backend_event(event),
                    () = tokio::task::yield_now() => {}
                }
            }
        };
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, flushed).await;
    }

    /// Sets the size that the window has room for.
    pub(crate) fn set_size(&mut self, size: Size) {
        self.host.set_window(self.rule.window(size));
    }

    /// Requests the program's end, which [`TerminalMirror::next`] reports.
    pub fn stop(&mut self) {
        self.host.stop();
    }
}

#[cfg(test)]
mod tests;
