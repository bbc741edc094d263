//! What a live viewer shows: a host's terminal, kept here from the bytes that everybody gets.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_core::backend::{Backend, BackendEvent, HostedBackend, Memory};
use nerve_core::clock::Clock;
use nerve_core::host::protocol::Window;
use nerve_core::host::registry::Entry;
use nerve_term::event::{ExitStatus, Origin, Size, TsNs};
use nerve_term::keys::Input;
use nerve_term::terminal::{Notice, TerminalState};
use tokio::time::Instant;

use super::agent_monitor::AgentMonitor;
use super::osc_passthrough::OscPassthrough;
use super::size_rule::SizeRule;

/// How long output is taken without a pause, and how much at most: more is shown with the next frame, so that keys are heard in between
/// and another terminal has its turn.
const MAX_SLICE_TIME: Duration = Duration::from_millis(4);
const MAX_SLICE_BYTES: usize = 512 * 1024;
/// How long the last keys may take to the host.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Something to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MirrorEvent {
    /// The terminal or the agent's state is another than before.
    Changed,
    /// The program's title is another one.
    Title,
    /// The program rings.
    Bell,
    /// The program has ended, and everything it wrote is there. Comes once.
    Ended(ExitStatus),
    /// Something went wrong that the session outlives, in words.
    Fault(String),
}

/// See the module.
pub(crate) struct TerminalMirror {
    entry: Entry,
    host: HostedBackend,
    rule: SizeRule,
    /// As whose what is typed here is recorded.
    origin: Origin,
    clock: Clock,
    terminal: TerminalState,
    agent: AgentMonitor,
    title: String,
    passthrough: OscPassthrough,
    /// Nothing was before we came: what the program said then is for us.
    is_owner: bool,
    /// What was before we came is still read.
    catching_up: bool,
    changed: bool,
    events: VecDeque<MirrorEvent>,
    exit: Option<ExitStatus>,
    /// [`MirrorEvent::Ended`] was told, or waits to be.
    has_ended: bool,
    /// Some of its output is not in the terminal.
    has_gap: bool,
}

impl std::fmt::Debug for TerminalMirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("host", &self.entry.id)
            .field("over", &self.has_ended)
            .finish_non_exhaustive()
    }
}

