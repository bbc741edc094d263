//! The `.ahr` recording format (seed agent-record §5.1): independent blocks, each a 44-byte header and a Brotli stream of
//! records.
//!
//! | file | what it is |
//! |---|---|
//! | `record` | one record and its bytes |
//! | `segment` | records gathered for one block, and the block's bytes |
//! | `header` | the 44 bytes before each block's payload |
//! | `payload` | Brotli and the checksum, with bounds |
//! | `writer` | appends sealed blocks to a locked file |
//! | `block` | an intact block that was read |
//! | `reader`, `resync` | reads blocks one by one; finds the next one after damage |
//! | `tail` | finds the blocks at the end |
//! | `repair` | a clean copy of a damaged file |
//!
//! Offsets into the terminal's output count its bytes since the recording began; offsets into the file are called file
//! offsets. All numbers on disk are little-endian.

mod block;
mod error;
mod header;
mod lost;
mod payload;
mod reader;
mod record;
mod repair;
mod resync;
mod segment;
mod tail;
mod writer;

use std::time::Duration;

pub use block::{Block, Records};
pub use error::AhrError;
pub use header::{HEADER_LEN, Header};
pub use lost::Lost;
pub use nerve_term::event::Origin;
pub use reader::{Part, Reader};
pub use record::{Body, Mark, Record, RecordError, RecordFault};
pub use repair::{RepairReport, repair};
pub use segment::Segment;
pub use writer::Writer;

/// A segment of this many bytes, uncompressed, is sealed into a block.
pub const ROTATE_BYTES: usize = 256 * 1024;

/// Records are sealed into a block this long after the first of them, by a timer: an idle session loses nothing older.
pub const ROTATE_AFTER: Duration = Duration::from_millis(250);

/// The most bytes a block's segment may have, uncompressed or compressed. Longer claims are refused before memory is
/// given to them. Blocks of nerve have at most [`ROTATE_BYTES`] and one record.
pub const MAX_SEGMENT: usize = 16 * 1024 * 1024;

/// The Brotli quality of recordings unless told otherwise (seed agent-record §5.1.2).
pub const DEFAULT_QUALITY: u8 = 4;
