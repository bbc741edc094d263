//! Tracks the results of a server: those in progress in memory, and all of them in files.

use nerve_api::request::NodeRef;
use nerve_node::client_origin::ClientOrigin;
use nerve_types::activity::TsMs;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use nerve_api::reply::{ResultInfo, WebhookStatus};
use nerve_api::value::ResultStatus;
use nerve_host::clock::Clock;
use nerve_node::error::{EngineError, ErrorKind};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::record;
use super::store::{ResultStore, new_id};

/// Maximum number of concurrent executions, including those whose webhook is still being delivered.
const MAX_ACTIVE: usize = 256;
/// Maximum number of synchronous prompts that wait for a node.
const MAX_WAITING: u64 = 64;
/// Maximum number of ended results kept in memory if they are in no file.
const MAX_REMEMBERED: usize = 64;
/// Maximum number of characters of a prompt that are stored.
const MAX_PROMPT_CHARS: usize = 200;

/// The results of a server.
#[derive(Debug)]
pub(crate) struct Results {
    store: Option<ResultStore>,
    clock: Clock,
    slots: Arc<Semaphore>,
    state: Mutex<State>,
    /// Cancelled when the server shuts down.
    pub(crate) closing: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct State {
    live: BTreeMap<String, Arc<ActiveResult>>,
    /// Ended results that are in no file.
    ended: VecDeque<Arc<ResultInfo>>,
    /// Number of synchronous prompts that wait for the lock of a node.
    waiting: HashMap<NodeRef, u64>,
    /// Locks that make executions on one node run one after the other.
    node_locks: HashMap<NodeRef, Weak<tokio::sync::Mutex<()>>>,
}

/// A result in progress: its turn has not ended, or its webhook was not delivered yet.
#[derive(Debug)]
pub(crate) struct ActiveResult {
    pub(crate) record: watch::Sender<Arc<ResultInfo>>,
    pub(crate) cancellation: CancellationToken,
    /// The client that cancelled it.
    pub(crate) canceller: Arc<OnceLock<ClientOrigin>>,
    /// Held while the file is written. The writing task owns the guard, because it continues if its caller gives up.
    writing: Arc<tokio::sync::Mutex<()>>,
    _slot: OwnedSemaphorePermit,
}

impl ActiveResult {
    pub(crate) fn current(&self) -> Arc<ResultInfo> {
        Arc::clone(&self.record.borrow())
    }

    fn is_on(&self, node: &NodeRef) -> bool {
        let record = self.record.borrow();
        record.node_id == node.node && record.session_id == node.session_or_default()
    }

    /// Replaces the record and notifies its watchers.
    pub(crate) fn set(&self, record: Arc<ResultInfo>) {
        self.record.send_replace(record);
    }

    /// Modifies the record and notifies its watchers.
    pub(crate) fn change(&self, change: impl FnOnce(&mut ResultInfo)) {
        self.record.send_modify(|record| change(Arc::make_mut(record)));
    }
}

/// A synchronous prompt that waits for the lock of a node.
#[derive(Debug)]
pub(crate) struct Waiter<'a> {
    results: &'a Results,
    node: NodeRef,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut state = self.results.state.lock();
        if let Some(waiting) = state.waiting.get_mut(&self.node) {
            *waiting -= 1;
            if *waiting == 0 {
                state.waiting.remove(&self.node);
            }
        }
    }
}

