//! Frames: where one ends and the next begins.

use super::CHUNK;

/// The longest frame. Longer bytes go in several.
const FRAME_LIMIT: usize = 1 << 20;

/// A frame that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad frame from the other side: {0}")]
pub struct BadFrame(pub(super) &'static str);

/// Bytes that came in, cut into frames.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
    start: usize,
}

impl Frames {
    /// Where to read to: append here.
    pub fn read_buffer(&mut self) -> &mut Vec<u8> {
        if self.start > 0 && self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        } else if self.start >= FRAME_LIMIT {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.reserve(CHUNK);
        &mut self.buffer
    }

    /// The body of the next whole frame.
    ///
    /// # Errors
    /// It claims to be longer than a frame may be (1 MiB).
    pub fn take(&mut self) -> Result<Option<&[u8]>, BadFrame> {
        let Some((length, rest)) = self.buffer[self.start..].split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_LIMIT {
            return Err(BadFrame("it claims to be too long"));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let body = self.start + 4;
        self.start = body + length;
        Ok(Some(&self.buffer[body..body + length]))
    }
}

/// Appends a frame: what `body` writes, with its length and its kind before it.
pub(super) fn frame(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 4]);
    out.push(kind);
    body(out);
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}
