//! The database of the search index.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_node::error::EngineError;
use rusqlite::{Connection, ErrorCode, params};

use super::DocumentKind;

/// Version of the schema. An older index is built again.
const VERSION: i64 = 1;
/// Time to wait for another process that writes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of characters of one document. The rest is cut off.
const MAX_CHARS: usize = 256 << 10;

const SCHEMA: &str = "
    CREATE TABLE source (
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL UNIQUE,
        recording TEXT, node TEXT, session TEXT, server TEXT,
        started_ms INTEGER NOT NULL,
        is_final INTEGER NOT NULL,
        turns_state TEXT NOT NULL,
        screen_state TEXT NOT NULL);
    CREATE TABLE document (
        id INTEGER PRIMARY KEY,
        source INTEGER NOT NULL REFERENCES source,
        kind INTEGER NOT NULL,
        turn INTEGER,
        at_ms INTEGER NOT NULL,
        text TEXT NOT NULL);
    CREATE INDEX document_source ON document (source, kind);
    CREATE INDEX document_time ON document (at_ms);
    CREATE VIRTUAL TABLE words USING fts5 (
        text, content = 'document', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2');
    CREATE TRIGGER document_added AFTER INSERT ON document BEGIN
        INSERT INTO words (rowid, text) VALUES (new.id, new.text);
    END;
    CREATE TRIGGER document_removed AFTER DELETE ON document BEGIN
        INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
    END;";

/// An open index.
#[derive(Debug)]
pub struct SearchIndex {
    pub(super) connection: Connection,
    /// The index was damaged and is built again.
    pub was_damaged: bool,
}

/// What is indexed: a recording, or the history of a node without one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) recording: Option<String>,
    pub(super) node: Option<String>,
    pub(super) session: Option<String>,
    pub(super) server: Option<String>,
    pub(super) started_ms: u64,
}

/// The names of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NodeKey {
    pub(super) server: Option<String>,
    pub(super) session: Option<String>,
    pub(super) node: Option<String>,
}

/// How far a source is indexed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct IndexState {
    /// Nothing will change any more.
    pub(super) is_final: bool,
    /// Sizes and times of the files with the turns.
    pub(super) turns: String,
    /// Size of the recording whose screen is indexed.
    pub(super) screen: String,
}

/// A text to index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) kind: DocumentKind,
    /// Number of the turn in the transcript, from 1.
    pub(super) turn: Option<u64>,
    pub(super) at_ms: u64,
    pub(super) text: String,
}

impl Document {
    /// Returns the text without what exceeds the limit.
    fn shortened(&self) -> &str {
        let end = self.text.char_indices().nth(MAX_CHARS).map_or(self.text.len(), |(at, _)| at);
        &self.text[..end]
    }
}

impl SearchIndex {
    /// Opens the index `folder/index.db`, or creates it. A damaged one, or one of an older version, is replaced by an empty
    /// one.
    ///
    /// # Errors
    /// Process: the file cannot be created or is used by a newer version.
    pub fn open(folder: &Path) -> Result<SearchIndex, EngineError> {
        let path = folder.join("index.db");
        let io = |error: std::io::Error| {
            EngineError::process(format!("cannot create {}: {error}", path.display()))
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io)?;
        match SearchIndex::connect(&path) {
            Ok(connection) => Ok(SearchIndex { connection, was_damaged: false }),
            Err(OpenError::Replaceable) => {
                for suffix in ["", "-wal", "-shm"] {
                    let _ = fs::remove_file(folder.join(format!("index.db{suffix}")));
                }
                let connection =
                    SearchIndex::connect(&path).map_err(|error| error.into_engine_error(&path))?;
                Ok(SearchIndex { connection, was_damaged: true })
            }
            Err(error) => Err(error.into_engine_error(&path)),
        }
    }

