//! The `.ahr` recording format: independent blocks, each a 44-byte header and a Brotli stream of records.
//!
//! | file | contents |
//! |---|---|
//! | `record` | encoding and decoding of one record |
//! | `segment` | the records of one block before compression |
//! | `sealer`, `encoder_memory` | encodes segments as blocks, with reused memory |
//! | `header` | the 44 bytes before each block's payload |
//! | `payload` | Brotli and the checksum, with size limits |
//! | `writer` | appends sealed blocks to a locked file |
//! | `block` | an intact block as read from a file |
//! | `continuity`, `contradiction` | compares consecutive blocks: offsets and times |
//! | `block_source` | reads the block at an offset |
//! | `reader`, `resync` | reads blocks in order; finds the next one after damage |
//! | `read_ahead` | reads blocks in a second thread |
//! | `tail` | finds the blocks near the end |
//! | `repair` | copies the intact parts of a damaged file |
//!
//! Output offsets count the terminal's output bytes since the recording began; file offsets count bytes of the file.
//! All numbers on disk are little-endian.

mod block;
mod block_source;
mod continuity;
mod contradiction;
mod damaged_range;
mod encoder_memory;
mod error;
mod header;
mod payload;
mod read_ahead;
mod reader;
mod record;
mod repair;
mod resync;
mod sealer;
mod segment;
mod tail;
mod writer;

use std::time::Duration;

pub use crate::meta::DEFAULT_QUALITY;
pub use block::{Block, Records};
pub use contradiction::Contradiction;
pub use damaged_range::DamagedRange;
pub use error::AhrError;
pub use header::{HEADER_LEN, Header};
pub use nerve_types::Origin;
pub use reader::{Part, Reader};
pub use record::{Body, Mark, Record, RecordError, RecordFault};
pub use repair::{RepairReport, repair};
pub use sealer::Sealer;
pub use segment::Segment;
pub use writer::Writer;

/// Uncompressed bytes at which a segment is sealed into a block.
pub const ROTATE_BYTES: usize = 256 * 1024;

/// Maximum age of a segment's first record before a timer seals it. Bounds the loss on a crash.
pub const ROTATE_AFTER: Duration = Duration::from_millis(250);

/// Maximum bytes of a segment, uncompressed or compressed. Larger claims are rejected before memory is allocated.
/// Nerve's own blocks have at most [`ROTATE_BYTES`] plus one record.
pub const MAX_SEGMENT: usize = 16 * 1024 * 1024;
