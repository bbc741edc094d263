//! Looks at a pane: often while something happens on it, seldom while it rests.
//!
//! A look is a list and a text, some 20 ms of work each. Whether one is worth it is mostly known before: a program that has written
//! nothing since the last look (the system counts, for nothing) has not changed its screen. That count only hastens looks; without it,
//! and for what others write on the same terminal, they come by time.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nerve_term::event::{ExitStatus, Size};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::args::Range;
use super::listing::ListedPane;
use super::pane_cache::WeztermServer;
use super::repaint::{Capture, NeedsMore, Repainter};
use super::rows::rows_of;
use crate::backend::pane::PaneError;
use crate::backend::tty;

/// Rows above the screen that are looked at, and what comes next when more than that has scrolled away.
const SCROLLBACK_ROWS: [u32; 3] = [120, 1500, 20_000];
/// Between looks at a screen that changes, where nobody tells that it has.
const FAST_INTERVAL: Duration = Duration::from_millis(30);
/// Between looks while a turn may end, or what was typed may show.
const WATCHFUL_INTERVAL: Duration = Duration::from_millis(100);
/// The same when nothing was written for so long that it will be told, and how long that is.
const SLOW_INTERVAL: Duration = Duration::from_secs(1);
const SLOW_AFTER: Duration = Duration::from_secs(30);
/// Between looks at a list while nothing happens; it may be this much older, for one list does for all panes.
const IDLE_INTERVAL: Duration = Duration::from_secs(4);
const IDLE_LIST_AGE: Duration = Duration::from_secs(3);
/// A text is looked at when it is that old, whatever the list says.
const MAX_TEXT_AGE: Duration = Duration::from_secs(12);
/// How long after something was typed, or has changed, more of it is looked for.
const AFTER_INPUT: Duration = Duration::from_secs(1);
const AFTER_CHANGE: Duration = Duration::from_millis(400);
/// How often the count of bytes is looked at, while a turn may end and at rest.
const COUNTER_INTERVAL: Duration = Duration::from_millis(15);
const IDLE_COUNTER_INTERVAL: Duration = Duration::from_millis(200);
/// From one look to the next at least; the longer one while a screen goes on changing.
const MIN_GAP: Duration = Duration::from_millis(15);
const BUSY_GAP: Duration = Duration::from_millis(90);
/// Looks that saw a change one after the other, from which on it goes on changing.
const BUSY_STREAK: u32 = 5;
/// Looks for nothing, from which on a count says nothing any more.
const MAX_FRUITLESS_POLLS: u32 = 9;
/// A server that does not answer is asked again so often.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// A server that is not there is looked for so often before it is gone.
const MAX_CONNECT_FAILURES: u32 = 4;
const RECONNECT_INTERVAL: Duration = Duration::from_millis(150);
/// How long a program may outlive its closed pane before it is given up.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// What was seen.
#[derive(Debug)]
pub(super) enum PaneEvent {
    /// The pane has this size from here on.
    Size(Size),
    /// It shows something else.
    Output(Vec<u8>),
    /// It is somewhere else, or has the focus or has it no more.
    Place(Vec<(&'static str, String)>),
    /// What it showed before we came is told.
    FirstPoll,
    /// Something failed that the node outlives.
    Fault(String),
    /// The program has ended, and its pane is still there.
    Exited(ExitStatus),
    /// The pane is gone; in words.
    Gone(String),
}

/// What the node says to those who look and type for it.
#[derive(Debug, Default)]
pub(super) struct SharedState {
    /// Look now: something was typed.
    pub(super) wake: Notify,
    /// A turn may end at any moment.
    pub(super) watchful: AtomicBool,
    /// The pane is being closed by us: it is gone when its program is.
    pub(super) closing: AtomicBool,
    /// Rows of the pane.
    pub(super) rows: AtomicU16,
    /// Its device.
    pub(super) tty: OnceLock<PathBuf>,
}

/// The program in a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    /// Tells it from a later one with the same number.
    pub(super) started: u64,
}

impl Process {
    /// The one that leads the terminal of a pane.
    pub(super) fn of(listed: &ListedPane) -> Option<Process> {
        let pid = tty::leader(listed.tty.as_deref()?)?;
        Some(Process { pid, started: tty::stat(pid)?.started })
    }

