//! Plays a recording in a terminal, with key control.

use std::future::pending;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_record::ahr::{AhrError, Body};
use nerve_record::index::Position;
use nerve_record::library::RecordingInfo;
use nerve_record::playback::Playback;
use nerve_types::TsNs;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::renderer::ScreenRenderer;
use super::replay::{Pace, last_screen};
use super::terminal_guard::{TerminalGuard, write_now};
use super::{format, unreadable, unwritten};
use crate::exit::{DONE, INTERRUPTED};
use crate::tty::signals::{SignalEvent, Signals};

/// Step of the arrow keys.
const SEEK_STEP: Duration = Duration::from_secs(5);
/// Maximum time between two frames at any playback speed.
const MAX_FRAME_TIME: Duration = Duration::from_millis(30);

/// Options of playback.
#[derive(Debug)]
pub(super) struct PlaybackOptions<'a> {
    /// Time of the first record.
    pub(super) start: TsNs,
    pub(super) pace: Pace,
    pub(super) has_colors: bool,
    pub(super) recording: &'a Path,
}

/// Plays to the end or until the user quits. Prints the last screen at the end.
pub(super) fn run(play: &mut Playback, options: &PlaybackOptions<'_>) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let end = runtime.context("cannot start the runtime")?.block_on(play_in_terminal(play, options))?;
    if end == EndReason::Finished {
        let mut out = io::stdout().lock();
        let cols = TerminalGuard::size().cols;
        let shown = last_screen(&play.replay().terminal, options.has_colors, cols, &mut out);
        shown.and_then(|()| out.flush()).map_err(unwritten)?;
    }
    Ok(end.code())
}

/// Reason why playback ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndReason {
    Finished,
    Quit,
    /// Ctrl+C or a signal, by its number.
    Signal(u8),
}

impl EndReason {
    /// Returns the exit code; for signals 128 plus the number.
    pub(super) fn code(self) -> u8 {
        match self {
            EndReason::Finished | EndReason::Quit => DONE,
            EndReason::Signal(number) => 128 + number,
        }
    }
}

async fn play_in_terminal(play: &mut Playback, options: &PlaybackOptions<'_>) -> Result<EndReason> {
    let signals = Signals::listen()?;
    let total = RecordingInfo::read(options.recording).ok().and_then(|info| info.duration);
    // Restores the terminal on return or panic.
    let guard = TerminalGuard::enter().context("cannot use the terminal")?;
    let mut user = UserInput { keys: guard.keys(), signals };
    let mut renderer = ScreenRenderer::new(TerminalGuard::size(), options.has_colors);
    let clock = play.replay().clock().max(options.start);
    let mut player = Player { play, options, clock, paused: false, due: Instant::now() };
    player.schedule()?;
    loop {
        let status = player.status(total);
        write_now(&renderer.draw(&player.play.replay().terminal.screen(), status.as_deref()))
            .map_err(unwritten)?;
        let next = player.next()?;
        if next.is_none() && !player.paused {
            player.play.replay_mut().terminal.expire_frame(TsNs(u64::MAX));
            return Ok(EndReason::Finished);
        }
        tokio::select! {
            biased;
            event = user.next_event() => match event {
                UserEvent::Keys(bytes) => if let Some(end) = player.handle_keys(&bytes)? {
                    return Ok(end);
                },
                UserEvent::Size => renderer = ScreenRenderer::new(TerminalGuard::size(), options.has_colors),
                UserEvent::End(end) => return Ok(end),
            },
            next = player.wait(next) => player.catch_up(next)?,
        }
    }
}

/// Playback state: the recording and the current position.
struct Player<'a> {
    play: &'a mut Playback,
    options: &'a PlaybackOptions<'a>,
    /// Recorded time reached so far.
    clock: TsNs,
    paused: bool,
    /// Time of the next record, ignoring a pause.
    due: Instant,
}

