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
use super::listing::Listed;
use super::pane_cache::Server;
use super::repaint::{Capture, NeedsMore, Picture};
use super::rows::rows_of;
use crate::backend::pane::PaneError;
use crate::backend::tty;

/// Rows above the screen that are looked at, and what comes next when more than that has scrolled away.
const ABOVE: [u32; 3] = [120, 1500, 20_000];
/// Between looks at a screen that changes, where nobody tells that it has.
const FAST: Duration = Duration::from_millis(30);
/// Between looks while a turn may end, or what was typed may show.
const WATCHFUL: Duration = Duration::from_millis(100);
/// The same when nothing was written for so long that it will be told, and how long that is.
const PATIENT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Between looks at a list while nothing happens; it may be this much older, for one list does for all panes.
const REST: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(3));
/// A text is looked at when it is that old, whatever the list says.
const STALE: Duration = Duration::from_secs(12);
/// How long after something was typed, or has changed, more of it is looked for.
const ECHO: Duration = Duration::from_secs(1);
const TAIL: Duration = Duration::from_millis(400);
/// How often the count of bytes is looked at, while a turn may end and at rest.
const COUNT: (Duration, Duration) = (Duration::from_millis(15), Duration::from_millis(200));
/// From one look to the next at least; the longer one while a screen goes on changing.
const GAP: (Duration, Duration) = (Duration::from_millis(15), Duration::from_millis(90));
/// Looks that saw a change one after the other, from which on it goes on changing.
const STREAK: u32 = 5;
/// Looks for nothing, from which on a count says nothing any more.
const FRUITLESS: u32 = 9;
/// A server that does not answer is asked again so often.
const RETRY: Duration = Duration::from_secs(1);
/// A server that is not there is looked for so often before it is gone.
const MISSES: (u32, Duration) = (4, Duration::from_millis(150));
/// How long a program may outlive its closed pane before it is given up.
const AFTERLIFE: Duration = Duration::from_secs(3);

/// What was seen.
#[derive(Debug)]
pub(super) enum Seen {
    /// The pane has this size from here on.
    Size(Size),
    /// It shows something else.
    Bytes(Vec<u8>),
    /// It is somewhere else, or has the focus or has it no more.
    Place(Vec<(&'static str, String)>),
    /// What it showed before we came is told.
    First,
    /// Something failed that the node outlives.
    Fault(String),
    /// The program has ended, and its pane is still there.
    Ended(ExitStatus),
    /// The pane is gone; in words.
    Gone(String),
}

/// What the node says to those who look and type for it.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Look now: something was typed.
    pub(super) poke: Notify,
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
    pub(super) fn of(listed: &Listed) -> Option<Process> {
        let pid = tty::leader(listed.tty.as_deref()?)?;
        Some(Process { pid, started: tty::stat(pid)?.started })
    }

    pub(super) fn is_alive(self) -> bool {
        tty::stat(self.pid).is_some_and(|stat| stat.started == self.started)
    }
}

/// See the module.
pub(super) struct Eye {
    server: Arc<Server>,
    pane: String,
    shared: Arc<Shared>,
    process: Option<Process>,
    /// The program that was in the pane when somebody drove it before us.
    expected: Option<i32>,
    reports: mpsc::Sender<Seen>,
    picture: Picture,
    known: Option<Listed>,
    /// Its text at the last look that read it.
    text: Option<String>,
    place: Vec<(&'static str, String)>,
    /// Bytes the program had written before the last look.
    count: Option<u64>,
    /// When the last look began, ended, saw a change, saw the text; when something was typed.
    began: Instant,
    ended: Instant,
    changed: Instant,
    read: Option<Instant>,
    typed: Option<Instant>,
    streak: u32,
    /// Looks that saw no change one after the other, though something was written: elsewhere, it seems.
    fruitless: u32,
    misses: u32,
    /// It was told that the server does not answer.
    complained: bool,
}

/// How a look failed.
enum Failed {
    Ended(ExitStatus),
    Gone(String),
    Unanswered(PaneError),
    NoServer,
    /// Nobody wants to know any more.
    Unheard,
}

impl Eye {
    /// For a pane of a server, of which `picture` is known. `process` is the program in it, and the id of the one that was in it when
    /// somebody drove it before us.
    pub(super) fn new(
        (server, pane): (Arc<Server>, String),
        picture: Picture,
        shared: Arc<Shared>,
        (process, expected): (Option<Process>, Option<i32>),
        reports: mpsc::Sender<Seen>,
    ) -> Eye {
        let now = Instant::now();
        Eye {
            server,
            pane,
            shared,
            process,
            expected,
            reports,
            picture,
            known: None,
            text: None,
            place: Vec::new(),
            count: None,
            began: now,
            ended: now,
            changed: now,
            read: None,
            typed: None,
            streak: 0,
            fruitless: 0,
            misses: 0,
            complained: false,
        }
    }

