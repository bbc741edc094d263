//! Finds documents.

mod blocks;
mod pattern;
mod statements;

use std::path::PathBuf;

use nerve_api::reply::SearchHit;
use nerve_api::request::Search;
use nerve_api::value::DocumentKind;
use nerve_node::error::EngineError;
use nerve_node::names::check_name;
use nerve_types::activity::TsMs;
use nerve_types::name::DEFAULT_SESSION;
use nerve_types::suggestion::nearest;
use rusqlite::params;

pub use self::pattern::Pattern;

use self::blocks::search_blocks;
use self::statements::{search_regex, search_text};
use super::documents::MAX_CHARS;
use super::index::{IndexError, SearchIndex};
use super::progress::{Progress, TextCounter};
use super::sql::to_sql;
use crate::page::check_limit;

/// Maximum number of hits of a request.
const MAX_LIMIT: usize = 1000;
/// Number of hits of a request without a limit.
const DEFAULT_LIMIT: usize = 20;

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

#[cfg(test)]
mod tests {
    use nerve_node::error::ErrorKind;
    use regex::RegexBuilder;
    use tokio_util::sync::CancellationToken;

    use super::super::documents::{Document, Source};
    use super::super::index::IndexState;
    use super::super::progress::SearchProgress;
    use super::super::update::UpdateScope;
    use super::pattern::MAX_PATTERN;
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
