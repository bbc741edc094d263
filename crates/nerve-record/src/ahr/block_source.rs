//! Reads the block at a given offset of a file.

use std::io::{self, Read, Seek, SeekFrom};

use nerve_types::TsNs;

use super::block::Block;
use super::header::{HEADER_LEN, Header, MAGIC};
use super::payload;

/// Header length written by an older recorder and possibly meant literally by others.
const LONG_HEADER_LEN: usize = 48;

/// A file, its position, and a buffer that its blocks share.
#[derive(Debug)]
pub(super) struct BlockSource<R> {
    inner: R,
    /// Current position of `inner`.
    cursor: u64,
    payload: Vec<u8>,
    /// A header that was read in advance, and its file offset.
    peeked: Option<(u64, [u8; HEADER_LEN])>,
}

impl<R: Read + Seek> BlockSource<R> {
    /// Positions `inner` at its start.
    pub(super) fn new(mut inner: R) -> io::Result<Self> {
        inner.seek(SeekFrom::Start(0))?;
        Ok(BlockSource { inner, cursor: 0, payload: Vec::new(), peeked: None })
    }

    /// Returns the current length of the file.
    pub(super) fn len(&mut self) -> io::Result<u64> {
        self.cursor = self.inner.seek(SeekFrom::End(0))?;
        Ok(self.cursor)
    }

    /// Returns the time in the header at `at`, if a block begins there.
    pub(super) fn peek_time(&mut self, at: u64) -> io::Result<Option<TsNs>> {
        let mut bytes = [0; HEADER_LEN];
        if self.read_at(at, &mut bytes)? < HEADER_LEN {
            return Ok(None);
        }
        self.peeked = Some((at, bytes));
        Ok(Header::decode(&bytes).ok().map(|header| header.start).filter(|start| start.0 > 0))
    }

    /// Tries to read a block at `at`.
    pub(super) fn attempt(&mut self, at: u64) -> io::Result<Attempt> {
        let mut bytes = [0; HEADER_LEN];
        let read_len = match self.peeked.take() {
            Some((place, peeked)) if place == at && self.cursor == at + HEADER_LEN as u64 => {
                bytes = peeked;
                HEADER_LEN
            }
            _ => self.read_at(at, &mut bytes)?,
        };
        if read_len == 0 {
            return Ok(Attempt::End);
        }
        let magic = read_len.min(MAGIC.len());
        if bytes[..magic] != MAGIC[..magic] {
            return Ok(Fault::bad("no block begins here"));
        }
        if read_len < HEADER_LEN {
            let reason = format!("the file ends within a block's header, after {read_len} bytes");
            return Ok(Attempt::Fault(Fault { reason, header: None, unfinished: true }));
        }
        let header = match Header::decode(&bytes) {
            Ok(header) => header,
            Err(fault) => return Ok(Fault::bad(fault.to_string())),
        };
        let claimed = header.compressed as usize;
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let read_len = self.read_more(claimed, &mut payload)?;
        let outcome = if read_len < claimed {
            Attempt::Fault(Fault {
                reason: format!("the file ends within a block, after {read_len} of {claimed} bytes"),
                header: Some((header, block_end(at, &header))),
                unfinished: true,
            })
        } else {
            self.unpack(at, header, &mut payload)?
        };
        self.payload = payload;
        Ok(outcome)
    }

    /// Decompresses the payload after a 44-byte header, or a 48-byte header if that fails and no checksum contradicts
    /// it.
    fn unpack(&mut self, at: u64, header: Header, payload: &mut Vec<u8>) -> io::Result<Attempt> {
        let fault = match payload::decompress(&header, payload) {
            Ok(segment) => return Ok(Attempt::Block(Block::parse(at, header, HEADER_LEN, segment))),
            Err(fault) => fault,
        };
        let shift = LONG_HEADER_LEN - HEADER_LEN;
        if header.checksum.is_none()
            && payload.len() >= shift
            && self.read_more(shift, payload)? == shift
            && let Ok(segment) = payload::decompress(&header, &payload[shift..])
        {
            return Ok(Attempt::Block(Block::parse(at, header, LONG_HEADER_LEN, segment)));
        }
        Ok(Attempt::Fault(Fault {
            reason: fault.to_string(),
            header: Some((header, block_end(at, &header))),
            unfinished: false,
        }))
    }

    /// Reads from `at` into `buffer`; returns the number of bytes read.
    pub(super) fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cursor != at {
            self.cursor = self.inner.seek(SeekFrom::Start(at))?;
        }
        let mut filled = 0;
        while filled < buffer.len() {
            match self.inner.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.cursor += filled as u64;
        Ok(filled)
    }

    /// Appends up to `len` bytes to `out`. Memory is allocated as bytes arrive.
    fn read_more(&mut self, len: usize, out: &mut Vec<u8>) -> io::Result<usize> {
        let count = (&mut self.inner).take(len as u64).read_to_end(out)?;
        self.cursor += count as u64;
        Ok(count)
    }
}

/// The result of reading a block at a file offset.
pub(super) enum Attempt {
    Block(Block),
    Fault(Fault),
    /// The end of the file.
    End,
}

/// No intact block.
pub(super) struct Fault {
    pub(super) reason: String,
    /// A plausible header, and the end of its block.
    pub(super) header: Option<(Header, u64)>,
    /// The file ends within the block.
    pub(super) unfinished: bool,
}

impl Fault {
    fn bad(reason: impl Into<String>) -> Attempt {
        Attempt::Fault(Fault { reason: reason.into(), header: None, unfinished: false })
    }
}

/// Returns the end of the block whose header is at `at`.
fn block_end(at: u64, header: &Header) -> u64 {
    at + HEADER_LEN as u64 + u64::from(header.compressed)
}