impl Results {
    /// Opens the results below `folder`, which has a folder for each server. Without `folder`, results are in memory only. Results
    /// that a previous server left unfinished are marked as lost.
    pub(crate) fn open(folder: Option<PathBuf>, server: &str, clock: Clock) -> Results {
        let store = folder.map(|folder| ResultStore::new(folder.join(server)));
        if let Some(store) = &store {
            for id in store.unfinished() {
                end_unfinished(store, &id, clock.now().into());
            }
            store.prune(clock.now().0 / 1_000_000);
        }
        Results {
            store,
            clock,
            slots: Arc::new(Semaphore::new(MAX_ACTIVE)),
            state: Mutex::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> TsMs {
        self.clock.now().into()
    }

    /// Registers an execution.
    ///
    /// # Errors
    /// Busy: too many are in progress. NodeStopped: the server is shutting down. Internal: the result cannot be written.
    pub(crate) async fn accept(
        &self,
        node: &NodeRef,
        prompt: &str,
        webhook: Option<WebhookStatus>,
    ) -> Result<Arc<ActiveResult>, EngineError> {
        if self.closing.is_cancelled() {
            return Err(EngineError::new(ErrorKind::NodeStopped, "the server is shutting down"));
        }
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let message = format!("{MAX_ACTIVE} executions are in progress");
            EngineError::busy(message).hint("try again when some have ended")
        })?;
        let record = Arc::new(ResultInfo {
            result_id: new_id(self.clock.now().0 / 1_000_000),
            node_id: node.node.clone(),
            session_id: node.session_or_default().to_string(),
            prompt: prompt.chars().take(MAX_PROMPT_CHARS).collect(),
            created_at: self.now(),
            status: ResultStatus::Queued,
            webhook,
            ..ResultInfo::default()
        });
        if let Some(store) = self.store.clone() {
            let written = Arc::clone(&record);
            spawn_blocking(move || store.open(&written)).await?.map_err(|error| {
                let message = format!("the execution was not started: cannot write its result: {error}");
                EngineError::internal(message)
            })?;
        }
        let live = Arc::new(ActiveResult {
            record: watch::Sender::new(Arc::clone(&record)),
            cancellation: CancellationToken::new(),
            canceller: Arc::default(),
            writing: Arc::default(),
            _slot: slot,
        });
        self.state.lock().live.insert(record.result_id.clone(), Arc::clone(&live));
        Ok(live)
    }

    /// Returns the lock of the node if a turn holds it or waits for it.
    pub(crate) fn held_node_lock(&self, node: &NodeRef) -> Option<Arc<tokio::sync::Mutex<()>>> {
        self.state.lock().node_locks.get(node).and_then(Weak::upgrade)
    }

    /// Returns the lock that an execution holds while it runs on the node. Waiters get it in the order of their arrival.
    pub(crate) fn node_lock(&self, node: &NodeRef) -> Arc<tokio::sync::Mutex<()>> {
        let mut state = self.state.lock();
        if let Some(node_lock) = state.node_locks.get(node).and_then(Weak::upgrade) {
            return node_lock;
        }
        state.node_locks.retain(|_, node_lock| node_lock.strong_count() > 0);
        let node_lock = Arc::default();
        state.node_locks.insert(node.clone(), Arc::downgrade(&node_lock));
        node_lock
    }

    /// Writes the record after earlier writes. The error is a message.
    pub(crate) async fn save(&self, live: &ActiveResult, record: Arc<ResultInfo>) -> Result<(), String> {
        let Some(store) = self.store.clone() else { return Ok(()) };
        let id = record.result_id.clone();
        let guard = Arc::clone(&live.writing).lock_owned().await;
        let write = move || {
            let saved = store.save(&record);
            drop(guard);
            saved
        };
        let saved = spawn_blocking(write).await.map_err(|error| error.to_string());
        saved.and_then(|saved| {
            saved.map_err(|error| format!("cannot write the file of result '{id}': {error}"))
        })
    }

    /// Ends the progress of a result. `saved`: its file is complete.
    pub(crate) async fn close(&self, live: &ActiveResult, saved: bool) {
        let record = live.current();
        if let Some(store) = self.store.clone().filter(|_| saved) {
            let (id, now) = (record.result_id.clone(), self.clock.now().0 / 1_000_000);
            let closed = spawn_blocking(move || {
                store.close(&id);
                store.prune(now);
            });
            // A mark that is left over is removed by the next server.
            let _ = closed.await;
        }
        let is_stored = saved && self.store.is_some();
        let mut state = self.state.lock();
        state.live.remove(&record.result_id);
        if !is_stored {
            state.ended.push_back(record);
            let surplus = state.ended.len().saturating_sub(MAX_REMEMBERED);
            state.ended.drain(..surplus);
        }
    }

    /// Returns an execution on a node that has not ended.
    pub(crate) fn pending(&self, node: &NodeRef) -> Option<Arc<ActiveResult>> {
        let is_pending =
            |live: &&Arc<ActiveResult>| live.is_on(node) && !live.record.borrow().status.is_end();
        self.state.lock().live.values().find(is_pending).cloned()
    }

