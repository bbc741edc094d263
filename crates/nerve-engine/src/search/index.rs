//! The database of the search index.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_node::error::{EngineError, ErrorKind};
use nerve_types::files::Lock;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};
use tokio_util::sync::CancellationToken;

use super::documents::{Document, Source};
use super::query::blocks::replace_blocks;
use super::sql::{first_id, from_sql, kinds, to_sql};
use crate::data_dirs::DataDirs;
use crate::node_files::NodeKey;

/// Name of the database.
const FILE: &str = "index.db";
/// First words of the message about a damaged index.
const DAMAGED: &str = "the search index is damaged";
/// First words of the message about an index that cannot grow.
const UNWRITABLE: &str = "the search index cannot be written";
/// Version of the schema. An older index is built again.
const VERSION: i64 = 6;
/// Time to wait for another process that writes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Steps of SQLite's virtual machine between two checks whether the search is cancelled: those of a few rows.
const CANCEL_INTERVAL: i32 = 100;
/// Maximum number of characters of one document. The rest is cut off.
pub(super) const MAX_CHARS: usize = 256 << 10;

/// Ids of documents are in the order of time, so that a search reads the newest documents first and stops at its limit.
const SCHEMA: &str = "
    CREATE TABLE source (
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL UNIQUE,
        recording TEXT, node TEXT, session TEXT, server TEXT,
        started_ms INTEGER NOT NULL,
        ended_ms INTEGER,
        is_final INTEGER NOT NULL,
        session_file TEXT NOT NULL,
        turns_fingerprint TEXT NOT NULL,
        screen_fingerprint TEXT NOT NULL,
        has_cut_turns INTEGER NOT NULL,
        has_cut_screen INTEGER NOT NULL);
    CREATE TABLE document (
        id INTEGER PRIMARY KEY,
        source INTEGER NOT NULL REFERENCES source,
        kind INTEGER NOT NULL,
        turn INTEGER,
        at_ms INTEGER NOT NULL,
        text TEXT NOT NULL);
    CREATE INDEX document_source ON document (source, kind);
    CREATE TABLE block (
        id INTEGER PRIMARY KEY,
        source INTEGER NOT NULL REFERENCES source,
        is_screen INTEGER NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL);
    CREATE INDEX block_source ON block (source, is_screen, last);
    CREATE TABLE trigrams (
        shard INTEGER NOT NULL,
        block INTEGER NOT NULL REFERENCES block,
        bits BLOB NOT NULL,
        PRIMARY KEY (shard, block)) WITHOUT ROWID;
    CREATE TRIGGER block_removed AFTER DELETE ON block BEGIN
        DELETE FROM trigrams WHERE shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) AND block = old.id;
    END;
    CREATE VIRTUAL TABLE words USING fts5 (
        text, content = 'document', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2');
    INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
    CREATE TRIGGER document_removed AFTER DELETE ON document BEGIN
        INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
    END;";

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

impl Document {
    /// Returns true if a part exceeds the limit.
    pub(super) fn is_cut(&self) -> bool {
        self.shortened().len() < self.text.len()
    }

    /// Returns the text without what exceeds the limit.
    pub(super) fn shortened(&self) -> &str {
        if self.text.len() <= MAX_CHARS {
            return &self.text;
        }
        let end = self.text.char_indices().nth(MAX_CHARS).map_or(self.text.len(), |(at, _)| at);
        &self.text[..end]
    }
}

/// Start and end of each recording, by node, in milliseconds since the Unix epoch; the end is `None` while it runs.
pub(super) type RecordedTimes = HashMap<NodeKey, Vec<(u64, Option<u64>)>>;

impl SearchIndex {
    /// Opens the index `folder/index.db`, or creates it. Replaces a damaged one, or one of an older version, by an empty one,
    /// and returns true if it did.
    ///
    /// # Errors
    /// Process: the file cannot be created, or a newer version made it.
    pub(super) fn open(folder: &Path) -> Result<(SearchIndex, bool), EngineError> {
        let path = folder.join(FILE);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| EngineError::process(format!("cannot create {}: {error}", path.display())))?;
        let _lock = lock(folder)?;
        match SearchIndex::connect(&path) {
            Ok(connection) => Ok((SearchIndex::new(connection, path), false)),
            Err(OpenError::Replaceable) => {
                remove_files(folder)?;
                let connection =
                    SearchIndex::connect(&path).map_err(|error| error.into_engine_error(&path))?;
                Ok((SearchIndex::new(connection, path), true))
            }
            Err(error) => Err(error.into_engine_error(&path)),
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
    pub(super) fn end_with(&mut self, cancel: &CancellationToken) -> Result<(), EngineError> {
        self.cancel = cancel.clone();
        let cancel = cancel.clone();
        let is_cancelled = move || cancel.is_cancelled();
        self.connection.progress_handler(CANCEL_INTERVAL, Some(is_cancelled)).map_err(failure)
    }

    /// Checks that the work is still wanted.
    ///
    /// # Errors
    /// Cancelled.
    pub(super) fn check_cancelled(&self) -> Result<(), EngineError> {
        if self.cancel.is_cancelled() { Err(cancelled()) } else { Ok(()) }
    }

    /// Opens the index `folder/index.db` if it exists and is of this version.
    ///
    /// # Errors
    /// Process: the file cannot be read, or a newer version made it.
    pub(super) fn open_existing(folder: &Path) -> Result<Option<SearchIndex>, EngineError> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let _lock = lock(folder)?;
        match SearchIndex::connect(&path) {
            Ok(connection) => Ok(Some(SearchIndex::new(connection, path))),
            // The next search replaces it.
            Err(OpenError::Replaceable) => Ok(None),
            Err(error) => Err(error.into_engine_error(&path)),
        }
    }

    /// Removes the index, unless another process has replaced it since it was opened.
    ///
    /// # Errors
    /// Process: a file cannot be removed.
    pub(super) fn remove(self, folder: &Path) -> Result<(), EngineError> {
        let _lock = lock(folder)?;
        // The open connection keeps the inode from being used again.
        let is_same = inode_of(&self.path) == self.inode;
        drop(self.connection);
        if is_same { remove_files(folder) } else { Ok(()) }
    }

    fn connect(path: &Path) -> Result<Connection, OpenError> {
        let connection = Connection::open(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(OpenError::Io)?;
        connection.busy_timeout(LOCK_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        // Text of removed recordings does not stay in the file. The words have an option of their own.
        connection.pragma_update(None, "secure_delete", true)?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        match version {
            0 => connection.execute_batch(&format!(
                "BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;"
            ))?,
            VERSION => {}
            newer if newer > VERSION => return Err(OpenError::Newer),
            _ => return Err(OpenError::Replaceable),
        }
        Ok(connection)
    }

    /// Returns how far each source is indexed.
    pub(super) fn states(&self) -> Result<HashMap<PathBuf, IndexState>, EngineError> {
        let sql = format!("SELECT {STATE_COLUMNS}, path FROM source");
        let mut statement = self.connection.prepare(&sql).map_err(failure)?;
        let rows =
            statement.query_map([], |row| Ok((PathBuf::from(row.get::<_, String>(6)?), state_of(row)?)));
        rows.map_err(failure)?.collect::<Result<_, _>>().map_err(failure)
    }

    /// Returns how far a source is indexed now; `None` if it is not.
    pub(super) fn state(&self, path: &Path) -> Result<Option<IndexState>, EngineError> {
        let sql = format!("SELECT {STATE_COLUMNS} FROM source WHERE path = ?1");
        let mut statement = self.connection.prepare(&sql).map_err(failure)?;
        statement.query_row(params![path.to_string_lossy()], state_of).optional().map_err(failure)
    }

    /// Marks a source that will not change any more, unless another process has indexed it since.
    pub(super) fn mark_final(&mut self, path: &Path, state: &IndexState) -> Result<(), EngineError> {
        let mark = "UPDATE source SET is_final = 1
                    WHERE path = ?1 AND turns_fingerprint = ?2 AND screen_fingerprint = ?3";
        let values = params![path.to_string_lossy(), state.turns_fingerprint, state.screen_fingerprint];
        self.connection.execute(mark, values).map(drop).map_err(failure)
    }

    /// Replaces the documents of a source: the turns, the screen, or both. `None` keeps those that there are.
    pub(super) fn replace(
        &mut self,
        source: &Source,
        state: &IndexState,
        turns: Option<&[Document]>,
        screen: Option<&[Document]>,
    ) -> Result<(), EngineError> {
        self.replace_in_transaction(source, state, turns, screen).map_err(failure)
    }

    fn replace_in_transaction(
        &mut self,
        source: &Source,
        state: &IndexState,
        turns: Option<&[Document]>,
        screen: Option<&[Document]>,
    ) -> rusqlite::Result<()> {
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let id: i64 = transaction.query_row(
            "INSERT INTO source (path, recording, node, session, server, started_ms, ended_ms, is_final,
                 session_file, turns_fingerprint, screen_fingerprint, has_cut_turns, has_cut_screen)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
             ON CONFLICT (path) DO UPDATE SET recording = ?2, node = ?3, session = ?4, server = ?5, started_ms = ?6,
                 ended_ms = ?7, is_final = ?8, session_file = ?9, turns_fingerprint = ?10, screen_fingerprint = ?11,
                 has_cut_turns = ?12, has_cut_screen = ?13
             RETURNING id",
            params![
                source.path.to_string_lossy(),
                source.recording,
                source.node.node,
                source.node.session,
                source.node.server,
                to_sql(source.started_ms),
                source.ended_ms.map(to_sql),
                state.is_final,
                state.session_file,
                state.turns_fingerprint,
                state.screen_fingerprint,
                state.has_cut_turns,
                state.has_cut_screen
            ],
            |row| row.get(0),
        )?;
        for (documents, is_screen) in [(turns, false), (screen, true)] {
            if let Some(documents) = documents {
                replace_documents(&transaction, id, is_screen, documents)?;
            }
        }
        transaction.commit()
    }

    /// Returns the times of all indexed recordings of nodes, as far as they are known.
    pub(super) fn recorded_times(&self) -> Result<RecordedTimes, EngineError> {
        let sql = "SELECT server, session, node, started_ms, ended_ms FROM source
                   WHERE recording IS NOT NULL AND node IS NOT NULL AND started_ms > 0";
        let mut statement = self.connection.prepare(sql).map_err(failure)?;
        let rows = statement.query_map([], |row| {
            let key = NodeKey { server: row.get(0)?, session: row.get(1)?, node: row.get(2)? };
            let (started, ended): (i64, Option<i64>) = (row.get(3)?, row.get(4)?);
            Ok((key, (from_sql(started), ended.map(from_sql))))
        });
        let mut times = RecordedTimes::new();
        for row in rows.map_err(failure)? {
            let (key, time) = row.map_err(failure)?;
            times.entry(key).or_default().push(time);
        }
        Ok(times)
    }

    /// Removes sources and their documents.
    pub(super) fn forget(&mut self, paths: &[PathBuf]) -> Result<(), EngineError> {
        self.forget_in_transaction(paths).map_err(failure)
    }

    fn forget_in_transaction(&mut self, paths: &[PathBuf]) -> rusqlite::Result<()> {
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        for path in paths {
            let path = path.to_string_lossy();
            for table in ["document", "block"] {
                let rows =
                    format!("DELETE FROM {table} WHERE source = (SELECT id FROM source WHERE path = ?1)");
                transaction.execute(&rows, params![path])?;
            }
            transaction.execute("DELETE FROM source WHERE path = ?1", params![path])?;
        }
        transaction.commit()
    }
}

/// Replaces the turns of a source, or its screen, and their blocks. Texts grow at their end, so the first documents that are the same
/// are left alone.
fn replace_documents(
    transaction: &rusqlite::Transaction<'_>,
    source: i64,
    is_screen: bool,
    documents: &[Document],
) -> rusqlite::Result<()> {
    let mut documents: Vec<&Document> = documents.iter().collect();
    // The order of the ids.
    documents.sort_by_key(|document| document.at_ms);
    let sql = format!(
        "SELECT id, kind, turn, at_ms, text FROM document WHERE source = ?1 AND kind IN ({}) ORDER BY id",
        kinds(is_screen)
    );
    let mut statement = transaction.prepare(&sql)?;
    let mut rows = statement.query(params![source])?;
    let (mut kept, mut outdated) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        let is_same = documents.get(kept.len()).is_some_and(|document| {
            row.get(1) == Ok(document.kind as i64)
                && row.get(2) == Ok(document.turn.map(to_sql))
                && row.get(3) == Ok(to_sql(document.at_ms))
                && row.get_ref(4).is_ok_and(|text| text.as_str() == Ok(document.shortened()))
        });
        let id: i64 = row.get(0)?;
        if !is_same {
            outdated = Some(id);
            break;
        }
        kept.push(id);
    }
    drop(rows);
    if let Some(first) = outdated {
        let remove =
            format!("DELETE FROM document WHERE source = ?1 AND kind IN ({}) AND id >= ?2", kinds(is_screen));
        transaction.execute(&remove, params![source, first])?;
    }
    // More documents of one millisecond than ids are left out.
    let mut insert = transaction.prepare(
        "INSERT OR IGNORE INTO document (id, source, kind, turn, at_ms, text)
         SELECT coalesce(max(id) + 1, ?1), ?3, ?4, ?5, ?6, ?7 FROM document WHERE id >= ?1 AND id < ?2 RETURNING id",
    )?;
    let mut all: Vec<(i64, &str)> =
        kept.iter().copied().zip(documents.iter().map(|document| document.shortened())).collect();
    for document in &documents[kept.len()..] {
        let (first, end) = (first_id(document.at_ms), first_id(document.at_ms.saturating_add(1)));
        let (kind, turn, text) = (document.kind as i64, document.turn.map(to_sql), document.shortened());
        let values = params![first, end, source, kind, turn, to_sql(document.at_ms), text];
        let id: Option<i64> = insert.query_row(values, |row| row.get(0)).optional()?;
        all.extend(id.map(|id| (id, text)));
    }
    // After all documents: FTS5 writes its words to the database before each statement that has a savepoint, as those above have.
    let mut add_words = transaction.prepare("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?;
    for (id, text) in &all[kept.len()..] {
        add_words.execute(params![id, text])?;
    }
    replace_blocks(transaction, source, is_screen, kept.last().copied(), &all)
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
fn lock(folder: &Path) -> Result<Lock, EngineError> {
    Lock::take(&folder.join("lock"), LOCK_TIMEOUT)
        .map_err(|error| EngineError::process(format!("search index: {error}")))
}

/// Removes the files of the database.
fn remove_files(folder: &Path) -> Result<(), EngineError> {
    for suffix in ["", "-wal", "-shm"] {
        let path = folder.join(format!("{FILE}{suffix}"));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(EngineError::process(format!("cannot remove {}: {error}", path.display())));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns true if an error means that the index is damaged.
pub(super) fn is_damage(error: &EngineError) -> bool {
    error.message.starts_with(DAMAGED)
}

/// Returns true if an error means that the index cannot grow, for example because the disk is full.
pub(super) fn is_unwritable(error: &EngineError) -> bool {
    error.message.starts_with(UNWRITABLE)
}

/// Converts an error of the database.
pub(super) fn failure(error: rusqlite::Error) -> EngineError {
    match error.sqlite_error_code() {
        _ if is_corruption(&error) => EngineError::process(format!("{DAMAGED}: {error}")),
        Some(ErrorCode::OperationInterrupted) => cancelled(),
        Some(ErrorCode::DiskFull | ErrorCode::ReadOnly | ErrorCode::SystemIoFailure) => {
            EngineError::process(format!("{UNWRITABLE}: {error}"))
        }
        _ => EngineError::process(format!("search index: {error}")),
    }
}

pub(super) fn cancelled() -> EngineError {
    EngineError::new(ErrorKind::Cancelled, "the search was cancelled: its client disconnected")
}

fn is_corruption(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

/// Reason why an index cannot be opened.
enum OpenError {
    /// It is damaged or older: an empty one can replace it.
    Replaceable,
    Newer,
    Io(std::io::Error),
    Database(rusqlite::Error),
}

impl OpenError {
    fn into_engine_error(self, path: &Path) -> EngineError {
        let path = path.display();
        match self {
            OpenError::Database(error) => failure(error),
            OpenError::Io(error) => EngineError::process(format!("search index {path}: {error}")),
            OpenError::Replaceable => EngineError::process(format!("{DAMAGED}: {path}")),
            OpenError::Newer => {
                EngineError::process(format!("search index {path} was made by a newer nerve"))
                    .hint(format!("use that version, or delete the index, which is built again: rm {path}"))
            }
        }
    }
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> OpenError {
        if is_corruption(&error) { OpenError::Replaceable } else { OpenError::Database(error) }
    }
}

#[cfg(test)]
mod tests {
    use nerve_api::value::DocumentKind;

    use super::*;

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
