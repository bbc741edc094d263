//! Reads the database of a running opencode (1.18).

use std::path::Path;
use std::time::Duration;

use nerve_agent::parse::opencode_session::StoredMessage;
use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use rusqlite::{Connection, OpenFlags, ToSql, params};

/// Time to wait for a lock. In the mode that opencode uses, its writers do not block readers.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// A conversation.
#[derive(Debug)]
pub struct StoredSession {
    /// Id of the conversation.
    pub id: String,
    /// Messages, oldest first.
    pub messages: Vec<StoredMessage>,
    /// Time of the last change of a message or a part.
    pub changed: TsMs,
}

/// Returns each conversation in this folder with its messages since a time. The conversations of subagents are left out.
///
/// # Errors
/// The database cannot be read, or has another schema.
pub(crate) fn sessions_since(
    database: &Path,
    cwd: &Path,
    since: TsNs,
) -> rusqlite::Result<Vec<StoredSession>> {
    let condition = "session.time_updated >= ?1 AND session.parent_id IS NULL AND session.directory = ?2
         AND message.time_created >= ?1";
    let ms = i64::try_from(since.0 / 1_000_000).unwrap_or(i64::MAX);
    read_sessions(database, condition, params![ms, cwd.to_string_lossy()])
}

/// Returns a conversation and those of its subagents with the messages that changed since a time.
///
/// # Errors
/// The database cannot be read, or has another schema.
pub fn changed_since(database: &Path, session: &str, since: TsMs) -> rusqlite::Result<Vec<StoredSession>> {
    let condition = "(session.id = ?2 OR session.parent_id = ?2) AND (message.time_updated >= ?1
         OR EXISTS (SELECT 1 FROM part WHERE part.message_id = message.id AND part.time_updated >= ?1))";
    let ms = i64::try_from(since.0).unwrap_or(i64::MAX);
    read_sessions(database, condition, params![ms, session])
}

/// Returns a conversation with all its messages; an empty list if there is none.
///
/// # Errors
/// The database cannot be read, or has another schema.
pub fn session(database: &Path, session: &str) -> rusqlite::Result<Vec<StoredSession>> {
    read_sessions(database, "session.id = ?1", params![session])
}

/// Returns the conversations whose first message in this folder was written between two times. The conversations of
/// subagents are left out.
///
/// # Errors
/// The database cannot be read, or has another schema.
pub fn started_in(database: &Path, cwd: &Path, from: TsNs, to: TsNs) -> rusqlite::Result<Vec<StoredSession>> {
    let condition = "session.parent_id IS NULL AND session.directory = ?1
         AND (SELECT min(first.time_created) FROM message first WHERE first.session_id = session.id)
             BETWEEN ?2 AND ?3";
    let ms = |at: TsNs| i64::try_from(at.0 / 1_000_000).unwrap_or(i64::MAX);
    read_sessions(database, condition, params![cwd.to_string_lossy(), ms(from), ms(to)])
}

