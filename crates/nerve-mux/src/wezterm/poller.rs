//! Polls a pane: often while it changes, rarely while it is idle.
//!
//! A poll reads the list and the text, about 20 ms of work each. The kernel counts the bytes a process has written, which costs
//! nothing to check: a program that has written nothing has not changed its screen. The counter only brings polls forward;
//! polls also come by time, because other processes may write to the terminal.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nerve_host::backend::PaneError;
use nerve_types::os::{session_leader, start_time, written_bytes};
use nerve_types::{ExitStatus, Size};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::args::RowRange;
use super::listing::ListedPane;
use super::pane_cache::WeztermServer;
use super::repaint::{Capture, NeedsMore, Repainter};
use super::rows::rows_of;
use super::schedule::PollSchedule;
use crate::handover::Resources;

/// Rows above the screen that are read. The next step is used if there are more rows and they are needed.
const SCROLLBACK_ROWS: [u32; 3] = [120, 1500, 20_000];
/// Maximum age of the shared list while idle.
const IDLE_LIST_AGE: Duration = Duration::from_secs(3);
/// Further reads of a text that changes between its read and that of the cursor.
const MAX_REREADS: u32 = 2;
/// Pause after a failed call.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Failed connections after which the server counts as gone.
const MAX_CONNECT_FAILURES: u32 = 4;
const RECONNECT_INTERVAL: Duration = Duration::from_millis(150);
/// Time after which the pane of a dead program counts as kept (`exit_behavior="Hold"`).
const HOLD_TIMEOUT: Duration = Duration::from_secs(1);

/// An event observed on a pane.
#[derive(Debug)]
pub(super) enum PaneEvent {
    /// The earlier server has released the pane. The poller and the writer begin.
    TakenOver(Box<Resources>),
    /// Another process still drives the pane; the reason.
    NotTakenOver(String),
    /// The size of the pane from here on.
    Size(Size),
    /// Bytes that repaint what has changed.
    Output(Vec<u8>),
    /// The pane was moved, or its focus has changed.
    Place(Vec<(&'static str, String)>),
    /// The initial content has been reported.
    FirstPoll,
    /// The content is as new as the last request in [`SharedState::refresh`].
    Refreshed,
    /// Output before this may be missing.
    Gap,
    /// A non-fatal failure.
    Fault(String),
    /// The program ended; its pane still exists.
    Exited(ExitStatus),
    /// The pane is gone; the reason.
    Gone(String),
}

/// Duration of a poll after which silence is no sign of idleness. Usual are 50 ms.
const SLOW_POLL: Duration = Duration::from_millis(300);

/// State shared by backend, poller and writer.
#[derive(Debug, Default)]
pub(super) struct SharedState {
    /// Poll now: input was sent, or the current content was requested.
    pub(super) wake: Notify,
    /// The current content was requested; [`PaneEvent::Refreshed`] follows.
    pub(super) refresh: AtomicBool,
    /// A turn may end at any moment.
    pub(super) watchful: AtomicBool,
    /// Begin of the first poll since the last successful one.
    pub(super) polling_since: Mutex<Option<Instant>>,
    /// Rows of the pane.
    pub(super) rows: AtomicU16,
    /// Device of its terminal.
    pub(super) tty: OnceLock<PathBuf>,
}

impl SharedState {
    /// Returns true if WezTerm does not respond, so output may be unseen.
    pub(super) fn is_behind(&self) -> bool {
        self.polling_since.lock().is_some_and(|since| since.elapsed() > SLOW_POLL)
    }
}

/// The program in a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    /// Start time; distinguishes it from a later process with the same id.
    pub(super) started: u64,
}

impl Process {
    /// Returns the session leader of the pane's terminal.
    pub(super) fn of(listed: &ListedPane) -> Option<Process> {
        let pid = session_leader(listed.tty.as_deref()?)?;
        Some(Process { pid, started: start_time(pid)? })
    }

