//! The database of the search index.

mod blocks;
mod document_writer;
mod error;
mod schema;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_node::error::EngineError;
use nerve_types::files::Lock;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio_util::sync::CancellationToken;

pub(super) use self::error::IndexError;

use self::schema::connect;
use super::sql::from_sql;
use crate::data_dirs::DataDirs;
use crate::node_files::NodeKey;

/// Name of the database.
const FILE: &str = "index.db";
/// Time to wait for another process that writes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Steps of SQLite's virtual machine between two checks whether the search is cancelled: those of a few rows.
const CANCEL_INTERVAL: i32 = 100;
/// Returns true if these data have an index, even a damaged one. Without one, the first search builds it.
pub fn has_index(dirs: &DataDirs) -> bool {
    dirs.search.join(FILE).exists()
}

/// An open index.
#[derive(Debug)]
pub(super) struct SearchIndex {
    pub(super) connection: Connection,
    cancel: CancellationToken,
    /// Path of the database.
    pub(super) path: PathBuf,
    /// Inode of the database. Another process may have replaced the file since.
    inode: Option<u64>,
}

/// How far a source is indexed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct IndexState {
    /// Nothing will change any more.
    pub(super) is_final: bool,
    /// Path of the agent's session file; empty if there is none.
    pub(super) session_file: String,
    /// Sizes and times of the files with the turns; empty if they have to be read again.
    pub(super) turns_fingerprint: String,
    /// Size and time of the recording whose screen is indexed.
    pub(super) screen_fingerprint: String,
    /// Texts of turns that exceed the limit are indexed in part.
    pub(super) has_cut_turns: bool,
    /// The screen is indexed in part.
    pub(super) has_cut_screen: bool,
}

/// Start and end of each recording, by node, in milliseconds since the Unix epoch; the end is `None` while it runs.
pub(super) type RecordedTimes = HashMap<NodeKey, Vec<(u64, Option<u64>)>>;

