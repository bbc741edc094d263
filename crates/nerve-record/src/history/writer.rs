//! Appends to a history. Only opening can fail; later write errors lose entries but never fail an operation.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::entry::Operation;
use super::lines::TailLines;
use super::stored_entry::{ParsedLine, StoredEntry};
use super::{HistoryError, path};

/// Maximum number of notices that wait to be taken.
const MAX_NOTICES: usize = 8;

/// Minimum number of bytes at the file's end that are searched for the last sequence number.
const RECOVERY_BYTES: u64 = 64 << 10;

/// A line buffer larger than this is released after use.
const KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Appends entries to one node's history, each with a single `write(2)`, so that only the last line can be incomplete.
#[derive(Debug, Default)]
pub struct HistoryWriter {
    path: Option<PathBuf>,
    file: Option<LockedFile>,
    seq: u64,
    lost: u64,
    /// Writes are failing. The first failure was logged; later ones are only counted.
    failing: bool,
    notices: Vec<String>,
    /// The file ends with an incomplete line; the next entry begins with a newline.
    torn: bool,
    line: Vec<u8>,
}

impl HistoryWriter {
    /// Opens `<base>/<server>/<node>.jsonl` for appending and continues after the highest sequence number at its end.
    /// Creates a missing file (mode 0600) and folders (0700).
    ///
    /// # Errors
    /// [`HistoryError::Name`] for an invalid name, [`HistoryError::Locked`] if another writer has the file,
    /// [`HistoryError::NotAFile`] for a link, pipe or folder, otherwise [`HistoryError::Io`].
    pub fn create(base: &Path, server: &str, node: &str) -> Result<HistoryWriter, HistoryError> {
        HistoryWriter::create_in_session(base, server, None, node)
    }

    /// Opens the history of a node in a session other than the default one: `<base>/<server>/<session>/<node>.jsonl`.
    /// Nodes of the same name in two sessions have separate files.
    ///
    /// # Errors
    /// As [`HistoryWriter::create`].
    pub fn create_in_session(
        base: &Path,
        server: &str,
        session: Option<&str>,
        node: &str,
    ) -> Result<HistoryWriter, HistoryError> {
        let path = path::of_node(base, server, session, node)?;
        let file = LockedFile::lock(path::open_to_append(&path)?, &path)?;
        let (seq, torn) =
            recover(&file.0).map_err(|source| path::io_error("read the end of", &path, source))?;
        Ok(HistoryWriter { path: Some(path), file: Some(file), seq, torn, ..HistoryWriter::default() })
    }

    /// Creates a writer that writes nothing and creates no file.
    pub fn disabled() -> HistoryWriter {
        HistoryWriter::default()
    }

    /// Returns false for a disabled or closed writer.
    pub fn is_enabled(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the last assigned sequence number; 0 in a new file.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the path; `None` for a disabled writer.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the number of entries lost since the writer was opened.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the messages on the begin and the end of failures since the last call.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Closes the file and releases its lock, as dropping does.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Appends an entry. Returns its sequence number, or 0 if nothing was written because the writer is disabled, closed or
    /// failing. The number of a failed entry is not reused, so a gap reveals a loss.
    pub fn log(&mut self, operation: &Operation<'_>) -> u64 {
        let Some(LockedFile(file)) = &self.file else { return 0 };
        self.seq += 1;
        self.line.clear();
        if self.torn {
            self.line.push(b'\n');
        }
        let outcome = operation
            .encode(self.seq, &mut self.line)
            .map_err(io::Error::from)
            .and_then(|()| write_line(file, &self.line, &mut self.torn));
        if self.line.capacity() > KEPT_BUFFER_BYTES {
            self.line = Vec::new();
        }
        match outcome {
            Ok(()) => self.on_written(),
            Err(error) => self.on_failed(&error),
        }
    }

    fn on_written(&mut self) -> u64 {
        if self.failing {
            self.failing = false;
            self.add_notice(format!("the history continues: {} entries are missing", self.lost));
            tracing::warn!(path = %self.shown_path(), lost = self.lost, "history is being written again");
        }
        self.seq
    }

    fn on_failed(&mut self, error: &io::Error) -> u64 {
        self.lost += 1;
        if !self.failing {
            self.failing = true;
            self.add_notice(format!("the history is interrupted: {}: {error}", self.shown_path()));
            tracing::warn!(path = %self.shown_path(), %error, "history entry lost, and maybe the next ones");
        }
        0
    }

    fn add_notice(&mut self, notice: String) {
        // Only some callers take them.
        if self.notices.len() < MAX_NOTICES {
            self.notices.push(notice);
        }
    }

    fn shown_path(&self) -> std::path::Display<'_> {
        self.path.as_deref().unwrap_or(Path::new("")).display()
    }
}

