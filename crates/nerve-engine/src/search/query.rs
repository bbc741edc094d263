//! Finds documents.

mod blocks;

use std::path::PathBuf;

use nerve_api::reply::SearchHit;
use nerve_api::request::Search;
use nerve_api::value::DocumentKind;
use nerve_node::error::EngineError;
use nerve_node::names::check_name;
use nerve_search::{ELLIPSIS, MARKS, RequiredTrigrams, excerpt, required_words, shorten, split_marks};
use nerve_types::activity::TsMs;
use nerve_types::name::DEFAULT_SESSION;
use nerve_types::suggestion::nearest;
use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use self::blocks::search_blocks;
use super::documents::MAX_CHARS;
use super::index::{IndexError, SearchIndex};
use super::progress::{Progress, TextCounter};
use super::sql::{first_id, from_sql, to_sql};
use crate::page::check_limit;

/// Words of text around a match.
const WORDS: u32 = 24;
/// Maximum length of a pattern in bytes.
const MAX_PATTERN: usize = 4096;
/// Maximum number of hits of a request.
const MAX_LIMIT: usize = 1000;
/// Number of hits of a request without a limit.
const DEFAULT_LIMIT: usize = 20;

/// A text to search for.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// Words in this order; the last one may continue. Ignores case, accents and punctuation.
    Text(String),
    /// A regular expression. Without `words` and `trigrams`, every document is read.
    Regex {
        /// The expression.
        regex: Regex,
        /// An FTS5 expression that every document with a match fulfils.
        words: Option<String>,
        /// Trigrams that every document with a match contains.
        trigrams: Option<RequiredTrigrams>,
    },
}

impl Pattern {
    /// Parses `/REGEX/` or a text. The index has no words of a text without letters and digits, or in a script without spaces
    /// between words. Such a text is searched for literally.
    ///
    /// # Errors
    /// InvalidRequest: empty or too long, or an invalid regular expression.
    pub fn parse(text: &str) -> Result<Pattern, EngineError> {
        if text.trim().is_empty() {
            return Err(EngineError::invalid_request("the text to search for is empty")
                .hint("pass words, or a regular expression as /REGEX/"));
        }
        if text.len() > MAX_PATTERN {
            let message = format!("the pattern exceeds {MAX_PATTERN} bytes");
            return Err(EngineError::invalid_request(message).hint("search for a part of it"));
        }
        if text.contains('\0') {
            return Err(EngineError::invalid_request("the pattern contains a NUL character")
                .hint("search for the text before or after it"));
        }
        let inner =
            text.strip_prefix('/').and_then(|text| text.strip_suffix('/')).filter(|text| !text.is_empty());
        let is_literal = !text.chars().any(char::is_alphanumeric) || text.chars().any(is_unspaced);
        let (expression, is_literal) = match inner {
            Some(inner) => (inner.to_string(), false),
            None if is_literal => (regex::escape(text), true),
            None => return Ok(Pattern::Text(text.to_string())),
        };
        let regex = RegexBuilder::new(&expression).multi_line(true).case_insensitive(is_literal).build();
        let mut parser = ParserBuilder::new().multi_line(true).case_insensitive(is_literal).build();
        let parsed = parser.parse(&expression).ok();
        let words = parsed.as_ref().and_then(required_words);
        let trigrams = parsed.as_ref().and_then(RequiredTrigrams::of);
        regex.map(|regex| Pattern::Regex { regex, words, trigrams }).map_err(|error| {
            EngineError::invalid_request(error.to_string())
                .hint("leave out the slashes to search for words; syntax: https://docs.rs/regex/#syntax")
        })
    }
}

/// Returns true for a letter of a script that does not separate words: Thai, Lao, Burmese, kana, Chinese characters.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// A search query: a pattern, and filters of the documents.
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