    /// Looks until the pane is gone, or nobody listens.
    pub(super) async fn run(mut self) {
        let mut first = true;
        loop {
            match self.look().await {
                Ok(()) => {
                    (self.misses, self.complained) = (0, false);
                    if std::mem::take(&mut first) && !self.report(Seen::First).await {
                        return;
                    }
                    self.rest().await;
                }
                Err(Failed::Ended(exit)) => {
                    self.report(Seen::Ended(exit)).await;
                    return;
                }
                Err(Failed::Gone(how)) => return self.gone(how).await,
                Err(Failed::NoServer) if self.misses >= MISSES.0 => {
                    return self.gone("WezTerm's server is gone, and its panes with it".into()).await;
                }
                Err(Failed::NoServer) => {
                    self.misses += 1;
                    tokio::time::sleep(MISSES.1).await;
                }
                Err(Failed::Unanswered(error)) => {
                    let again = std::mem::replace(&mut self.complained, true);
                    let fault = || Seen::Fault(format!("its pane cannot be looked at: {error}"));
                    if !again && !self.report(fault()).await {
                        return;
                    }
                    tokio::time::sleep(RETRY).await;
                }
                Err(Failed::Unheard) => return,
            }
        }
    }

    async fn report(&self, seen: Seen) -> bool {
        self.reports.send(seen).await.is_ok()
    }

    /// A pane that we close is gone when its program is; it is ended by signals meanwhile.
    async fn gone(&self, how: String) {
        let deadline = Instant::now() + AFTERLIFE;
        while self.shared.closing.load(Ordering::Relaxed)
            && self.process.is_some_and(Process::is_alive)
            && Instant::now() < deadline
        {
            tokio::time::sleep(COUNT.0).await;
        }
        self.report(Seen::Gone(how)).await;
    }

    /// Waits for the time of the next look.
    async fn rest(&mut self) {
        loop {
            let now = Instant::now();
            let due = self.began + self.interval(now);
            let hasty = self.is_watchful() || self.is_fresh(now);
            let tick = self.count.map(|_| now + if hasty { COUNT.0 } else { COUNT.1 });
            let wake = tick.map_or(due, |tick| tick.min(due));
            tokio::select! {
                () = self.shared.poke.notified() => (self.typed, self.fruitless) = (Some(Instant::now()), 0),
                () = tokio::time::sleep_until(wake) => {}
                () = self.reports.closed() => return,
            }
            let now = Instant::now();
            let earliest = self.ended + self.gap();
            let wanted = now >= due || self.typed.is_some_and(|typed| typed > self.began);
            if wanted || (now >= earliest && self.has_written()) {
                return;
            }
        }
    }

    fn is_watchful(&self) -> bool {
        self.shared.watchful.load(Ordering::Relaxed)
    }

    /// Something was typed or changed just now.
    fn is_fresh(&self, now: Instant) -> bool {
        self.typed.is_some_and(|typed| now < typed + ECHO) || now < self.changed + TAIL
    }

    fn interval(&self, now: Instant) -> Duration {
        match self.count {
            None if self.is_fresh(now) => FAST,
            Some(_) if self.is_fresh(now) => WATCHFUL,
            Some(_) if self.is_watchful() && now > self.changed + PATIENT.1 => PATIENT.0,
            _ if self.is_watchful() => WATCHFUL,
            _ => REST.0,
        }
    }

    /// How long to the next look at least, whatever was written.
    fn gap(&self) -> Duration {
        let base = if self.streak > STREAK { GAP.1 } else { GAP.0 };
        base.saturating_mul(1 << self.fruitless.min(FRUITLESS)).min(REST.0)
    }

    fn has_written(&self) -> bool {
        self.count.is_some() && self.written() != self.count
    }

    fn written(&self) -> Option<u64> {
        tty::written(self.process?.pid)
    }

