//! Finds the next intact block after damage.
//!
//! A block's payload can contain the bytes of other recordings: the output of `cat old.ahr` does not compress and is
//! stored verbatim. So the damaged block's own length is trusted first. It is not trusted if a sequence of other blocks
//! leads to the same end. Only if no block begins at that end are the bytes searched for the magic, and a candidate must
//! then continue this recording.

use std::io::{self, Read, Seek};

use nerve_types::TsNs;

use super::block::Block;
use super::block_source::{Attempt, BlockSource, Fault};
use super::header::{HEADER_LEN, Header, MAGIC};

/// Budget in bytes for reading and decompressing false candidates, over a reader's lifetime and on top of
/// [`ALLOWANCE_PER_BYTE`]. Without it, nested false headers could take hours.
const SCAN_ALLOWANCE: u64 = 256 << 20;

/// Allowance earned by each searched byte.
const ALLOWANCE_PER_BYTE: u64 = 4;

const CHUNK: usize = 64 * 1024;

/// The result of a search.
pub(super) enum SearchResult {
    Block(Box<Block>),
    /// A possibly incomplete block begins at `at`; the file ends within it, at `end`.
    Unfinished {
        at: u64,
        end: u64,
    },
    /// No block up to the end of the file.
    Nothing {
        end: u64,
    },
}

/// Conditions that a candidate must meet to belong to this recording.
struct Criteria {
    /// Minimum output offset. `None`: unknown.
    off: Option<u64>,
    /// Within the damaged block's claimed bytes, a candidate must not be older than that block: it would be a recording
    /// shown in this one. Applied only if the damaged header is plausible, that is, if it continues the output.
    within: Option<(u64, TsNs)>,
    /// Contiguous intact blocks must lead from the candidate to this file offset.
    leads_to: Option<u64>,
}

impl Criteria {
    fn takes(&self, block: &Block) -> bool {
        self.continues(block.file_off, block.output().start, &block.header) && block.is_plausible()
    }

    fn continues(&self, at: u64, output: u64, header: &Header) -> bool {
        let is_embedded = self.within.is_some_and(|(end, start)| at < end && header.start < start);
        !is_embedded && self.off.is_none_or(|off| output >= off)
    }
}

/// The remaining budget of a reader's searches.
#[derive(Debug)]
pub(super) struct Resync {
    /// Bytes of false candidates that may still be read.
    allowance: u64,
}

impl Default for Resync {
    fn default() -> Resync {
        Resync { allowance: SCAN_ALLOWANCE }
    }
}

impl Resync {
    /// Finds the next intact block after the fault at `at`; also returns the kind of damage. `output_end`: output bytes before the
    /// fault, if known.
    pub(super) fn search<R: Read + Seek>(
        &mut self,
        source: &mut BlockSource<R>,
        fault: Fault,
        at: u64,
        output_end: Option<u64>,
    ) -> io::Result<(String, SearchResult)> {
        let mut expected = Criteria {
            off: output_end,
            within: fault
                .header
                .filter(|(header, _)| Some(header.start_off) == output_end)
                .map(|(header, end)| (end, header.start)),
            leads_to: None,
        };
        if let Some((offset, following)) = walk(source, &fault)? {
            expected.leads_to = Some(offset);
            let between = self.scan(source, at, &expected)?.found;
            let found = if matches!(between, SearchResult::Block(_)) { between } else { following };
            return Ok((fault.reason, found));
        }
        let search = self.scan(source, at, &expected)?;
        let found = match search.found {
            // An incomplete block with nothing after it is the file's tail.
            SearchResult::Unfinished { end, .. } | SearchResult::Nothing { end } if fault.unfinished => {
                SearchResult::Unfinished { at, end }
            }
            found => found,
        };
        let reason = if search.gave_up {
            format!("{}, and too much looks like a block without being one", fault.reason)
        } else if search.zeroes {
            "the bytes are all zero".to_string()
        } else {
            fault.reason
        };
        Ok((reason, found))
    }

