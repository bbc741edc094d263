//! The parts of a recorded session: the screens before prompts, in dialogs, and during turns.

use std::path::Path;
use std::time::Duration;

use nerve_record::ahr::{AhrError, Body, Mark, Record};
use nerve_record::replay::TerminalReplay;
use nerve_record::timeline::start_of;
use nerve_types::{Origin, Size, TsNs, millis};
use nerve_vt::screen::Screen;

use super::choices::find_choices;
use crate::record_source::{RecordSink, new_terminal, read_records};

/// Silence after which a screen is settled.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// Number of screens at the beginning of a turn that are kept.
const FIRST_SCREENS: usize = 100;
/// Least time between two later screens of a turn that are kept.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(40);
/// Keys that clear a typed prompt: Ctrl+C and Ctrl+U.
const CLEARING_KEYS: [&[u8]; 2] = [b"\x03", b"\x15"];
/// Maximum number of screens with choices that are examined.
const MAX_DIALOGS: usize = 400;
/// Maximum number of turns that are examined.
const MAX_TURNS: usize = 40;
/// Maximum number of screens of a turn.
const MAX_SCREENS: usize = 400;

/// A screen and its time.
#[derive(Debug, Clone)]
pub(super) struct TimedScreen {
    /// Time since the start of the recording, in milliseconds.
    pub(super) elapsed_ms: u64,
    pub(super) screen: Screen,
}

/// The screens from an Enter to the next prompt.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) screens: Vec<TimedScreen>,
    /// The longest pause before an output, in milliseconds. The last pause before a key may be idle time and does not count.
    pub(super) pause_ms: u64,
}

/// The screens of a session that show what a profile describes.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Complete screens before the first key of a prompt.
    pub(super) idle_screens: Vec<TimedScreen>,
    /// Complete screens with choices, before keys that answer them.
    pub(super) dialogs: Vec<TimedScreen>,
    pub(super) turns: Vec<Turn>,
    /// The program enabled bracketed paste.
    pub(super) has_bracketed_paste: bool,
}

impl Session {
    /// Reads a recording. `size`: initial size of its terminal.
    ///
    /// # Errors
    /// The recording cannot be read, or demands too much work.
    pub(super) fn read(recording: &Path, size: Size) -> Result<Session, AhrError> {
        let start = start_of(recording)?.unwrap_or_default();
        let mut reader = SessionReader {
            terminal: new_terminal(size),
            session: Session::default(),
            start,
            last_output: start,
            last_input: start,
            last_sample: start,
            pause_ms: None,
            typed: String::new(),
            origin: None,
        };
        read_records(recording, &mut reader)?;
        Ok(reader.session)
    }
}

struct SessionReader {
    terminal: TerminalReplay,
    session: Session,
    start: TsNs,
    last_output: TsNs,
    last_input: TsNs,
    last_sample: TsNs,
    /// The pause before the last output, if no key followed. It counts once another output follows.
    pause_ms: Option<u64>,
    /// The prompt so far.
    typed: String,
    /// Origin of the next input record.
    origin: Option<Origin>,
}

impl RecordSink for SessionReader {
    fn terminal(&mut self) -> &mut TerminalReplay {
        &mut self.terminal
    }

    fn apply(&mut self, record: &Record<'_>) {
        match record.body {
            Body::Input { bytes } => self.add_input(record.at, bytes),
            Body::Mark(Mark::Input { origin, .. }) => self.origin = Some(origin),
            _ => {}
        }
        self.terminal.apply(record);
        if let Body::Data { .. } = record.body {
            self.add_output(record.at);
        }
    }
}

impl SessionReader {
    fn timed_screen(&self, at: TsNs) -> TimedScreen {
        TimedScreen { elapsed_ms: millis(at.since(self.start)), screen: self.terminal.terminal.screen() }
    }

    fn add_output(&mut self, at: TsNs) {
        let pause = millis(at.since(self.last_output.max(self.last_input)));
        self.last_output = at;
        self.session.has_bracketed_paste |= self.terminal.terminal.modes().bracketed_paste;
        let kept = self.session.turns.last().map_or(MAX_SCREENS, |turn| turn.screens.len());
        let is_due = kept < FIRST_SCREENS || at.since(self.last_sample) >= SAMPLE_INTERVAL;
        let screen = (is_due && kept < MAX_SCREENS).then(|| self.timed_screen(at));
        let Some(turn) = self.session.turns.last_mut() else { return };
        // Counts the pause before the previous output: the turn continued after it.
        let earlier = self.pause_ms.replace(pause).unwrap_or_default();
        turn.pause_ms = turn.pause_ms.max(earlier);
        if let Some(screen) = screen {
            self.last_sample = at;
            turn.screens.push(screen);
        }
    }

    fn add_input(&mut self, at: TsNs, bytes: &[u8]) {
        // Replies of the terminal to queries are no input of a user.
        if self.origin.take() == Some(Origin::Terminal) {
            return;
        }
        self.pause_ms = None;
        self.last_input = at;
        let input = String::from_utf8_lossy(bytes).replace("\x1b[200~", "").replace("\x1b[201~", "");
        let text = input.trim_end_matches(['\r', '\n']);
        let is_text = text.chars().next().is_some_and(|first| !first.is_control());
        if self.typed.is_empty() && at.since(self.last_output) >= SETTLE_TIME {
            let shown = self.timed_screen(at);
            if find_choices(&shown.screen).is_some() {
                if self.session.dialogs.len() < MAX_DIALOGS {
                    self.session.dialogs.push(shown);
                }
                return;
            }
            if is_text && self.session.idle_screens.len() < MAX_TURNS {
                self.session.idle_screens.push(shown);
            }
        }
        if is_text {
            self.typed.push_str(text);
        }
        let is_enter = text.len() < input.len();
        if is_enter && !self.typed.is_empty() && self.session.turns.len() < MAX_TURNS {
            self.session.turns.push(Turn::default());
        }
        if is_enter || CLEARING_KEYS.contains(&bytes) {
            self.typed.clear();
        }
    }
}