    pub(super) fn is_alive(self) -> bool {
        tty::stat(self.pid).is_some_and(|stat| stat.started == self.started)
    }
}

/// See the module.
pub(super) struct Poller {
    server: Arc<WeztermServer>,
    pane: String,
    shared: Arc<SharedState>,
    process: Option<Process>,
    /// The program that was in the pane when somebody drove it before us.
    expected: Option<i32>,
    events: mpsc::Sender<PaneEvent>,
    repainter: Repainter,
    listed: Option<ListedPane>,
    /// Its text at the last look that read it.
    text: Option<String>,
    place: Vec<(&'static str, String)>,
    /// Bytes the program had written before the last look.
    counter: Option<u64>,
    /// When the last look began, ended, saw a change, saw the text; when something was typed.
    poll_started: Instant,
    poll_ended: Instant,
    last_change: Instant,
    text_read_at: Option<Instant>,
    last_input: Option<Instant>,
    streak: u32,
    /// Looks that saw no change one after the other, though something was written: elsewhere, it seems.
    fruitless: u32,
    connect_failures: u32,
    /// It was told that the server does not answer.
    fault_reported: bool,
}

/// How a look failed.
enum PollError {
    Exited(ExitStatus),
    Gone(String),
    Unavailable(PaneError),
    NoServer,
    /// Nobody wants to know any more.
    ReceiverClosed,
}

impl Poller {
    /// For a pane of a server, of which `picture` is known. `process` is the program in it, and the id of the one that was in it when
    /// somebody drove it before us.
    pub(super) fn new(
        (server, pane): (Arc<WeztermServer>, String),
        repainter: Repainter,
        shared: Arc<SharedState>,
        (process, expected): (Option<Process>, Option<i32>),
        events: mpsc::Sender<PaneEvent>,
    ) -> Poller {
        let now = Instant::now();
        Poller {
            server,
            pane,
            shared,
            process,
            expected,
            events,
            repainter,
            listed: None,
            text: None,
            place: Vec::new(),
            counter: None,
            poll_started: now,
            poll_ended: now,
            last_change: now,
            text_read_at: None,
            last_input: None,
            streak: 0,
            fruitless: 0,
            connect_failures: 0,
            fault_reported: false,
        }
    }

