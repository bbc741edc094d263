//! Finds documents.

use nerve_graph::session::DEFAULT;
use nerve_node::error::EngineError;
use nerve_types::activity::TsMs;
use nerve_types::suggestion::nearest;
use regex::{Regex, RegexBuilder};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use serde::Serialize;
use strum::VariantArray;

use super::DocumentKind;
use super::index::{SearchIndex, failure, first_id, from_sql};

/// Marks around the matched words in a hit's text: private characters.
const MARKS: [char; 2] = ['\u{e000}', '\u{e001}'];
/// Stands where text was left out.
const ELLIPSIS: &str = "…";
/// Words of text around a match.
const WORDS: u32 = 24;
/// Characters of text on each side of a match of a regular expression.
const CONTEXT: usize = 80;

/// A text to search for.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// Words in this order; the last one may continue. Ignores case, accents and punctuation.
    Text(String),
    /// A regular expression; every document is read.
    Regex(Regex),
}

impl Pattern {
    /// Parses `/REGEX/` or a text. A text without letters and digits is searched for as it is, and so is one in a script
    /// without spaces between words, which the index has no words of.
    ///
    /// # Errors
    /// InvalidRequest: empty, or an invalid regular expression.
    pub fn parse(text: &str) -> Result<Pattern, EngineError> {
        if text.trim().is_empty() {
            return Err(EngineError::invalid_request("the text to search for is empty"));
        }
        let inner =
            text.strip_prefix('/').and_then(|text| text.strip_suffix('/')).filter(|text| !text.is_empty());
        let is_literal = !text.chars().any(char::is_alphanumeric) || text.chars().any(is_unspaced);
        let regex = match inner {
            Some(inner) => RegexBuilder::new(inner).multi_line(true).build(),
            None if is_literal => RegexBuilder::new(&regex::escape(text)).case_insensitive(true).build(),
            None => return Ok(Pattern::Text(text.to_string())),
        };
        regex.map(Pattern::Regex).map_err(|error| EngineError::invalid_request(error.to_string()))
    }
}

/// Returns true for a letter of a script that does not separate words: Thai, Lao, Burmese, kana, Chinese characters.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// What to find.
#[derive(Debug, Clone)]
pub struct Query {
    /// The text.
    pub pattern: Pattern,
    /// Node.
    pub node: Option<String>,
    /// Session.
    pub session: Option<String>,
    /// Earliest time, in milliseconds since the Unix epoch.
    pub since_ms: Option<u64>,
    /// Kinds of documents; all if empty.
    pub kinds: Vec<DocumentKind>,
    /// Maximum number of hits.
    pub limit: usize,
}

/// A document that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// What the text is.
    pub kind: DocumentKind,
    /// Node.
    pub node_id: Option<String>,
    /// Session of the node.
    pub session_id: Option<String>,
    /// Server of the node.
    pub server_name: Option<String>,
    /// Recording; null for a node without one.
    pub recording_id: Option<String>,
    /// Number of the turn in the transcript of the recording, or of the node without one, from 1; null for text of the screen
    /// and for turns that no transcript has.
    pub turn: Option<u64>,
    /// Time: of the prompt, of the end of the answer, or of the moment on the screen.
    pub happened_at: TsMs,
    /// Time since the start of the recording, in milliseconds.
    pub offset_ms: u64,
    /// The text around the match.
    pub text: String,
    /// The matched parts of `text`, as ranges of bytes.
    pub matches: Vec<(usize, usize)>,
}

impl SearchIndex {
    /// Returns the hits, newest first.
    ///
    /// # Errors
    /// The index cannot be read.
    pub(super) fn search(&self, query: &Query) -> Result<Vec<Hit>, EngineError> {
        // Another process may update the index between two statements.
        let transaction = self.connection.unchecked_transaction().map_err(failure)?;
        let hits = match &query.pattern {
            Pattern::Text(text) => search_text(&transaction, query, text),
            Pattern::Regex(regex) => search_regex(&transaction, query, regex),
        };
        hits.map_err(failure)
    }

    /// Checks that the index has the node and the session of a query.
    ///
    /// # Errors
    /// NotFound, with a similar name as the hint. Process: the index cannot be read.
    pub(super) fn check_source(&self, query: &Query) -> Result<(), EngineError> {
        let (node, session) = match (&query.node, &query.session) {
            (None, None) => return Ok(()),
            (node, session) => (node.as_deref(), session.as_deref()),
        };
        let sql = "SELECT DISTINCT source.session, source.node FROM source WHERE source.node IS NOT NULL";
        let mut statement = self.connection.prepare(sql).map_err(failure)?;
        let rows = statement.query_map([], |row| {
            let session: Option<String> = row.get(0)?;
            Ok((session.unwrap_or_else(|| DEFAULT.to_string()), row.get::<_, String>(1)?))
        });
        let known: Vec<(String, String)> =
            rows.map_err(failure)?.collect::<Result<_, _>>().map_err(failure)?;
        let is_it = |(in_session, name): &(String, String)| {
            node.is_none_or(|node| node == name) && session.is_none_or(|session| session == in_session)
        };
        if known.iter().any(is_it) { Ok(()) } else { Err(unknown_source(node, session, &known)) }
    }
}

