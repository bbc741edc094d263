//! The directory of journals: `<state>/runs/<server>/<run id>.jsonl`, files 0600 in a directory 0700.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nerve_types::TsNs;
use nerve_types::name;
use rustix::fs::OFlags;
use serde_json::Value;
use uuid::Uuid;

use super::error::JournalError;

const EXTENSION: &str = "jsonl";
/// Beginning of an end record.
const END: &[u8] = b"{\"fact\":\"ended\"";

/// Time to wait for the lock of a server that is just exiting.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Creates a run id: a valid name of 18 characters; ids sort by time (`now`, to the millisecond).
pub fn new_run_id(now: TsNs) -> String {
    // 36⁹ milliseconds last until the year 5188.
    let time = base36::<9>(now.0 / 1_000_000);
    let random = base36::<6>(Uuid::new_v4().as_u64_pair().1);
    format!("r-{time}-{random}")
}

/// Formats the last `DIGITS` digits of a number in base 36.
fn base36<const DIGITS: usize>(mut number: u64) -> String {
    let mut digits = [0; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize];
        number /= 36;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

/// Returns the path of a run's journal in a directory.
pub fn journal_path(folder: &Path, run: &str) -> PathBuf {
    folder.join(format!("{run}.{EXTENSION}"))
}

/// Lists the journals in a directory, newest first; empty if the directory does not exist.
pub fn journals(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| is_journal(path)).collect();
    paths.sort_unstable_by(|a, b| b.cmp(a));
    paths
}

/// Returns true if the last record of a journal is the end of its run. Reads only the end of the file; false in case of doubt.
pub fn has_ended(path: &Path) -> bool {
    last_record(path).is_some_and(|record| record.starts_with(END))
}

/// Returns true if a run has completed: one that failed or was cancelled can be resumed. Reads as little as [`has_ended`].
pub fn has_completed(path: &Path) -> bool {
    let Some(record) = last_record(path).filter(|record| record.starts_with(END)) else { return false };
    // Earlier versions wrote `status`.
    let is_completed = |record: Value| ["state", "status"].iter().any(|name| record[*name] == "completed");
    serde_json::from_slice(&record).is_ok_and(is_completed)
}

/// Returns the last record of a journal, if it is complete and short. An end record is short unless its error is long.
fn last_record(path: &Path) -> Option<Vec<u8>> {
    const TAIL: u64 = 16 << 10;
    let mut file = File::open(path).ok()?;
    let start = file.metadata().ok()?.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    let whole = tail.strip_suffix(b"\n")?;
    whole.rsplit(|byte| *byte == b'\n').next().map(<[u8]>::to_vec)
}

fn is_journal(path: &Path) -> bool {
    let run = path.file_stem().and_then(|stem| stem.to_str());
    path.extension().is_some_and(|extension| extension == EXTENSION)
        && run.is_some_and(|run| name::check("run", run).is_ok())
}

/// Creates a new journal and, if missing, its directory.
pub(super) fn create(path: &Path) -> Result<File, JournalError> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(JournalError::io("create the directory of", path))?;
    }
    OpenOptions::new().create_new(true).append(true).mode(0o600).open(path).map_err(|error| {
        match (error.kind(), path.file_stem()) {
            (io::ErrorKind::AlreadyExists, Some(run)) => {
                JournalError::Exists { run: run.to_string_lossy().into_owned() }
            }
            _ => JournalError::io("create", path)(error),
        }
    })
}

/// Opens an existing journal.
pub(super) fn open(path: &Path, append: bool) -> Result<File, JournalError> {
    // Rejects symbolic links, and does not block on a pipe without a writer.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .append(append)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(JournalError::io("open", path))?;
    if !file.metadata().map_err(JournalError::io("open", path))?.is_file() {
        let not_a_file = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        return Err(JournalError::io("open", path)(not_a_file));
    }
    Ok(file)
}

/// Takes the lock that steps the run as driven by this server.
pub(super) fn lock(file: &File, path: &Path) -> Result<(), JournalError> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(LOCK_RETRY_INTERVAL)
            }
            Err(TryLockError::WouldBlock) => return Err(JournalError::Locked { path: path.into() }),
            Err(TryLockError::Error(source)) => return Err(JournalError::io("lock", path)(source)),
        }
    }
}

/// Syncs the directory entry of a new file to disk.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{journal_path, journals, new_run_id};
    use nerve_types::TsNs;
    use nerve_types::name;
    use std::collections::BTreeSet;

    const MS: u64 = 1_000_000;

    #[test]
    fn run_ids_are_names_that_sort_by_time() {
        let times = [0, 1, 35, 36, 1_790_000_000_000, 1_790_000_000_001, 18_446_744_073_709];
        let ids: Vec<String> = times.iter().map(|ms| new_run_id(TsNs(ms * MS))).collect();
        assert!(ids.is_sorted(), "{ids:?}");
        for id in &ids {
            name::check("run", id).unwrap();
            assert_eq!(id.len(), 18, "{id}");
        }
    }

    #[test]
    fn run_ids_of_the_same_millisecond_differ() {
        let ids: BTreeSet<String> = (0..1000).map(|_| new_run_id(TsNs(MS))).collect();
        assert!(ids.len() > 990, "{}", ids.len());
    }

    #[test]
    fn journals_are_listed_newest_first() {
        let folder = tempfile::tempdir().unwrap();
        let runs: Vec<String> = (1..4).map(|ms| new_run_id(TsNs(ms * MS))).collect();
        for run in &runs {
            std::fs::write(journal_path(folder.path(), run), "").unwrap();
        }
        for other in ["notes.txt", "UPPER.jsonl", "r-1.jsonl.bak", ".jsonl"] {
            std::fs::write(folder.path().join(other), "").unwrap();
        }
        let expected: Vec<_> = runs.iter().rev().map(|run| journal_path(folder.path(), run)).collect();
        assert_eq!(journals(folder.path()), expected);
        assert!(journals(&folder.path().join("none")).is_empty());
    }
}