    /// Looks until the pane is gone, or nobody listens.
    pub(super) async fn run(mut self) {
        let mut first = true;
        loop {
            match self.poll().await {
                Ok(()) => {
                    (self.connect_failures, self.fault_reported) = (0, false);
                    if std::mem::take(&mut first) && !self.send(PaneEvent::FirstPoll).await {
                        return;
                    }
                    self.wait_for_next_poll().await;
                }
                Err(PollError::Exited(exit)) => {
                    self.send(PaneEvent::Exited(exit)).await;
                    return;
                }
                Err(PollError::Gone(how)) => return self.report_gone(how).await,
                Err(PollError::NoServer) if self.connect_failures >= MAX_CONNECT_FAILURES => {
                    return self.report_gone("WezTerm's server is gone, and its panes with it".into()).await;
                }
                Err(PollError::NoServer) => {
                    self.connect_failures += 1;
                    tokio::time::sleep(RECONNECT_INTERVAL).await;
                }
                Err(PollError::Unavailable(error)) => {
                    let again = std::mem::replace(&mut self.fault_reported, true);
                    let fault = || PaneEvent::Fault(format!("its pane cannot be looked at: {error}"));
                    if !again && !self.send(fault()).await {
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

    /// A pane that we close is gone when its program is; it is ended by signals meanwhile.
    async fn report_gone(&self, how: String) {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        while self.shared.closing.load(Ordering::Relaxed)
            && self.process.is_some_and(Process::is_alive)
            && Instant::now() < deadline
        {
            tokio::time::sleep(COUNTER_INTERVAL).await;
        }
        self.send(PaneEvent::Gone(how)).await;
    }

    /// Waits for the time of the next look.
    async fn wait_for_next_poll(&mut self) {
        loop {
            let now = Instant::now();
            let due = self.poll_started + self.interval(now);
            let is_active = self.is_watchful() || self.is_recent(now);
            let tick =
                self.counter.map(|_| now + if is_active { COUNTER_INTERVAL } else { IDLE_COUNTER_INTERVAL });
            let wake = tick.map_or(due, |tick| tick.min(due));
            tokio::select! {
                () = self.shared.wake.notified() => (self.last_input, self.fruitless) = (Some(Instant::now()), 0),
                () = tokio::time::sleep_until(wake) => {}
                () = self.events.closed() => return,
            }
            let now = Instant::now();
            let earliest = self.poll_ended + self.min_gap();
            let is_due = now >= due || self.last_input.is_some_and(|typed| typed > self.poll_started);
            if is_due || (now >= earliest && self.has_written()) {
                return;
            }
        }
    }

    fn is_watchful(&self) -> bool {
        self.shared.watchful.load(Ordering::Relaxed)
    }

    /// Something was typed or changed just now.
    fn is_recent(&self, now: Instant) -> bool {
        self.last_input.is_some_and(|typed| now < typed + AFTER_INPUT)
            || now < self.last_change + AFTER_CHANGE
    }

    fn interval(&self, now: Instant) -> Duration {
        match self.counter {
            None if self.is_recent(now) => FAST_INTERVAL,
            Some(_) if self.is_recent(now) => WATCHFUL_INTERVAL,
            Some(_) if self.is_watchful() && now > self.last_change + SLOW_AFTER => SLOW_INTERVAL,
            _ if self.is_watchful() => WATCHFUL_INTERVAL,
            _ => IDLE_INTERVAL,
        }
    }

    /// How long to the next look at least, whatever was written.
    fn min_gap(&self) -> Duration {
        let base = if self.streak > BUSY_STREAK { BUSY_GAP } else { MIN_GAP };
        base.saturating_mul(1 << self.fruitless.min(MAX_FRUITLESS_POLLS)).min(IDLE_INTERVAL)
    }

    fn has_written(&self) -> bool {
        self.counter.is_some() && self.written_bytes() != self.counter
    }

    fn written_bytes(&self) -> Option<u64> {
        tty::written_bytes(self.process?.pid)
    }

    async fn poll(&mut self) -> Result<(), PollError> {
        let now = Instant::now();
        let written = self.has_written() && self.fruitless < MAX_FRUITLESS_POLLS;
        let at_rest = !self.is_watchful() && !self.is_recent(now) && !written;
        let count = self.written_bytes();
        self.poll_started = now;
        let server = self.server.clone();
        let Ok(_turn) = server.poll_permits.acquire().await else { return Err(PollError::ReceiverClosed) };
        if at_rest && self.text_read_at.is_some_and(|read| now < read + MAX_TEXT_AGE) {
            let listed = self.list_pane(now.checked_sub(IDLE_LIST_AGE).unwrap_or(now)).await?;
            if self.listed.as_ref().is_some_and(|known| known.has_same_screen(&listed)) {
                self.poll_ended = Instant::now();
                return self.on_listed(listed).await;
            }
        }
        // The list after the text: its cursor is never the older one of the two.
        let early = match &self.listed {
            Some(known) => Some(self.read_text(known.size.rows, SCROLLBACK_ROWS[0]).await?),
            None => None,
        };
        let unchanged = early.is_some() && early == self.text;
        // Where nothing has changed, one list does for all panes.
        let since = if at_rest && unchanged { now.checked_sub(IDLE_LIST_AGE) } else { None };
        let listed = self.list_pane(since.unwrap_or_else(Instant::now)).await?;
        let same_size = self.listed.as_ref().is_some_and(|known| known.size == listed.size);
        let text = match early.filter(|_| same_size) {
            Some(text) => text,
            None => self.read_text(listed.size.rows, SCROLLBACK_ROWS[0]).await?,
        };
        self.text = Some(text.clone());
        if let (None, Some(expected)) = (&self.listed, self.expected)
            && Process::of(&listed).is_some_and(|process| process.pid != expected)
        {
            // Another server gave its number to another pane.
            return Err(PollError::Gone(self.gone_message()));
        }
        let dead = listed.is_dead.then(|| listed.exit_code.map_or(ExitStatus::Unknown, ExitStatus::Code));
        self.on_capture(listed, text).await?;
        if let Some(exit) = dead {
            return Err(PollError::Exited(exit));
        }
        (self.counter, self.poll_ended, self.text_read_at) = (count, Instant::now(), Some(now));
        Ok(())
    }

    async fn on_capture(&mut self, listed: ListedPane, text: String) -> Result<(), PollError> {
        let size = Size::new(listed.size.cols, listed.size.rows);
        let mut bytes = self.repainter.update(capture(&listed, &text, SCROLLBACK_ROWS[0]), false);
        for scrollback in &SCROLLBACK_ROWS[1..] {
            if bytes == Err(NeedsMore) {
                let text = self.read_text(size.rows, *scrollback).await?;
                let last = Some(scrollback) == SCROLLBACK_ROWS.last();
                bytes = self.repainter.update(capture(&listed, &text, *scrollback), last);
            }
        }
        let bytes = bytes.unwrap_or_default();
        let resized = self.listed.as_ref().is_none_or(|known| known.size != listed.size);
        self.shared.rows.store(size.rows, Ordering::Relaxed);
        if resized && !self.send(PaneEvent::Size(size)).await {
            return Err(PollError::ReceiverClosed);
        }
        self.on_listed(listed).await?;
        if bytes.is_empty() {
            (self.streak, self.fruitless) = (0, self.fruitless.saturating_add(1));
            return Ok(());
        }
        (self.streak, self.fruitless) = (self.streak.saturating_add(1), 0);
        self.last_change = Instant::now();
        if self.send(PaneEvent::Output(bytes)).await { Ok(()) } else { Err(PollError::ReceiverClosed) }
    }

    /// Tells where the pane is, if that is another place than before.
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
        let panes = self.server.list(since).await.map_err(poll_error)?;
        let found = panes.iter().find(|listed| listed.id() == self.pane).cloned();
        found.ok_or_else(|| PollError::Gone(self.gone_message()))
    }

    async fn read_text(&self, rows: u16, scrollback: u32) -> Result<String, PollError> {
        let range = Range::with_scrollback(rows, scrollback);
        match self.server.wezterm.text(&self.pane, range, true).await {
            Err(PaneError::NoPane(_)) => Err(PollError::Gone(self.gone_message())),
            text => text.map_err(poll_error),
        }
    }

    fn gone_message(&self) -> String {
        format!(
            "WezTerm has no pane {} any more: its program has ended, or somebody has closed it",
            self.pane
        )
    }
}

fn poll_error(error: PaneError) -> PollError {
    match error {
        PaneError::NoServer(_) => PollError::NoServer,
        error => PollError::Unavailable(error),
    }
}

/// `text` is the screen and up to `above` rows above it.
fn capture(listed: &ListedPane, text: &str, scrollback: u32) -> Capture {
    let size = Size::new(listed.size.cols, listed.size.rows);
    let mut all = rows_of(text);
    let screen = usize::from(size.rows);
    let rows = all.split_off(all.len().saturating_sub(screen));
    let mut capture = Capture {
        size,
        truncated: all.len() >= scrollback as usize,
        scrollback: all,
        rows,
        cursor: (listed.cursor_x, listed.cursor_y),
        shows_cursor: listed.shows_cursor(),
        title: listed.title.clone(),
    };
    capture.rows.resize(screen, super::rows::Row::default());
    capture
}
