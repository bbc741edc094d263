//! Reads a recording with the regular reader, for assertions.

use std::path::Path;

use nerve_record::ahr::{Body, DamagedRange, Mark, Part, Reader};
use nerve_types::{ExitStatus, Origin};

/// A recording, whole.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// All output, without gaps in its offsets.
    pub(crate) output: Vec<u8>,
    /// Output bytes up to the end of a record, and its time in nanoseconds since the epoch.
    pub(crate) times: Vec<(usize, u64)>,
    pub(crate) inputs: Vec<Typed>,
    pub(crate) sizes: Vec<(u16, u16)>,
    /// Id and anchor.
    pub(crate) snapshots: Vec<(u64, u64)>,
    pub(crate) exits: Vec<ExitStatus>,
    pub(crate) lost: Vec<DamagedRange>,
    /// The last block is marked as the last.
    pub(crate) complete: bool,
}

/// Input as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Typed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) origin: Option<Origin>,
    pub(crate) redacted: bool,
}

impl Recording {
    /// Reads as much as has been written so far.
    pub(crate) fn of(path: &Path) -> Recording {
        let mut reader = Reader::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut found = Recording::default();
        let mut who = None;
        while let Some(part) = reader.next().unwrap() {
            let block = match part {
                Part::Block(block) => block,
                Part::Lost(lost) => {
                    found.lost.push(lost);
                    continue;
                }
            };
            assert!(block.damage().is_none(), "{:?}", block.damage());
            found.complete = block.header.last;
            for record in block.records() {
                match record.body {
                    Body::Data { off, bytes } => {
                        assert_eq!(off, found.output.len() as u64, "output is missing or doubled");
                        found.output.extend_from_slice(bytes);
                        found.times.push((found.output.len(), record.at.0));
                    }
                    Body::Mark(Mark::Input { origin, redacted }) => who = Some((origin, redacted)),
                    Body::Mark(Mark::Exit(exit)) => found.exits.push(exit),
                    Body::Mark(_) => {}
                    Body::Input { bytes } => {
                        let (origin, redacted) = who.take().unzip();
                        let redacted = redacted.unwrap_or_default();
                        found.inputs.push(Typed { bytes: bytes.to_vec(), origin, redacted });
                    }
                    Body::Resize { cols, rows } => found.sizes.push((cols, rows)),
                    Body::Snapshot { id, anchor, .. } => found.snapshots.push((id, anchor)),
                }
            }
        }
        found
    }

    /// The output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// Asserts that the file was closed properly and nothing was lost.
    pub(crate) fn assert_whole(&self) {
        assert!(self.lost.is_empty(), "{:?}", self.lost);
        assert!(self.complete, "the last block is missing");
    }
}

/// Returns the numbers of complete lines `word NUMBER`.
pub(crate) fn numbers(text: &str, word: &str) -> Vec<u64> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let number = |line: &str| line.trim_end().strip_prefix(word)?.strip_prefix(' ')?.parse().ok();
    whole.lines().filter_map(number).collect()
}

/// Asserts that the numbers count up from 1 without a gap.
pub(crate) fn assert_counts(numbers: &[u64], to: u64, what: &str) {
    let hole = numbers.iter().zip(1..).find(|(number, expected)| *number != expected);
    assert_eq!(hole, None, "{what}: (found, expected)");
    assert_eq!(numbers.len() as u64, to, "{what}");
}
