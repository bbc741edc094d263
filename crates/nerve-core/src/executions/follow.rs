//! The executions of a session, as their list grows. Nothing is polled: the folder tells when a file in it has changed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use nerve_record::executions::{self, Executions, MAX_LIST};

use crate::activity::line_reader::{Found, Lines};
use crate::activity::watcher::Watcher;

/// Follows the list beside a recording.
#[derive(Debug)]
pub struct Follow {
    folder: PathBuf,
    watcher: Watcher,
    lines: Lines,
    known: Executions,
    is_brief: bool,
    news: News,
}

/// What was read since somebody asked last.
#[derive(Debug, Default)]
pub(super) struct News {
    /// The list is another one than before: what was told of it does not hold.
    pub(super) anew: bool,
    /// Numbers of the executions of which something was said.
    pub(super) numbers: BTreeSet<u64>,
}

impl Follow {
    /// Reads the list of this recording as it is now; there need not be one yet. Must be called on a runtime.
    ///
    /// # Errors
    /// The folder cannot be watched, or the list cannot be read.
    pub fn new(recording: &Path) -> io::Result<Follow> {
        Follow::with(recording, Executions::default(), false)
    }

    /// The same for an overview ([`Executions::brief`]).
    ///
    /// # Errors
    /// As [`Follow::new`].
    pub(super) fn brief(recording: &Path) -> io::Result<Follow> {
        Follow::with(recording, Executions::brief(), true)
    }

    fn with(recording: &Path, known: Executions, is_brief: bool) -> io::Result<Follow> {
        let folder = recording.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = std::path::absolute(folder.unwrap_or(Path::new(".")))?;
        let watcher = Watcher::new()?;
        // Watched before it is read: what changes in between is told.
        watcher.folder(&folder)?;
        // The last line may end behind the limit.
        let lines = Lines::of_at_most(executions::path_of(recording), 2 * MAX_LIST);
        let mut follow = Follow { folder, watcher, lines, known, is_brief, news: News::default() };
        follow.look()?;
        Ok(follow)
    }

    /// What is known now.
    pub fn known(&self) -> &Executions {
        &self.known
    }

    /// The list has the size at which no more is added to it.
    pub(super) fn is_full(&self) -> bool {
        self.lines.position() >= MAX_LIST
    }

    /// What was read since this was called last.
    pub(super) fn news(&mut self) -> News {
        std::mem::take(&mut self.news)
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
    pub(super) fn look(&mut self) -> io::Result<bool> {
        let Follow { lines, known, is_brief, news, .. } = self;
        let mut any = false;
        lines.read(|found| {
            any = true;
            match found {
                Found::Line(line) => news.numbers.extend(known.line(line.as_bytes())),
                Found::Anew => {
                    *known = if *is_brief { Executions::brief() } else { Executions::default() };
                    *news = News { anew: true, ..News::default() };
                }
            }
        })?;
        // Of what is forgotten nothing is said.
        news.numbers = news.numbers.split_off(&known.numbers().start);
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
