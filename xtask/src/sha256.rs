//! SHA-256 hashes as text.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};

/// Returns the hash in lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to memory cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
