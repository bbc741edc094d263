//! Searches for regular expressions without a whole word: reads only the blocks whose filters have their trigrams.

use std::collections::HashSet;

use nerve_api::reply::SearchHit;
use nerve_search::{RequiredTrigrams, excerpt};
use regex::Regex;
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::Query;
use super::statements::{COLUMNS, TEXT, TIME, conditions, hit_of, search_regex};
use crate::search::progress::TextCounter;
use crate::search::sql::{first_id, kinds};

/// Number of blocks that are always read one by one. Of more, not most: then reading all documents in order is faster.
const FEW_BLOCKS: usize = 64;

/// A block, without its filter.
struct Block {
    source: i64,
    is_screen: bool,
    /// Ids of its first and its last document.
    first: i64,
    last: i64,
}

/// Returns the newest hits of an expression, reading only the blocks whose filters have its trigrams, unless most have them.
pub(super) fn search_blocks(
    connection: &Connection,
    query: &Query,
    regex: &Regex,
    trigrams: &RequiredTrigrams,
    counter: &mut TextCounter<'_>,
) -> rusqlite::Result<Vec<SearchHit>> {
    let (blocks, count) = candidates(connection, query, trigrams)?;
    if blocks.len() > FEW_BLOCKS.max(count / 2) {
        return search_regex(connection, query, regex, None, counter);
    }
    let mut hits: Vec<(i64, SearchHit)> = Vec::new();
    for block in blocks {
        // Newest first: later blocks have only older documents.
        if hits.len() == query.limit && hits.last().is_some_and(|(oldest, _)| *oldest > block.last) {
            break;
        }
        add_hits(connection, query, regex, &block, counter, &mut hits)?;
        hits.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
        hits.truncate(query.limit);
    }
    Ok(hits.into_iter().map(|(_, hit)| hit).collect())
}

/// Returns the blocks that may have a match, those with the newest documents first, and the number of all blocks.
fn candidates(
    connection: &Connection,
    query: &Query,
    trigrams: &RequiredTrigrams,
) -> rusqlite::Result<(Vec<Block>, usize)> {
    let mut ids: Option<HashSet<i64>> = None;
    let mut statement = connection.prepare("SELECT block, bits FROM trigrams WHERE shard = ?1")?;
    for shard in trigrams.shards() {
        let mut rows = statement.query(params![shard])?;
        let mut found = HashSet::new();
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            let is_open = ids.as_ref().is_none_or(|ids| ids.contains(&id));
            if is_open && trigrams.may_match(shard, row.get_ref(1)?.as_blob()?) {
                found.insert(id);
            }
        }
        ids = Some(found);
    }
    let ids = ids.unwrap_or_default();
    let since = query.since_ms.map_or(i64::MIN, first_id);
    let sql = "SELECT id, source, is_screen, first, last FROM block WHERE last >= ?1 ORDER BY last DESC";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query(params![since])?;
    let (mut blocks, mut count) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        count += 1;
        if ids.contains(&row.get(0)?) {
            let (source, is_screen) = (row.get(1)?, row.get(2)?);
            blocks.push(Block { source, is_screen, first: row.get(3)?, last: row.get(4)? });
        }
    }
    Ok((blocks, count))
}

/// Adds the newest hits of a block, at most as many as the query wants.
fn add_hits(
    connection: &Connection,
    query: &Query,
    regex: &Regex,
    block: &Block,
    counter: &mut TextCounter<'_>,
    hits: &mut Vec<(i64, SearchHit)>,
) -> rusqlite::Result<()> {
    let (condition, mut values) = conditions(query, "document.id");
    let own = [block.source, block.first, block.last].map(Value::from);
    drop(values.splice(0..0, own));
    // Between these ids there may be many documents of other sources.
    let sql = format!(
        "SELECT {COLUMNS}, document.text FROM document INDEXED BY document_source
         CROSS JOIN source ON source.id = document.source
         WHERE document.source = ? AND document.id BETWEEN ? AND ? AND document.kind IN ({}) {condition}
         ORDER BY document.id DESC",
        kinds(block.is_screen)
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        counter.add(row, TIME)?;
        let text = row.get_ref(TEXT)?.as_str()?;
        let Some(matched) = regex.find(text) else { continue };
        let (id, mut hit) = hit_of(row)?;
        (hit.text, hit.matches) = excerpt(text, matched.range());
        hits.push((id, hit));
        count += 1;
        if count == query.limit {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nerve_search::BLOCK_LEN;

    use super::*;
    use crate::search::documents::{Document, Source};
    use crate::search::index::{IndexState, SearchIndex};
    use crate::search::query::Pattern;

    /// A text that fills a quarter of a block, with a word in the middle of others.
    fn text(word: &str) -> String {
        let filler = "some words of a recording ".repeat(BLOCK_LEN / 4 / 52);
        format!("{filler}in{word}side {filler}")
    }

    fn documents(words: &[&str]) -> Vec<Document> {
        let kind = nerve_api::value::DocumentKind::Screen;
        let document = |(at_ms, word): (u64, &&str)| Document { kind, turn: None, at_ms, text: text(word) };
        (1..).zip(words).map(document).collect()
    }

    fn query(pattern: &str) -> Query {
        let pattern = Pattern::parse(pattern).unwrap();
        Query { pattern, node: None, session: None, since_ms: None, kinds: Vec::new(), limit: 100 }
    }

    /// Returns the number of blocks that are read, and of hits.
    fn found(index: &SearchIndex, word: &str) -> (usize, usize) {
        let query = query(&format!("/n{word}s/"));
        let Pattern::Regex { trigrams: Some(trigrams), words: None, .. } = &query.pattern else {
            panic!("{:?}", query.pattern);
        };
        let read = candidates(&index.connection, &query, trigrams).unwrap().0.len();
        (read, index.search(&query, &mut |_| {}).unwrap().len())
    }

    fn count(index: &SearchIndex, table: &str) -> usize {
        let sql = format!("SELECT count(*) FROM {table}");
        index.connection.query_row(&sql, [], |row| row.get::<_, u32>(0)).unwrap() as usize
    }

    #[test]
    fn only_blocks_with_the_trigrams_are_read() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let (mut index, _) = SearchIndex::open(&home.work()).unwrap();
        let source = Source { path: "a".into(), ..Source::default() };
        let replace = |index: &mut SearchIndex, words: &[&str]| {
            index.replace(&source, &IndexState::default(), None, Some(&documents(words))).unwrap();
        };
        let words = ["wombat", "quokka", "kiwi", "zebra", "yak", "okapi", "wombat", "vulture", "gnu"];
        replace(&mut index, &words[..6]);
        assert_eq!((count(&index, "block"), found(&index, "okapi")), (2, (1, 1)));
        // The second block grows, and a third begins.
        replace(&mut index, &words);
        assert_eq!((count(&index, "block"), count(&index, "trigrams")), (3, 3 * nerve_search::SHARDS));
        assert_eq!((found(&index, "wombat"), found(&index, "gnu")), ((2, 2), (1, 1)));
        assert_eq!(found(&index, "unicorn"), (0, 0));
        // The end is another one.
        replace(&mut index, &["wombat", "quokka", "kiwi", "zebra", "lynx"]);
        assert_eq!(
            (found(&index, "gnu"), found(&index, "okapi"), found(&index, "lynx")),
            ((0, 0), (0, 0), (1, 1))
        );
        assert_eq!(count(&index, "trigrams"), 2 * nerve_search::SHARDS);
        index.forget(&["a".into()]).unwrap();
        assert_eq!((count(&index, "block"), count(&index, "trigrams")), (0, 0));
    }
}
