//! Plays a recording in a terminal, with key control.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_record::library::RecordingInfo;
use nerve_types::TsNs;
use tokio::sync::mpsc;

use super::player::{Player, SeekTarget};
use super::renderer::ScreenRenderer;
use super::replay::last_screen;
use super::terminal_guard::{TerminalGuard, write_now};
use super::{format, unreadable, unwritten};
use crate::exit::{DONE, INTERRUPTED};
use crate::tty::pacing::until;
use crate::tty::signals::{SignalEvent, Signals};

/// Step of the arrow keys.
const SEEK_STEP: Duration = Duration::from_secs(5);

/// Options of playback.
#[derive(Debug)]
pub(super) struct PlaybackOptions<'a> {
    /// Time of the first record.
    pub(super) start: TsNs,
    pub(super) has_colors: bool,
    pub(super) recording: &'a Path,
}

/// Plays to the end or until the user quits. Prints the last screen at the end.
pub(super) fn run(player: &mut Player, options: &PlaybackOptions<'_>) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let end = runtime.context("cannot start the runtime")?.block_on(play_in_terminal(player, options))?;
    if end == EndReason::Finished {
        let mut out = io::stdout().lock();
        let cols = TerminalGuard::size().cols;
        let shown = last_screen(player.terminal(), options.has_colors, cols, &mut out);
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

async fn play_in_terminal(player: &mut Player, options: &PlaybackOptions<'_>) -> Result<EndReason> {
    let signals = Signals::listen()?;
    let total = RecordingInfo::read(options.recording).ok().and_then(|info| info.duration);
    // Restores the terminal on return or panic.
    let guard = TerminalGuard::enter().context("cannot use the terminal")?;
    let mut user = UserInput { keys: guard.keys(), signals };
    let mut renderer = ScreenRenderer::new(TerminalGuard::size(), options.has_colors);
    loop {
        let status = status(player, options.start, total);
        write_now(&renderer.draw(&player.terminal().screen(), status.as_deref())).map_err(unwritten)?;
        let is_at_end = player.is_at_end().map_err(unreadable)?;
        if is_at_end && player.is_playing() {
            player.finish();
            return Ok(EndReason::Finished);
        }
        tokio::select! {
            biased;
            event = user.next_event() => match event {
                UserEvent::Keys(bytes) => if let Some(end) = handle_keys(player, options.start, &bytes)? {
                    return Ok(end);
                },
                UserEvent::Size => renderer = ScreenRenderer::new(TerminalGuard::size(), options.has_colors),
                UserEvent::End(end) => return Ok(end),
            },
            () = until(player.due().map(Into::into)) => drop(player.advance(|_| {}).map_err(unreadable)?),
        }
    }
}

/// Handles typed keys. Returns the reason if one ends playback.
fn handle_keys(player: &mut Player, start: TsNs, bytes: &[u8]) -> Result<Option<EndReason>> {
    let to = |time: TsNs| SeekTarget { time: time.max(start), offset: None };
    for key in parse_keys(bytes) {
        let clock = player.clock();
        let done = match key {
            Key::Pause => player.set_playing(!player.is_playing()),
            Key::Step => player.step(),
            Key::Back => player.seek(to(TsNs(clock.0.saturating_sub(SEEK_STEP.as_nanos() as u64)))),
            Key::Forward => player.seek(to(clock + SEEK_STEP)),
            Key::Quit => return Ok(Some(EndReason::Quit)),
            Key::Interrupt => return Ok(Some(EndReason::Signal(INTERRUPTED - 128))),
        };
        done.map_err(unreadable)?;
    }
    Ok(None)
}

/// Returns the status line, which is shown while paused.
fn status(player: &Player, start: TsNs, total: Option<Duration>) -> Option<String> {
    let at = format::clock(player.clock().since(start));
    let of = total.map_or_else(String::new, |total| format!(" / {}", format::clock(total)));
    let keys = "space play · . step · ← → 5 s · q quit";
    (!player.is_playing()).then(|| format!(" paused  {at}{of}  ·  {keys} "))
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
