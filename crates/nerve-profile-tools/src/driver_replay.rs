//! Replays a recording into a terminal and a driver, with the time that passes between the records.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nerve_agent::driver::{AgentState, Driver, View};
use nerve_agent::profile::Profile;
use nerve_record::ahr::{AhrError, Body, Mark, Record};
use nerve_record::replay::TerminalReplay;
use nerve_record::timeline::start_of;
use nerve_types::{Foreground, Origin, Size, TsNs, millis};
use nerve_vt::screen::Screen;

use crate::record_source::{RecordSink, new_terminal, read_records};

/// Maximum number of observations between two records. The rest of the pause is skipped.
const MAX_OBSERVATIONS: usize = 5000;
/// Minimum time between two observations without output.
const TICK: Duration = Duration::from_millis(1);
/// Silence after the last record of a program that still runs, in multiples of the profile's `quiet_ms`.
const FINAL_SILENCE: u32 = 6;

/// The terminal and the driver after one observation.
pub(crate) struct Observation<'a> {
    /// Time since the start of the recording, in milliseconds.
    pub(crate) elapsed_ms: u64,
    /// Bytes of output so far.
    pub(crate) offset: u64,
    pub(crate) driver: &'a Driver,
    pub(crate) screen: &'a Screen,
    /// The screen differs from that of the observation before.
    pub(crate) is_new_screen: bool,
}

/// The extent of a replayed recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Time of the first block.
    pub(crate) start: TsNs,
    /// Time of the last observation.
    pub(crate) end: TsNs,
    /// Parts of the recording are lost.
    pub(crate) is_damaged: bool,
}

/// Replays a recording and reports every observation of the driver.
///
/// # Errors
/// The file cannot be read, or demands too much work.
pub(crate) fn replay(
    recording: &Path,
    size: Size,
    profile: &Arc<Profile>,
    observer: impl FnMut(&Observation<'_>),
) -> Result<Extent, AhrError> {
    let start = start_of(recording)?.unwrap_or_default();
    let mut replay = DriverReplay {
        terminal: new_terminal(size),
        driver: Driver::new(Arc::clone(profile), start),
        start,
        now: start,
        origin: None,
        screen: Screen::default(),
        observer,
    };
    let is_damaged = read_records(recording, &mut replay)?;
    if !matches!(replay.driver.state(), AgentState::Exited(_)) {
        replay.wait_until(replay.now + profile.timing.quiet() * FINAL_SILENCE);
    }
    Ok(Extent { start, end: replay.now, is_damaged })
}

struct DriverReplay<F> {
    terminal: TerminalReplay,
    driver: Driver,
    start: TsNs,
    now: TsNs,
    /// Origin of the next input record.
    origin: Option<Origin>,
    /// The screen of the last observation.
    screen: Screen,
    observer: F,
}

impl<F: FnMut(&Observation<'_>)> RecordSink for DriverReplay<F> {
    fn terminal(&mut self) -> &mut TerminalReplay {
        &mut self.terminal
    }

    fn apply(&mut self, record: &Record<'_>) {
        self.wait_until(record.at);
        let line = self.terminal.terminal.cursor_line().0;
        let changes = self.terminal.apply(record);
        match record.body {
            Body::Data { .. } => self.driver.on_output(self.now, self.terminal.terminal.offset()),
            // Replies of the terminal to queries are no input of a user.
            Body::Input { bytes } => match self.origin.take() {
                Some(Origin::Terminal) => return,
                _ => self.driver.on_input(self.now, line, bytes),
            },
            Body::Mark(Mark::Input { origin, .. }) => {
                self.origin = Some(origin);
                return;
            }
            Body::Mark(Mark::Exit(status)) => self.driver.on_exit(self.now, status),
            Body::Resize { .. } => {}
            Body::Mark(_) | Body::Snapshot { .. } => return,
        }
        for alert in &changes.alerts {
            self.driver.on_alert(alert);
        }
        self.observe();
    }
}

impl<F: FnMut(&Observation<'_>)> DriverReplay<F> {
    /// Lets time pass, with the observations that the driver requests.
    fn wait_until(&mut self, until: TsNs) {
        for _ in 0..MAX_OBSERVATIONS {
            let frame = self.terminal.terminal.frame_deadline();
            let due = [self.driver.deadline(), frame].into_iter().flatten().min();
            let Some(at) = due.map(|at| if at > self.now { at } else { self.now + TICK }) else { break };
            if at > until {
                break;
            }
            self.now = at;
            self.terminal.wait_until(at);
            self.observe();
        }
        self.now = self.now.max(until);
    }

    fn observe(&mut self) {
        let terminal = &self.terminal.terminal;
        let screen = terminal.screen();
        let cursor_line = terminal.cursor_line().0;
        let covered_line = terminal.covered_line().map(|line| line.0);
        let view = View { screen: &screen, cursor_line, covered_line, foreground: Foreground::Unknown };
        self.driver.observe(self.now, view);
        while self.driver.poll_effect().is_some() {}
        let is_new_screen = (&screen.rows, &screen.title, screen.cursor)
            != (&self.screen.rows, &self.screen.title, self.screen.cursor);
        let offset = self.terminal.terminal.offset();
        let elapsed_ms = millis(self.now.since(self.start));
        (self.observer)(&Observation {
            elapsed_ms,
            offset,
            driver: &self.driver,
            screen: &screen,
            is_new_screen,
        });
        self.screen = screen;
    }
}
