//! A pane of tmux as a backend, connected through control mode.
//!
//! tmux owns the terminal and outlives us. A broken connection is re-established: missed output becomes a gap in the recording,
//! and the current screen is taken over.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nerve_host::backend::PaneError;
use nerve_host::backend::pty::READ_LIMIT;
use nerve_host::backend::{Backend, BackendEvent, Lease, Memory};
use nerve_host::clock::Clock;
use nerve_host::pump::Pump;
use nerve_host::recorder::Flusher;
use nerve_types::Foreground;
use nerve_types::os::{ProcessExit, start_time};
use nerve_types::{ExitStatus, Origin, Size, TsNs};
use rustix::process::Signal;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::attach::{Attachment, attach_pane};
use super::client::Tmux;
use super::control::ControlConnection;
use super::details::PaneDetails;
use super::exit_status::{self, ExitTracker};
use super::input::{BLOCKED, Input};
use super::input_lease::{self, InputLease};
use super::parser::{ControlMessage, size_in};
use super::query_queue::{Query, QueryQueue};
use super::quoting::CommandArgs;
use super::quoting::command;
use crate::handover::Resources;
use crate::pane::{Claim, PaneEntry, Panes};
use crate::tty;

/// Time between exit and end of output.
const DRAIN: Duration = Duration::from_secs(2);
/// Interval of status queries if the system cannot report the exit.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Limit of muted panes.
const MAX_MUTED: usize = 10_000;
/// Limit of reconnects in quick succession.
const MAX_RECONNECTS: u32 = 5;
/// A connection that lasted this long resets the count of reconnects.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// A pane of tmux.
#[derive(Debug)]
pub struct TmuxPane {
    clock: Clock,
    tmux: Tmux,
    panes: Panes,
    entry: PaneEntry,
    link: LinkState,
    target: PaneTarget,
    pump: Pump,
    flusher: Option<Flusher>,
    /// Exclusive right to drive the pane.
    claim: Option<Claim>,
    size: Size,
    output: Vec<u8>,
    events: VecDeque<BackendEvent>,
    input: Input,
    queries: QueryQueue,
    input_lease: InputLease,
    muted: HashSet<u32>,
    exit_tracker: ExitTracker,
    /// A stop has detached us.
    detached: bool,
}

/// Connection to the pane.
#[derive(Debug)]
enum LinkState {
    Connecting(AbortOnDropHandle<Result<AttachedConnection, AttachError>>),
    Live(Box<ControlConnection>),
    /// The recording is being completed; then the last event is reported.
    Closing(JoinHandle<Option<String>>, Option<BackendEvent>),
    Closed,
}

/// Properties of the pane, known after the first connection.
#[derive(Debug, Default)]
struct PaneTarget {
    number: u32,
    tty: Option<PathBuf>,
    /// Becomes readable when the program exits.
    exit: Option<ProcessExit>,
    connected_at: Option<Instant>,
    attempts: u32,
}

/// A new connection to the pane.
#[derive(Debug)]
pub(super) struct AttachedConnection {
    pub(super) attachment: Attachment,
    /// Set when a server attaches for the first time.
    pub(super) resources: Option<Resources>,
}

/// Error of attaching.
#[derive(Debug)]
pub(super) struct AttachError {
    /// The message.
    pub(super) reason: String,
    /// The pane no longer exists, so its entry is removed.
    pub(super) gone: bool,
}

/// The parts from which a backend is created.
pub(super) struct PaneParts {
    pub(super) tmux: Tmux,
    pub(super) panes: Panes,
    pub(super) entry: PaneEntry,
}

impl TmuxPane {
    /// Creates the backend over an open connection.
    pub(super) fn live(parts: PaneParts, attachment: Attachment, resources: Resources) -> TmuxPane {
        let mut pane = TmuxPane::new(parts, LinkState::Closed);
        pane.on_attached(AttachedConnection { attachment, resources: Some(resources) }, false);
        pane
    }

    /// Creates the backend for the pane of a server that is gone.
    pub(super) fn adopt(
        parts: PaneParts,
        connecting: impl Future<Output = Result<AttachedConnection, AttachError>> + Send + 'static,
    ) -> TmuxPane {
        let task = AbortOnDropHandle::new(tokio::spawn(connecting));
        TmuxPane::new(parts, LinkState::Connecting(task))
    }

