//! A list of panes shared by all nodes of a WezTerm server: listing costs the same for one pane as for a hundred.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use nerve_host::backend::PaneError;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Queue, Semaphore};
use tokio::time::Instant;

use super::client::Wezterm;
use super::exec::NAME;
use super::listing::ListedPane;

/// Limit of concurrent polls: more only delay each other and the input.
const MAX_CONCURRENT_POLLS: usize = 4;

/// State shared by the nodes of one server.
#[derive(Debug)]
pub(super) struct WeztermServer {
    pub(super) wezterm: Wezterm,
    last: Queue<CachedList>,
    pub(super) poll_permits: Semaphore,
}

/// The latest list or its failure, with the time of the call.
#[derive(Debug, Default)]
enum CachedList {
    #[default]
    Empty,
    List(Instant, Arc<Vec<ListedPane>>),
    NoServer(Instant),
    Timeout(Instant, Duration),
}

type Servers = HashMap<(PathBuf, Option<String>), Weak<WeztermServer>>;

impl WeztermServer {
    /// Returns the instance of this process for the server, creating it if needed.
    pub(super) fn shared(wezterm: Wezterm) -> Arc<WeztermServer> {
        static SERVERS: OnceLock<Mutex<Servers>> = OnceLock::new();
        let servers = SERVERS.get_or_init(Mutex::default);
        let mut servers = servers.lock();
        servers.retain(|_, server| server.strong_count() > 0);
        let key = wezterm.key();
        if let Some(server) = servers.get(&key).and_then(Weak::upgrade) {
            return server;
        }
        let server = Arc::new(WeztermServer {
            wezterm,
            last: Queue::default(),
            poll_permits: Semaphore::new(MAX_CONCURRENT_POLLS),
        });
        servers.insert(key, Arc::downgrade(&server));
        server
    }

    /// Returns a list obtained at `since` or later. Concurrent callers share one call and its failure.
    pub(super) async fn list(&self, since: Instant) -> Result<Arc<Vec<ListedPane>>, PaneError> {
        let mut last = self.last.lock().await;
        match &*last {
            CachedList::List(at, panes) if *at >= since => return Ok(panes.clone()),
            CachedList::NoServer(at) if *at >= since => return Err(PaneError::NoServer(NAME)),
            CachedList::Timeout(at, limit) if *at >= since => return Err(PaneError::Timeout(NAME, *limit)),
            _ => {}
        }
        let at = Instant::now();
        let listed = self.wezterm.list_panes().await.map(Arc::new);
        *last = match &listed {
            Ok(panes) => CachedList::List(at, panes.clone()),
            Err(PaneError::NoServer(_)) => CachedList::NoServer(at),
            Err(PaneError::Timeout(_, limit)) => CachedList::Timeout(at, *limit),
            Err(_) => CachedList::Empty,
        };
        listed
    }
}
