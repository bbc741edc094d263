//! Contradictions between intact blocks.

use std::ops::Range;

use nerve_types::TsNs;

/// A contradiction in the records of an intact block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// Output is missing, and no mark explains it.
    #[error("output bytes {}..{} are missing", .0.start, .0.end)]
    Missing(Range<u64>),
    /// Output is repeated.
    #[error("output bytes {}..{} are repeated", .0.start, .0.end)]
    Repeated(Range<u64>),
    /// Times contradict the block, its neighbours or the metadata. Readers get the preceding time instead.
    #[error("the block at file byte {block} has {count} times out of range, the first is {} ns", first.0)]
    Times {
        /// File offset of the block.
        block: u64,
        /// Number of such times.
        count: u32,
        /// The first of them.
        first: TsNs,
    },
}