    fn new(parts: PaneParts, link: LinkState) -> TmuxPane {
        let PaneParts { tmux, panes, entry } = parts;
        TmuxPane {
            clock: Clock::start(),
            tmux,
            panes,
            link,
            target: PaneTarget::default(),
            pump: Pump::default(),
            flusher: None,
            claim: None,
            size: Size::default(),
            output: Vec::new(),
            events: VecDeque::new(),
            input: Input::new(&entry.pane, entry.pid),
            queries: QueryQueue::default(),
            input_lease: InputLease::default(),
            muted: HashSet::new(),
            exit_tracker: ExitTracker::default(),
            detached: false,
            entry,
        }
    }

    /// Continues with a new connection and reports the screen as output. `missed`: output before the connection is lost.
    fn on_attached(&mut self, attached: AttachedConnection, missed: bool) {
        let Attachment { control, details, screen } = attached.attachment;
        let now = self.clock.now();
        let is_first = attached.resources.is_some();
        if let Some(resources) = attached.resources {
            (self.pump, self.flusher, self.claim) =
                (resources.pump, resources.flusher, Some(resources.claim));
            self.events.extend(resources.faults.into_iter().map(BackendEvent::Fault));
            if self.pump.offset() > 0 {
                self.events.push_back(BackendEvent::Skipped(self.pump.offset()));
            }
        }
        self.target = PaneTarget {
            number: details.number,
            tty: details.tty.clone(),
            exit: details.pid.and_then(tty::process_exit),
            connected_at: Some(Instant::now()),
            attempts: self.target.attempts,
        };
        if missed {
            self.pump.gap(now);
        }
        if is_first || details.size != self.size {
            self.on_resize(details.size);
        }
        self.pump.output(now, &screen);
        self.output = screen;
        self.events.push_back(BackendEvent::Output);
        if is_first && missed {
            self.events.push_back(BackendEvent::CaughtUp);
        }
        self.link = LinkState::Live(Box::new(control));
        self.input.unblock();
        // Waiters may query again.
        self.events.push_back(BackendEvent::LeaseChanged);
        if self.target.exit.is_none() {
            self.query_exit();
        }
    }

    fn on_resize(&mut self, size: Size) {
        self.size = size;
        self.pump.resize(self.clock.now(), size);
        self.events.push_back(BackendEvent::Resized(size));
    }

    /// Sends the commands of a query, and a last one that marks the end of their replies.
    fn query(&mut self, query: Query, commands: &[CommandArgs]) {
        let LinkState::Live(control) = &mut self.link else { return };
        for args in commands {
            control.send(args);
        }
        control.send(&["display-message", "-p", &self.queries.push(query)]);
    }

    fn query_size(&mut self, requested: bool) {
        let args = ["display-message", "-p", "-t", &self.entry.pane, "#{pane_width} #{pane_height}"];
        self.query(Query::Size { requested }, &[command(&args)]);
    }

    fn query_exit(&mut self) {
        if !self.queries.contains(Query::Liveness) && !self.exit_tracker.is_reported() {
            self.query(Query::Liveness, &[exit_status::query(&self.entry.pane)]);
        }
    }

    fn on_message(&mut self, message: ControlMessage) {
        match message {
            ControlMessage::Output { pane, bytes } if pane == self.target.number => self.output.extend(bytes),
            ControlMessage::Output { pane, .. } => self.mute(pane),
            ControlMessage::Reply { ours: true, text } => self.on_reply(text),
            ControlMessage::Reply { ours: false, .. } => {}
            ControlMessage::ModeChanged { pane } if pane == self.target.number => {
                self.input.unblock();
                self.events.push_back(BackendEvent::LeaseChanged);
            }
            ControlMessage::ModeChanged { .. } => {}
            ControlMessage::LayoutChanged { visible } => match size_in(&visible, self.target.number) {
                Some((cols, rows)) => {
                    let size = Size::new(cols, rows);
                    if size != self.size {
                        self.on_resize(size);
                    }
                    // Borders with a title take a row from the size in the layout.
                    self.query_size(false);
                }
                None => self.query_exit(),
            },
            ControlMessage::PanesChanged => self.query_exit(),
            ControlMessage::Exit(why) => self.on_disconnect(&why),
        }
    }

    /// Stops the output of another pane. `pause` does not block its program; `off` would if no client is attached.
    fn mute(&mut self, pane: u32) {
        if self.muted.len() < MAX_MUTED && self.muted.insert(pane) {
            let args = ["refresh-client", "-A", &format!("%{pane}:pause")];
            self.query(Query::Ignored, &[command(&args)]);
        }
    }

