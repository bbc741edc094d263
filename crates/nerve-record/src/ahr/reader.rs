//! Reads a recording block by block, using the memory of one block.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use rustix::fs::OFlags;

use super::block::Block;
use super::damaged_range::DamagedRange;
use super::error::AhrError;
use super::header::{HEADER_LEN, Header, MAGIC};
use super::resync::{SCAN_ALLOWANCE, SearchResult};
use super::{payload, writer};

/// Header length written by an older recorder and possibly meant literally by others.
const LONG_HEADER_LEN: usize = 48;

/// The result of [`Reader::next`].
#[derive(Debug, Clone)]
pub enum Part {
    /// An intact block.
    Block(Block),
    /// A stretch that is not an intact block.
    Lost(DamagedRange),
}

/// Reads the blocks of a recording in order and continues after damage.
#[derive(Debug)]
pub struct Reader<R> {
    inner: R,
    /// Current position of `inner`.
    cursor: u64,
    /// Expected file offset of the next block.
    pub(super) at: u64,
    /// Output bytes before `at`, if known.
    pub(super) output_end: Option<u64>,
    /// File length when an unfinished block at `at` was last reported.
    reported_end: Option<u64>,
    /// The block after a stretch that was just reported.
    pending: Option<Block>,
    payload: Vec<u8>,
    /// Remaining budget for false candidates, see [`Reader::resync`].
    pub(super) allowance: u64,
}

impl Reader<BufReader<File>> {
    /// Opens a recording, which may still be written.
    ///
    /// # Errors
    /// [`AhrError::NotAFile`] for a pipe or folder, [`AhrError::Io`] if it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, AhrError> {
        let file = writer::open_regular(path, File::options().read(true), OFlags::empty())?;
        Reader::new(BufReader::new(file))
    }
}

impl<R: Read + Seek> Reader<R> {
    /// Creates a reader that begins at the start of `inner`.
    ///
    /// # Errors
    /// `inner` cannot be positioned.
    pub fn new(mut inner: R) -> Result<Self, AhrError> {
        inner.seek(SeekFrom::Start(0))?;
        Ok(Reader {
            inner,
            cursor: 0,
            at: 0,
            output_end: Some(0),
            reported_end: None,
            pending: None,
            payload: Vec::new(),
            allowance: SCAN_ALLOWANCE,
        })
    }

    /// Returns the next intact block or lost stretch; `None` at the end. If the file grows, the next call continues
    /// there.
    ///
    /// An unfinished block at the end is reported once, as a [`DamagedRange`] with `tail`. If a later call finds it complete,
    /// it returns it; if other blocks have followed by then, it is reported again without `tail`.
    ///
    /// # Errors
    /// I/O errors only: damage is a [`Part::Lost`].
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end for good, this one may continue"
    )]
    pub fn next(&mut self) -> Result<Option<Part>, AhrError> {
        if let Some(block) = self.pending.take() {
            return Ok(Some(self.give(block)));
        }
        if let Some(end) = self.reported_end
            && self.file_len()? == end
        {
            return Ok(None);
        }
        match self.attempt(self.at)? {
            Attempt::End => Ok(None),
            Attempt::Block(block) => Ok(Some(self.give(block))),
            Attempt::Fault(fault) => self.pass(fault),
        }
    }

    /// Skips the fault at `self.at`; `None` if it was reported before and nothing has changed.
    fn pass(&mut self, fault: Fault) -> Result<Option<Part>, AhrError> {
        let (from, unfinished) = (self.at, fault.unfinished);
        let (reason, found) = self.resync(fault)?;
        // A concurrent writer may have completed this block and others during the search.
        if unfinished && let Attempt::Block(block) = self.attempt(from)? {
            return Ok(Some(self.give(block)));
        }
        let (until, tail) = match &found {
            SearchResult::Block(block) => (block.file_off, false),
            SearchResult::Unfinished { end, .. } => (*end, true),
            SearchResult::Nothing { end } => (*end, false),
        };
        let output = match (&found, self.output_end) {
            (SearchResult::Block(block), Some(end)) => Some(end..block.output().start.max(end)),
            _ => None,
        };
        let lost = DamagedRange { file: from..until, output, after: self.output_end, tail, reason };
        let reported_before = self.reported_end.take();
        match found {
            SearchResult::Block(block) => self.pending = Some(*block),
            SearchResult::Unfinished { at, end } => {
                self.at = at;
                self.reported_end = Some(end);
                if reported_before.is_some() && at == from {
                    return Ok(None);
                }
            }
            SearchResult::Nothing { end } => self.at = end,
        }
        Ok(Some(Part::Lost(lost)))
    }

    /// Continues at the block that begins at `file_off`, usually taken from an index. For any other offset, the bytes
    /// up to the next block are reported as lost.
    ///
    /// # Errors
    /// None at present; the seek happens when the block is read.
    pub fn seek_to(&mut self, file_off: u64) -> Result<(), AhrError> {
        self.at = file_off;
        self.output_end = (file_off == 0).then_some(0);
        self.reported_end = None;
        self.pending = None;
        Ok(())
    }

    /// Returns the file offset of the next block to read.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Returns the current length of the file.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn file_len(&mut self) -> io::Result<u64> {
        self.cursor = self.inner.seek(SeekFrom::End(0))?;
        Ok(self.cursor)
    }

    fn give(&mut self, block: Block) -> Part {
        self.at = block.file().end;
        self.reported_end = None;
        // The expected offset of the following output. Blocks without output and inconsistent offsets are not trusted.
        let output = block.output();
        if self.output_end.is_none() || (!output.is_empty() && output.start == block.header.start_off) {
            self.output_end = Some(output.end);
        }
        Part::Block(block)
    }

    /// Tries to read a block at `at`.
    pub(super) fn attempt(&mut self, at: u64) -> io::Result<Attempt> {
        let mut bytes = [0; HEADER_LEN];
        let got = self.read_at(at, &mut bytes)?;
        if got == 0 {
            return Ok(Attempt::End);
        }
        let magic = got.min(MAGIC.len());
        if bytes[..magic] != MAGIC[..magic] {
            return Ok(Fault::bad("no block begins here"));
        }
        if got < HEADER_LEN {
            let reason = format!("the file ends within a block's header, after {got} bytes");
            return Ok(Attempt::Fault(Fault { reason, header: None, unfinished: true }));
        }
        let header = match Header::decode(&bytes) {
            Ok(header) => header,
            Err(fault) => return Ok(Fault::bad(fault.to_string())),
        };
        let claimed = header.compressed as usize;
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let got = self.read_more(claimed, &mut payload)?;
        let outcome = if got < claimed {
            Attempt::Fault(Fault {
                reason: format!("the file ends within a block, after {got} of {claimed} bytes"),
                header: Some((header, end_of(at, &header))),
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
            header: Some((header, end_of(at, &header))),
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
                Ok(got) => filled += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.cursor += filled as u64;
        Ok(filled)
    }

    /// Appends up to `len` bytes to `out`. Memory is allocated as bytes arrive.
    fn read_more(&mut self, len: usize, out: &mut Vec<u8>) -> io::Result<usize> {
        let got = (&mut self.inner).take(len as u64).read_to_end(out)?;
        self.cursor += got as u64;
        Ok(got)
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
fn end_of(at: u64, header: &Header) -> u64 {
    at + HEADER_LEN as u64 + u64::from(header.compressed)
}