    pub(super) fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// The pane to poll.
pub(super) struct PollTarget {
    pub(super) server: Arc<WeztermServer>,
    pub(super) pane: String,
    /// The program in the pane.
    pub(super) process: Option<Process>,
    /// Process id of the program under the previous driver.
    pub(super) expected: Option<i32>,
}

/// Polls one pane.
pub(super) struct Poller {
    target: PollTarget,
    shared: Arc<SharedState>,
    events: mpsc::Sender<PaneEvent>,
    repainter: Repainter,
    listed: Option<ListedPane>,
    /// The step of [`SCROLLBACK_ROWS`] with which a poll begins.
    depth: usize,
    /// Text of the last poll that read it.
    text: Option<String>,
    place: Vec<(&'static str, String)>,
    schedule: PollSchedule,
    connect_failures: u32,
    /// The current failure has been reported.
    fault_reported: bool,
    /// Time at which the program was first dead while its pane still existed.
    dead_since: Option<Instant>,
}

/// Error of a poll.
enum PollError {
    Exited(ExitStatus),
    Gone(String),
    Unavailable(PaneError),
    NoServer,
    /// The receiver of events is closed.
    ReceiverClosed,
}

impl Poller {
    /// Creates a poller.
    pub(super) fn new(
        target: PollTarget,
        repainter: Repainter,
        shared: Arc<SharedState>,
        events: mpsc::Sender<PaneEvent>,
    ) -> Poller {
        Poller {
            target,
            shared,
            events,
            repainter,
            listed: None,
            depth: 0,
            text: None,
            place: Vec::new(),
            schedule: PollSchedule::new(Instant::now()),
            connect_failures: 0,
            fault_reported: false,
            dead_since: None,
        }
    }

