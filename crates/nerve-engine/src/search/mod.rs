//! Full-text search over the transcripts and screens of all recordings, and the histories of nodes.
//!
//! The index is a SQLite database with an FTS5 table in the state directory. It is built from the recordings, histories and
//! session files, and can be built again as long as they exist. SQLite is part of the binary anyway (opencode keeps its
//! conversations in it), updates one file in place, and several processes can use it at once.

mod documents;
mod index;
mod indexer;
mod progress;
mod query;
mod sql;
mod update;

use std::path::PathBuf;

use nerve_api::reply::{SearchResult, UnsearchedFile};
use nerve_node::error::EngineError;
use tokio_util::sync::CancellationToken;

pub use index::has_index;
pub use indexer::keep_up_to_date;
pub use progress::{Progress, SearchProgress};
pub(crate) use query::parse_time;
pub use query::{Pattern, Query};

use self::index::{IndexError, SearchIndex};
use self::update::{UpdateScope, UpdateSummary};
use crate::data_dirs::DataDirs;

/// Maximum number of files of a result that are not searched completely.
const MAX_UNSEARCHED: usize = 10;

/// Brings the index up to date and searches it. Creates the index if there is none, and replaces a damaged one. Blocking; ends soon
/// after `cancel` is cancelled.
///
/// # Errors
/// NotFound: the node or the session of the query is unknown. Process: the index cannot be read or written, or a newer version
/// made it. Cancelled.
pub fn search(
    dirs: &DataDirs,
    query: &Query,
    cancel: &CancellationToken,
    progress: Progress<'_>,
) -> Result<SearchResult, EngineError> {
    let mut was_rebuilt = false;
    loop {
        let (mut index, is_new) = SearchIndex::open(&dirs.search)?;
        was_rebuilt |= is_new;
        index.end_with(cancel)?;
        // A server leaves the index alone meanwhile. One that already updates it is not waited for.
        let lock = SearchIndex::lock_update(&dirs.search);
        let update = index.update(dirs, UpdateScope::Everything, progress);
        drop(lock);
        let result = update.and_then(|update| {
            index.check_source(query)?;
            let hits = index.search(query, progress)?;
            Ok((update, index.cut_sources(query)?, hits))
        });
        match result {
            Ok((update, cut, hits)) => {
                let (unsearched, unsearched_count) = unsearched_files(update, cut);
                return Ok(SearchResult { hits, unsearched, unsearched_count, was_rebuilt });
            }
            // Damage in the middle of the file is found when it is read.
            Err(IndexError::Damaged(_)) if !was_rebuilt => {
                index.remove(&dirs.search)?;
                was_rebuilt = true;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the first files that are not searched completely, and the number of all of them.
fn unsearched_files(update: UpdateSummary, cut: Vec<(PathBuf, String)>) -> (Vec<UnsearchedFile>, usize) {
    let mut files = update.failed;
    let cut = cut.into_iter().filter(|(path, _)| !files.iter().any(|(failed, _)| failed == path));
    let cut: Vec<_> = cut.collect();
    files.extend(cut);
    let count = files.len();
    let file =
        |(path, reason): (PathBuf, String)| UnsearchedFile { path: path.display().to_string(), reason };
    (files.into_iter().take(MAX_UNSEARCHED).map(file).collect(), count)
}