/// Returns the error for a node or a session that no recording and no history has. `known`: sessions with their nodes.
fn unknown_source(node: Option<&str>, session: Option<&str>, known: &[(String, String)]) -> EngineError {
    let paths: Vec<String> = known.iter().map(|(session, node)| format!("{session}/{node}")).collect();
    let nodes = || known.iter().map(|(_, node)| node.as_str());
    let (wanted, similar) = match (node, session) {
        (Some(node), Some(session)) => {
            let path = format!("{session}/{node}");
            let same_node = known.iter().position(|(_, name)| name == node).map(|at| paths[at].as_str());
            let similar = same_node.or_else(|| nearest(&path, paths.iter().map(String::as_str)));
            (format!("node '{path}'"), similar)
        }
        (Some(node), None) => (format!("node '{node}'"), nearest(node, nodes())),
        (None, session) => {
            let session = session.unwrap_or(DEFAULT);
            let sessions = known.iter().map(|(session, _)| session.as_str());
            (format!("session '{session}'"), nearest(session, sessions))
        }
    };
    let error = EngineError::not_found(format!("no recording or history of {wanted} to search"));
    error.hint(match similar {
        Some(similar) => format!("did you mean '{similar}'?"),
        None => "list the recorded nodes: `LIST_RECORDINGS`".to_string(),
    })
}

/// Searches for whole words, and only with too few hits for a last word that continues: FTS5 returns whole words in the order of
/// time, and stops at the limit, but collects all beginnings of words before it returns one.
fn search_text(connection: &Connection, query: &Query, text: &str) -> rusqlite::Result<Vec<Hit>> {
    let phrase = phrase(text);
    let hits = search_words(connection, query, &phrase)?;
    if hits.len() >= query.limit || !text.ends_with(char::is_alphanumeric) {
        return Ok(hits);
    }
    search_words(connection, query, &format!("{phrase} *"))
}

fn search_words(connection: &Connection, query: &Query, expression: &str) -> rusqlite::Result<Vec<Hit>> {
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
            (hit.text, hit.matches) = split_marks(&marked);
            Ok(hit)
        })
        .collect()
}

