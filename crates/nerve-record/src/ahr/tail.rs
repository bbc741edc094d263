//! Finds the blocks near the end of a long recording without reading the rest.

use std::io::{Read, Seek};

use super::error::AhrError;
use super::header::{HEADER_LEN, Header, MAGIC};
use super::reader::Reader;

/// Bytes at the end of the file that are searched.
const TAIL: usize = 1 << 20;

impl<R: Read + Seek> Reader<R> {
    /// Returns the file offset of a block in the last MiB of the file that is followed by about `output` bytes of output,
    /// or by as much as there is. Returns `None` if no block begins there. Damage can make the distance smaller.
    ///
    /// # Errors
    /// I/O errors only.
    pub fn near_end(&mut self, output: u64) -> Result<Option<u64>, AhrError> {
        let from = self.file_len()?.saturating_sub(TAIL as u64);
        let mut tail = vec![0; TAIL];
        let len = self.source.read_at(from, &mut tail)?;
        tail.truncate(len);
        let (mut last, mut block) = (0, None);
        for at in (0..tail.len()).rev() {
            let Some(header) = header_at(&tail[at..]) else { continue };
            last = last.max(header.start_off);
            block = Some(from + at as u64);
            if last.saturating_sub(header.start_off) >= output {
                break;
            }
        }
        Ok(block)
    }
}

/// Decodes a header. Other bytes that resemble one lead to an unreadable block.
fn header_at(bytes: &[u8]) -> Option<Header> {
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    Header::decode(bytes.first_chunk::<HEADER_LEN>()?).ok()
}