/// A file under an advisory lock. Two writers would assign the same sequence numbers.
#[derive(Debug)]
struct LockedFile(File);

impl LockedFile {
    fn lock(file: File, path: &Path) -> Result<LockedFile, HistoryError> {
        match file.try_lock() {
            Ok(()) => Ok(LockedFile(file)),
            Err(TryLockError::WouldBlock) => Err(HistoryError::Locked { path: path.to_path_buf() }),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                tracing::warn!(path = %path.display(), "this file system has no locks: history is written without one");
                Ok(LockedFile(file))
            }
            Err(TryLockError::Error(source)) => Err(path::io_error("lock", path, source)),
        }
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Explicit, because a child between fork and exec has a copy of the descriptor that would keep the lock.
        let _ = self.0.unlock();
    }
}

/// Finds the highest sequence number in the last [`RECOVERY_BYTES`], or further back if there is none, and whether the
/// file ends with an incomplete line.
fn recover(file: &File) -> io::Result<(u64, bool)> {
    let len = file.metadata()?.len();
    let mut seq = None;
    for line in TailLines::new(file, len) {
        let line = line?;
        if let Some(ParsedLine::Entry(entry)) = line.bytes.map(|bytes| StoredEntry::read(&bytes, line.offset))
        {
            seq = seq.max(entry.seq());
        }
        if seq.is_some() && len - line.offset >= RECOVERY_BYTES {
            break;
        }
    }
    let mut last = [b'\n'];
    if len > 0 {
        file.read_exact_at(&mut last, len - 1)?;
    }
    Ok((seq.unwrap_or(0), last != *b"\n"))
}

/// Writes a line and updates `torn`: whether the file ends with an incomplete line.
fn write_line(mut file: &File, line: &[u8], torn: &mut bool) -> io::Result<()> {
    let mut written = 0;
    while written < line.len() {
        match file.write(&line[written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                written += count;
                *torn = line[written - 1] != b'\n';
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{HistoryWriter, LockedFile, Operation};
    use nerve_types::TsNs;
    use std::fs::OpenOptions;

    #[test]
    fn full_device_only_counts_lost_entries() {
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let mut writer = HistoryWriter { file: Some(LockedFile(full)), seq: 7, ..HistoryWriter::default() };
        assert_eq!(writer.log(&Operation::Run { ts: TsNs(0), input: "a" }), 0);
        assert_eq!(writer.log(&Operation::Interrupt { ts: TsNs(0) }), 0);
        assert_eq!((writer.lost(), writer.seq(), writer.is_enabled(), writer.failing), (2, 9, true, true));
        assert_eq!((writer.take_notices().len(), writer.take_notices().len()), (1, 0));
        writer.file = Some(LockedFile(tempfile::tempfile().unwrap()));
        assert_eq!(writer.log(&Operation::Interrupt { ts: TsNs(0) }), 10);
        assert_eq!((writer.lost(), writer.failing), (2, false));
        assert!(matches!(writer.take_notices().as_slice(), [notice] if notice.contains("2 entries")));
    }

    #[test]
    fn memory_of_large_entry_is_released() {
        let file = LockedFile(tempfile::tempfile().unwrap());
        let mut writer = HistoryWriter { file: Some(file), ..HistoryWriter::default() };
        assert_eq!(writer.log(&Operation::Write { ts: TsNs(0), input: &"x".repeat(4 << 20) }), 1);
        assert_eq!(writer.line.capacity(), 0);
        assert_eq!(writer.log(&Operation::Write { ts: TsNs(0), input: "small" }), 2);
    }

    #[test]
    fn writer_is_send() {
        fn is_send<T: Send>() {}
        is_send::<HistoryWriter>();
    }
}