    fn connect(path: &Path) -> Result<Connection, OpenError> {
        let connection = Connection::open(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(|_| OpenError::Replaceable)?;
        connection.busy_timeout(LOCK_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // The index can be built again, so a lost last write after a power failure does no harm.
        connection.pragma_update(None, "synchronous", "off")?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        match version {
            0 => {
                let schema = format!("BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;");
                // Another process may have created it at the same moment.
                if let Err(error) = connection.execute_batch(&schema) {
                    let _ = connection.execute_batch("ROLLBACK");
                    let now: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
                    if now != VERSION {
                        return Err(error.into());
                    }
                }
            }
            VERSION => {}
            newer if newer > VERSION => return Err(OpenError::Newer),
            _ => return Err(OpenError::Replaceable),
        }
        Ok(connection)
    }

    /// Returns how far each source is indexed.
    pub(super) fn states(&self) -> Result<HashMap<PathBuf, IndexState>, EngineError> {
        let sql = "SELECT path, is_final, turns_state, screen_state FROM source";
        let mut statement = self.connection.prepare(sql).map_err(failure)?;
        let rows = statement.query_map([], |row| {
            let state = IndexState { is_final: row.get(1)?, turns: row.get(2)?, screen: row.get(3)? };
            Ok((PathBuf::from(row.get::<_, String>(0)?), state))
        });
        rows.map_err(failure)?.collect::<Result<_, _>>().map_err(failure)
    }

    /// Replaces the documents of a source: the turns, the screen, or both.
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
        let started = to_sql(source.started_ms);
        let id: i64 = transaction.query_row(
            "INSERT INTO source (path, recording, node, session, server, started_ms, is_final, turns_state, screen_state)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (path) DO UPDATE SET recording = ?2, node = ?3, session = ?4, server = ?5, started_ms = ?6,
                 is_final = ?7, turns_state = ?8, screen_state = ?9
             RETURNING id",
            params![
                source.path.to_string_lossy(),
                source.recording,
                source.node,
                source.session,
                source.server,
                started,
                state.is_final,
                state.turns,
                state.screen
            ],
            |row| row.get(0),
        )?;
        for (documents, condition) in [(turns, "<>"), (screen, "=")] {
            if let Some(documents) = documents {
                replace_documents(&transaction, id, condition, documents)?;
            }
        }
        transaction.commit()
    }

    /// Returns the nodes that have an indexed recording.
    pub(super) fn recorded_nodes(&self) -> Result<HashSet<NodeKey>, EngineError> {
        let sql = "SELECT DISTINCT server, session, node FROM source WHERE recording IS NOT NULL AND node IS NOT NULL";
        let mut statement = self.connection.prepare(sql).map_err(failure)?;
        let rows = statement
            .query_map([], |row| Ok(NodeKey { server: row.get(0)?, session: row.get(1)?, node: row.get(2)? }))
            .map_err(failure)?;
        rows.collect::<Result<_, _>>().map_err(failure)
    }

    /// Removes sources and their documents.
    pub(super) fn remove(&mut self, paths: &[PathBuf]) -> Result<(), EngineError> {
        self.remove_in_transaction(paths).map_err(failure)
    }

    fn remove_in_transaction(&mut self, paths: &[PathBuf]) -> rusqlite::Result<()> {
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        for path in paths {
            let path = path.to_string_lossy();
            let documents = "DELETE FROM document WHERE source = (SELECT id FROM source WHERE path = ?1)";
            transaction.execute(documents, params![path])?;
            transaction.execute("DELETE FROM source WHERE path = ?1", params![path])?;
        }
        transaction.commit()
    }
}

/// Replaces the documents of a source whose kind fulfils a condition on [`DocumentKind::Screen`]. Texts grow at their end, so
/// the first documents that are the same are left alone.
fn replace_documents(
    transaction: &rusqlite::Transaction<'_>,
    source: i64,
    condition: &str,
    documents: &[Document],
) -> rusqlite::Result<()> {
    let screen = DocumentKind::Screen as i64;
    let sql = format!(
        "SELECT id, kind, turn, at_ms, text FROM document WHERE source = ?1 AND kind {condition} ?2 ORDER BY id"
    );
    let mut statement = transaction.prepare(&sql)?;
    let mut rows = statement.query(params![source, screen])?;
    let (mut same, mut outdated) = (0, Vec::new());
    while let Some(row) = rows.next()? {
        let is_same = outdated.is_empty()
            && documents.get(same).is_some_and(|document| {
                row.get(1) == Ok(document.kind as i64)
                    && row.get(2) == Ok(document.turn.map(to_sql))
                    && row.get(3) == Ok(to_sql(document.at_ms))
                    && row.get_ref(4).is_ok_and(|text| text.as_str() == Ok(document.shortened()))
            });
        match is_same {
            true => same += 1,
            false => outdated.push(row.get::<_, i64>(0)?),
        }
    }
    let mut remove = transaction.prepare("DELETE FROM document WHERE id = ?1")?;
    for id in outdated {
        remove.execute(params![id])?;
    }
    let mut insert = transaction
        .prepare("INSERT INTO document (source, kind, turn, at_ms, text) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for document in &documents[same..] {
        let turn = document.turn.map(to_sql);
        let (at, text) = (to_sql(document.at_ms), document.shortened());
        insert.execute(params![source, document.kind as i64, turn, at, text])?;
    }
    Ok(())
}

fn to_sql(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Converts an error of the database.
pub(super) fn failure(error: rusqlite::Error) -> EngineError {
    let error = EngineError::process(format!("search index: {error}"));
    error.hint("the index can be deleted: it is built again")
}

/// Reason why an index cannot be opened.
enum OpenError {
    /// It is damaged or older: an empty one can replace it.
    Replaceable,
    Newer,
    Other(rusqlite::Error),
}

impl OpenError {
    fn into_engine_error(self, path: &Path) -> EngineError {
        let path = path.display();
        match self {
            OpenError::Other(error) => failure(error),
            OpenError::Replaceable => EngineError::process(format!("search index {path} is damaged")),
            OpenError::Newer => {
                EngineError::process(format!("search index {path} was made by a newer nerve"))
                    .hint(format!("use that version, or delete the index, which is built again: rm {path}"))
            }
        }
    }
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> OpenError {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => OpenError::Replaceable,
            _ => OpenError::Other(error),
        }
    }
}
