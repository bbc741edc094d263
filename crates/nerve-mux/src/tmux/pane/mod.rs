//! A pane of tmux as a backend, connected through control mode.
//!
//! tmux owns the terminal and outlives us. A broken connection is re-established: missed output becomes a gap in the recording,
//! and the current screen is taken over.

mod backend;
mod link;

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use nerve_host::backend::BackendEvent;
use nerve_host::backend::pty::READ_LIMIT;
use nerve_host::clock::Clock;
use nerve_host::pump::Pump;
use nerve_host::recorder::Flusher;
use nerve_types::os::ProcessExit;
use nerve_types::{ExitStatus, Size, TsNs};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub(super) use self::link::{AttachError, AttachedConnection, reattach};

use self::link::LinkState;
use super::attach::Attachment;
use super::client::Tmux;
use super::exit_status::{self, ExitTracker};
use super::input::{BLOCKED, Input};
use super::input_lease::InputLease;
use super::parser::{ControlMessage, size_in};
use super::query_queue::{Query, QueryQueue};
use super::quoting::CommandArgs;
use super::quoting::command;
use crate::handover::Resources;
use crate::pane::{Claim, PaneEntry, Panes};
use crate::tty;

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
        let completing = tokio::task::spawn_blocking(move || close(pump, &panes, &entry, ended));
        self.link = LinkState::Closing { completing, last_event: Some(last) };
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