impl Query {
    /// Reads a request.
    ///
    /// # Errors
    /// InvalidRequest: an invalid pattern, name, time or limit.
    pub fn from_request(request: Search) -> Result<Query, EngineError> {
        let Search { pattern, node_id: node, session_id: session, since, kinds, limit } = request;
        node.iter().try_for_each(|node| check_name(node, "node"))?;
        session.iter().try_for_each(|session| check_name(session, "session"))?;
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        check_limit(limit, 1..=MAX_LIMIT)
            .map_err(|error| error.hint("narrow the search with node_id, session_id, since or kinds"))?;
        let since_ms = since.map(parse_time).transpose()?;
        Ok(Query { pattern: Pattern::parse(&pattern)?, node, session, since_ms, kinds, limit })
    }
}

/// Returns the milliseconds since the Unix epoch of a time in RFC 3339.
pub(crate) fn parse_time(text: String) -> Result<u64, EngineError> {
    TsMs::try_from(text).map(|TsMs(at)| at).map_err(|error| {
        EngineError::invalid_request(format!("params.since: {error}"))
            .hint("pass a time with its zone (RFC 3339), for example 2026-01-31T10:30:00Z")
    })
}

impl SearchIndex {
    /// Returns the hits, newest first. Reports the progress of a search that reads many texts.
    ///
    /// # Errors
    /// The index cannot be read. Cancelled.
    pub(super) fn search(&self, query: &Query, progress: Progress<'_>) -> Result<Vec<SearchHit>, IndexError> {
        // A short statement ends before it is checked.
        self.check_cancelled()?;
        let mut counter = TextCounter::new(progress);
        // Another process may update the index between two statements.
        let transaction = self.connection.unchecked_transaction()?;
        let hits = match &query.pattern {
            Pattern::Text(text) => search_text(&transaction, query, text),
            Pattern::Regex { regex, words: None, trigrams: Some(trigrams) } => {
                search_blocks(&transaction, query, regex, trigrams, &mut counter)
            }
            Pattern::Regex { regex, words, .. } => {
                search_regex(&transaction, query, regex, words.as_deref(), &mut counter)
            }
        };
        Ok(hits?)
    }

    /// Returns the files with texts that a query selects, of which the index has only a part, with the reason.
    ///
    /// # Errors
    /// The index cannot be read.
    pub(super) fn cut_sources(&self, query: &Query) -> Result<Vec<(PathBuf, String)>, IndexError> {
        let selects = |is_screen: bool| {
            let is_selected = |kind: &DocumentKind| (*kind == DocumentKind::Screen) == is_screen;
            query.kinds.is_empty() || query.kinds.iter().any(is_selected)
        };
        let sql = "SELECT path, has_cut_screen AND ?5 FROM source
                   WHERE (has_cut_turns AND ?4 OR has_cut_screen AND ?5) AND (?1 IS NULL OR node = ?1)
                   AND (?2 IS NULL OR session = ?2) AND (?3 IS NULL OR ended_ms IS NULL OR ended_ms >= ?3) ORDER BY id";
        let mut statement = self.connection.prepare(sql)?;
        let values =
            params![query.node, query.session, query.since_ms.map(to_sql), selects(false), selects(true)];
        let rows = statement.query_map(values, |row| {
            let reason = match row.get(1)? {
                true => "only the first 64 MiB of its text are indexed".to_string(),
                false => format!("only the first {MAX_CHARS} characters of each text are indexed"),
            };
            Ok((PathBuf::from(row.get::<_, String>(0)?), reason))
        });
        Ok(rows?.collect::<Result<_, _>>()?)
    }