impl TerminalMirror {
    /// Looks at a host, whose entry is in `registry`, through a window with room for a program of `size`. `profiles`: the user's own
    /// ones. The connection is made by [`TerminalMirror::next`]. Must be called on a runtime.
    ///
    /// # Errors
    /// No profile fits the program.
    pub(crate) fn open(
        entry: Entry,
        registry: &Path,
        profiles: Option<&Path>,
        rule: SizeRule,
        size: Option<Size>,
    ) -> Result<TerminalMirror> {
        let (profiles, errors) = nerve_core::profiles::load(profiles);
        let clock = Clock::start();
        let agent =
            AgentMonitor::new(&entry, &profiles, clock.now()).context("no profile fits the program")?;
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
            events: errors.iter().map(|error| MirrorEvent::Fault(error.to_string())).collect(),
            exit: None,
            has_ended: false,
            has_gap: false,
            entry,
        })
    }

    /// The same for somebody who sits in front of another terminal: what is typed is recorded as injected.
    #[must_use]
    pub(crate) fn as_injected(self) -> TerminalMirror {
        TerminalMirror { origin: Origin::Injected, ..self }
    }

    /// The same for whoever has started the program: all that it says is for him.
    #[must_use]
    pub(crate) fn as_owner(self) -> TerminalMirror {
        TerminalMirror { is_owner: true, ..self }
    }

    /// For a terminal that may have been flooded: what is now is shown before what was ([`HostedBackend::latest_only`]).
    #[must_use]
    pub(crate) fn latest(self) -> TerminalMirror {
        TerminalMirror { host: self.host.latest_only(), ..self }
    }

    /// The recording of what is over, if the terminal does not have all of it.
    pub(crate) fn incomplete_recording(&self) -> Option<&Path> {
        let is_told = self.has_ended && !self.changed && self.events.is_empty();
        self.entry.recording.as_deref().filter(|_| is_told && self.has_gap)
    }

    /// What there was to be seen in the end.
    pub(crate) fn into_terminal(self) -> TerminalState {
        self.terminal
    }

    /// Waits for what is to be seen next; several outputs are one. May be dropped and called again: nothing is lost. Waits for ever
    /// after [`MirrorEvent::Ended`].
    ///
    /// # Errors
    /// None today: what breaks is told as [`MirrorEvent::Fault`], and [`MirrorEvent::Ended`] if there is nothing more to come.
    pub(crate) async fn next(&mut self) -> Result<MirrorEvent> {
        loop {
            if let Some(seen) = self.take_event() {
                return Ok(seen);
            }
            if self.has_ended {
                return std::future::pending().await;
            }
            let due = self.due();
            let timer = tokio::time::sleep_until(self.clock.instant(due.unwrap_or_default()));
            tokio::select! {
                happened = self.host.next() => self.handle_backend_event(happened),
                () = timer, if due.is_some() => self.handle_timer(),
            }
            self.drain_backend().await;
        }
    }

    /// What was found and not told yet.
    fn take_event(&mut self) -> Option<MirrorEvent> {
        // The end is seen after what came before it.
        let ended = matches!(self.events.front(), Some(MirrorEvent::Ended(_)));
        if (ended || self.events.is_empty()) && std::mem::take(&mut self.changed) {
            return Some(MirrorEvent::Changed);
        }
        self.events.pop_front()
    }

    /// What else has happened already, to a limit.
    async fn drain_backend(&mut self) {
        let (limit, until) =
            (self.terminal.offset() + MAX_SLICE_BYTES as u64, Instant::now() + MAX_SLICE_TIME);
        while !self.has_ended && self.terminal.offset() < limit && Instant::now() < until {
            tokio::select! {
                biased;
                happened = self.host.next() => self.handle_backend_event(happened),
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
            // Of panes, which have no host.
            BackendEvent::PlaceChanged | BackendEvent::FinalScreen(_) | BackendEvent::LeaseChanged => {}
        }
    }

    fn handle_output(&mut self) {
        let now = self.clock.now();
        // Its questions are for whoever drives it.
        let changes = self.terminal.process_data(now, self.host.output());
        self.agent.output(now, self.terminal.offset(), &changes.notices);
        // What rang and was said before we came has been heard, or not.
        let is_past = self.catching_up && !self.is_owner;
        self.passthrough.add(&changes.notices, is_past);
        let rings = !is_past && changes.notices.contains(&Notice::Bell);
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

    // ---- What is shown ----

    /// The terminal.
    pub(crate) fn terminal(&self) -> &TerminalState {
        &self.terminal
    }

    /// What was before we came is still read.
    pub(crate) fn is_catching_up(&self) -> bool {
        self.catching_up
    }

    /// What the program has said to the terminal since this was asked last.
    pub(super) fn take_passthrough(&mut self) -> OscPassthrough {
        std::mem::take(&mut self.passthrough)
    }

    /// What the agent does, and how that is known, in words.
    pub(crate) fn state(&self) -> (&'static str, String) {
        self.agent.state()
    }

    /// The program tells what it runs as it happens.
    pub(crate) fn reports_tools(&self) -> bool {
        self.agent.reports_tools()
    }

    /// What is known of the host.
    pub(crate) fn entry(&self) -> &Entry {
        &self.entry
    }

    // ---- What is asked of it ----

    /// What the person at this window does, as the program wants it. `false` if too much waits already, or nobody is there to read:
    /// nothing was taken.
    pub(crate) fn send(&mut self, input: &Input) -> bool {
        self.send_as(input, self.origin)
    }

    /// The same for what comes from somewhere else.
    pub(crate) fn send_as(&mut self, input: &Input, origin: Origin) -> bool {
        // What a terminal tells of itself is nobody's typing: nobody has to wait for its end.
        let origin = match input {
            Input::Key(_) | Input::Paste(_) => origin,
            Input::Mouse(_) | Input::Focus(_) => Origin::Terminal,
        };
        let bytes = input.bytes(self.terminal.modes());
        bytes.is_empty() || (!self.has_ended && self.host.write(self.clock.now(), &bytes, origin))
    }

    /// Waits until what was typed is with the host: before a viewer leaves that has just been typed into. Not for long, if the host does
    /// not take it.
    pub(crate) async fn flush(&mut self) {
        let flushed = async {
            while self.host.waiting() > 0 && !self.has_ended {
                tokio::select! {
                    biased;
                    happened = self.host.next() => self.handle_backend_event(happened),
                    () = tokio::task::yield_now() => {}
                }
            }
        };
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, flushed).await;
    }

    /// The window has room for a program of this size now.
    pub(crate) fn set_size(&mut self, size: Size) {
        self.host.set_window(self.rule.window(size));
    }

    /// Orders the end of the program; [`TerminalMirror::next`] sends it, and tells when it has ended.
    pub(crate) fn stop(&mut self) {
        self.host.stop();
    }
}

#[cfg(test)]
mod tests;
