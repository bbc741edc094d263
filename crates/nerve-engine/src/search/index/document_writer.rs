//! Writes the documents of sources.

use std::path::PathBuf;

use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

use super::blocks::replace_blocks;
use super::error::IndexError;
use super::{IndexState, SearchIndex};
use crate::search::documents::{Document, Source};
use crate::search::sql::{first_id, kinds, to_sql};

impl SearchIndex {
    /// Replaces the documents of a source: the turns, the screen, or both. `None` keeps those that there are.
    pub(in crate::search) fn replace(
        &mut self,
        source: &Source,
        state: &IndexState,
        turns: Option<&[Document]>,
        screen: Option<&[Document]>,
    ) -> Result<(), IndexError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
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
        Ok(transaction.commit()?)
    }

    /// Removes sources and their documents.
    pub(in crate::search) fn forget(&mut self, paths: &[PathBuf]) -> Result<(), IndexError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for path in paths {
            let path = path.to_string_lossy();
            for table in ["document", "block"] {
                let rows =
                    format!("DELETE FROM {table} WHERE source = (SELECT id FROM source WHERE path = ?1)");
                transaction.execute(&rows, params![path])?;
            }
            transaction.execute("DELETE FROM source WHERE path = ?1", params![path])?;
        }
        Ok(transaction.commit()?)
    }
}

/// Replaces the turns of a source, or its screen, and their blocks. Texts grow at their end, so the first documents that are the same
/// are left alone.
fn replace_documents(
    transaction: &Transaction<'_>,
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