    /// Polls until the pane is gone or the receiver is closed.
    pub(super) async fn run(mut self) {
        let mut is_first = true;
        loop {
            let refresh = self.shared.refresh.swap(false, Ordering::Relaxed);
            self.shared.polling_since.lock().get_or_insert_with(Instant::now);
            let polled = self.poll(refresh).await;
            if refresh && polled.is_ok() {
                // Only a prompt requests a refresh.
                self.repainter.mark_prompt();
            }
            if refresh && !(polled.is_ok() && self.send(PaneEvent::Refreshed).await) {
                self.shared.refresh.store(true, Ordering::Relaxed);
            }
            match polled {
                Ok(()) => {
                    let had_failed = self.connect_failures > 0 || self.fault_reported;
                    (self.connect_failures, self.fault_reported) = (0, false);
                    if had_failed && !self.send(PaneEvent::Gap).await {
                        return;
                    }
                    if std::mem::take(&mut is_first) && !self.send(PaneEvent::FirstPoll).await {
                        return;
                    }
                    *self.shared.polling_since.lock() = None;
                    self.wait_for_next_poll().await;
                }
                Err(PollError::Exited(exit)) => {
                    self.send(PaneEvent::Exited(exit)).await;
                    return;
                }
                Err(PollError::Gone(reason)) => {
                    self.send(PaneEvent::Gone(reason)).await;
                    return;
                }
                Err(PollError::NoServer) if self.connect_failures >= MAX_CONNECT_FAILURES => {
                    let reason = "WezTerm's server is gone, and its panes with it".to_string();
                    self.send(PaneEvent::Gone(reason)).await;
                    return;
                }
                Err(PollError::NoServer) => {
                    self.connect_failures += 1;
                    tokio::time::sleep(RECONNECT_INTERVAL).await;
                }
                Err(PollError::Unavailable(error)) => {
                    let is_repeated = std::mem::replace(&mut self.fault_reported, true);
                    let fault = || PaneEvent::Fault(format!("cannot read the pane: {error}"));
                    if !is_repeated && !self.send(fault()).await {
                        return;
                    }
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                Err(PollError::ReceiverClosed) => return,
            }
        }
    }

    async fn send(&self, event: PaneEvent) -> bool {
        self.events.send(event).await.is_ok()
    }

    /// Waits until the next poll is due.
    async fn wait_for_next_poll(&mut self) {
        loop {
            let now = Instant::now();
            let due = self.schedule.due(now, self.is_watchful());
            let wake = self.schedule.next_count(now, self.is_watchful()).map_or(due, |count| count.min(due));
            tokio::select! {
                () = self.shared.wake.notified() => self.schedule.on_input(Instant::now()),
                () = tokio::time::sleep_until(wake) => {}
                () = self.events.closed() => return,
            }
            let now = Instant::now();
            let is_due =
                now >= due || self.shared.refresh.load(Ordering::Relaxed) || self.schedule.has_new_input();
            if is_due || (now >= self.schedule.earliest() && self.has_written()) {
                return;
            }
        }
    }

    fn is_watchful(&self) -> bool {
        self.shared.watchful.load(Ordering::Relaxed)
    }

    fn has_written(&self) -> bool {
        self.schedule.has_written(self.written_bytes())
    }

    fn written_bytes(&self) -> Option<u64> {
        written_bytes(self.target.process?.pid)
    }

    /// Polls once. `refresh`: reads the text in any case.
    async fn poll(&mut self, refresh: bool) -> Result<(), PollError> {
        let now = Instant::now();
        let written = self.has_written() && self.schedule.trusts_counter();
        let at_rest = !refresh && !self.is_watchful() && !self.schedule.is_recent(now) && !written;
        let count = self.written_bytes();
        self.schedule.on_start(now);
        let server = self.target.server.clone();
        let Ok(_turn) = server.poll_permits.acquire().await else { return Err(PollError::ReceiverClosed) };
        if at_rest && self.schedule.has_recent_text(now) {
            let listed = self.list_pane(now.checked_sub(IDLE_LIST_AGE).unwrap_or(now)).await?;
            if self.listed.as_ref().is_some_and(|known| known.has_same_screen(&listed)) {
                self.schedule.on_list(Instant::now());
                return self.on_listed(listed).await;
            }
        }
        let (listed, text) = self.read_capture(now, at_rest).await?;
        self.text = Some(text.clone());
        self.check_process(&listed)?;
        let exit = listed.is_dead.then(|| listed.exit_code.map_or(ExitStatus::Unknown, ExitStatus::Code));
        let exit = exit.or_else(|| self.is_held().then_some(ExitStatus::Unknown));
        self.on_capture(listed, text).await?;
        if let Some(exit) = exit {
            return Err(PollError::Exited(exit));
        }
        self.schedule.on_text(Instant::now(), count);
        Ok(())
    }

    /// Reads list and text until they belong together. `at_rest`: the pane is expected to be unchanged.
    async fn read_capture(&mut self, now: Instant, at_rest: bool) -> Result<(ListedPane, String), PollError> {
        // The list is read after the text, so its cursor is never older.
        let first_text = match &self.listed {
            Some(known) => Some(self.read_text(known.size.rows, SCROLLBACK_ROWS[self.depth]).await?),
            None => None,
        };
        let unchanged = first_text.is_some() && first_text == self.text;
        // If nothing has changed, the shared list suffices.
        let since = if at_rest && unchanged { now.checked_sub(IDLE_LIST_AGE) } else { None };
        let mut listed = self.list_pane(since.unwrap_or_else(Instant::now)).await?;
        let same_size = self.listed.as_ref().is_some_and(|known| known.size == listed.size);
        let mut text = match first_text.filter(|_| same_size) {
            Some(text) => text,
            None => self.read_text(listed.size.rows, SCROLLBACK_ROWS[self.depth]).await?,
        };
        for _ in 0..MAX_REREADS {
            if unchanged && self.listed.as_ref().is_some_and(|known| known.has_same_screen(&listed)) {
                break;
            }
            // The cursor belongs to the text if the text is still the same.
            let later_text = self.read_text(listed.size.rows, SCROLLBACK_ROWS[self.depth]).await?;
            if std::mem::replace(&mut text, later_text) == text {
                break;
            }
            listed = self.list_pane(Instant::now()).await?;
        }
        Ok((listed, text))
    }

    /// Checks at the first poll that the pane still has the program of the previous driver.
    fn check_process(&self, listed: &ListedPane) -> Result<(), PollError> {
        if let (None, Some(expected)) = (&self.listed, self.target.expected)
            && Process::of(listed).is_some_and(|process| process.pid != expected)
        {
            // Another server has reused the pane id.
            return Err(PollError::Gone(self.gone_message()));
        }
        Ok(())
    }

    /// Returns true if the pane outlives its program, and WezTerm does not report that.
    fn is_held(&mut self) -> bool {
        if self.target.process.is_none_or(Process::is_alive) {
            self.dead_since = None;
            return false;
        }
        let now = Instant::now();
        now >= *self.dead_since.get_or_insert(now) + HOLD_TIMEOUT
    }

    async fn on_capture(&mut self, listed: ListedPane, text: String) -> Result<(), PollError> {
        let size = Size::new(listed.size.cols, listed.size.rows);
        let resized = self.listed.as_ref().is_none_or(|known| known.size != listed.size);
        let is_last = |step: usize| step + 1 == SCROLLBACK_ROWS.len();
        let mut step = self.depth;
        let mut bytes = self.repainter.update(capture(&listed, &text, SCROLLBACK_ROWS[step]), is_last(step));
        while bytes == Err(NeedsMore) && !is_last(step) {
            step += 1;
            let text = self.read_text(size.rows, SCROLLBACK_ROWS[step]).await?;
            bytes = self.repainter.update(capture(&listed, &text, SCROLLBACK_ROWS[step]), is_last(step));
        }
        let bytes = bytes.unwrap_or_default();
        let has_gap = resized && self.listed.is_some() || !self.repainter.is_certain();
        if self.repainter.is_line_based() {
            // The next poll needs as many rows.
            self.depth = step;
        }
        self.shared.rows.store(size.rows, Ordering::Relaxed);
        if resized && !self.send(PaneEvent::Size(size)).await {
            return Err(PollError::ReceiverClosed);
        }
        self.on_listed(listed).await?;
        self.schedule.on_screen(Instant::now(), !bytes.is_empty());
        if bytes.is_empty() {
            // No gap, even if the update is uncertain. Equal rows in a scrollback of constant length fit in several places
            // at every poll, even if nothing was written. If rows were lost, the next visible change is uncertain too.
            return Ok(());
        }
        if !self.send(PaneEvent::Output(bytes)).await || has_gap && !self.send(PaneEvent::Gap).await {
            return Err(PollError::ReceiverClosed);
        }
        Ok(())
    }

    /// Stores the listing and reports a changed location.
    async fn on_listed(&mut self, listed: ListedPane) -> Result<(), PollError> {
        let place = listed.place();
        if let Some(tty) = listed.tty.clone() {
            self.shared.tty.get_or_init(|| tty);
        }
        self.listed = Some(listed);
        if place == self.place {
            return Ok(());
        }
        self.place = place.clone();
        if self.send(PaneEvent::Place(place)).await { Ok(()) } else { Err(PollError::ReceiverClosed) }
    }

    async fn list_pane(&self, since: Instant) -> Result<ListedPane, PollError> {
        let panes = self.target.server.list(since).await.map_err(poll_error)?;
        let pane = panes.iter().find(|listed| listed.id() == self.target.pane).cloned();
        // After a restart of WezTerm, another program may have a pane of this id.
        let is_ours = |listed: &ListedPane| match self.target.process {
            Some(process) if !process.is_alive() => Process::of(listed).is_none(),
            _ => true,
        };
        pane.filter(is_ours).ok_or_else(|| PollError::Gone(self.gone_message()))
    }

    async fn read_text(&self, rows: u16, scrollback: u32) -> Result<String, PollError> {
        let range = RowRange::with_scrollback(rows, scrollback);
        match self.target.server.wezterm.text(&self.target.pane, range, true).await {
            Err(PaneError::NoPane(_)) => Err(PollError::Gone(self.gone_message())),
            text => text.map_err(poll_error),
        }
    }

    fn gone_message(&self) -> String {
        format!("WezTerm has no pane {}: its program has ended, or it was closed", self.target.pane)
    }
}

fn poll_error(error: PaneError) -> PollError {
    match error {
        PaneError::NoServer(_) => PollError::NoServer,
        error => PollError::Unavailable(error),
    }
}

/// Converts a listing and a text with up to `scrollback` rows above the screen.
fn capture(listed: &ListedPane, text: &str, scrollback: u32) -> Capture {
    let size = Size::new(listed.size.cols, listed.size.rows);
    let mut scrollback_rows = rows_of(text);
    let screen = usize::from(size.rows);
    let rows = scrollback_rows.split_off(scrollback_rows.len().saturating_sub(screen));
    let mut capture = Capture {
        size,
        truncated: scrollback_rows.len() >= scrollback as usize,
        scrollback: scrollback_rows,
        rows,
        cursor: (listed.cursor_x, listed.cursor_y),
        shows_cursor: listed.shows_cursor(),
        title: listed.title.clone(),
    };
    capture.rows.resize(screen, super::rows::Row::default());
    capture
}
