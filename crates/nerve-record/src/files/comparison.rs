//! The comparison of two files.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::FilesError;
use nerve_types::regular_file::{Links, open_regular};

/// Bytes of a file that are compared at a time.
const BUFFER: usize = 1 << 20;

/// A check that is called repeatedly and cancels the operation with an error.
pub(super) type Continue<'a> = &'a dyn Fn() -> Result<(), FilesError>;

/// Returns true if both are regular files with the same bytes. A file that cannot be read is never the same.
///
/// # Errors
/// `should_continue` fails.
pub(super) fn has_same_bytes(
    one: &Path,
    other: &Path,
    should_continue: Continue<'_>,
) -> Result<bool, FilesError> {
    let open = |path: &Path| open_regular(path, OpenOptions::new().read(true), Links::Refuse);
    let (Ok(one), Ok(other)) = (open(one), open(other)) else { return Ok(false) };
    let (mut one, mut other) =
        (BufReader::with_capacity(BUFFER, one), BufReader::with_capacity(BUFFER, other));
    loop {
        should_continue()?;
        let (Ok(left), Ok(right)) = (one.fill_buf(), other.fill_buf()) else { return Ok(false) };
        let bytes = left.len().min(right.len());
        if left[..bytes] != right[..bytes] || (bytes == 0 && left.len() != right.len()) {
            return Ok(false);
        }
        if bytes == 0 {
            return Ok(true);
        }
        one.consume(bytes);
        other.consume(bytes);
    }
}
