//! Reads a history: from its start entry by entry, or from its end without touching the rest.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::lines::{Line, Lines, MAX_LINE_BYTES, TailLines};
use super::stored::{ParsedLine, StoredEntry};
use super::{HistoryError, path};

/// So many malformed lines of a file are named in the log, one by one; the rest only counted.
const NAMED_MALFORMED: u64 = 8;

/// One node's history, as long as it was when opened. ParsedLine does not disturb a writer.
#[derive(Debug)]
pub struct HistoryReader {
    file: File,
    path: PathBuf,
    len: u64,
}

/// Which entries of a history. What is set must all hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only the last so many of those that the rest of the filter lets through.
    pub last: Option<usize>,
    /// Only this operation.
    pub op: Option<String>,
    /// Only the entry with this sequence number (the first, should there be several).
    pub seq: Option<u64>,
    /// Only [`super::INPUT_OPS`].
    pub inputs_only: bool,
    /// No more than so many bytes of entries: the last ones if `last` is set, else the first ones.
    pub max_bytes: Option<usize>,
}

/// What a query found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Each one JSON object's text, oldest first.
    pub entries: Vec<String>,
    /// How many that is.
    pub total: usize,
    /// Lines that were passed over on the way because they are no entries.
    pub malformed: u64,
    /// There are more entries than [`Filter::max_bytes`] let through.
    pub truncated: bool,
}

impl HistoryReader {
    /// Opens the history of a node: `<base>/<server>/<node>.jsonl`, or where that is missing and just one folder of the server has
    /// a file of that name, that one (the first nerve kept a folder for each session).
    ///
    /// # Errors
    /// [`HistoryError::NotFound`], [`HistoryError::Ambiguous`] when several folders have it, [`HistoryError::Name`],
    /// [`HistoryError::NotAFile`], [`HistoryError::Io`].
    pub fn open(base: &Path, server: &str, node: &str) -> Result<HistoryReader, HistoryError> {
        HistoryReader::open_in_session(base, server, None, node)
    }

    /// The same, with the session's folder looked into first.
    ///
    /// # Errors
    /// As [`HistoryReader::open`].
    pub fn open_in_session(
        base: &Path,
        server: &str,
        session: Option<&str>,
        node: &str,
    ) -> Result<HistoryReader, HistoryError> {
        let path = path::find(base, server, session, node)?;
        let file = path::open_to_read(&path).map_err(|error| match error {
            HistoryError::Io { source, path, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                HistoryError::NotFound { node: node.to_string(), server: server.to_string(), path }
            }
            other => other,
        })?;
        let len = file.metadata().map_err(|source| path::io_error("look at", &path, source))?.len();
        Ok(HistoryReader { file, path, len })
    }

    /// The file that is read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All entries, oldest first, one in memory at a time.
    pub fn entries(&self) -> Entries<'_> {
        Entries { path: &self.path, source: Source::Start(Lines::new(&self.file, self.len), 0), malformed: 0 }
    }

    /// All entries, newest first; reads only as much of the file's end as is asked for.
    pub fn entries_from_end(&self) -> Entries<'_> {
        Entries { path: &self.path, source: Source::End(TailLines::new(&self.file, self.len)), malformed: 0 }
    }

    /// The last `n` entries, oldest first.
    ///
    /// # Errors
    /// [`HistoryError::Io`] when the file cannot be read.
    pub fn last(&self, n: usize) -> Result<Vec<StoredEntry>, HistoryError> {
        let mut entries = self.entries_from_end().take(n).collect::<Result<Vec<_>, _>>()?;
        entries.reverse();
        Ok(entries)
    }

    /// The entries that `filter` lets through.
    ///
    /// # Errors
    /// [`HistoryError::Io`] when the file cannot be read.
    pub fn query(&self, filter: &Filter) -> Result<Page, HistoryError> {
        let mut entries = if filter.last.is_some() { self.entries_from_end() } else { self.entries() };
        let limit = if filter.seq.is_some() {
            filter.last.unwrap_or(1).min(1)
        } else {
            filter.last.unwrap_or(usize::MAX)
        };
        let mut found = VecDeque::new();
        let mut bytes = 0_usize;
        let mut truncated = false;
        while found.len() < limit {
            let Some(entry) = entries.next().transpose()? else { break };
            if !filter.matches(&entry) {
                continue;
            }
            bytes = bytes.saturating_add(entry.text.len());
            if filter.max_bytes.is_some_and(|max| bytes > max) {
                truncated = true;
                break;
            }
            if filter.last.is_some() {
                found.push_front(entry.text);
            } else {
                found.push_back(entry.text);
            }
        }
        Ok(Page { total: found.len(), entries: found.into(), malformed: entries.malformed(), truncated })
    }
}

impl Filter {
    /// Whether an entry is wanted; does not look at `last` and `max_bytes`.
    pub fn matches(&self, entry: &StoredEntry) -> bool {
        self.op.as_deref().is_none_or(|op| entry.op() == op)
            && self.seq.is_none_or(|seq| entry.seq() == Some(seq))
            && (!self.inputs_only || entry.is_input())
    }
}

/// The entries of a history one by one. Lines that are none are passed over, with a warning in the log.
pub struct Entries<'a> {
    path: &'a Path,
    source: Source<'a>,
    malformed: u64,
}

enum Source<'a> {
    /// With the number of lines read so far.
    Start(Lines<'a>, u64),
    End(TailLines<'a>),
}

impl Entries<'_> {
    /// Lines passed over so far.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    fn next_line(&mut self) -> Option<std::io::Result<(Line, Option<u64>)>> {
        match &mut self.source {
            Source::Start(lines, number) => {
                *number += 1;
                Some(lines.next()?.map(|line| (line, Some(*number))))
            }
            Source::End(lines) => Some(lines.next()?.map(|line| (line, None))),
        }
    }

    fn pass_over(&mut self, offset: u64, line_no: Option<u64>, why: &str) {
        self.malformed += 1;
        let path = self.path.display();
        if self.malformed <= NAMED_MALFORMED {
            tracing::warn!(%path, line_no, offset, why, "malformed history line passed over");
        } else if self.malformed == NAMED_MALFORMED + 1 {
            tracing::warn!(%path, "more malformed history lines are passed over without being named");
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<StoredEntry, HistoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (line, line_no) = match self.next_line()? {
                Ok(line) => line,
                Err(source) => return Some(Err(path::io_error("read", self.path, source))),
            };
            let Some(bytes) = line.bytes else {
                self.pass_over(line.offset, line_no, &format!("longer than {MAX_LINE_BYTES} bytes"));
                continue;
            };
            match StoredEntry::read(&bytes, line.offset) {
                ParsedLine::Entry(entry) => return Some(Ok(StoredEntry { line_no, ..entry })),
                ParsedLine::Malformed(why) => self.pass_over(line.offset, line_no, &why),
                ParsedLine::Blank => {}
            }
        }
    }
}