    async fn look(&mut self) -> Result<(), Failed> {
        let now = Instant::now();
        let written = self.has_written() && self.fruitless < FRUITLESS;
        let at_rest = !self.is_watchful() && !self.is_fresh(now) && !written;
        let count = self.written();
        self.began = now;
        let server = self.server.clone();
        let Ok(_turn) = server.looks.acquire().await else { return Err(Failed::Unheard) };
        if at_rest && self.read.is_some_and(|read| now < read + STALE) {
            let listed = self.listed(now.checked_sub(REST.1).unwrap_or(now)).await?;
            if self.known.as_ref().is_some_and(|known| known.looks_as(&listed)) {
                self.ended = Instant::now();
                return self.placed(listed).await;
            }
        }
        // The list after the text: its cursor is never the older one of the two.
        let early = match &self.known {
            Some(known) => Some(self.text_of(known.size.rows, ABOVE[0]).await?),
            None => None,
        };
        let unchanged = early.is_some() && early == self.text;
        // Where nothing has changed, one list does for all panes.
        let since = if at_rest && unchanged { now.checked_sub(REST.1) } else { None };
        let listed = self.listed(since.unwrap_or_else(Instant::now)).await?;
        let same_size = self.known.as_ref().is_some_and(|known| known.size == listed.size);
        let text = match early.filter(|_| same_size) {
            Some(text) => text,
            None => self.text_of(listed.size.rows, ABOVE[0]).await?,
        };
        self.text = Some(text.clone());
        if let (None, Some(expected)) = (&self.known, self.expected)
            && Process::of(&listed).is_some_and(|process| process.pid != expected)
        {
            // Another server gave its number to another pane.
            return Err(Failed::Gone(self.ended()));
        }
        let dead = listed.is_dead.then(|| listed.exit_code.map_or(ExitStatus::Unknown, ExitStatus::Code));
        self.seen(listed, text).await?;
        if let Some(exit) = dead {
            return Err(Failed::Ended(exit));
        }
        (self.count, self.ended, self.read) = (count, Instant::now(), Some(now));
        Ok(())
    }

    async fn seen(&mut self, listed: Listed, text: String) -> Result<(), Failed> {
        let size = Size::new(listed.size.cols, listed.size.rows);
        let mut bytes = self.picture.update(capture(&listed, &text, ABOVE[0]), false);
        for above in &ABOVE[1..] {
            if bytes == Err(NeedsMore) {
                let text = self.text_of(size.rows, *above).await?;
                let last = Some(above) == ABOVE.last();
                bytes = self.picture.update(capture(&listed, &text, *above), last);
            }
        }
        let bytes = bytes.unwrap_or_default();
        let resized = self.known.as_ref().is_none_or(|known| known.size != listed.size);
        self.shared.rows.store(size.rows, Ordering::Relaxed);
        if resized && !self.report(Seen::Size(size)).await {
            return Err(Failed::Unheard);
        }
        self.placed(listed).await?;
        if bytes.is_empty() {
            (self.streak, self.fruitless) = (0, self.fruitless.saturating_add(1));
            return Ok(());
        }
        (self.streak, self.fruitless) = (self.streak.saturating_add(1), 0);
        self.changed = Instant::now();
        if self.report(Seen::Bytes(bytes)).await { Ok(()) } else { Err(Failed::Unheard) }
    }

    /// Tells where the pane is, if that is another place than before.
    async fn placed(&mut self, listed: Listed) -> Result<(), Failed> {
        let place = listed.place();
        if let Some(tty) = listed.tty.clone() {
            self.shared.tty.get_or_init(|| tty);
        }
        self.known = Some(listed);
        if place == self.place {
            return Ok(());
        }
        self.place = place.clone();
        if self.report(Seen::Place(place)).await { Ok(()) } else { Err(Failed::Unheard) }
    }

    async fn listed(&self, since: Instant) -> Result<Listed, Failed> {
        let panes = self.server.list(since).await.map_err(failed)?;
        let found = panes.iter().find(|listed| listed.id() == self.pane).cloned();
        found.ok_or_else(|| Failed::Gone(self.ended()))
    }

    async fn text_of(&self, rows: u16, above: u32) -> Result<String, Failed> {
        let range = Range::with_scrollback(rows, above);
        match self.server.wezterm.text(&self.pane, range, true).await {
            Err(PaneError::NoPane(_)) => Err(Failed::Gone(self.ended())),
            text => text.map_err(failed),
        }
    }

    fn ended(&self) -> String {
        format!(
            "WezTerm has no pane {} any more: its program has ended, or somebody has closed it",
            self.pane
        )
    }
}

fn failed(error: PaneError) -> Failed {
    match error {
        PaneError::NoServer(_) => Failed::NoServer,
        error => Failed::Unanswered(error),
    }
}

/// `text` is the screen and up to `above` rows above it.
fn capture(listed: &Listed, text: &str, above: u32) -> Capture {
    let size = Size::new(listed.size.cols, listed.size.rows);
    let mut all = rows_of(text);
    let screen = usize::from(size.rows);
    let rows = all.split_off(all.len().saturating_sub(screen));
    let mut capture = Capture {
        size,
        cut: all.len() >= above as usize,
        above: all,
        rows,
        cursor: (listed.cursor_x, listed.cursor_y),
        shows_cursor: listed.shows_cursor(),
        title: listed.title.clone(),
    };
    capture.rows.resize(screen, super::rows::Row::default());
    capture
}