    /// Returns the number of executions and prompts on a node that wait for other turns.
    pub(crate) fn queued(&self, node: &NodeRef) -> u64 {
        let is_queued = |live: &&Arc<ActiveResult>| {
            live.is_on(node) && live.record.borrow().status == ResultStatus::Queued
        };
        let state = self.state.lock();
        let waiting = state.waiting.get(&node.clone().without_default_session()).copied().unwrap_or(0);
        waiting + state.live.values().filter(is_queued).count() as u64
    }

    /// Counts a synchronous prompt that waits for the lock of the node, until the guard is dropped. Returns `None` if too many do.
    pub(crate) fn begin_wait(&self, node: &NodeRef) -> Option<Waiter<'_>> {
        let mut state = self.state.lock();
        let waiting = state.waiting.entry(node.clone().without_default_session()).or_default();
        if *waiting >= MAX_WAITING {
            return None;
        }
        *waiting += 1;
        Some(Waiter { results: self, node: node.clone().without_default_session() })
    }

    /// Returns a result in progress.
    pub(crate) fn live(&self, id: &str) -> Option<Arc<ActiveResult>> {
        self.state.lock().live.get(id).cloned()
    }

    /// Returns the current record of a result.
    ///
    /// # Errors
    /// NotFound; Internal: the file cannot be read.
    pub(crate) async fn get(&self, id: &str) -> Result<Arc<ResultInfo>, EngineError> {
        let known = {
            let state = self.state.lock();
            let live = state.live.get(id).map(|live| live.current());
            live.or_else(|| state.ended.iter().find(|record| record.result_id == id).cloned())
        };
        if let Some(record) = known {
            return Ok(record);
        }
        let unknown = || {
            let shown: String = id.chars().take(64).collect();
            EngineError::not_found(format!("no result '{shown}'"))
                .hint("`nerve result --list` lists the results; they are kept for a week")
        };
        let Some(store) = self.store.clone() else { return Err(unknown()) };
        let result_id = id.to_string();
        let stored = spawn_blocking(move || store.get(&result_id)).await?;
        let stored = stored.map_err(|error| {
            EngineError::internal(format!("cannot read the file of result '{id}': {error}"))
        })?;
        stored.map(Arc::new).ok_or_else(unknown)
    }

    /// Returns at most `limit` results that `is_selected` accepts, newest first, without their responses.
    pub(crate) async fn list(
        &self,
        limit: usize,
        is_selected: impl Fn(&ResultInfo) -> bool + Send + 'static,
    ) -> Result<Vec<ResultInfo>, EngineError> {
        let mut known: BTreeMap<String, Arc<ResultInfo>> = {
            let state = self.state.lock();
            let live = state.live.iter().map(|(id, live)| (id.clone(), live.current()));
            live.chain(state.ended.iter().map(|record| (record.result_id.clone(), Arc::clone(record))))
                .collect()
        };
        let store = self.store.clone();
        let records = spawn_blocking(move || {
            let mut ids: Vec<String> = store.iter().flat_map(ResultStore::ids).collect();
            ids.extend(known.keys().cloned());
            ids.sort_unstable_by(|one, other| other.cmp(one));
            ids.dedup();
            let read = |id: String| match known.remove(&id) {
                Some(record) => Some(Arc::unwrap_or_clone(record)),
                // Unreadable files are reported when they are requested by id.
                None => store.as_ref()?.get(&id).ok().flatten(),
            };
            ids.into_iter()
                .filter_map(read)
                .filter(|record| is_selected(record))
                .map(record::summary)
                .take(limit)
                .collect()
        });
        Ok(records.await?)
    }

    /// Shuts down. Returns when all results in progress are recorded as lost.
    pub(crate) async fn shut_down(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Ends a result that a previous server left unfinished.
fn end_unfinished(store: &ResultStore, id: &str, now: TsMs) {
    let ended = match store.get(id) {
        Ok(Some(mut record)) => {
            if !record.status.is_end() {
                record::mark_lost(&mut record, now, "the server ended");
            }
            record::give_up_webhook(&mut record, "the server ended before it was delivered");
            store.save(&record)
        }
        // The previous server ended before it wrote the file.
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => store.close(id),
        Err(error) => tracing::warn!(result = id, %error, "cannot end a result of the previous server"),
    }
}
