//! The executions of a session, as their list grows. Nothing is polled: the folder tells when a file in it has changed.

use std::io;
use std::path::{Path, PathBuf};

use nerve_record::executions::{self, Executions};

use crate::activity::lines::{Found, Lines};
use crate::activity::watch::Watcher;

/// Follows the list beside a recording.
#[derive(Debug)]
pub struct Follow {
    folder: PathBuf,
    watcher: Watcher,
    lines: Lines,
    known: Executions,
}

impl Follow {
    /// Reads the list of this recording as it is now; there need not be one yet. Must be called on a runtime.
    ///
    /// # Errors
    /// The folder cannot be watched, or the list cannot be read.
    pub fn new(recording: &Path) -> io::Result<Follow> {
        let folder = recording.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = std::path::absolute(folder.unwrap_or(Path::new(".")))?;
        let watcher = Watcher::new()?;
        // Watched before it is read: what changes in between is told.
        watcher.folder(&folder)?;
        let lines = Lines::new(executions::path_of(recording));
        let mut follow = Follow { folder, watcher, lines, known: Executions::default() };
        follow.look()?;
        Ok(follow)
    }

    /// What is known now.
    pub fn known(&self) -> &Executions {
        &self.known
    }

    /// Waits until more is known. May be dropped and called again: nothing is lost.
    ///
    /// # Errors
    /// What the system says of the watch or of the list.
    pub async fn changed(&mut self) -> io::Result<&Executions> {
        loop {
            self.watcher.changed().await?;
            // The folder may have been missing until now.
            self.watcher.folder(&self.folder)?;
            if self.look()? {
                return Ok(&self.known);
            }
        }
    }

    /// Reads what was added; true if there was something.
    fn look(&mut self) -> io::Result<bool> {
        let (known, mut any) = (&mut self.known, false);
        self.lines.read(|found| {
            any = true;
            match found {
                Found::Line(line) => known.line(line.as_bytes()),
                Found::Anew => *known = Executions::default(),
            }
        })?;
        Ok(any)
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
    async fn what_is_listed_is_told_and_other_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("s.ahr");
        let add = |id: &str, ended| {
            let line = ExecutionLine { id: id.into(), ended_ns: ended, ..ExecutionLine::default() };
            append(&recording, line).unwrap();
        };
        add("a", None);
        let mut follow = Follow::new(&recording).unwrap();
        assert_eq!(ids(follow.known()), ["a"]);
        std::fs::write(&recording, "bytes").unwrap();
        add("b", None);
        let patience = Duration::from_secs(20);
        let known = tokio::time::timeout(patience, follow.changed()).await.unwrap().unwrap();
        assert_eq!(ids(known), ["a", "b"]);
        add("a", Some(1));
        let known = tokio::time::timeout(patience, follow.changed()).await.unwrap().unwrap();
        assert!(known.get("a").unwrap().has_ended());
    }
}