    fn on_reply(&mut self, text: Result<Vec<u8>, String>) {
        let Some((query, replies)) = self.queries.on_reply(text) else { return };
        match query {
            Query::Input => self.on_input_done(&replies),
            Query::InputLease => {
                self.input_lease.update(self.clock.now(), &replies, &self.entry.pane);
                self.events.push_back(BackendEvent::LeaseChanged);
            }
            Query::Size { requested } => self.on_size(requested, &replies),
            Query::Liveness => self.on_exit_reply(&replies),
            Query::Ignored => {}
        }
    }

    fn on_input_done(&mut self, replies: &[Result<String, String>]) {
        let blocked = replies.iter().any(|reply| reply.as_deref() == Ok(BLOCKED));
        if let Some(Err(error)) = replies.iter().find(|reply| reply.is_err()) {
            self.events.push_back(BackendEvent::Fault(format!("tmux did not send input: {error}")));
        }
        self.input.on_done(blocked);
        if blocked {
            // Another program may have been started in the pane.
            self.query_exit();
        }
    }

    fn on_size(&mut self, requested: bool, replies: &[Result<String, String>]) {
        let actual = replies.iter().flatten().find_map(|text| {
            let (cols, rows) = text.split_once(' ')?;
            Some(Size::new(cols.parse().ok()?, rows.parse().ok()?))
        });
        if let Some(Err(error)) = replies.iter().find(|reply| reply.is_err()) {
            self.events.push_back(BackendEvent::Fault(format!("tmux did not resize the pane: {error}")));
        }
        match actual {
            Some(size) if size != self.size => self.on_resize(size),
            // The requester gets an answer in any case.
            _ if requested => self.events.push_back(BackendEvent::Resized(self.size)),
            _ => {}
        }
    }

    fn on_exit_reply(&mut self, replies: &[Result<String, String>]) {
        match self.exit_tracker.evaluate(Instant::now(), replies, self.entry.pid) {
            exit_status::Verdict::Alive => {}
            exit_status::Verdict::Ended => self.on_exit(),
            exit_status::Verdict::Gone => self.on_gone(self.gone_reason()),
        }
    }

    /// Reports the end of the program. Its exit status is unknown.
    fn on_exit(&mut self) {
        self.exit_tracker.report();
        self.forget();
        self.events.push_back(BackendEvent::Exited(ExitStatus::Unknown));
        self.finish(BackendEvent::Closed);
    }

    /// Completes the recording, then reports the last event.
    fn finish(&mut self, last: BackendEvent) {
        let (pump, entry, ended) = (std::mem::take(&mut self.pump), self.entry.clone(), self.clock.now());
        let panes = self.panes.clone();
        let closing = tokio::task::spawn_blocking(move || close(pump, &panes, &entry, ended));
        self.link = LinkState::Closing(closing, Some(last));
    }

    /// Reports that the pane is gone.
    fn on_gone(&mut self, why: String) {
        if self.exit_tracker.is_reported() {
            return self.finish(BackendEvent::Closed);
        }
        self.exit_tracker.report();
        self.forget();
        self.finish(BackendEvent::Lost(why));
    }

    fn gone_reason(&self) -> String {
        format!("pane {} is gone: its program ended, or it was closed", self.entry.pane)
    }

    fn forget(&mut self) {
        self.panes.forget(&self.entry);
        self.claim = None;
    }

    /// Reconnects after the connection ended.
    fn on_disconnect(&mut self, why: &str) {
        if self.exit_tracker.is_reported() {
            return self.finish(BackendEvent::Closed);
        }
        let lost = self.input.clear();
        if lost > 0 {
            let message = format!("{lost} bytes of input may be lost: the connection to tmux broke: {why}");
            self.events.push_back(BackendEvent::Fault(message));
        }
        self.queries.clear();
        self.muted.clear();
        self.input_lease = InputLease::default();
        if self.target.connected_at.is_some_and(|at| at.elapsed() > STABLE_AFTER) {
            self.target.attempts = 0;
        }
        self.target.attempts += 1;
        let (tmux, entry, attempts) = (self.tmux.clone(), self.entry.clone(), self.target.attempts);
        self.link = LinkState::Connecting(AbortOnDropHandle::new(tokio::spawn(async move {
            if attempts > MAX_RECONNECTS {
                let why = "the connection breaks repeatedly".to_string();
                return Err(AttachError { reason: why, gone: false });
            }
            Ok(AttachedConnection { attachment: reattach(&tmux, &entry).await?, resources: None })
        })));
    }

