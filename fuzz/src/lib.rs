//! What several fuzz targets need.

use std::path::PathBuf;

use tempfile::TempDir;

/// A directory in memory for files that a target writes for each input.
pub struct Scratch(TempDir);

impl Scratch {
    /// Creates the directory.
    pub fn new() -> Scratch {
        let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Scratch(memory.expect("no directory for temporary files"))
    }

    /// Returns the path of a file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

/// Returns the input as text; invalid bytes become replacement characters.
pub fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

/// Splits the input into pieces whose lengths follow from its bytes.
pub fn pieces(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let length = usize::from(*rest.first()?) % 61 + 1;
        let (piece, more) = rest.split_at(length.min(rest.len()));
        rest = more;
        Some(piece)
    })
}
