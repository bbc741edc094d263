//! SEARCH: finds a text in prompts, answers, tools and screens.

use nerve_api::reply::SearchResult;
use nerve_api::request::Search;
use nerve_node::error::EngineError;
use tokio_util::sync::CancellationToken;

use super::context::RequestContext;
use crate::engine::Engine;
use crate::search::{self, Query};
use crate::thread::run_in_thread;

impl Engine {
    /// Searches the texts of all recordings and nodes of this user. Further searches wait for the running ones. Dropping the future
    /// ends the search.
    ///
    /// # Errors
    /// InvalidRequest, NotFound (no recording and no history of the node or session), Process (unreadable files).
    pub async fn search(&self, request: Search, _: RequestContext) -> Result<SearchResult, EngineError> {
        let dirs = self.data_dirs()?;
        // A large regular expression takes a while to compile.
        let query = tokio::task::spawn_blocking(move || Query::from_request(request)).await??;
        // The semaphore is never closed.
        let permit = self.inner.searches.clone().acquire_owned().await;
        let cancel = CancellationToken::new();
        let _guard = cancel.clone().drop_guard();
        run_in_thread("search-index", move || {
            let _permit = permit;
            search::search(&dirs, &query, &cancel, &mut |_| {})
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nerve_node::factory::FactoryConfig;
    use nerve_testkit::{DEADLINE, wait_until_async};
    use nerve_types::files::{Lock, private_folder};
    use rusqlite::Connection;

    use super::*;
    use crate::data_dirs::DataDirs;
    use crate::engine::{EngineConfig, MAX_SEARCHES};

    #[tokio::test]
    async fn dropped_searches_end_before_they_index() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let dirs = DataDirs { search: at("search"), ..DataDirs::default() };
        let nodes = FactoryConfig { history_dir: Some(at("history")), ..FactoryConfig::default() };
        fs::create_dir_all(at("history/test")).unwrap();
        fs::write(at("history/test/a.jsonl"), "").unwrap();
        private_folder(&dirs.search).unwrap();
        let engine = Engine::new(EngineConfig { nodes, data_dirs: Some(dirs), ..EngineConfig::default() });
        let searches = engine.inner.searches.clone();
        let count_sources = || {
            let index = Connection::open(at("search/index.db")).unwrap();
            index.query_row("SELECT count(*) FROM source", [], |row| row.get::<_, u32>(0)).unwrap()
        };
        // Nothing opens the index while this lock is held.
        let lock = Lock::take(&at("search/lock"), DEADLINE).unwrap();
        let run = || {
            let engine = engine.clone();
            tokio::spawn(async move { engine.search(Search::new("x"), RequestContext::default()).await })
        };
        let tasks = [run(), run(), run()];
        assert!(wait_until_async(DEADLINE, async || searches.available_permits() == 0).await);
        for task in tasks {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
        assert_eq!(searches.available_permits(), 0, "the threads still wait for the lock");
        drop(lock);
        assert!(wait_until_async(DEADLINE, async || searches.available_permits() == MAX_SEARCHES).await);
        assert_eq!(count_sources(), 0);
        assert_eq!(run().await.unwrap().unwrap(), SearchResult::default());
        assert_eq!(count_sources(), 1, "the history");
    }
}