    /// Checks that the index has the node and the session of a query.
    ///
    /// # Errors
    /// NotFound, with a similar name as the hint. Process: the index cannot be read.
    pub(super) fn check_source(&self, query: &Query) -> Result<(), IndexError> {
        let (node, session) = match (&query.node, &query.session) {
            (None, None) => return Ok(()),
            (node, session) => (node.as_deref(), session.as_deref()),
        };
        let sql = "SELECT DISTINCT source.session, source.node FROM source WHERE source.node IS NOT NULL";
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            let session: Option<String> = row.get(0)?;
            Ok((session.unwrap_or_else(|| DEFAULT_SESSION.to_string()), row.get::<_, String>(1)?))
        });
        let known: Vec<(String, String)> = rows?.collect::<Result<_, _>>()?;
        let is_match = |(in_session, name): &(String, String)| {
            node.is_none_or(|node| node == name) && session.is_none_or(|session| session == in_session)
        };
        if known.iter().any(is_match) {
            Ok(())
        } else {
            Err(unknown_source_error(node, session, &known).into())
        }
    }
}

/// Returns the error for a node or a session that no recording and no history has. `known`: sessions with their nodes.
fn unknown_source_error(
    node: Option<&str>,
    session: Option<&str>,
    known: &[(String, String)],
) -> EngineError {
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
            let session = session.unwrap_or(DEFAULT_SESSION);
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

/// Searches for whole words. If there are too few hits, the last word may continue. FTS5 returns whole words in the order of time
/// and stops at the limit, but collects all words with a prefix before it returns one.
fn search_text(connection: &Connection, query: &Query, text: &str) -> rusqlite::Result<Vec<SearchHit>> {
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

#[cfg(test)]
mod tests {
    use nerve_node::error::ErrorKind;
    use tokio_util::sync::CancellationToken;

    use super::super::documents::{Document, Source};
    use super::super::index::IndexState;
    use super::super::progress::SearchProgress;
    use super::super::update::UpdateScope;
    use super::*;
    use crate::data_dirs::DataDirs;
    use crate::node_files::NodeKey;

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
            let hits = index.search(&query, &mut |_| {}).unwrap().into_iter();
            hits.map(|hit| (hit.happened_at.0, hit.recording_id.unwrap_or_default())).collect()
        };
        let hit = |at: u64, recording: &str| (at, recording.to_string());
        let newest = [hit(7_000, "same"), hit(7_000, "newer"), hit(7_000, "newer"), hit(6_000, "older")];
        for pattern in ["wordal", "/E0[0-9]/", "/lpha E/"] {
            assert_eq!(found(pattern, None, 4), newest);
            assert_eq!(found(pattern, Some(6_001), 20), newest[..3]);
            assert_eq!(found(pattern, None, 20).len(), 6);
        }
    }

    #[test]
    fn only_selected_sources_count_as_cut() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let (mut index, _) = SearchIndex::open(&home.work()).unwrap();
        for (path, node, ended_ms) in
            [("turns", "a", Some(1_000)), ("screen", "b", None), ("whole", "b", None)]
        {
            let state = IndexState {
                has_cut_turns: path == "turns",
                has_cut_screen: path == "screen",
                ..IndexState::default()
            };
            let node = NodeKey { session: Some("main".into()), node: Some(node.into()), server: None };
            let source = Source { path: path.into(), node, ended_ms, ..Source::default() };
            index.replace(&source, &state, None, None).unwrap();
        }
        let all = Query {
            pattern: Pattern::Text("x".into()),
            node: None,
            session: None,
            since_ms: None,
            kinds: Vec::new(),
            limit: 1,
        };
        let cut = |query: Query| -> Vec<String> {
            let cut = index.cut_sources(&query).unwrap().into_iter();
            cut.map(|(path, _)| path.display().to_string()).collect()
        };
        assert_eq!(cut(all.clone()), ["turns", "screen"]);
        assert_eq!(cut(Query { node: Some("a".into()), ..all.clone() }), ["turns"]);
        assert_eq!(cut(Query { session: Some("main".into()), ..all.clone() }), ["turns", "screen"]);
        assert!(cut(Query { session: Some("other".into()), ..all.clone() }).is_empty());
        assert_eq!(cut(Query { since_ms: Some(1_000), ..all.clone() }), ["turns", "screen"]);
        assert_eq!(cut(Query { since_ms: Some(1_001), ..all.clone() }), ["screen"]);
        assert_eq!(cut(Query { kinds: vec![DocumentKind::Screen], ..all.clone() }), ["screen"]);
        assert_eq!(cut(Query { kinds: vec![DocumentKind::Answer], ..all }), ["turns"]);
    }

    #[test]
    fn long_documents_are_cut() {
        let document =
            |len| Document { kind: DocumentKind::Answer, turn: None, at_ms: 0, text: "x".repeat(len) };
        assert_eq!([MAX_CHARS, MAX_CHARS + 1].map(|len| document(len).is_cut()), [false, true]);
    }

    #[test]
    fn regular_expressions_find_the_same_with_and_without_words() {
        let texts = [
            "error[E0277]: the trait",
            "Error[E0277]x",
            "foo",
            "\u{e0a0}foo",
            "½foo",
            "éfoo",
            "foo_bar",
            "a foo's",
            "FOO",
            "foot",
            "\u{17f}pam here",
            "spam here",
            "cafe\u{301} foo",
            "x\nfoo\ny",
            "1foo",
            "foo bar  baz",
        ];
        let (_home, index) = index_of(&texts);
        let patterns = [
            r"\[E0277\]",
            r"\bfoo\b",
            r"^foo$",
            r"(?i)\bFoo\b",
            r"(?i)\bspam\s",
            r" foo",
            r"foo bar\s+baz",
            r"\bfoo",
            r"foo\b",
            r"\W",
            r"a foo'",
            "foo",
            "E0277",
            "(?i)spam",
            "[s\u{17f}]pam",
            "ba+r  b",
            "o\ny",
            "fé\u{301}",
        ];
        for pattern in patterns {
            let regex = RegexBuilder::new(pattern).multi_line(true).build().unwrap();
            let matching = (1..).zip(texts).filter(|(_, text)| regex.is_match(text));
            let mut expected: Vec<u64> = matching.map(|(at, _)| at).collect();
            expected.reverse();
            assert_eq!(found(&index, &format!("/{pattern}/"), 100), expected, "{pattern}");
        }
    }

    #[test]
    fn whole_words_are_found_before_words_that_continue() {
        let (_home, index) = index_of(&["say \"hi\" there", "say \"hi\" twice", "history of a say"]);
        assert_eq!(found(&index, "hi", 2), [2, 1]);
        assert_eq!(found(&index, "hi", 3), [3, 2, 1]);
        assert_eq!(found(&index, "say \"hi\"", 9), [2, 1]);
    }

    /// Returns an index of these texts, with the times 1, 2 …
    fn index_of(texts: &[&str]) -> (nerve_testkit::Hermetic, SearchIndex) {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let (mut index, _) = SearchIndex::open(&home.work()).unwrap();
        let document = |(at_ms, text): (u64, &&str)| Document {
            kind: DocumentKind::Answer,
            turn: None,
            at_ms,
            text: text.to_string(),
        };
        let documents: Vec<Document> = (1..).zip(texts).map(document).collect();
        let source = Source { path: "a".into(), recording: Some("a".into()), ..Source::default() };
        index.replace(&source, &IndexState::default(), Some(&documents), None).unwrap();
        (home, index)
    }

    /// Returns the times of the hits.
    fn found(index: &SearchIndex, pattern: &str, limit: usize) -> Vec<u64> {
        let pattern = Pattern::parse(pattern).unwrap();
        let query = Query { pattern, node: None, session: None, since_ms: None, kinds: Vec::new(), limit };
        index.search(&query, &mut |_| {}).unwrap().into_iter().map(|hit| hit.happened_at.0).collect()
    }

    #[test]
    fn patterns_without_a_part_to_look_up_show_their_progress() {
        let texts: Vec<String> = (0..3000).map(|at| format!("a text of number {at}")).collect();
        let (_home, index) = index_of(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let reports = |pattern: &str| {
            let query = Query { limit: 1, ..Query::from_request(Search::new(pattern)).unwrap() };
            let mut reports = Vec::new();
            let hits = index.search(&query, &mut |progress| reports.push(progress)).unwrap();
            (hits.len(), reports)
        };
        let read = |texts, back_to| SearchProgress::Reading { texts, back_to: TsMs(back_to) };
        // Each of them is an answer: the oldest text, or none.
        assert_eq!(reports(r"/r\s*0$/"), (1, vec![read(1024, 1977), read(2048, 953)]));
        for pattern in ["/q.z/", r"/\d{5}/", "/E0[0-9]/", "=>"] {
            assert_eq!(reports(pattern), (0, vec![read(1024, 1977), read(2048, 953)]), "{pattern}");
        }
        // With a part to look up, no text is read.
        assert_eq!(reports("/quokka/"), (0, Vec::new()));
        assert_eq!(reports("quokka"), (0, Vec::new()));
    }

    #[test]
    fn requests_are_checked() {
        let valid = Search { since: Some("2026-01-31T00:00:00Z".into()), ..Search::new("x") };
        let query = Query::from_request(valid.clone()).unwrap();
        assert_eq!((query.limit, query.since_ms), (20, Some(1_769_817_600_000)));
        for invalid in [
            Search::new("/(/"),
            Search::new("x".repeat(MAX_PATTERN + 1)),
            Search::new("a\0b"),
            Search { limit: Some(0), ..valid.clone() },
            Search { limit: Some(MAX_LIMIT + 1), ..valid.clone() },
            Search { since: Some("yesterday".into()), ..valid.clone() },
        ] {
            let error = Query::from_request(invalid).unwrap_err();
            assert!(error.kind == ErrorKind::InvalidRequest && error.hint.is_some(), "{error:?}");
        }
        let invalid = Search { node_id: Some("../x".into()), ..valid };
        assert_eq!(Query::from_request(invalid).unwrap_err().kind, ErrorKind::InvalidRequest);
    }

    #[test]
    fn cancelled_searches_and_updates_end() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let (mut index, _) = SearchIndex::open(&home.work()).unwrap();
        let document = |turn| Document {
            kind: DocumentKind::Prompt,
            turn: Some(turn),
            at_ms: turn,
            text: "wordalpha".to_string(),
        };
        let documents: Vec<Document> = (1..=1000).map(document).collect();
        let source = Source { path: "a".into(), ..Source::default() };
        index.replace(&source, &IndexState::default(), Some(&documents), None).unwrap();
        let cancel = CancellationToken::new();
        index.end_with(&cancel).unwrap();
        let queries = ["wordalpha", "/no match/"].map(|pattern| {
            Query::from_request(Search { limit: Some(1000), ..Search::new(pattern) }).unwrap()
        });
        assert_eq!(
            queries.each_ref().map(|query| index.search(query, &mut |_| {}).unwrap().len()),
            [1000, 0]
        );
        cancel.cancel();
        for query in &queries {
            assert!(matches!(index.search(query, &mut |_| {}), Err(IndexError::Cancelled)));
        }
        let dirs = DataDirs::default();
        let updated = index.update(&dirs, UpdateScope::Everything, &mut |_| {});
        assert!(matches!(updated, Err(IndexError::Cancelled)));
    }

    #[test]
    fn patterns_are_text_or_expressions() {
        assert!(matches!(Pattern::parse("a/b").unwrap(), Pattern::Text(_)));
        assert!(matches!(Pattern::parse("/a.b/").unwrap(), Pattern::Regex { .. }));
        assert!(matches!(Pattern::parse("=> ").unwrap(), Pattern::Regex { .. }), "no word to look up");
        assert!(matches!(Pattern::parse("本語").unwrap(), Pattern::Regex { .. }), "a part of a run of words");
        assert!(Pattern::parse("  ").is_err() && Pattern::parse("/(/").is_err());
    }
}