impl Player<'_> {
    /// Returns the recorded time of the next record, or of the timeout of an open synchronized update.
    fn next(&mut self) -> Result<Option<TsNs>> {
        let record = self.play.next_at().map_err(unreadable)?;
        let frame = self.play.replay().terminal.frame_deadline();
        Ok(match (record, frame) {
            (Some(record), Some(frame)) => Some(record.min(frame.max(self.clock))),
            (record, _) => record,
        })
    }

    /// Schedules the next record relative to now.
    fn schedule(&mut self) -> Result<()> {
        let next = self.next()?.unwrap_or(self.clock);
        self.due = Instant::now()
            + self.options.pace.wait(self.clock, next).min(Duration::from_secs(u32::MAX.into()));
        Ok(())
    }

    /// Waits until the next record is due; forever if there is none or playback is paused.
    async fn wait(&self, next: Option<TsNs>) -> TsNs {
        match next {
            Some(next) if !self.paused => {
                sleep_until(self.due).await;
                next
            }
            _ => pending().await,
        }
    }

    /// Applies the due records, beginning at recorded time `next`, for at most [`MAX_FRAME_TIME`].
    fn catch_up(&mut self, mut next: TsNs) -> Result<()> {
        let until = Instant::now();
        loop {
            self.advance_to(next).map_err(unreadable)?;
            let Some(after) = self.next()? else { return Ok(()) };
            let wait = self.options.pace.wait(self.clock, after);
            match self.due.checked_add(wait) {
                Some(due) => self.due = due,
                None => self.schedule()?,
            }
            if self.due > until || until.elapsed() > MAX_FRAME_TIME {
                return Ok(());
            }
            next = after;
        }
    }

    /// Applies all records up to this recorded time.
    fn advance_to(&mut self, time: TsNs) -> Result<(), AhrError> {
        self.play.play(|record| record.at <= time, |_| {})?;
        self.play.replay_mut().wait_until(time);
        self.clock = self.clock.max(time);
        Ok(())
    }

    /// Handles typed keys. Returns the reason if one ends playback.
    fn handle_keys(&mut self, bytes: &[u8]) -> Result<Option<EndReason>> {
        for key in parse_keys(bytes) {
            match key {
                Key::Pause => {
                    self.paused = !self.paused;
                    self.schedule()?;
                }
                Key::Step => {
                    self.paused = true;
                    self.step().map_err(unreadable)?;
                }
                Key::Back => self.seek(TsNs(self.clock.0.saturating_sub(SEEK_STEP.as_nanos() as u64)))?,
                Key::Forward => self.seek(self.clock + SEEK_STEP)?,
                Key::Quit => return Ok(Some(EndReason::Quit)),
                Key::Interrupt => return Ok(Some(EndReason::Signal(INTERRUPTED - 128))),
            }
        }
        Ok(None)
    }

    /// Applies records up to and including the next output.
    fn step(&mut self) -> Result<(), AhrError> {
        let mut seen = false;
        self.play.play(
            |record| {
                let first = !seen;
                seen |= matches!(record.body, Body::Data { .. });
                first
            },
            |_| {},
        )?;
        self.clock = self.clock.max(self.play.replay().clock());
        Ok(())
    }

    fn seek(&mut self, time: TsNs) -> Result<()> {
        let time = time.max(self.options.start);
        self.play.seek(Position::Time(time)).map_err(unreadable)?;
        self.clock = time;
        self.schedule()
    }

    fn status(&self, total: Option<Duration>) -> Option<String> {
        let at = format::clock(self.clock.since(self.options.start));
        let of = total.map_or_else(String::new, |total| format!(" / {}", format::clock(total)));
        let keys = "space play · . step · ← → 5 s · q quit";
        self.paused.then(|| format!(" paused  {at}{of}  ·  {keys} "))
    }
}

/// An event from the user or the system.
enum UserEvent {
    Keys(Vec<u8>),
    /// The terminal was resized.
    Size,
    End(EndReason),
}

/// Sources of user events.
struct UserInput {
    /// `None` if standard input is no terminal.
    keys: Option<mpsc::Receiver<Vec<u8>>>,
    signals: Signals,
}

impl UserInput {
    async fn next_event(&mut self) -> UserEvent {
        let UserInput { keys, signals } = self;
        let typed = async {
            match keys.as_mut()?.recv().await {
                Some(bytes) => Some(bytes),
                None => {
                    // Standard input was closed: no more keys will arrive.
                    *keys = None;
                    None
                }
            }
        };
        tokio::select! {
            signalled = signals.next() => match signalled {
                SignalEvent::Resize => UserEvent::Size,
                SignalEvent::Terminate(number) => UserEvent::End(EndReason::Signal(number)),
            },
            Some(bytes) = typed => UserEvent::Keys(bytes),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Pause,
    Step,
    Back,
    Forward,
    Quit,
    Interrupt,
}

/// Extracts the known keys from typed bytes. Skips escape sequences of other keys completely, including their letters.
fn parse_keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        keys.extend(match first {
            b' ' => Some(Key::Pause),
            b'.' => Some(Key::Step),
            b'q' | b'Q' => Some(Key::Quit),
            0x03 => Some(Key::Interrupt),
            0x1b => {
                let (key, after) = parse_sequence(rest);
                bytes = after;
                key
            }
            _ => None,
        });
    }
    keys
}

/// Parses the bytes after an ESC. Returns the cursor key, if it is one in CSI or SS3 form, and the bytes after the
/// sequence.
fn parse_sequence(bytes: &[u8]) -> (Option<Key>, &[u8]) {
    let ([b'[' | b'O', rest @ ..], end) = (bytes, bytes.len()) else {
        return (None, bytes.get(1..).unwrap_or_default());
    };
    let last = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)).map_or(end - 1, |at| at);
    let key = match rest.get(..=last) {
        Some(b"C") => Some(Key::Forward),
        Some(b"D") => Some(Key::Back),
        _ => None,
    };
    (key, rest.get(last + 1..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_escape_sequences_are_not_keys() {
        assert_eq!(parse_keys(b" .q"), [Key::Pause, Key::Step, Key::Quit]);
        assert_eq!(parse_keys(b"\x1b[C\x1bOD\x1b[1;5C"), [Key::Forward, Key::Back]);
        assert_eq!(parse_keys(b"\x1b[200~\x1b[?1;2c\x1bq\x03"), [Key::Interrupt]);
        assert_eq!(parse_keys(b"x\x1b\x1b[\x1b[1"), []);
    }
}
