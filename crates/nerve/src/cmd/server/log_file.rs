//! The log file of a server in the background.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use nerve_server::paths::private_directory;

/// Log size in bytes above which a starting server rotates the log. One old log is kept.
const MAX_LOG: u64 = 4 * 1024 * 1024;

/// Opens the log for appending. Returns the file and its length.
pub(super) fn open(path: &Path) -> Result<(File, u64)> {
    private_directory(path.parent().unwrap_or(path))?;
    if fs::metadata(path).is_ok_and(|meta| meta.len() > MAX_LOG) {
        let _ = fs::rename(path, path.with_extension("log.old"));
    }
    let open_file = || -> io::Result<(File, u64)> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let len = file.metadata()?.len();
        Ok((file, len))
    };
    open_file().with_context(|| format!("cannot open the log {}", path.display()))
}

/// Returns the last lines that were logged after offset `start`.
pub(super) fn read_since(path: &Path, start: u64) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let start = usize::try_from(start).unwrap_or(usize::MAX).min(bytes.len());
    let text = String::from_utf8_lossy(&bytes[start..]);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}
