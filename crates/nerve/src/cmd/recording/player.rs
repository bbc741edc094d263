//! Replay in a terminal, with keys.

use std::future::pending;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_record::ahr::{AhrError, Body};
use nerve_record::index::Position;
use nerve_record::playback::Playback;
use nerve_record::shelf::Shelved;
use nerve_term::event::TsNs;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::renderer::Drawing;
use super::replay::{Pace, last_screen};
use super::terminal_guard::{Stage, put};
use super::{format, unreadable, unwritten};
use crate::exit::{DONE, INTERRUPTED};
use crate::tty::signals::{Signalled, Signals};

/// How far the arrows go.
const JUMP: Duration = Duration::from_secs(5);
/// How long records are applied before what they have made is shown, however fast it goes.
const FRAME: Duration = Duration::from_millis(30);

/// What is shown, and how.
#[derive(Debug)]
pub(super) struct Show<'a> {
    /// Time of the first record.
    pub(super) start: TsNs,
    pub(super) pace: Pace,
    pub(super) coloured: bool,
    pub(super) recording: &'a Path,
}

/// Plays until the end or until the user leaves. The end leaves the last screen behind.
pub(super) fn run(play: &mut Playback, show: &Show<'_>) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let left = runtime.context("cannot start the runtime")?.block_on(perform(play, show))?;
    if left == Left::End {
        let mut out = io::stdout().lock();
        let cols = Stage::size().cols;
        let shown = last_screen(&play.fold().terminal, show.coloured, cols, &mut out);
        shown.and_then(|()| out.flush()).map_err(unwritten)?;
    }
    Ok(left.code())
}

/// Why it was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    End,
    Quit,
    /// By Ctrl+C or a signal.
    Signal(u8),
}

impl Left {
    /// As a shell has it: 128 and the number of the signal.
    pub(super) fn code(self) -> u8 {
        match self {
            Left::End | Left::Quit => DONE,
            Left::Signal(number) => 128 + number,
        }
    }
}

async fn perform(play: &mut Playback, show: &Show<'_>) -> Result<Left> {
    let signals = Signals::listen()?;
    let total = Shelved::look(show.recording).ok().and_then(|shelved| shelved.duration);
    // Given back when this returns or panics.
    let stage = Stage::enter().context("cannot use the terminal")?;
    let mut user = User { keys: stage.keys(), signals };
    let mut drawing = Drawing::new(Stage::size(), show.coloured);
    let clock = play.fold().clock().max(show.start);
    let mut player = Player { play, show, clock, paused: false, due: Instant::now() };
    player.plan()?;
    loop {
        let status = player.status(total);
        put(&drawing.draw(&player.play.fold().terminal.screen(), status.as_deref())).map_err(unwritten)?;
        let next = player.next()?;
        if next.is_none() && !player.paused {
            player.play.fold_mut().terminal.expire_frame(TsNs(u64::MAX));
            return Ok(Left::End);
        }
        tokio::select! {
            biased;
            told = user.told() => match told {
                Told::Keys(bytes) => if let Some(left) = player.keys(&bytes)? {
                    return Ok(left);
                },
                Told::Size => drawing = Drawing::new(Stage::size(), show.coloured),
                Told::Left(left) => return Ok(left),
            },
            next = player.wait(next) => player.catch_up(next)?,
        }
    }
}

/// The recording, and where in time it is.
struct Player<'a> {
    play: &'a mut Playback,
    show: &'a Show<'a>,
    /// The recorded time that has been reached.
    clock: TsNs,
    paused: bool,
    /// When the next thing happens; of a paused one, had it not been paused.
    due: Instant,
}