impl SearchIndex {
    /// Opens the index `folder/index.db`, or creates it. Replaces a damaged one, or one of an older version, by an empty one,
    /// and returns true if it did.
    ///
    /// # Errors
    /// Process: the file cannot be created, or a newer version made it.
    pub(super) fn open(folder: &Path) -> Result<(SearchIndex, bool), IndexError> {
        let path = folder.join(FILE);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| EngineError::process(format!("cannot create {}: {error}", path.display())))?;
        let _lock = lock(folder)?;
        match connect(&path) {
            Ok(connection) => Ok((SearchIndex::new(connection, path), false)),
            Err(IndexError::Damaged(_)) => {
                remove_files(folder)?;
                Ok((SearchIndex::new(connect(&path)?, path), true))
            }
            Err(error) => Err(error),
        }
    }

    fn new(connection: Connection, path: PathBuf) -> SearchIndex {
        let inode = inode_of(&path);
        SearchIndex { connection, cancel: CancellationToken::new(), path, inode }
    }

    /// Locks updates of the index in `folder`; `None` if another process updates it, or if there is no folder.
    pub(super) fn lock_update(folder: &Path) -> Option<Lock> {
        Lock::take(&folder.join("update.lock"), Duration::ZERO).ok()
    }

    /// Makes searches and updates fail as soon as the token is cancelled.
    ///
    /// # Errors
    /// Process: the database refuses.
    pub(super) fn end_with(&mut self, cancel: &CancellationToken) -> Result<(), IndexError> {
        self.cancel = cancel.clone();
        let cancel = cancel.clone();
        let is_cancelled = move || cancel.is_cancelled();
        Ok(self.connection.progress_handler(CANCEL_INTERVAL, Some(is_cancelled))?)
    }

    /// Checks that the work is still wanted.
    ///
    /// # Errors
    /// Cancelled.
    pub(super) fn check_cancelled(&self) -> Result<(), IndexError> {
        if self.cancel.is_cancelled() { Err(IndexError::Cancelled) } else { Ok(()) }
    }

    /// Opens the index `folder/index.db` if it exists and is of this version.
    ///
    /// # Errors
    /// Process: the file cannot be read, or a newer version made it.
    pub(super) fn open_existing(folder: &Path) -> Result<Option<SearchIndex>, IndexError> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let _lock = lock(folder)?;
        match connect(&path) {
            Ok(connection) => Ok(Some(SearchIndex::new(connection, path))),
            // The next search replaces it.
            Err(IndexError::Damaged(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the index, unless another process has replaced it since it was opened.
    ///
    /// # Errors
    /// Process: a file cannot be removed.
    pub(super) fn remove(self, folder: &Path) -> Result<(), IndexError> {
        let _lock = lock(folder)?;
        // The open connection keeps the inode from being used again.
        let is_same = inode_of(&self.path) == self.inode;
        drop(self.connection);
        if is_same { remove_files(folder) } else { Ok(()) }
    }

    /// Returns how far each source is indexed.
    pub(super) fn states(&self) -> Result<HashMap<PathBuf, IndexState>, IndexError> {
        let sql = format!("SELECT {STATE_COLUMNS}, path FROM source");
        let mut statement = self.connection.prepare(&sql)?;
        let rows =
            statement.query_map([], |row| Ok((PathBuf::from(row.get::<_, String>(6)?), state_of(row)?)));
        Ok(rows?.collect::<Result<_, _>>()?)
    }

    /// Returns how far a source is indexed now; `None` if it is not.
    pub(super) fn state(&self, path: &Path) -> Result<Option<IndexState>, IndexError> {
        let sql = format!("SELECT {STATE_COLUMNS} FROM source WHERE path = ?1");
        let mut statement = self.connection.prepare(&sql)?;
        Ok(statement.query_row(params![path.to_string_lossy()], state_of).optional()?)
    }

    /// Marks a source that will not change any more, unless another process has indexed it since.
    pub(super) fn mark_final(&mut self, path: &Path, state: &IndexState) -> Result<(), IndexError> {
        let mark = "UPDATE source SET is_final = 1
                    WHERE path = ?1 AND turns_fingerprint = ?2 AND screen_fingerprint = ?3";
        let values = params![path.to_string_lossy(), state.turns_fingerprint, state.screen_fingerprint];
        self.connection.execute(mark, values)?;
        Ok(())
    }

    /// Returns the times of all indexed recordings of nodes, as far as they are known.
    pub(super) fn recorded_times(&self) -> Result<RecordedTimes, IndexError> {
        let sql = "SELECT server, session, node, started_ms, ended_ms FROM source
                   WHERE recording IS NOT NULL AND node IS NOT NULL AND started_ms > 0";
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            let key = NodeKey { server: row.get(0)?, session: row.get(1)?, node: row.get(2)? };
            let (started, ended): (i64, Option<i64>) = (row.get(3)?, row.get(4)?);
            Ok((key, (from_sql(started), ended.map(from_sql))))
        });
        let mut times = RecordedTimes::new();
        for row in rows? {
            let (key, time) = row?;
            times.entry(key).or_default().push(time);
        }
        Ok(times)
    }
}

/// Columns of [`state_of`].
const STATE_COLUMNS: &str =
    "is_final, session_file, turns_fingerprint, screen_fingerprint, has_cut_turns, has_cut_screen";

fn state_of(row: &Row<'_>) -> rusqlite::Result<IndexState> {
    Ok(IndexState {
        is_final: row.get(0)?,
        session_file: row.get(1)?,
        turns_fingerprint: row.get(2)?,
        screen_fingerprint: row.get(3)?,
        has_cut_turns: row.get(4)?,
        has_cut_screen: row.get(5)?,
    })
}

fn inode_of(path: &Path) -> Option<u64> {
    fs::metadata(path).map(|file| file.ino()).ok()
}

/// Waits for other processes that open or remove the database: SQLite does not, when they create it or change its journal.
fn lock(folder: &Path) -> Result<Lock, IndexError> {
    Lock::take(&folder.join("lock"), LOCK_TIMEOUT)
        .map_err(|error| EngineError::process(format!("search index: {error}")).into())
}

