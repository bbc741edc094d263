//! Holds back a character whose bytes have not all come yet.
//!
//! The parser can do that too, but loses what follows such a character in the same feed when more bytes than it needs are
//! valid (vte 0.15, `advance_partial_utf8`).

/// The bytes of an unfinished character, fewer than it needs.
#[derive(Debug, Default)]
pub(super) struct Partial {
    bytes: [u8; 4],
    len: usize,
}

impl Partial {
    /// Bytes held back.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Takes the bytes that go on with the character from the start of `bytes` and says how many.
    pub(super) fn complete(&mut self, bytes: &[u8]) -> usize {
        let missing = if self.len == 0 { 0 } else { needed(self.bytes[0]) - self.len };
        let taken = bytes.iter().take(missing).take_while(|byte| is_continuation(**byte)).count();
        self.bytes[self.len..self.len + taken].copy_from_slice(&bytes[..taken]);
        self.len += taken;
        taken
    }

    pub(super) fn is_complete(&self) -> bool {
        self.len > 0 && self.len == needed(self.bytes[0])
    }

    /// Gives up what is held, complete or not.
    pub(super) fn take(&mut self) -> ([u8; 4], usize) {
        (self.bytes, std::mem::take(&mut self.len))
    }

    /// Holds back the unfinished character at the end of `bytes`, if nothing is held, and says how many bytes it has.
    pub(super) fn hold(&mut self, bytes: &[u8]) -> usize {
        if self.len > 0 {
            return 0;
        }
        let tail = &bytes[bytes.len().saturating_sub(3)..];
        let Some(lead) = tail.iter().rposition(|byte| !is_continuation(*byte)) else { return 0 };
        let unfinished = &tail[lead..];
        if unfinished.len() >= needed(unfinished[0]) {
            return 0;
        }
        self.len = unfinished.len();
        self.bytes[..self.len].copy_from_slice(unfinished);
        self.len
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Bytes of the character that starts with `lead`.
fn needed(lead: u8) -> usize {
    match lead {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    }
}