impl Player<'_> {
    /// The recorded time of what happens next: a record, or the end of a synchronized update that was left open.
    fn next(&mut self) -> Result<Option<TsNs>> {
        let record = self.play.next_at().map_err(unreadable)?;
        let frame = self.play.fold().terminal.frame_deadline();
        Ok(match (record, frame) {
            (Some(record), Some(frame)) => Some(record.min(frame.max(self.clock))),
            (record, _) => record,
        })
    }

    /// Sets when the next thing happens, counted from now.
    fn plan(&mut self) -> Result<()> {
        let next = self.next()?.unwrap_or(self.clock);
        self.due =
            Instant::now() + self.show.pace.wait(self.clock, next).min(Duration::from_secs(u32::MAX.into()));
        Ok(())
    }

    /// Waits until what is next is due: for ever if nothing is, or while it is paused.
    async fn wait(&self, next: Option<TsNs>) -> TsNs {
        match next {
            Some(next) if !self.paused => {
                sleep_until(self.due).await;
                next
            }
            _ => pending().await,
        }
    }

    /// Does what is due, the first at recorded time `next`, for the length of a frame at most.
    fn catch_up(&mut self, mut next: TsNs) -> Result<()> {
        let until = Instant::now();
        loop {
            self.reach(next).map_err(unreadable)?;
            let Some(after) = self.next()? else { return Ok(()) };
            let wait = self.show.pace.wait(self.clock, after);
            match self.due.checked_add(wait) {
                Some(due) => self.due = due,
                None => self.plan()?,
            }
            if self.due > until || until.elapsed() > FRAME {
                return Ok(());
            }
            next = after;
        }
    }

    /// Applies everything up to this recorded time.
    fn reach(&mut self, time: TsNs) -> Result<(), AhrError> {
        self.play.play(|record| record.at <= time, |_| {})?;
        self.play.fold_mut().wait_until(time);
        self.clock = self.clock.max(time);
        Ok(())
    }

    /// Does what the keys say.
    fn keys(&mut self, bytes: &[u8]) -> Result<Option<Left>> {
        for key in keys_in(bytes) {
            match key {
                Key::Pause => {
                    self.paused = !self.paused;
                    self.plan()?;
                }
                Key::Step => {
                    self.paused = true;
                    self.step().map_err(unreadable)?;
                }
                Key::Back => self.seek(TsNs(self.clock.0.saturating_sub(JUMP.as_nanos() as u64)))?,
                Key::On => self.seek(self.clock + JUMP)?,
                Key::Quit => return Ok(Some(Left::Quit)),
                Key::Interrupt => return Ok(Some(Left::Signal(INTERRUPTED - 128))),
            }
        }
        Ok(None)
    }

    /// Applies records up to the next output and with it.
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
        self.clock = self.clock.max(self.play.fold().clock());
        Ok(())
    }

    fn seek(&mut self, time: TsNs) -> Result<()> {
        let time = time.max(self.show.start);
        self.play.seek(Position::Time(time)).map_err(unreadable)?;
        self.clock = time;
        self.plan()
    }

    fn status(&self, total: Option<Duration>) -> Option<String> {
        let at = format::clock(self.clock.since(self.show.start));
        let of = total.map_or_else(String::new, |total| format!(" / {}", format::clock(total)));
        let keys = "space play · . step · ← → 5 s · q leave";
        self.paused.then(|| format!(" paused  {at}{of}  ·  {keys} "))
    }
}

/// What the user does.
enum Told {
    Keys(Vec<u8>),
    /// The terminal has another size.
    Size,
    Left(Left),
}

/// Who sits at the terminal.
struct User {
    /// `None` where nobody can type.
    keys: Option<mpsc::Receiver<Vec<u8>>>,
    signals: Signals,
}

impl User {
    async fn told(&mut self) -> Told {
        let User { keys, signals } = self;
        let typed = async {
            match keys.as_mut()?.recv().await {
                Some(bytes) => Some(bytes),
                None => {
                    // The keyboard is gone: nobody will press anything any more.
                    *keys = None;
                    None
                }
            }
        };
        tokio::select! {
            signalled = signals.next() => match signalled {
                Signalled::Size => Told::Size,
                Signalled::End(number) => Told::Left(Left::Signal(number)),
            },
            Some(bytes) = typed => Told::Keys(bytes),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Pause,
    Step,
    Back,
    On,
    Quit,
    Interrupt,
}

/// The keys among what was typed. Sequences of other keys are passed over whole: letters in them are no keys.
fn keys_in(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        keys.extend(match first {
            b' ' => Some(Key::Pause),
            b'.' => Some(Key::Step),
            b'q' | b'Q' => Some(Key::Quit),
            0x03 => Some(Key::Interrupt),
            0x1b => {
                let (key, after) = sequence(rest);
                bytes = after;
                key
            }
            _ => None,
        });
    }
    keys
}

/// What follows an ESC: a cursor key in either of its forms, or something to pass over.
fn sequence(bytes: &[u8]) -> (Option<Key>, &[u8]) {
    let ([b'[' | b'O', rest @ ..], end) = (bytes, bytes.len()) else {
        return (None, bytes.get(1..).unwrap_or_default());
    };
    let last = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)).map_or(end - 1, |at| at);
    let key = match rest.get(..=last) {
        Some(b"C") => Some(Key::On),
        Some(b"D") => Some(Key::Back),
        _ => None,
    };
    (key, rest.get(last + 1..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_the_letters_of_sequences() {
        assert_eq!(keys_in(b" .q"), [Key::Pause, Key::Step, Key::Quit]);
        assert_eq!(keys_in(b"\x1b[C\x1bOD\x1b[1;5C"), [Key::On, Key::Back]);
        assert_eq!(keys_in(b"\x1b[200~\x1b[?1;2c\x1bq\x03"), [Key::Interrupt]);
        assert_eq!(keys_in(b"x\x1b\x1b[\x1b[1"), []);
    }
}
