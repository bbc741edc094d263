//! The engine: one method per request, and events. Servers, the CLI and tests all use it.
//!
//! A method takes the request of [`nerve_api`] and returns its reply. All of them may be called from many tasks at once.

use std::path::PathBuf;
use std::sync::Arc;

use nerve_api::event::{Event, EventKind};
use nerve_api::reply::Pong;
use nerve_api::request::{NodeRef, Ping};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, broadcast};
use tokio_util::task::TaskTracker;

use crate::conversation::{ConversationStore, Programs};
use crate::data_dirs::DataDirs;
use crate::requests::context::{RequestContext, Warnings};
use crate::results::Results;
use crate::runs::Runs;
use crate::session_persister::SessionPersister;
use crate::timelines::TimelineCache;
use crate::usage::PriceCache;
use nerve_graph::executable::Executable;
use nerve_graph::session::manager::SessionManager;
use nerve_graph::session::stop_all;
use nerve_host::clock::Clock;
use nerve_node::NodeHandle;
use nerve_node::error::EngineError;
use nerve_node::events::Publisher;
use nerve_node::factory::{FactoryConfig, NodeFactory};
use nerve_node::metrics::Metrics;
use nerve_node::telemetry::Telemetry;

/// Maximum number of searches at a time. A regular expression reads the whole index, and keeps a processor busy.
pub(crate) const MAX_SEARCHES: usize = 2;
/// Maximum number of requests that work on recordings and files at the same time. Further ones wait.
pub(crate) const MAX_FILE_JOBS: usize = 4;

/// Configuration of an engine.
#[derive(Debug, Clone, Default)]
pub struct EngineConfig {
    /// Configuration of nodes, including the server's name.
    pub nodes: FactoryConfig,
    /// Folder of the journals of runs, with a subfolder per server. Without it, runs end with the server.
    pub runs_dir: Option<PathBuf>,
    /// File of sessions and definitions of nodes. Without it, they end with the server.
    pub sessions_file: Option<PathBuf>,
    /// Folder of conversations. Without it, they are not kept.
    pub conversations: Option<PathBuf>,
    /// Folder of the results of asynchronous executions, with a subfolder per server. Without it, a few are kept until the server ends.
    pub results_dir: Option<PathBuf>,
    /// Directories of recordings, snapshots and branches. Without them, requests for these fail. Histories are where the nodes
    /// write them ([`FactoryConfig::history_dir`]).
    pub data_dirs: Option<DataDirs>,
    /// Settings for spans.
    pub telemetry: Telemetry,
}

/// The engine of one server. Cheap to clone; all clones are the same engine.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) factory: NodeFactory,
    pub(crate) clock: Clock,
    pub(crate) events: Publisher,
    /// The subscription of [`Engine::subscribe_since_start`], until it is taken.
    since_start: Mutex<Option<broadcast::Receiver<Event>>>,
    pub(crate) sessions: SessionManager,
    pub(crate) runs: Runs,
    pub(crate) persister: SessionPersister,
    pub(crate) conversations: Option<ConversationStore>,
    pub(crate) programs: Programs,
    pub(crate) results: Results,
    pub(crate) telemetry: Telemetry,
    pub(crate) data_dirs: Option<Arc<DataDirs>>,
    pub(crate) prices: Arc<PriceCache>,
    /// Adopted nodes whose hosts are gone. They are `starting` until the rest of their output is read.
    pub(crate) gone_nodes: Mutex<Vec<NodeRef>>,
    /// Limits requests that work on recordings and files.
    pub(crate) file_jobs: Arc<Semaphore>,
    pub(crate) timelines: TimelineCache,
    /// Limits searches.
    pub(crate) searches: Arc<Semaphore>,
    /// Work that ends even if the future of its request is dropped: starts of nodes, and work on files.
    pub(crate) detached_tasks: TaskTracker,
}