    fn on_attach_failed(&mut self, attach_error: &AttachError) {
        let is_first = self.target.connected_at.is_none();
        if is_first {
            self.events.push_back(BackendEvent::CaughtUp);
        }
        if attach_error.gone && !is_first {
            return self.on_gone(attach_error.reason.clone());
        }
        self.exit_tracker.report();
        if attach_error.gone {
            self.forget();
        }
        self.finish(BackendEvent::Lost(attach_error.reason.clone()));
    }

    /// Collects buffered output into one event; other messages follow later.
    fn gather_output(&mut self) {
        while self.events.is_empty() && self.output.len() < READ_LIMIT {
            let LinkState::Live(control) = &mut self.link else { return };
            match control.try_next() {
                Some(message @ (ControlMessage::Output { .. } | ControlMessage::Reply { .. })) => {
                    self.on_message(message)
                }
                Some(other) => return control.push_front(other),
                None => return,
            }
        }
    }

    /// Sends queued input to tmux.
    fn send_input(&mut self) {
        if matches!(self.link, LinkState::Live(_))
            && !self.exit_tracker.has_process_exited()
            && let Some(commands) = self.input.next_commands()
        {
            self.query(Query::Input, &commands);
        }
    }
}

/// Connects to a pane again if it is still the same.
pub(super) async fn reattach(tmux: &Tmux, entry: &PaneEntry) -> Result<Attachment, AttachError> {
    let pane = &entry.pane;
    let is_gone = |error: &PaneError| matches!(error, PaneError::NoPane(_) | PaneError::NoServer(_));
    let attach_error = |error: PaneError| {
        let why = match &error {
            PaneError::NoServer(_) => format!("pane {pane} is gone with its tmux server"),
            PaneError::NoPane(_) => format!("pane {pane} is gone: it was closed"),
            error => format!("pane {pane} cannot be reached: {error}"),
        };
        AttachError { reason: why, gone: is_gone(&error) }
    };
    let details = tmux.details(pane).await.map_err(attach_error)?;
    if let Some(what) = replacement_reason(&details, entry) {
        return Err(AttachError { reason: format!("pane {pane} is gone: {what}"), gone: true });
    }
    attach_pane(tmux, details).await.map_err(attach_error)
}

/// Returns why a pane is no longer the same.
fn replacement_reason(details: &PaneDetails, entry: &PaneEntry) -> Option<&'static str> {
    if entry.server.is_some() && details.server != entry.server {
        return Some("another tmux server is running now");
    }
    let started = || details.pid.and_then(start_time);
    let is_other = details.pid != entry.pid || entry.started.is_some() && started() != entry.started;
    (entry.pid.is_some() && is_other).then_some("another program runs in it")
}

impl Backend for TmuxPane {
    async fn next(&mut self) -> BackendEvent {
        loop {
            self.events.extend(self.pump.take_failures().into_iter().map(BackendEvent::Fault));
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            self.output.clear();
            self.send_input();
            let retry_at = self.exit_tracker.retry_at();
            match &mut self.link {
                LinkState::Connecting(connecting) => match connecting.await {
                    Ok(Ok(attached)) => self.on_attached(attached, true),
                    Ok(Err(attach_error)) => self.on_attach_failed(&attach_error),
                    Err(error) => {
                        self.on_attach_failed(&AttachError { reason: error.to_string(), gone: false })
                    }
                },
                LinkState::Live(control) => {
                    let on_disk = self.flusher.as_ref().filter(|flusher| !flusher.has_room());
                    let poll_at = match retry_at {
                        Some(at) => at,
                        None if self.target.exit.is_none() => Instant::now() + POLL_INTERVAL,
                        None => Instant::now() + nerve_host::clock::MAX_TIMEOUT,
                    };
                    let exit = self.target.exit.as_ref().filter(|_| !self.exit_tracker.has_process_exited());
                    tokio::select! {
                        message = control.next(), if on_disk.is_none() => match message {
                            Ok(message) => self.on_message(message),
                            Err(error) => self.on_disconnect(&error.to_string()),
                        },
                        () = wait_for_disk(on_disk), if on_disk.is_some() => {}
                        () = wait_exit(exit), if exit.is_some() => {
                            self.exit_tracker.on_process_exit(Instant::now());
                            self.query_exit();
                        }
                        () = tokio::time::sleep_until(poll_at) => {
                            self.exit_tracker.clear_retry();
                            self.query_exit();
                        }
                    }
                    self.gather_output();
                    if !self.output.is_empty() {
                        self.pump.output(self.clock.now(), &self.output);
                        return BackendEvent::Output;
                    }
                }
                LinkState::Closing(closing, last) => {
                    let failed = closing.await.unwrap_or_else(|error| Some(error.to_string()));
                    self.events.extend(failed.map(BackendEvent::Fault));
                    self.events.extend(last.take());
                    self.link = LinkState::Closed;
                }
                LinkState::Closed => std::future::pending().await,
            }
        }
    }

