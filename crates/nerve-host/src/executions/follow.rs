//! Follows the list of a session's executions as it grows. Nothing is polled: the folder is watched for changes.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use nerve_record::executions::{self, Executions, MAX_LIST};

use crate::line_reader::{LineEvent, LineReader};
use nerve_types::os::FolderWatcher;

/// Follows the list next to a recording.
#[derive(Debug)]
pub struct ExecutionFollower {
    folder: PathBuf,
    watcher: FolderWatcher,
    lines: LineReader,
    known: Executions,
    is_brief: bool,
    diff: Diff,
}

/// The changes read since the last call of [`ExecutionFollower::take_diff`].
#[derive(Debug, Default)]
pub(super) struct Diff {
    /// The list was replaced: earlier updates are invalid.
    pub(super) was_reset: bool,
    /// Numbers of the executions that changed.
    pub(super) numbers: BTreeSet<u64>,
}

impl ExecutionFollower {
    /// Reads the list of a recording, which need not exist yet. Must be called on a runtime.
    ///
    /// # Errors
    /// The folder cannot be watched, or the list cannot be read.
    pub fn new(recording: &Path) -> io::Result<ExecutionFollower> {
        ExecutionFollower::open(recording, Executions::default(), false)
    }

    /// Reads the list for an overview ([`Executions::brief`]).
    ///
    /// # Errors
    /// See [`ExecutionFollower::new`].
    pub(super) fn brief(recording: &Path) -> io::Result<ExecutionFollower> {
        ExecutionFollower::open(recording, Executions::brief(), true)
    }

    fn open(recording: &Path, known: Executions, is_brief: bool) -> io::Result<ExecutionFollower> {
        let folder = recording.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = std::path::absolute(folder.unwrap_or(Path::new(".")))?;
        let watcher = FolderWatcher::new()?;
        // Watched before it is read, so that no change is missed.
        watcher.watch_folder(&folder)?;
        // The last line may end behind the limit.
        let lines = LineReader::with_backlog(executions::list_path(recording), 2 * MAX_LIST);
        let mut follow = ExecutionFollower { folder, watcher, lines, known, is_brief, diff: Diff::default() };
        follow.read_new()?;
        Ok(follow)
    }

    /// Returns the executions read so far.
    pub fn known(&self) -> &Executions {
        &self.known
    }

    /// Returns true if the list has reached the size at which nothing is added any more.
    pub(super) fn is_full(&self) -> bool {
        self.lines.position() >= MAX_LIST
    }

    /// Returns the changes read since the last call.
    pub(super) fn take_diff(&mut self) -> Diff {
        std::mem::take(&mut self.diff)
    }

    /// Waits for changes. Cancel safe.
    ///
    /// # Errors
    /// The I/O error of the watch or of the list.
    pub async fn changed(&mut self) -> io::Result<&Executions> {
        loop {
            self.watcher.changed().await?;
            // The folder may have been created just now.
            self.watcher.watch_folder(&self.folder)?;
            if self.read_new()? {
                return Ok(&self.known);
            }
        }
    }

    /// Reads what was added. Returns true if there was anything.
    pub(super) fn read_new(&mut self) -> io::Result<bool> {
        let ExecutionFollower { lines, known, is_brief, diff, .. } = self;
        let mut has_new = false;
        lines.read(|event| {
            has_new = true;
            match event {
                LineEvent::Line(line) => diff.numbers.extend(known.line(line.as_bytes())),
                LineEvent::Reset => {
                    *known = if *is_brief { Executions::brief() } else { Executions::default() };
                    *diff = Diff { was_reset: true, ..Diff::default() };
                }
            }
        })?;
        // Executions that were dropped from memory are not reported.
        diff.numbers = diff.numbers.split_off(&known.numbers().start);
        Ok(has_new)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nerve_record::executions::{ExecutionLine, append};

    use super::*;

    fn ids(known: &Executions) -> Vec<&str> {
        known.iter().map(|line| line.id.as_str()).collect()
    }

    #[tokio::test]
    async fn listed_executions_are_reported_and_other_files_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("s.ahr");
        let add = |id: &str, ended| {
            let line = ExecutionLine { id: id.into(), ended_ns: ended, ..ExecutionLine::default() };
            append(&recording, line).unwrap();
        };
        add("a", None);
        let mut follow = ExecutionFollower::new(&recording).unwrap();
        assert_eq!(ids(follow.known()), ["a"]);
        std::fs::write(&recording, "bytes").unwrap();
        add("b", None);
        let deadline = Duration::from_secs(20);
        let known = tokio::time::timeout(deadline, follow.changed()).await.unwrap().unwrap();
        assert_eq!(ids(known), ["a", "b"]);
        add("a", Some(1));
        let known = tokio::time::timeout(deadline, follow.changed()).await.unwrap().unwrap();
        assert!(known.get("a").unwrap().has_ended());
    }
}
