//! Writes the recorded bytes with their original timing, for standard output that is no terminal.

use std::io::{self, Write};
use std::thread;
use std::time::Instant;

use anyhow::Result;
use nerve_record::ahr::{Body, Record};
use nerve_tui::recording::Player;

use super::{read_failure, write_failure};
use crate::exit::DONE;

/// Plays to the end. After a seek, begins with the screen at that position.
pub(super) fn run(player: &mut Player, has_colors: bool) -> Result<u8> {
    let mut out = io::stdout().lock();
    let mut filter = ColorFilter::default();
    let mut bytes = Vec::new();
    if player.terminal().offset() > 0 {
        bytes = player.terminal().dump();
    }
    loop {
        let output = if has_colors { bytes } else { filter.strip(&bytes) };
        out.write_all(&output).and_then(|()| out.flush()).map_err(write_failure)?;
        if player.is_at_end().map_err(read_failure)? {
            break;
        }
        let due = player.due().unwrap_or_else(Instant::now);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        bytes = Vec::new();
        let collect = |record: &Record<'_>| {
            if let Body::Data { bytes: more, .. } = record.body {
                bytes.extend_from_slice(more);
            }
        };
        player.advance(collect).map_err(read_failure)?;
    }
    if !has_colors {
        out.write_all(&filter.finish()).and_then(|()| out.flush()).map_err(write_failure)?;
    }
    Ok(DONE)
}

/// Removes SGR sequences (ECMA-48 §8.3.117) from a stream, across chunk boundaries.
#[derive(Debug, Default)]
struct ColorFilter {
    /// Incomplete control sequence.
    pending: Vec<u8>,
}

/// Maximum length of a control sequence, in bytes. A longer one is treated as text.
const MAX_SEQUENCE: usize = 256;

impl ColorFilter {
    fn strip(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for byte in bytes {
            match (self.pending.len(), *byte) {
                (_, 0x1b) => {
                    out.append(&mut self.pending);
                    self.pending.push(0x1b);
                }
                (0, byte) => out.push(byte),
                (1, b'[') | (2..MAX_SEQUENCE, b'0'..=b'?') => self.pending.push(*byte),
                (2.., b'm') if self.is_sgr() => self.pending.clear(),
                (_, byte) => {
                    out.append(&mut self.pending);
                    out.push(byte);
                }
            }
        }
        out
    }

    /// Returns the incomplete sequence at the end of the stream.
    fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Sequences with private parameters are not SGR: `CSI > 4 m` configures keys.
    fn is_sgr(&self) -> bool {
        !self.pending[2..].iter().any(|byte| matches!(byte, b'<'..=b'?'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sgr_sequences_are_removed() {
        let bytes = b"a\x1b[1;38:5:3mb\x1b[m\x1b[2J\x1b[>4;1m\x1b[?25l\x1b]0;m\x07\x1b\x1b[31mc\x1b(B\x1b[3";
        for step in 1..bytes.len() {
            let mut filter = ColorFilter::default();
            let mut out: Vec<u8> = bytes.chunks(step).flat_map(|piece| filter.strip(piece)).collect();
            out.extend(filter.finish());
            let wanted = b"ab\x1b[2J\x1b[>4;1m\x1b[?25l\x1b]0;m\x07\x1bc\x1b(B\x1b[3";
            assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(wanted), "in steps of {step}");
        }
    }
}
