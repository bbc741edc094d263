//! Keeps the index up to date while a server runs, so that a search finds little to do.

use std::time::Duration;

use nerve_api::event::{Event, EventKind};
use nerve_node::error::EngineError;
use nerve_node::events::wait_for;
use tokio::sync::broadcast::Receiver;
use tokio::time::{Instant, timeout_at};

use super::index::SearchIndex;
use super::update::UpdateScope;
use crate::data_dirs::DataDirs;
use crate::thread::run_in_thread;

/// Time without a further change after which the index is updated.
const QUIET: Duration = Duration::from_secs(2);
/// Maximum time from a change to the update.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Updates the index after turns and ends of nodes, until the events end. Without an index it does nothing: the first search
/// builds it, and shows its progress.
pub async fn keep_up_to_date(mut events: Receiver<Event>, dirs: DataDirs) {
    while next_change(&mut events).await {
        let deadline = Instant::now() + MAX_DELAY;
        let mut quiet_at = Instant::now() + QUIET;
        while let Ok(is_open) = timeout_at(quiet_at.min(deadline), next_change(&mut events)).await {
            if !is_open {
                return;
            }
            quiet_at = Instant::now() + QUIET;
        }
        let dirs = dirs.clone();
        match run_in_thread("search-index", move || update(&dirs)).await {
            Ok(count) => tracing::debug!(count, "search index updated"),
            // The next search reports it.
            Err(error) => tracing::debug!(%error, "search index not updated"),
        }
    }
}

/// Waits for an event after which there is something new to index. Returns false when the events end.
async fn next_change(events: &mut Receiver<Event>) -> bool {
    let is_change =
        |kind: &EventKind| matches!(kind, EventKind::OutputParsed { .. } | EventKind::NodeStopped { .. });
    wait_for(events, is_change).await
}

/// Updates an existing index, unless another process does. Returns the number of files that were indexed.
fn update(dirs: &DataDirs) -> Result<usize, EngineError> {
    let Some(mut index) = SearchIndex::open_existing(&dirs.search)? else { return Ok(0) };
    let Some(_lock) = SearchIndex::lock_update(&dirs.search) else { return Ok(0) };
    Ok(index.update(dirs, UpdateScope::Settled, &mut |_| {})?.indexed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_that_another_process_updates_is_left_alone() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let at = |name: &str| home.work().join(name);
        let dirs = DataDirs { search: at("search"), history: at("history"), ..DataDirs::default() };
        std::fs::create_dir_all(at("history/test")).unwrap();
        std::fs::write(at("history/test/a.jsonl"), "").unwrap();
        SearchIndex::open(&dirs.search).unwrap();
        let lock = SearchIndex::lock_update(&dirs.search).unwrap();
        assert_eq!(update(&dirs).unwrap(), 0);
        drop(lock);
        assert_eq!(update(&dirs).unwrap(), 1);
    }
}
