//! The tables of the search index.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nerve_node::error::EngineError;
use rusqlite::Connection;

use super::LOCK_TIMEOUT;
use super::error::IndexError;

/// Version of the schema. An older index is built again.
const VERSION: i64 = 6;

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

/// Opens the database, with empty tables if it is new.
///
/// # Errors
/// Damaged: it is damaged or older. Other: the file cannot be opened, or a newer version made it.
pub(super) fn connect(path: &Path) -> Result<Connection, IndexError> {
    let connection = Connection::open(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .map_err(|error| EngineError::process(format!("search index {}: {error}", path.display())))?;
    connection.busy_timeout(LOCK_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    // Text of removed recordings does not stay in the file. The words have an option of their own.
    connection.pragma_update(None, "secure_delete", true)?;
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match version {
        0 => connection
            .execute_batch(&format!("BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;"))?,
        VERSION => {}
        newer if newer > VERSION => return Err(newer_version_error(path)),
        _ => return Err(IndexError::Damaged(format!("an older nerve made {}", path.display()))),
    }
    Ok(connection)
}

fn newer_version_error(path: &Path) -> IndexError {
    let path = path.display();
    let error = EngineError::process(format!("search index {path} was made by a newer nerve"));
    error.hint(format!("use that version, or delete the index, which is built again: rm {path}")).into()
}