/// Removes the files of the database.
fn remove_files(folder: &Path) -> Result<(), IndexError> {
    for suffix in ["", "-wal", "-shm"] {
        let path = folder.join(format!("{FILE}{suffix}"));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let message = format!("cannot remove {}: {error}", path.display());
                return Err(EngineError::process(message).into());
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nerve_api::value::DocumentKind;

    use super::*;
    use crate::search::documents::{Document, Source};

    fn documents(texts: impl Iterator<Item = String>) -> Vec<Document> {
        let document =
            |(at_ms, text): (u64, String)| Document { kind: DocumentKind::Screen, turn: None, at_ms, text };
        (1..).zip(texts).map(document).collect()
    }

    #[test]
    fn text_of_a_removed_source_leaves_the_file() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let has_text = || {
            let bytes = fs::read(home.work().join(FILE)).unwrap();
            bytes.windows(8).any(|part| part == b"qzxwvyuk")
        };
        let sources = ["kept", "removed"].map(|path| Source { path: path.into(), ..Source::default() });
        let texts = ["plain words", "plain qzxwvyuk words"];
        {
            let (mut index, _) = SearchIndex::open(&home.work()).unwrap();
            for (source, text) in sources.iter().zip(texts) {
                let turns = documents([text.to_string()].into_iter());
                index.replace(source, &IndexState::default(), None, Some(&turns)).unwrap();
            }
        }
        assert!(has_text());
        let (mut index, _) = SearchIndex::open(&home.work()).unwrap();
        index.forget(&["removed".into()]).unwrap();
        drop(index);
        assert!(!has_text());
    }

    #[test]
    fn index_that_was_built_again_is_not_removed() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let folder = home.work();
        let open = || SearchIndex::open(&folder).unwrap().0;
        let damaged = [open(), open()];
        let [first, second] = damaged;
        first.remove(&folder).unwrap();
        assert!(!folder.join(FILE).exists());
        let mut next = open();
        let source = Source { path: "a".into(), ..Source::default() };
        next.replace(&source, &IndexState::default(), None, None).unwrap();
        second.remove(&folder).unwrap();
        assert_eq!(open().states().unwrap().len(), 1);
    }

    #[test]
    fn outdated_reader_marks_nothing_as_final() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let (mut index, _) = SearchIndex::open(&home.work()).unwrap();
        let source = Source { path: "a".into(), ..Source::default() };
        let state = |turns: &str| IndexState { turns_fingerprint: turns.into(), ..IndexState::default() };
        index.replace(&source, &state("new"), None, None).unwrap();
        index.mark_final(&source.path, &state("old")).unwrap();
        assert_eq!(index.state(&source.path).unwrap(), Some(state("new")));
        index.mark_final(&source.path, &state("new")).unwrap();
        assert!(index.state(&source.path).unwrap().unwrap().is_final);
    }

    #[test]
    fn words_of_an_update_are_written_at_once() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let (mut index, _) = SearchIndex::open(&home.work()).unwrap();
        let source = Source { path: "a".into(), ..Source::default() };
        let mut replace = |texts: Vec<String>| {
            let documents = documents(texts.into_iter());
            index.replace(&source, &IndexState::default(), None, Some(&documents)).unwrap();
            let count = |sql: &str| index.connection.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
            // The table of FTS5's segments; the words of each document against those of the index.
            index
                .connection
                .execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)", [])
                .unwrap();
            let matches =
                |word: &str| count(&format!("SELECT count(*) FROM words WHERE words MATCH '{word}'"));
            (count("SELECT count(DISTINCT segid) FROM words_idx"), matches("old"), matches("new"))
        };
        let old = |count: usize| (0..count).map(|at| format!("old word{at}"));
        assert_eq!(replace(old(40).collect()), (1, 40, 0));
        // The first ten stay, and thirty others follow: one more segment.
        let new = (0..30).map(|at| format!("new word{at}"));
        let (segments, old_words, new_words) = replace(old(10).chain(new).collect());
        assert_eq!((old_words, new_words), (10, 30));
        assert!(segments <= 3, "{segments} segments");
    }
}
