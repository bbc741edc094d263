//! The blocks at the end of a long recording, found without reading what is before them.

use std::io::{Read, Seek};

use super::error::AhrError;
use super::header::{HEADER_LEN, Header, MAGIC};
use super::reader::Reader;

/// Bytes at the end of the file in which blocks are looked for.
const TAIL: usize = 1 << 20;

impl<R: Read + Seek> Reader<R> {
    /// The file offset of a block from which on there are about `output` bytes of output up to the last block, or as many as there are
    /// in the file's last MiB; `None` if no block begins there. Where damage is, that may be less.
    ///
    /// # Errors
    /// Only what the operating system says.
    pub fn near_end(&mut self, output: u64) -> Result<Option<u64>, AhrError> {
        let from = self.file_len()?.saturating_sub(TAIL as u64);
        let mut tail = vec![0; TAIL];
        let got = self.read_at(from, &mut tail)?;
        tail.truncate(got);
        let (mut last, mut found) = (0, None);
        for at in (0..tail.len()).rev() {
            let Some(header) = header_at(&tail[at..]) else { continue };
            last = last.max(header.start_off);
            found = Some(from + at as u64);
            if last.saturating_sub(header.start_off) >= output {
                break;
            }
        }
        Ok(found)
    }
}

/// The header that begins there. Text that only looks like one is compressed in a recording, and leads to a block that cannot be read.
fn header_at(bytes: &[u8]) -> Option<Header> {
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    Header::decode(bytes.first_chunk::<HEADER_LEN>()?).ok()
}
