//! Reads a history forwards, or backwards from its end without touching the rest.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};

use nerve_types::HistoryOp;

use super::lines::{Line, Lines, MAX_LINE_BYTES, TailLines};
use super::stored_entry::{ParsedLine, StoredEntry};
use super::{HistoryError, path};

/// Number of malformed lines per file that are logged individually.
const NAMED_MALFORMED: u64 = 8;

/// One node's history up to its length when opened. Reading does not disturb a writer.
#[derive(Debug)]
pub struct HistoryReader {
    file: File,
    path: PathBuf,
    len: u64,
}

/// Selects entries of a history. All conditions that are set must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Maximum number of entries, counted from the end.
    pub last: Option<usize>,
    /// Operation.
    pub op: Option<HistoryOp>,
    /// Sequence number; of several entries with this number, the first.
    pub seq: Option<u64>,
    /// Limits the entries to operations that send input to the node.
    pub inputs_only: bool,
    /// Leaves out entries of the operation `read`.
    pub without_reads: bool,
    /// Maximum total bytes of entries: the last ones if `last` is set, else the first ones.
    pub max_bytes: Option<usize>,
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The JSON text of each entry, oldest first.
    pub entries: Vec<String>,
    /// Number of entries.
    pub total: usize,
    /// Number of malformed lines that were skipped.
    pub malformed: u64,
    /// More entries matched than [`Filter::max_bytes`] allows.
    pub truncated: bool,
}

impl HistoryReader {
    /// Opens the history of a node: `<base>/<server>/<node>.jsonl`. If that file is missing, opens the only file of that
    /// name in a folder of the server, because older versions had one folder per session.
    ///
    /// # Errors
    /// [`HistoryError::NotFound`], [`HistoryError::Ambiguous`] if several folders have it, [`HistoryError::Name`],
    /// [`HistoryError::NotAFile`], [`HistoryError::Io`].
    pub fn open(base: &Path, server: &str, node: &str) -> Result<HistoryReader, HistoryError> {
        HistoryReader::open_in_session(base, server, None, node)
    }

    /// Opens the history of a node, looking in the session's folder first.
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
        HistoryReader::open_path(path, server, node)
    }

    /// Opens the history of a node in exactly this session; `None`: the default one.
    ///
    /// # Errors
    /// As [`HistoryReader::open`], but never [`HistoryError::Ambiguous`].
    pub fn open_exact(
        base: &Path,
        server: &str,
        session: Option<&str>,
        node: &str,
    ) -> Result<HistoryReader, HistoryError> {
        HistoryReader::open_path(path::of_node(base, server, session, node)?, server, node)
    }

    fn open_path(path: PathBuf, server: &str, node: &str) -> Result<HistoryReader, HistoryError> {
        let file = path::open_to_read(&path).map_err(|error| match error {
            HistoryError::Io { source, path, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                HistoryError::NotFound { node: node.to_string(), server: server.to_string(), path }
            }
            other => other,
        })?;
        let len = file.metadata().map_err(|source| path::io_error("look at", &path, source))?.len();
        Ok(HistoryReader { file, path, len })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Iterates over all entries, oldest first.
    pub fn entries(&self) -> Entries<'_> {
        Entries { path: &self.path, source: Source::Start(Lines::new(&self.file, self.len), 0), malformed: 0 }
    }

    /// Iterates over all entries, newest first; reads only what is consumed.
    pub fn entries_from_end(&self) -> Entries<'_> {
        Entries { path: &self.path, source: Source::End(TailLines::new(&self.file, self.len)), malformed: 0 }
    }

    /// Returns the last `n` entries, oldest first.
    ///
    /// # Errors
    /// [`HistoryError::Io`] if the file cannot be read.
    pub fn last(&self, n: usize) -> Result<Vec<StoredEntry>, HistoryError> {
        let mut entries = self.entries_from_end().take(n).collect::<Result<Vec<_>, _>>()?;
        entries.reverse();
        Ok(entries)
    }

    /// Returns the entries that match `filter`.
    ///
    /// # Errors
    /// [`HistoryError::Io`] if the file cannot be read.
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
    /// Returns true if the entry matches, regardless of `last` and `max_bytes`.
    pub fn matches(&self, entry: &StoredEntry) -> bool {
        self.op.is_none_or(|op| entry.op() == op.as_str())
            && self.seq.is_none_or(|seq| entry.seq() == Some(seq))
            && (!self.inputs_only || entry.is_input())
            && !(self.without_reads && entry.op() == HistoryOp::Read.as_str())
    }
}

/// Iterator over the entries of a history. Skips malformed lines with a logged warning.
pub struct Entries<'a> {
    path: &'a Path,
    source: Source<'a>,
    malformed: u64,
}

enum Source<'a> {
    /// At the start, with the number of lines read.
    Start(Lines<'a>, u64),
    End(TailLines<'a>),
}

impl Entries<'_> {
    /// Returns the number of malformed lines so far.
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
