//! Reads the database of a running opencode (1.18).

use std::path::Path;
use std::time::Duration;

use nerve_agent::parse::opencode_session::StoredMessage;
use nerve_types::TsNs;
use rusqlite::{Connection, OpenFlags, params};

/// Time to wait for a lock. In the mode that opencode uses, its writers do not block readers.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// Returns the messages since a time, oldest first, of each conversation in this folder. The conversations of subagents are left out.
///
/// # Errors
/// The database cannot be read, or has another schema.
pub(crate) fn sessions_since(
    database: &Path,
    cwd: &Path,
    since: TsNs,
) -> rusqlite::Result<Vec<Vec<StoredMessage>>> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(LOCK_TIMEOUT)?;
    let mut rows = connection.prepare(
        "SELECT message.session_id, message.id, message.data, part.data FROM message
         JOIN session ON session.id = message.session_id
         LEFT JOIN part ON part.message_id = message.id
         WHERE session.time_updated >= ?1 AND session.parent_id IS NULL AND session.directory = ?2
           AND message.time_created >= ?1
         ORDER BY message.session_id, message.time_created, message.id, part.id",
    )?;
    let ms = i64::try_from(since.0 / 1_000_000).unwrap_or(i64::MAX);
    let mut rows = rows.query(params![ms, cwd.to_string_lossy()])?;
    let (mut sessions, mut last) = (Vec::<Vec<StoredMessage>>::new(), None);
    while let Some(row) = rows.next()? {
        let (session, id): (String, String) = (row.get(0)?, row.get(1)?);
        if last.replace(session.clone()) != Some(session) {
            sessions.push(Vec::new());
        }
        let Some(messages) = sessions.last_mut() else { continue };
        if messages.last().is_none_or(|message| message.id != id) {
            messages.push(StoredMessage { id, info: row.get(2)?, parts: Vec::new() });
        }
        let part: Option<String> = row.get(3)?;
        messages.last_mut().into_iter().for_each(|message| message.parts.extend(part.clone()));
    }
    Ok(sessions)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "
        CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, time_updated INTEGER);
        CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
        CREATE TABLE part (id TEXT, message_id TEXT, data TEXT);
        INSERT INTO session VALUES ('a', NULL, '/x', 2000), ('b', NULL, '/x', 2000), ('sub', 'a', '/x', 2000),
            ('other', NULL, '/y', 2000), ('old', NULL, '/x', 999);
        INSERT INTO message VALUES ('m0', 'a', 999, '0'), ('m2', 'a', 1001, '2'), ('m1', 'a', 1000, '1'),
            ('m3', 'b', 1000, '3'), ('m4', 'sub', 1000, '4'), ('m5', 'other', 1000, '5'), ('m6', 'old', 1000, '6');
        INSERT INTO part VALUES ('p2', 'm1', 'two'), ('p1', 'm1', 'one');";

    #[test]
    fn recent_messages_of_the_folder_are_read_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("opencode.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "wal").unwrap();
        writer.execute_batch(SCHEMA).unwrap();
        let sessions = sessions_since(&path, Path::new("/x"), TsNs(1_000_000_000)).unwrap();
        let ids =
            |messages: &Vec<StoredMessage>| messages.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
        assert_eq!(sessions.iter().map(ids).collect::<Vec<_>>(), [vec!["m1", "m2"], vec!["m3"]]);
        assert_eq!(
            (sessions[0][0].info.as_str(), &sessions[0][0].parts[..]),
            ("1", &["one".into(), "two".into()][..])
        );
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
