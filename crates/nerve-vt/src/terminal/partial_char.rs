//! Holds back a UTF-8 character whose bytes have not all arrived.
//!
//! The parser could do that too, but loses text after such a character if a feed contains more valid bytes than it
//! needs (vte 0.15, `advance_partial_utf8`).

/// The bytes of an incomplete character.
#[derive(Debug, Default)]
pub(super) struct PartialChar {
    bytes: [u8; 4],
    len: usize,
}

impl PartialChar {
    /// Returns the number of bytes held back.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Takes continuation bytes from the beginning of `bytes` and returns how many.
    pub(super) fn complete(&mut self, bytes: &[u8]) -> usize {
        let missing = if self.len == 0 { 0 } else { char_len(self.bytes[0]) - self.len };
        let count = bytes.iter().take(missing).take_while(|byte| is_continuation(**byte)).count();
        self.bytes[self.len..self.len + count].copy_from_slice(&bytes[..count]);
        self.len += count;
        count
    }

    pub(super) fn is_complete(&self) -> bool {
        self.len > 0 && self.len == char_len(self.bytes[0])
    }

    /// Releases the bytes, complete or not.
    pub(super) fn take(&mut self) -> ([u8; 4], usize) {
        (self.bytes, std::mem::take(&mut self.len))
    }

    /// Holds back an incomplete character at the end of `bytes` unless one is already held, and returns its number of
    /// bytes.
    pub(super) fn hold(&mut self, bytes: &[u8]) -> usize {
        if self.len > 0 {
            return 0;
        }
        let tail = &bytes[bytes.len().saturating_sub(3)..];
        let Some(lead) = tail.iter().rposition(|byte| !is_continuation(*byte)) else { return 0 };
        let unfinished = &tail[lead..];
        if unfinished.len() >= char_len(unfinished[0]) {
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

/// Returns the length of the character that starts with `lead`, in bytes.
fn char_len(lead: u8) -> usize {
    match lead {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    }
}