    fn output(&self) -> &[u8] {
        &self.output
    }

    fn write(&mut self, now: TsNs, bytes: &[u8], origin: Origin) -> bool {
        let attached = !matches!(self.link, LinkState::Closed)
            && !self.exit_tracker.is_reported()
            && self.input.push(bytes);
        if attached {
            let hidden = self.hides_input();
            self.pump.input(now, bytes, origin, hidden);
        }
        attached
    }

    fn queued_input(&self) -> usize {
        self.input.queued_input()
    }

    fn resize(&mut self, _now: TsNs, size: Size) -> io::Result<()> {
        if !matches!(self.link, LinkState::Live(_)) {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "not connected to tmux"));
        }
        let (cols, rows) = (size.cols.to_string(), size.rows.to_string());
        let pane = &self.entry.pane;
        let to = format!("-t {pane} -x {cols} -y {rows}");
        let is_alone = "#{==:#{window_panes},1}";
        let resize = format!("if-shell -F -t {pane} '{is_alone}' 'resize-window {to}' 'resize-pane {to}'");
        let is_same = match self.entry.pid {
            Some(pid) => format!("#{{==:#{{pane_pid}},{pid}}}"),
            None => "1".to_string(),
        };
        let size = ["display-message", "-p", "-t", &self.entry.pane, "#{pane_width} #{pane_height}"];
        let resize = ["if-shell", "-F", "-t", &self.entry.pane, &is_same, &resize];
        let commands = [command(&resize), command(&size)];
        self.query(Query::Size { requested: true }, &commands);
        Ok(())
    }

    /// Does nothing: the program is not ours.
    fn signal(&self, _signal: Signal) {}

    fn foreground(&self, detailed: bool, shells: &[String]) -> Foreground {
        self.entry.pid.map_or(Foreground::Unknown, |pid| tty::foreground(pid, detailed, shells))
    }

    fn hides_input(&self) -> bool {
        self.target.tty.as_deref().is_some_and(tty::hides_input)
    }

    fn remember(&mut self, memory: &Memory) {
        self.entry.memory = memory.clone();
        if self.exit_tracker.is_reported() {
            return;
        }
        if let Err(error) = self.panes.store(&self.entry) {
            self.events.push_back(BackendEvent::Fault(format!("cannot write the pane's entry: {error}")));
        }
    }

    fn drain_time(&self) -> Duration {
        DRAIN
    }

    fn pid(&self) -> Option<i32> {
        self.entry.pid
    }

    fn release(&mut self) -> bool {
        true
    }

    fn lease(&mut self, now: TsNs) -> Lease {
        if !matches!(self.link, LinkState::Live(_)) {
            // A new connection reports it.
            return Lease::Pending;
        }
        if let Some(lease) = self.input_lease.take(now) {
            return lease;
        }
        if !self.queries.contains(Query::InputLease) {
            let commands = input_lease::queries(&self.entry.pane);
            self.query(Query::InputLease, &commands);
        }
        Lease::Pending
    }

    fn is_foreign(&self) -> bool {
        true
    }

    /// Detaches from the pane.
    fn end(&mut self, _signal: Signal) {
        if !std::mem::replace(&mut self.detached, true) && !self.exit_tracker.is_reported() {
            self.on_exit();
        }
    }
}

impl Drop for TmuxPane {
    fn drop(&mut self) {
        let pump = std::mem::take(&mut self.pump);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // Dropping the pump waits for the disk.
            runtime.spawn_blocking(|| drop(pump));
        }
    }
}

/// Completes a recording and its metadata. Returns an error message.
fn close(mut pump: Pump, panes: &Panes, entry: &PaneEntry, ended: TsNs) -> Option<String> {
    pump.exit(ended, ExitStatus::Unknown);
    drop(pump);
    panes
        .finish_recording(entry, ExitStatus::Unknown, ended)
        .err()
        .map(|error| format!("cannot write the exit to the metadata: {error}"))
}

async fn wait_for_disk(on_disk: Option<&Flusher>) {
    match on_disk {
        Some(flusher) => flusher.room().await,
        None => std::future::pending().await,
    }
}

/// Waits for a process to exit.
async fn wait_exit(process: Option<&ProcessExit>) {
    match process {
        // On an error, tmux is queried as after an exit.
        Some(process) => drop(process.wait().await),
        None => std::future::pending().await,
    }
}
