//! Replies of the terminal to the child process, bounded in size.

use nerve_types::Size;

use super::palette::Rgb;

/// Maximum bytes of replies in one feed; further queries stay unanswered.
const MAX_LEN: usize = 64 * 1024;
/// Cell size in pixels, width × height, for size queries. Arbitrary, because nothing is drawn.
const CELL: (u32, u32) = (8, 16);

/// Replies to be written to the child process.
#[derive(Debug, Default)]
pub(super) struct Replies {
    bytes: Vec<u8>,
}

impl Replies {
    /// Takes all replies.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Adds a reply, or drops it at the limit.
    pub(super) fn add(&mut self, reply: &str) {
        if self.bytes.len() + reply.len() <= MAX_LEN {
            self.bytes.extend_from_slice(reply.as_bytes());
        }
    }

    /// Replies to DA1: a VT220 with ANSI colour.
    pub(super) fn primary_attributes(&mut self) {
        self.add("\x1b[?62;22c");
    }

    /// Replies to DA2: a VT220 with our version as a number (0.1.0 is 100).
    pub(super) fn secondary_attributes(&mut self) {
        let version = env!("CARGO_PKG_VERSION")
            .split(['.', '-', '+'])
            .take(3)
            .fold(0, |sum, part| sum * 100 + part.parse::<u32>().unwrap_or(0));
        self.add(&format!("\x1b[>1;{version};0c"));
    }

    /// Replies to XTVERSION.
    pub(super) fn version(&mut self) {
        self.add(concat!("\x1bP>|nerve(", env!("CARGO_PKG_VERSION"), ")\x1b\\"));
    }

    /// Replies with CPR, or DECXCPR if `extended`. The position is 0-based, the reply 1-based.
    pub(super) fn cursor(&mut self, row: i32, col: usize, extended: bool) {
        let mark = if extended { "?" } else { "" };
        self.add(&format!("\x1b[{mark}{};{}R", row + 1, col + 1));
    }

    /// Replies with DECRPM.
    pub(super) fn mode(&mut self, private: bool, mode: u16, state: u8) {
        let mark = if private { "?" } else { "" };
        self.add(&format!("\x1b[{mark}{mode};{state}$y"));
    }

    /// Replies to `CSI 14 t`, `16 t` and `18 t`: text area in pixels, cell in pixels, text area in cells.
    pub(super) fn size(&mut self, query: u16, size: Size) {
        let (width, height) = CELL;
        let (rows, cols) = (u32::from(size.rows), u32::from(size.cols));
        match query {
            14 => self.add(&format!("\x1b[4;{};{}t", rows * height, cols * width)),
            16 => self.add(&format!("\x1b[6;{height};{width}t")),
            18 => self.add(&format!("\x1b[8;{rows};{cols}t")),
            _ => {}
        }
    }

    /// Replies to an OSC colour query. `selector` is `4;n`, `10`, `11` or `12`; the terminator is that of the query.
    pub(super) fn color(&mut self, selector: &str, Rgb(r, g, b): Rgb, bell: bool) {
        let end = if bell { "\x07" } else { "\x1b\\" };
        self.add(&format!("\x1b]{selector};rgb:{r:02x}{r:02x}/{g:02x}{g:02x}/{b:02x}{b:02x}{end}"));
    }
}