fn search_regex(connection: &Connection, query: &Query, regex: &Regex) -> rusqlite::Result<Vec<Hit>> {
    let (condition, values) = conditions(query, "document.id");
    let sql = format!(
        "SELECT {COLUMNS}, document.text FROM document CROSS JOIN source ON source.id = document.source
         WHERE 1 {condition} ORDER BY document.id DESC"
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut hits = Vec::new();
    while let Some(row) = rows.next()? {
        let text = row.get_ref(10)?.as_str()?;
        let Some(found) = regex.find(text) else { continue };
        let (_, mut hit) = hit_of(row)?;
        (hit.text, hit.matches) = excerpt(text, found.range());
        hits.push(hit);
        if hits.len() >= query.limit {
            break;
        }
    }
    Ok(hits)
}

const COLUMNS: &str =
    "document.id, document.kind, document.turn, document.at_ms, source.node, source.session,
    source.server, source.recording, source.started_ms, source.path";

fn hit_of(row: &Row<'_>) -> rusqlite::Result<(i64, Hit)> {
    let number = |column| Ok::<_, rusqlite::Error>(from_sql(row.get(column)?));
    let kind = usize::try_from(row.get::<_, i64>(1)?).unwrap_or(usize::MAX);
    let (at_ms, started) = (number(3)?, number(8)?);
    let turn: Option<i64> = row.get(2)?;
    let hit = Hit {
        kind: DocumentKind::VARIANTS.get(kind).copied().unwrap_or(DocumentKind::Screen),
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
fn conditions(query: &Query, id: &str) -> (String, Vec<Value>) {
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

/// Removes the marks from a text and returns the ranges between them.
fn split_marks(marked: &str) -> (String, Vec<(usize, usize)>) {
    let (mut text, mut matches) = (String::with_capacity(marked.len()), Vec::new());
    for part in marked.split_inclusive(MARKS) {
        text.push_str(part.trim_end_matches(MARKS));
        if part.ends_with(MARKS[0]) {
            matches.push((text.len(), text.len()));
        } else if part.ends_with(MARKS[1])
            && let Some(last) = matches.last_mut()
        {
            last.1 = text.len();
        }
    }
    (text, matches)
}

/// Returns the text around a match.
fn excerpt(text: &str, found: std::ops::Range<usize>) -> (String, Vec<(usize, usize)>) {
    let start = text[..found.start].char_indices().rev().nth(CONTEXT - 1).map_or(0, |(at, _)| at);
    let end = text[found.end..].char_indices().nth(CONTEXT).map_or(text.len(), |(at, _)| found.end + at);
    let cut = |is_cut: bool| if is_cut { ELLIPSIS } else { "" };
    let before = cut(start > 0);
    let shown = format!("{before}{}{}", &text[start..end], cut(end < text.len()));
    let shift = |at: usize| at - start + before.len();
    (shown, vec![(shift(found.start), shift(found.end))])
}

#[cfg(test)]
mod tests {
    use super::super::documents::{Document, Source};
    use super::super::index::IndexState;
    use super::*;

    #[test]
    fn newest_documents_are_found_first_in_any_order_of_indexing() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let (mut index, _) = SearchIndex::open(&home.work()).unwrap();
        let documents = |times: &[u64]| -> Vec<Document> {
            let of = |(number, at_ms): (usize, &u64)| Document {
                kind: DocumentKind::Answer,
                turn: Some(number as u64 + 1),
                at_ms: *at_ms,
                text: format!("wordalpha E0{number}"),
            };
            times.iter().enumerate().map(of).collect()
        };
        for (path, times) in
            [("newer", &[7_000, 5_000, 7_000][..]), ("older", &[1_000, 6_000]), ("same", &[7_000])]
        {
            let source = Source { path: path.into(), recording: Some(path.into()), ..Source::default() };
            index.replace(&source, &IndexState::default(), Some(&documents(times)), None).unwrap();
        }
        let found = |pattern: &str, since_ms, limit| -> Vec<(u64, String)> {
            let pattern = Pattern::parse(pattern).unwrap();
            let query = Query { pattern, node: None, session: None, since_ms, kinds: Vec::new(), limit };
            let hits = index.search(&query).unwrap().into_iter();
            hits.map(|hit| (hit.happened_at.0, hit.recording_id.unwrap_or_default())).collect()
        };
        let hit = |at: u64, recording: &str| (at, recording.to_string());
        let newest = [hit(7_000, "same"), hit(7_000, "newer"), hit(7_000, "newer"), hit(6_000, "older")];
        for pattern in ["wordal", "/E0[0-9]/"] {
            assert_eq!(found(pattern, None, 4), newest);
            assert_eq!(found(pattern, Some(6_001), 20), newest[..3]);
            assert_eq!(found(pattern, None, 20).len(), 6);
        }
    }

    #[test]
    fn whole_words_are_found_before_words_that_continue() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let (mut index, _) = SearchIndex::open(&home.work()).unwrap();
        let texts = ["say \"hi\" there", "say \"hi\" twice", "history of a say"];
        let documents: Vec<Document> = (1..)
            .zip(texts)
            .map(|(at_ms, text)| Document {
                kind: DocumentKind::Answer,
                turn: None,
                at_ms,
                text: text.into(),
            })
            .collect();
        let source = Source { path: "a".into(), recording: Some("a".into()), ..Source::default() };
        index.replace(&source, &IndexState::default(), Some(&documents), None).unwrap();
        let found = |text: &str, limit| -> Vec<u64> {
            let pattern = Pattern::parse(text).unwrap();
            let query =
                Query { pattern, node: None, session: None, since_ms: None, kinds: Vec::new(), limit };
            index.search(&query).unwrap().into_iter().map(|hit| hit.happened_at.0).collect()
        };
        assert_eq!(found("hi", 2), [2, 1]);
        assert_eq!(found("hi", 3), [3, 2, 1]);
        assert_eq!(found("say \"hi\"", 9), [2, 1]);
    }

    #[test]
    fn marks_become_ranges() {
        let (text, matches) = split_marks("a \u{e000}match\u{e001} and \u{e000}more\u{e001}…");
        assert_eq!(text, "a match and more…");
        assert_eq!(matches, [(2, 7), (12, 16)]);
    }

    #[test]
    fn excerpt_is_cut_at_characters() {
        let text = format!("{}match{}", "é".repeat(200), "ü".repeat(200));
        let at = text.find("match").unwrap();
        let (shown, matches) = excerpt(&text, at..at + 5);
        assert_eq!(&shown[matches[0].0..matches[0].1], "match");
        assert_eq!(shown.chars().count(), 1 + CONTEXT + 5 + CONTEXT + 1);
    }

    #[test]
    fn patterns_are_text_or_expressions() {
        assert!(matches!(Pattern::parse("a/b").unwrap(), Pattern::Text(_)));
        assert!(matches!(Pattern::parse("/a.b/").unwrap(), Pattern::Regex(_)));
        assert!(matches!(Pattern::parse("=> ").unwrap(), Pattern::Regex(_)), "no word to look up");
        assert!(matches!(Pattern::parse("本語").unwrap(), Pattern::Regex(_)), "a part of a run of words");
        assert!(Pattern::parse("  ").is_err() && Pattern::parse("/(/").is_err());
    }
}
