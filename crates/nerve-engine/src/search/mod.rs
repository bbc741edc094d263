//! Full-text search over the transcripts and screens of all recordings, and the histories of nodes.
//!
//! The index is a SQLite database with an FTS5 table in the state directory. It is built from the recordings, histories and
//! session files, and can be built again as long as they exist. SQLite is part of the binary anyway (opencode keeps its
//! conversations in it), updates one file in place, and several processes can use it at once.

mod documents;
mod index;
mod indexer;
mod query;
mod screen_text;
mod update;

use std::path::Path;

use nerve_node::error::EngineError;

pub use documents::DocumentKind;
pub use indexer::keep_up_to_date;
pub use query::{Hit, Pattern, Query};
pub use update::{Progress, UpdateSummary};

use self::index::SearchIndex;
use self::update::UpdateScope;
use crate::data_dirs::DataDirs;

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchResult {
    /// The hits, newest first.
    pub hits: Vec<Hit>,
    /// What was indexed before.
    pub update: UpdateSummary,
    /// The index was damaged or of an older version, and was built again.
    pub was_replaced: bool,
}

/// Brings the index in `folder` up to date and searches it. Creates the index if there is none, and replaces a damaged one.
///
/// # Errors
/// NotFound: the node or the session of the query is unknown. Process: the index cannot be read or written, or a newer version
/// made it.
pub fn search(
    folder: &Path,
    dirs: &DataDirs,
    query: &Query,
    progress: Progress<'_>,
) -> Result<SearchResult, EngineError> {
    let mut was_replaced = false;
    loop {
        let (mut index, is_new) = SearchIndex::open(folder)?;
        was_replaced |= is_new;
        let found = index.update(dirs, UpdateScope::Everything, progress).and_then(|update| {
            index.check_source(query)?;
            Ok((update, index.search(query)?))
        });
        match found {
            Ok((update, hits)) => return Ok(SearchResult { hits, update, was_replaced }),
            // Damage in the middle of the file is found when it is read.
            Err(error) if index::is_damage(&error) && !was_replaced => {
                drop(index);
                SearchIndex::remove(folder)?;
                was_replaced = true;
            }
            Err(error) => return Err(error),
        }
    }
}