    /// Searches for the magic after `from`, up to the end of the file or the required offset.
    fn scan<R: Read + Seek>(
        &mut self,
        source: &mut BlockSource<R>,
        from: u64,
        expected: &Criteria,
    ) -> io::Result<Search> {
        let mut search = Search { found: SearchResult::Nothing { end: 0 }, zeroes: true, gave_up: false };
        let mut unfinished = None;
        let mut chunk = vec![0; CHUNK];
        let mut at = from;
        loop {
            let read_len = source.read_at(at, &mut chunk)?;
            let bytes = &chunk[..read_len];
            search.zeroes &= bytes.iter().all(|&byte| byte == 0);
            self.allowance = self.allowance.saturating_add(read_len as u64 * ALLOWANCE_PER_BYTE);
            for hit in magics(bytes).map(|hit| at + hit as u64).filter(|&hit| hit > from) {
                match self.candidate(source, hit, expected)? {
                    Candidate::Block(block) => {
                        search.found = SearchResult::Block(block);
                        return Ok(search);
                    }
                    Candidate::Unfinished => unfinished = unfinished.or(Some(hit)),
                    Candidate::No => {}
                    Candidate::NoMore => search.gave_up = true,
                }
            }
            if read_len < CHUNK || expected.leads_to.is_some_and(|limit| limit <= at) {
                let end = at + read_len as u64;
                let beginning = beginning_at_end(bytes).map(|len| end - len as u64).filter(|&hit| hit > from);
                search.found = match unfinished.or(beginning) {
                    Some(at) => SearchResult::Unfinished { at, end },
                    None => SearchResult::Nothing { end },
                };
                return Ok(search);
            }
            // The magic may straddle two chunks.
            at += (CHUNK - (MAGIC.len() - 1)) as u64;
        }
    }

    fn candidate<R: Read + Seek>(
        &mut self,
        source: &mut BlockSource<R>,
        at: u64,
        expected: &Criteria,
    ) -> io::Result<Candidate> {
        if self.allowance == 0 {
            return Ok(Candidate::NoMore);
        }
        let (header, unfinished) = match source.attempt(at)? {
            Attempt::Block(block) if expected.takes(&block) && self.leads(source, &block, expected)? => {
                return Ok(Candidate::Block(Box::new(block)));
            }
            Attempt::Block(block) => (Some(block.header), false),
            Attempt::Fault(fault) => (fault.header.map(|(header, _)| header), fault.unfinished),
            Attempt::End => (None, false),
        };
        let cost = header.map_or(0, |header| u64::from(header.compressed) + u64::from(header.uncompressed));
        self.allowance = self.allowance.saturating_sub(cost + HEADER_LEN as u64);
        let continues = header.is_none_or(|header| expected.continues(at, header.start_off, &header));
        Ok(if unfinished && continues { Candidate::Unfinished } else { Candidate::No })
    }

    /// Returns true if contiguous intact blocks lead from `block` to the required offset.
    fn leads<R: Read + Seek>(
        &mut self,
        source: &mut BlockSource<R>,
        block: &Block,
        expected: &Criteria,
    ) -> io::Result<bool> {
        let Some(limit) = expected.leads_to else { return Ok(true) };
        let mut at = block.file().end;
        while at < limit && self.allowance > 0 {
            let Attempt::Block(next) = source.attempt(at)? else { break };
            at = next.file().end;
            self.allowance = self.allowance.saturating_sub(u64::from(next.header.uncompressed));
        }
        Ok(at == limit)
    }
}

/// Follows the lengths of damaged blocks from header to header, to an intact block or the end of the file, and
/// returns its place. `None` if a length leads nowhere.
fn walk<R: Read + Seek>(
    source: &mut BlockSource<R>,
    fault: &Fault,
) -> io::Result<Option<(u64, SearchResult)>> {
    let mut next = fault.header.filter(|_| !fault.unfinished).map(|(_, end)| end);
    while let Some(at) = next {
        next = match source.attempt(at)? {
            Attempt::Block(block) => return Ok(Some((at, SearchResult::Block(Box::new(block))))),
            Attempt::End => return Ok(Some((at, SearchResult::Nothing { end: at }))),
            Attempt::Fault(Fault { unfinished: true, .. }) => None,
            Attempt::Fault(fault) => fault.header.map(|(_, end)| end),
        };
    }
    Ok(None)
}

struct Search {
    found: SearchResult,
    zeroes: bool,
    gave_up: bool,
}

enum Candidate {
    Block(Box<Block>),
    Unfinished,
    No,
    /// The allowance is exhausted.
    NoMore,
}

/// Iterates over the offsets of the magic in `bytes`.
fn magics(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.windows(MAGIC.len()).enumerate().filter(|(_, window)| *window == MAGIC).map(|(at, _)| at)
}

/// Returns the length of the magic's prefix at the end of `bytes`: a header may be about to be written.
fn beginning_at_end(bytes: &[u8]) -> Option<usize> {
    (1..MAGIC.len()).rev().find(|&len| bytes.ends_with(&MAGIC[..len]))
}
