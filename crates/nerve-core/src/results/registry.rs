//! The results of a server: those that something is still done for, and the files of all.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken as Closing;
use tokio_util::task::TaskTracker;

use super::record::{ResultRecord, WebhookRecord};
use super::store::{ResultStore, new_id};
use crate::cancellation::CancellationToken;
use crate::clock::Clock;
use crate::command::NodeRef;
use crate::error::{EngineError, ErrorKind};

/// Executions at once, those whose webhook is still being delivered included.
const AT_ONCE: usize = 256;
/// Ended results that are remembered where no file holds them.
const REMEMBERED: usize = 64;
/// Characters of a prompt that are kept.
const PROMPT: usize = 200;

/// The results of a server.
#[derive(Debug)]
pub(crate) struct Results {
    store: Option<ResultStore>,
    clock: Clock,
    slots: Arc<Semaphore>,
    state: Mutex<State>,
    /// The server goes down.
    pub(crate) closing: Closing,
    pub(crate) tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct State {
    live: BTreeMap<String, Arc<Live>>,
    /// Ended, and in no file.
    ended: VecDeque<Arc<ResultRecord>>,
    /// One after the other on each node.
    lanes: HashMap<NodeRef, Weak<tokio::sync::Mutex<()>>>,
}

/// A result that something is still done for.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) record: watch::Sender<Arc<ResultRecord>>,
    pub(crate) cancellation: CancellationToken,
    /// Held while its file is written: by the writing itself, which goes on when nobody waits for it any more.
    writing: Arc<tokio::sync::Mutex<()>>,
    _slot: OwnedSemaphorePermit,
}

impl Live {
    pub(crate) fn now(&self) -> Arc<ResultRecord> {
        Arc::clone(&self.record.borrow())
    }

    /// Tells all who look at it what is known of it now.
    pub(crate) fn tell(&self, record: Arc<ResultRecord>) {
        self.record.send_replace(record);
    }

    /// Changes what is known of it.
    pub(crate) fn change(&self, change: impl FnOnce(&mut ResultRecord)) {
        self.record.send_modify(|record| change(Arc::make_mut(record)));
    }
}

impl Results {
    /// Results below `folder`, in a folder for each server; in memory only without one. Those that a server that is gone had not
    /// ended are lost from now on.
    pub(crate) fn open(folder: Option<PathBuf>, server: &str, clock: Clock) -> Results {
        let store = folder.map(|folder| ResultStore::new(folder.join(server)));
        if let Some(store) = &store {
            for id in store.left_open() {
                settle(store, &id, seconds(clock));
            }
            store.prune(clock.now().0 / 1_000_000);
        }
        Results {
            store,
            clock,
            slots: Arc::new(Semaphore::new(AT_ONCE)),
            state: Mutex::default(),
            closing: Closing::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Seconds since the Unix epoch.
    pub(crate) fn seconds(&self) -> f64 {
        seconds(self.clock)
    }

    /// Takes an execution in.
    ///
    /// # Errors
    /// Busy: too many are at work. NodeStopped: the server goes down. Internal: it cannot be written down.
    pub(crate) async fn accept(
        &self,
        node: &NodeRef,
        prompt: &str,
        webhook: Option<WebhookRecord>,
    ) -> Result<Arc<Live>, EngineError> {
        if self.closing.is_cancelled() {
            return Err(EngineError::new(ErrorKind::NodeStopped, "the server is shutting down"));
        }
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let message = format!("{AT_ONCE} executions are at work already");
            EngineError::new(ErrorKind::Busy, message).hint("try again when some have ended")
        })?;
        let record = Arc::new(ResultRecord {
            result_id: new_id(self.clock.now().0 / 1_000_000),
            node_id: node.node.clone(),
            session_id: node.session.clone().unwrap_or_else(|| crate::session::DEFAULT.to_string()),
            prompt: prompt.chars().take(PROMPT).collect(),
            created_at: self.seconds(),
            webhook,
            ..ResultRecord::default()
        });
        if let Some(store) = self.store.clone() {
            let written = Arc::clone(&record);
            blocking(move || store.open(&written)).await?.map_err(|error| {
                let message = format!("the execution was not begun: its result cannot be kept: {error}");
                EngineError::new(ErrorKind::Internal, message)
            })?;
        }
        let live = Arc::new(Live {
            record: watch::Sender::new(Arc::clone(&record)),
            cancellation: CancellationToken::new(),
            writing: Arc::default(),
            _slot: slot,
        });
        self.lock().live.insert(record.result_id.clone(), Arc::clone(&live));
        Ok(live)
    }

    /// Who has it executes on the node; the others wait in the order in which they came.
    pub(crate) fn lane(&self, node: &NodeRef) -> Arc<tokio::sync::Mutex<()>> {
        let mut state = self.lock();
        if let Some(lane) = state.lanes.get(node).and_then(Weak::upgrade) {
            return lane;
        }
        state.lanes.retain(|_, lane| lane.strong_count() > 0);
        let lane = Arc::default();
        state.lanes.insert(node.clone(), Arc::downgrade(&lane));
        lane
    }

