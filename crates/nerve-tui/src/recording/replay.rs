//! Plays a recording in a terminal, with key control.

use std::time::Duration;

use nerve_types::TsNs;
use tokio::sync::mpsc;

use super::player::{Player, SeekTarget};
use super::renderer::ScreenRenderer;
use super::terminal_guard::{TerminalGuard, write_now};
use super::{EndReason, SIGINT};
use crate::TuiError;
use crate::terminal::pacing::until;
use crate::terminal::signals::{SignalEvent, Signals};
use crate::view::timeline::clock;

/// Step of the arrow keys.
const SEEK_STEP: Duration = Duration::from_secs(5);

/// Options of playback.
#[derive(Debug, Clone, Copy)]
pub struct PlaybackOptions {
    /// Time of the first record.
    pub start: TsNs,
    /// Duration of the recording, if known.
    pub total: Option<Duration>,
    /// Draw in colours.
    pub has_colors: bool,
}

/// Plays to the end or until the user quits. Must be called on a runtime. The terminal is restored then.
///
/// # Errors
/// The terminal cannot be used, or the recording cannot be read.
pub async fn play(player: &mut Player, options: &PlaybackOptions) -> Result<EndReason, TuiError> {
    let signals = Signals::listen().map_err(TuiError::Signals)?;
    // Restores the terminal on return or panic.
    let guard = TerminalGuard::enter().map_err(TuiError::Terminal)?;
    let mut user = UserInput { keys: guard.keys(), signals };
    let mut renderer = ScreenRenderer::new(TerminalGuard::size(), options.has_colors);
    loop {
        let status = status(player, options.start, options.total);
        write_now(&renderer.draw(&player.terminal().screen(), status.as_deref())).map_err(TuiError::Write)?;
        let is_at_end = player.is_at_end()?;
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
            () = until(player.due().map(Into::into)) => drop(player.advance(|_| {})?),
        }
    }
}

/// Handles typed keys. Returns the reason if one ends playback.
fn handle_keys(player: &mut Player, start: TsNs, bytes: &[u8]) -> Result<Option<EndReason>, TuiError> {
    let to = |time: TsNs| SeekTarget { time: time.max(start), offset: None };
    for key in parse_keys(bytes) {
        let now = player.clock();
        let result = match key {
            Key::Pause => player.set_playing(!player.is_playing()),
            Key::Step => player.step(),
            Key::Back => player.seek(to(TsNs(now.0.saturating_sub(SEEK_STEP.as_nanos() as u64)))),
            Key::Forward => player.seek(to(now + SEEK_STEP)),
            Key::Quit => return Ok(Some(EndReason::Quit)),
            Key::Interrupt => return Ok(Some(EndReason::Signal(SIGINT))),
        };
        result?;
    }
    Ok(None)
}

/// Returns the status line, which is shown while paused.
fn status(player: &Player, start: TsNs, total: Option<Duration>) -> Option<String> {
    let at = clock(player.clock().since(start));
    let of = total.map_or_else(String::new, |total| format!(" / {}", clock(total)));
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
        let next_keys = async {
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
            Some(bytes) = next_keys => UserEvent::Keys(bytes),
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
