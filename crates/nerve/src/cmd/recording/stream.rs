//! Replay where standard output is no terminal: the recorded bytes, in their time.

use std::io::{self, Write};
use std::thread;
use std::time::Instant;

use anyhow::Result;
use nerve_record::ahr::Body;
use nerve_record::playback::Playback;

use super::replay::Pace;
use super::{unreadable, unwritten};
use crate::exit::DONE;

/// Plays to the end. After a seek, what the terminal showed there comes first.
pub(super) fn run(play: &mut Playback, pace: Pace, coloured: bool) -> Result<u8> {
    let mut out = io::stdout().lock();
    let mut colours = Colours::default();
    let mut clock = play.fold().clock();
    let mut bytes = Vec::new();
    if play.fold().terminal.offset() > 0 {
        bytes = play.fold().terminal.dump();
    }
    let mut due = Instant::now();
    loop {
        let shown = if coloured { bytes } else { colours.without(&bytes) };
        out.write_all(&shown).and_then(|()| out.flush()).map_err(unwritten)?;
        let Some(next) = play.next_at().map_err(unreadable)? else { break };
        // Before the first record there is nothing to wait for.
        let from = if clock.0 == 0 { next } else { clock };
        due += pace.wait(from, next);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        clock = next;
        bytes = Vec::new();
        let output = |record: &nerve_record::ahr::Record<'_>| {
            if let Body::Data { bytes: more, .. } = record.body {
                bytes.extend_from_slice(more);
            }
        };
        play.play(|record| record.at <= next, output).map_err(unreadable)?;
    }
    if !coloured {
        out.write_all(&colours.rest()).and_then(|()| out.flush()).map_err(unwritten)?;
    }
    Ok(DONE)
}

/// Takes the sequences out that set colours and other looks (SGR, ECMA-48 §8.3.117), wherever the stream is cut.
#[derive(Debug, Default)]
struct Colours {
    /// The start of a control sequence.
    held: Vec<u8>,
}

/// A sequence that is longer is none.
const LONGEST: usize = 256;

impl Colours {
    fn without(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for byte in bytes {
            match (self.held.len(), *byte) {
                (_, 0x1b) => {
                    out.append(&mut self.held);
                    self.held.push(0x1b);
                }
                (0, byte) => out.push(byte),
                (1, b'[') | (2..LONGEST, b'0'..=b'?') => self.held.push(*byte),
                (2.., b'm') if self.is_sgr() => self.held.clear(),
                (_, byte) => {
                    out.append(&mut self.held);
                    out.push(byte);
                }
            }
        }
        out
    }

    /// What is left at the end.
    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// Private parameters make it something else: `CSI > 4 m` is about keys.
    fn is_sgr(&self) -> bool {
        !self.held[2..].iter().any(|byte| matches!(byte, b'<'..=b'?'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_looks_are_taken_out() {
        let bytes = b"a\x1b[1;38:5:3mb\x1b[m\x1b[2J\x1b[>4;1m\x1b[?25l\x1b]0;m\x07\x1b\x1b[31mc\x1b(B\x1b[3";
        for step in 1..bytes.len() {
            let mut colours = Colours::default();
            let mut out: Vec<u8> = bytes.chunks(step).flat_map(|piece| colours.without(piece)).collect();
            out.extend(colours.rest());
            let wanted = b"ab\x1b[2J\x1b[>4;1m\x1b[?25l\x1b]0;m\x07\x1bc\x1b(B\x1b[3";
            assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(wanted), "in steps of {step}");
        }
    }
}
