//! Blocks of documents with filters of their trigrams, for regular expressions without a whole word.
//!
//! A block has consecutive documents of one source: turns, or texts of the screen. All documents are in blocks.

use nerve_search::{BLOCK_LEN, TrigramFilter};
use rusqlite::{Transaction, params};

/// Makes the blocks of a source's turns or screen fit its documents. `kept`: the last document that was there before; those up to it
/// are unchanged. `documents`: all of them with their ids, in order.
pub(super) fn replace_blocks(
    transaction: &Transaction<'_>,
    source: i64,
    is_screen: bool,
    kept: Option<i64>,
    documents: &[(i64, &str)],
) -> rusqlite::Result<()> {
    // The last block that is left may have room for more documents.
    let last_full: Option<i64> = transaction.query_row(
        "SELECT max(last) FROM block WHERE source = ?1 AND is_screen = ?2 AND last < ?3",
        params![source, is_screen, kept.unwrap_or(i64::MIN)],
        |row| row.get(0),
    )?;
    let last_full = last_full.unwrap_or(i64::MIN);
    let remove = "DELETE FROM block WHERE source = ?1 AND is_screen = ?2 AND last > ?3";
    transaction.execute(remove, params![source, is_screen, last_full])?;
    let mut add_block =
        transaction.prepare("INSERT INTO block (source, is_screen, first, last) VALUES (?1, ?2, ?3, ?4)")?;
    let mut add_shard =
        transaction.prepare("INSERT INTO trigrams (shard, block, bits) VALUES (?1, ?2, ?3)")?;
    let mut rest = &documents[documents.partition_point(|(id, _)| *id <= last_full)..];
    while let [(first, _), ..] = rest {
        let mut len = 0;
        let is_within = |(_, text): &&(i64, &str)| {
            let is_within = len < BLOCK_LEN;
            len += text.len();
            is_within
        };
        let count = rest.iter().take_while(is_within).count();
        let (block, following) = rest.split_at(count);
        let id = add_block.insert(params![source, is_screen, first, block[count - 1].0])?;
        let filter = TrigramFilter::new(block.iter().map(|(_, text)| *text));
        for (shard, bits) in (0_u8..).zip(filter.shards()) {
            add_shard.execute(params![shard, id, bits])?;
        }
        rest = following;
    }
    Ok(())
}