impl Engine {
    /// Creates an engine. Persisted sessions are loaded; their nodes are defined and not started.
    pub fn new(config: EngineConfig) -> Engine {
        let clock = Clock::start();
        let events = Publisher::new(clock);
        let since_start = events.subscribe();
        let server = config.nodes.server.clone();
        let factory =
            NodeFactory::with_publisher(config.nodes, events.clone(), clock, Some(nerve_acp_node::start));
        let prices = Arc::new(PriceCache::new(config.data_dirs.as_ref().map(|dirs| dirs.prices.clone())));
        let sessions = SessionManager::with_pricing(factory.clone(), PriceCache::pricing(&prices));
        let persister = SessionPersister::open(config.sessions_file, &server, &sessions, &events);
        // All requests read the histories that the nodes write.
        let history = factory.history_base_dir().to_path_buf();
        let data_dirs = config.data_dirs.map(|dirs| DataDirs { history, ..dirs });
        let inner = Inner {
            runs: Runs::new(config.runs_dir, &server, clock, events.clone()),
            factory,
            clock,
            since_start: Mutex::new(Some(since_start)),
            events,
            sessions,
            persister,
            conversations: config.conversations.map(ConversationStore::new),
            programs: Programs::new(),
            results: Results::open(config.results_dir, &server, clock),
            telemetry: config.telemetry,
            prices,
            data_dirs: data_dirs.map(Arc::new),
            gone_nodes: Mutex::default(),
            file_jobs: Arc::new(Semaphore::new(MAX_FILE_JOBS)),
            timelines: TimelineCache::default(),
            searches: Arc::new(Semaphore::new(MAX_SEARCHES)),
            detached_tasks: TaskTracker::new(),
        };
        Engine { inner: Arc::new(inner) }
    }

    /// Returns problems with the persisted sessions, as sentences for people. They are also published as events, but before the first subscriber.
    pub fn warnings(&self) -> &[String] {
        self.inner.persister.warnings()
    }

    /// Subscribes to all events from now on. A slow receiver loses the oldest events and learns how many.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.inner.events.subscribe()
    }

    /// Subscribes to all events since the engine was created, for the first caller: those of adopted nodes, too. The engine keeps
    /// its latest events until then.
    pub fn subscribe_since_start(&self) -> broadcast::Receiver<Event> {
        self.inner.since_start.lock().take().unwrap_or_else(|| self.subscribe())
    }

    /// Returns counters of turns and output.
    pub fn metrics(&self) -> &Metrics {
        self.inner.events.metrics()
    }

    /// Returns true once the engine shuts down and admits no more runs.
    pub fn is_closing(&self) -> bool {
        self.inner.runs.is_closed()
    }

    /// Stops everything. With `keep_nodes`, hosted nodes stay.
    pub async fn shut_down(&self, keep_nodes: bool) {
        // Asynchronous executions are saved first.
        self.inner.results.shut_down().await;
        // Runs are interrupted, not ended: they can be resumed.
        self.inner.runs.interrupt_all(keep_nodes).await;
        // New nodes are refused from here on; starts in progress end by themselves.
        let mut nodes = self.inner.sessions.close_registration();
        // The ends from here on are not recorded, so that the next server can start these nodes again.
        self.inner.persister.save();
        self.inner.persister.close().await;
        if keep_nodes {
            let mut unreleased = Vec::new();
            for node in nodes {
                if !node.release().await {
                    unreleased.push(node);
                }
            }
            nodes = unreleased;
        }
        stop_all(nodes, "the server was shut down").await;
        self.inner.detached_tasks.close();
        self.inner.detached_tasks.wait().await;
        self.inner.events.publish(None, EventKind::ServerShutdown { keep_nodes });
    }

    /// Counts nodes, graphs and sessions.
    ///
    /// # Errors
    /// None.
    pub async fn ping(&self, _: Ping, _: RequestContext) -> Result<Pong, EngineError> {
        let sessions = self.inner.sessions.list();
        let infos = sessions.iter().map(|session| session.info());
        let (nodes, graphs) = infos.fold((0, 0), |(nodes, graphs), info| {
            (nodes + info.nodes.len() - info.stopped.len(), graphs + info.graphs.len())
        });
        let version = env!("CARGO_PKG_VERSION").to_string();
        Ok(Pong { pong: true, nodes, graphs, sessions: sessions.len(), version })
    }

    /// Writes the sessions to the disk. A failure is only a warning, because the request has taken effect.
    pub(crate) async fn persist(&self, warnings: &Warnings) {
        if let Err(message) = self.inner.persister.save_now().await {
            warnings.add(message);
        }
    }

    /// Returns the node or graph of that name.
    pub(crate) fn executable(&self, at: &NodeRef) -> Result<Executable, EngineError> {
        self.inner.sessions.find(at)
    }

    /// Returns a node for an operation on its terminal, which a graph does not have.
    pub(crate) fn node(&self, at: &NodeRef) -> Result<NodeHandle, EngineError> {
        match self.executable(at)? {
            Executable::Node(node) => Ok(node),
            other => {
                let message = format!("node '{}' has no terminal", at.node);
                let hint = match other.is_graph() {
                    true => "it is a graph: `graph run` runs it",
                    false => "it runs only as a step of a graph",
                };
                Err(EngineError::invalid_request(message).hint(hint))
            }
        }
    }
}
