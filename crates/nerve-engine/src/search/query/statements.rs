//! Statements that read documents, newest first.

use nerve_api::reply::SearchHit;
use nerve_api::value::DocumentKind;
use nerve_search::{ELLIPSIS, MARKS, excerpt, shorten, split_marks};
use nerve_types::activity::TsMs;
use regex::Regex;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::Query;
use crate::search::progress::TextCounter;
use crate::search::sql::{first_id, from_sql};

/// Words of text around a match.
const WORDS: u32 = 24;

/// Searches for whole words. If there are too few hits, the last word may continue. FTS5 returns whole words in the order of time
/// and stops at the limit, but collects all words with a prefix before it returns one.
pub(super) fn search_text(
    connection: &Connection,
    query: &Query,
    text: &str,
) -> rusqlite::Result<Vec<SearchHit>> {
    let phrase = phrase(text);
    let hits = search_words(connection, query, &phrase)?;
    if hits.len() >= query.limit || !text.ends_with(char::is_alphanumeric) {
        return Ok(hits);
    }
    search_words(connection, query, &format!("{phrase} *"))
}

fn search_words(
    connection: &Connection,
    query: &Query,
    expression: &str,
) -> rusqlite::Result<Vec<SearchHit>> {
    let (condition, mut values) = conditions(query, "words.rowid");
    values.insert(0, Value::from(expression.to_string()));
    // With this order of the loops, FTS5 returns the newest matches first, and none is sorted.
    let sql = format!(
        "SELECT {COLUMNS} FROM words CROSS JOIN document ON document.id = words.rowid
         CROSS JOIN source ON source.id = document.source
         WHERE words MATCH ? {condition} ORDER BY words.rowid DESC LIMIT {}",
        query.limit
    );
    let mut statement = connection.prepare(&sql)?;
    let hits = statement.query_map(params_from_iter(values), hit_of)?.collect::<Result<Vec<_>, _>>()?;
    // Only for the hits that are returned: it reads the whole text.
    let mut snippet = connection
        .prepare("SELECT snippet(words, 0, ?3, ?4, ?5, ?6) FROM words WHERE words MATCH ?1 AND rowid = ?2")?;
    hits.into_iter()
        .map(|(id, mut hit)| {
            let values = rusqlite::params![
                expression,
                id,
                MARKS[0].to_string(),
                MARKS[1].to_string(),
                ELLIPSIS,
                WORDS
            ];
            let marked: String = snippet.query_row(values, |row| row.get(0))?;
            let (text, matches) = split_marks(&marked);
            (hit.text, hit.matches) = shorten(&text, &matches);
            Ok(hit)
        })
        .collect()
}

/// Reads the documents, newest first, until there are enough hits. `words`: an FTS5 expression that they fulfil.
pub(super) fn search_regex(
    connection: &Connection,
    query: &Query,
    regex: &Regex,
    words: Option<&str>,
    counter: &mut TextCounter<'_>,
) -> rusqlite::Result<Vec<SearchHit>> {
    let id = if words.is_some() { "words.rowid" } else { "document.id" };
    let (condition, mut values) = conditions(query, id);
    let documents = match words {
        Some(words) => {
            values.insert(0, Value::from(words.to_string()));
            "words CROSS JOIN document ON document.id = words.rowid"
        }
        None => "document",
    };
    let is_candidate = if words.is_some() { "words MATCH ?" } else { "1" };
    let sql = format!(
        "SELECT {COLUMNS}, document.text FROM {documents} CROSS JOIN source ON source.id = document.source
         WHERE {is_candidate} {condition} ORDER BY {id} DESC"
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut hits = Vec::new();
    while let Some(row) = rows.next()? {
        counter.add(row, TIME)?;
        let text = row.get_ref(TEXT)?.as_str()?;
        let Some(matched) = regex.find(text) else { continue };
        let (_, mut hit) = hit_of(row)?;
        (hit.text, hit.matches) = excerpt(text, matched.range());
        hits.push(hit);
        if hits.len() >= query.limit {
            break;
        }
    }
    Ok(hits)
}

/// Columns of [`hit_of`].
pub(super) const COLUMNS: &str =
    "document.id, document.kind, document.turn, document.at_ms, source.node, source.session,
    source.server, source.recording, source.started_ms, source.path";
/// Index of the column with the time of a document.
pub(super) const TIME: usize = 3;
/// Index of the column after [`COLUMNS`], in which statements have the text.
pub(super) const TEXT: usize = 10;

/// Returns the id of a document, and its hit without text.
pub(super) fn hit_of(row: &Row<'_>) -> rusqlite::Result<(i64, SearchHit)> {
    let number = |column| Ok::<_, rusqlite::Error>(from_sql(row.get(column)?));
    let kind = usize::try_from(row.get::<_, i64>(1)?).unwrap_or(usize::MAX);
    let (at_ms, started) = (number(TIME)?, number(8)?);
    let turn: Option<i64> = row.get(2)?;
    let hit = SearchHit {
        kind: DocumentKind::from_repr(kind).unwrap_or_default(),
        node_id: row.get(4)?,
        session_id: row.get(5)?,
        server_name: row.get(6)?,
        recording_id: row.get(7)?,
        turn: turn.map(from_sql),
        happened_at: TsMs(at_ms),
        offset_ms: at_ms.saturating_sub(started),
        text: String::new(),
        matches: Vec::new(),
    };
    Ok((row.get(0)?, hit))
}

/// Returns the further conditions of a query, and their values. `id` is the column with the ids of documents.
pub(super) fn conditions(query: &Query, id: &str) -> (String, Vec<Value>) {
    let mut sql = String::new();
    let mut values = Vec::new();
    for (column, value) in [("source.node", &query.node), ("source.session", &query.session)] {
        if let Some(value) = value {
            sql.push_str(&format!(" AND {column} = ?"));
            values.push(Value::from(value.clone()));
        }
    }
    if let Some(since) = query.since_ms {
        sql.push_str(&format!(" AND {id} >= ?"));
        values.push(Value::from(first_id(since)));
    }
    if !query.kinds.is_empty() {
        let kinds: Vec<String> = query.kinds.iter().map(|kind| (*kind as i64).to_string()).collect();
        sql.push_str(&format!(" AND document.kind IN ({})", kinds.join(", ")));
    }
    (sql, values)
}

/// Returns a text as a phrase of FTS5.
fn phrase(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}