    /// Writes down what is known of it now, after what was to be written before. Tells what went wrong.
    pub(crate) async fn save(&self, live: &Live, record: Arc<ResultRecord>) -> Result<(), String> {
        let Some(store) = self.store.clone() else { return Ok(()) };
        let id = record.result_id.clone();
        let alone = Arc::clone(&live.writing).lock_owned().await;
        let write = move || {
            let saved = store.save(&record);
            drop(alone);
            saved
        };
        let saved = blocking(write).await.map_err(|error| error.to_string());
        saved.and_then(|saved| saved.map_err(|error| format!("result '{id}' is not in its file: {error}")))
    }

    /// Nothing is done for it any more. `saved`: its file has all of it.
    pub(crate) async fn close(&self, live: &Live, saved: bool) {
        let record = live.now();
        if let Some(store) = self.store.clone().filter(|_| saved) {
            let (id, now) = (record.result_id.clone(), self.clock.now().0 / 1_000_000);
            let closed = blocking(move || {
                store.close(&id);
                store.prune(now);
            });
            // A mark that is left is removed by the next server.
            let _ = closed.await;
        }
        let kept = saved && self.store.is_some();
        let mut state = self.lock();
        state.live.remove(&record.result_id);
        if !kept {
            state.ended.push_back(record);
            let surplus = state.ended.len().saturating_sub(REMEMBERED);
            state.ended.drain(..surplus);
        }
    }

    /// One that something is still done for.
    pub(crate) fn live(&self, id: &str) -> Option<Arc<Live>> {
        self.lock().live.get(id).cloned()
    }

    /// A result as it is now.
    ///
    /// # Errors
    /// NotFound; Internal: its file cannot be read.
    pub(crate) async fn get(&self, id: &str) -> Result<Arc<ResultRecord>, EngineError> {
        let known = {
            let state = self.lock();
            let live = state.live.get(id).map(|live| live.now());
            live.or_else(|| state.ended.iter().find(|record| record.result_id == id).cloned())
        };
        if let Some(record) = known {
            return Ok(record);
        }
        let unknown = || {
            let shown: String = id.chars().take(64).collect();
            EngineError::new(ErrorKind::NotFound, format!("no result '{shown}'"))
                .hint("`nerve result --list` shows those there are; they are kept for a week")
        };
        let Some(store) = self.store.clone() else { return Err(unknown()) };
        let wanted = id.to_string();
        let found = blocking(move || store.get(&wanted)).await?;
        let found = found.map_err(|error| {
            EngineError::new(
                ErrorKind::Internal,
                format!("the file of result '{id}' cannot be read: {error}"),
            )
        })?;
        found.map(Arc::new).ok_or_else(unknown)
    }

    /// What `fits` of all results, newest first, at most `most`, without their responses.
    pub(crate) async fn list(
        &self,
        most: usize,
        fits: impl Fn(&ResultRecord) -> bool + Send + 'static,
    ) -> Result<Vec<ResultRecord>, EngineError> {
        let mut known: BTreeMap<String, Arc<ResultRecord>> = {
            let state = self.lock();
            let live = state.live.iter().map(|(id, live)| (id.clone(), live.now()));
            live.chain(state.ended.iter().map(|record| (record.result_id.clone(), Arc::clone(record))))
                .collect()
        };
        let store = self.store.clone();
        blocking(move || {
            let mut ids: Vec<String> = store.iter().flat_map(ResultStore::ids).collect();
            ids.extend(known.keys().cloned());
            ids.sort_unstable_by(|one, other| other.cmp(one));
            ids.dedup();
            let read = |id: String| match known.remove(&id) {
                Some(record) => Some(Arc::unwrap_or_clone(record)),
                // What cannot be read is told when it is asked for by its id.
                None => store.as_ref()?.get(&id).ok().flatten(),
            };
            ids.into_iter()
                .filter_map(read)
                .filter(|record| fits(record))
                .map(ResultRecord::summary)
                .take(most)
                .collect()
        })
        .await
    }

    /// The server goes down: returns when all that was at work is written down as lost.
    pub(crate) async fn shut_down(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server that is gone still had something to do for it.
fn settle(store: &ResultStore, id: &str, now: f64) {
    let settled = match store.get(id) {
        Ok(Some(mut record)) => {
            if !record.status.is_end() {
                record.lose(now, "the server ended");
            }
            record.give_up_webhook("the server ended before it was delivered");
            store.save(&record)
        }
        // It was not even written.
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    match settled {
        Ok(()) => store.close(id),
        Err(error) => tracing::warn!(result = id, %error, "a result of the server before cannot be ended"),
    }
}

fn seconds(clock: Clock) -> f64 {
    // Exact to well under a microsecond until the year 2100.
    clock.now().0 as f64 / 1e9
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, EngineError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| EngineError::new(ErrorKind::Internal, error.to_string()))
}
