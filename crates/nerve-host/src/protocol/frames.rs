//! Splits a byte stream into frames.

use super::CHUNK;

/// Limit of a frame in bytes, which a greeting with the longest possible command reaches. Output and input are sent in several
/// frames.
const FRAME_LIMIT: usize = 32 << 20;
/// Consumed bytes from which on they are removed from the buffer.
const COMPACT_FROM: usize = 1 << 20;

/// An invalid frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid frame: {0}")]
pub struct BadFrame(pub(super) &'static str);

/// Received bytes, to be split into frames.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
    start: usize,
}

impl Frames {
    /// Returns the buffer to append received bytes to.
    pub fn read_buffer(&mut self) -> &mut Vec<u8> {
        if self.start > 0 && self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        } else if self.start >= COMPACT_FROM {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.reserve(CHUNK);
        &mut self.buffer
    }

    /// Returns the body of the next complete frame.
    ///
    /// # Errors
    /// Its length exceeds 32 MiB.
    pub fn take(&mut self) -> Result<Option<&[u8]>, BadFrame> {
        let Some((length, rest)) = self.buffer[self.start..].split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_LIMIT {
            return Err(BadFrame("too long"));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let body = self.start + 4;
        self.start = body + length;
        Ok(Some(&self.buffer[body..body + length]))
    }
}

/// Appends a frame: length, kind and what `body` writes.
pub(super) fn frame(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 4]);
    out.push(kind);
    body(out);
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}