/// Reads the messages for which an SQL condition holds.
fn read_sessions(
    database: &Path,
    condition: &str,
    parameters: &[&dyn ToSql],
) -> rusqlite::Result<Vec<StoredSession>> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(LOCK_TIMEOUT)?;
    let mut rows = connection.prepare(&format!(
        "SELECT message.session_id, message.id, message.data, part.data,
                max(message.time_updated, coalesce(part.time_updated, 0)) FROM message
         JOIN session ON session.id = message.session_id
         LEFT JOIN part ON part.message_id = message.id
         WHERE {condition}
         ORDER BY message.session_id, message.time_created, message.id, part.id",
    ))?;
    let mut rows = rows.query(parameters)?;
    let mut sessions = Vec::<StoredSession>::new();
    while let Some(row) = rows.next()? {
        let (session, id): (String, String) = (row.get(0)?, row.get(1)?);
        if sessions.last().is_none_or(|last| last.id != session) {
            sessions.push(StoredSession { id: session, messages: Vec::new(), changed: TsMs(0) });
        }
        let Some(StoredSession { messages, changed, .. }) = sessions.last_mut() else { continue };
        *changed = (*changed).max(TsMs(u64::try_from(row.get::<_, i64>(4)?).unwrap_or(0)));
        if messages.last().is_none_or(|message| message.id != id) {
            messages.push(StoredMessage { id, info: row.get(2)?, parts: Vec::new() });
        }
        let part: Option<String> = row.get(3)?;
        messages.last_mut().into_iter().for_each(|message| message.parts.extend(part.clone()));
    }
    Ok(sessions)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const SCHEMA: &str = "
        CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, time_updated INTEGER);
        CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
        CREATE TABLE part (id TEXT, message_id TEXT, time_updated INTEGER, data TEXT);
        INSERT INTO session VALUES ('a', NULL, '/x', 2000), ('b', NULL, '/x', 2000), ('sub', 'a', '/x', 2000),
            ('other', NULL, '/y', 2000), ('old', NULL, '/x', 999);
        INSERT INTO message VALUES ('m0', 'a', 999, 999, '0'), ('m2', 'a', 1001, 1001, '2'),
            ('m1', 'a', 1000, 1000, '1'), ('m3', 'b', 1000, 1000, '3'), ('m4', 'sub', 1000, 1000, '4'),
            ('m5', 'other', 1000, 1000, '5'), ('m6', 'old', 1000, 1000, '6');
        INSERT INTO part VALUES ('p2', 'm1', 1500, 'two'), ('p1', 'm1', 1000, 'one');";

    /// Creates a database as opencode does.
    pub(crate) fn example(folder: &Path) -> (std::path::PathBuf, Connection) {
        let path = folder.join("opencode.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "wal").unwrap();
        writer.execute_batch(SCHEMA).unwrap();
        (path, writer)
    }

    fn ids(sessions: &[StoredSession]) -> Vec<Vec<&str>> {
        sessions.iter().map(|session| session.messages.iter().map(|one| one.id.as_str()).collect()).collect()
    }

    #[test]
    fn recent_messages_of_the_folder_are_read_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _writer) = example(folder.path());
        let sessions = sessions_since(&path, Path::new("/x"), TsNs(1_000_000_000)).unwrap();
        assert_eq!(ids(&sessions), [vec!["m1", "m2"], vec!["m3"]]);
        let first = &sessions[0].messages[0];
        assert_eq!((first.info.as_str(), &first.parts[..]), ("1", &["one".into(), "two".into()][..]));
    }

    #[test]
    fn changed_messages_of_a_conversation_are_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _writer) = example(folder.path());
        let changed = |since| changed_since(&path, "a", TsMs(since)).unwrap();
        assert_eq!(ids(&changed(1000)), [vec!["m1", "m2"], vec!["m4"]]);
        let late = changed(1002);
        assert_eq!(ids(&late), [vec!["m1"]]);
        assert_eq!(late[0].messages[0].parts, ["one", "two"], "a part was changed");
        assert!(changed(1501).is_empty());
    }

    #[test]
    fn conversation_is_found_by_id_or_first_message_time() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _writer) = example(folder.path());
        assert_eq!(ids(&session(&path, "b").unwrap()), [vec!["m3"]]);
        assert!(session(&path, "missing").unwrap().is_empty());
        let between = |from: u64, to: u64| {
            let sessions = started_in(&path, Path::new("/x"), TsNs(from * 1_000_000), TsNs(to * 1_000_000));
            sessions.unwrap().into_iter().map(|one| one.id).collect::<Vec<_>>()
        };
        assert_eq!(between(1000, 1001), ["b", "old"], "the first message of a is older");
        assert_eq!(between(999, 1000), ["a", "b", "old"]);
    }

    #[test]
    fn other_schema_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("opencode.db");
        assert!(sessions_since(&path, Path::new("/x"), TsNs(0)).is_err(), "a missing file is not created");
        std::fs::write(&path, "").unwrap();
        assert!(sessions_since(&path, Path::new("/x"), TsNs(0)).is_err());
    }
}
