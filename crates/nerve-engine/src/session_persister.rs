//! Persists sessions and the definitions of their nodes across restarts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use nerve_api::event::{Event, EventKind};
use nerve_api::request::NodeSpec;
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};

use nerve_api::DEFAULT_SESSION;
use nerve_graph::file::{GraphFile, without_secrets};
use nerve_graph::session::Session;
use nerve_graph::session::entry::{NodeEntry, ProcessEnd};
use nerve_graph::session::manager::SessionManager;
use nerve_graph::session::store::{GraphRecord, NodeRecord, SessionMetadata, SessionStore};
use nerve_node::error::EngineError;
use nerve_node::events::{Publisher, wait_for};
use nerve_record::meta::Meta;
use nerve_types::TsNs;

/// Reason for the end of a process that ran when its server was last heard of.
const LOST: &str = "its server or its host went down";

/// Writes the sessions of a server to a file. A thread writes only the latest state, so that many changes at once are one write. It
/// also follows the events of nodes, which change the known state of their processes.
#[derive(Debug)]
pub(crate) struct SessionPersister {
    writer: Option<Writer>,
    /// Problems with the persisted sessions.
    warnings: Vec<String>,
}

#[derive(Debug)]
struct Writer {
    /// The number of the last requested revision. Taken by `close`.
    revisions: Mutex<Option<watch::Sender<u64>>>,
    written: watch::Receiver<WriteOutcome>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// The last revision that was written, or could not be written.
#[derive(Debug, Default)]
struct WriteOutcome {
    number: u64,
    error: Option<String>,
}

impl SessionPersister {
    /// Loads the persisted sessions of `server` into `sessions` and starts to persist changes. Does nothing without a file.
    pub(crate) fn open(
        file: Option<PathBuf>,
        server: &str,
        sessions: &SessionManager,
        events: &Publisher,
    ) -> SessionPersister {
        let Some(file) = file else { return SessionPersister { writer: None, warnings: Vec::new() } };
        let warn = {
            let events = events.clone();
            move |message: String| {
                tracing::warn!("{message}");
                events.publish(None, EventKind::machine_failure(message));
            }
        };
        let warnings = Mutex::new(Vec::new());
        // Events have no subscribers yet, so the server also prints the problems when it starts.
        let report = |message: String| {
            warnings.lock().push(message.clone());
            warn(message);
        };
        let loaded = SessionStore::load(&file);
        let store = match loaded {
            Ok((store, loaded)) => {
                loaded.problem.map(&report);
                let mut unrestored = Unrestored::default();
                for stored in store.of_server(server) {
                    unrestored.restore(stored, sessions, &report);
                }
                Some((store, unrestored))
            }
            Err(error) => {
                report(format!("sessions are not persisted: {error}"));
                None
            }
        };
        let warnings = warnings.into_inner();
        let Some((store, unrestored)) = store else { return SessionPersister { writer: None, warnings } };
        let (revisions, changes) = watch::channel(0);
        let (outcomes, written) = watch::channel(WriteOutcome::default());
        let file_writer = FileWriter {
            store,
            unrestored,
            server: server.to_string(),
            sessions: sessions.clone(),
            warn: Box::new(warn),
        };
        let node_events = events.subscribe();
        let thread = std::thread::Builder::new()
            .name("sessions".to_string())
            .spawn(move || file_writer.run(changes, node_events, &outcomes))
            .ok();
        let writer = Writer { revisions: Mutex::new(Some(revisions)), written, thread: Mutex::new(thread) };
        SessionPersister { writer: Some(writer), warnings }
    }

    /// Returns problems found when the persisted sessions were loaded.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Writes the current sessions and waits until they are on the disk.
    ///
    /// # Errors
    /// They cannot be written; the message.
    pub(crate) async fn save_now(&self) -> Result<(), String> {
        let (Some(writer), Some(number)) = (&self.writer, self.save()) else { return Ok(()) };
        let mut written = writer.written.clone();
        let outcome = written.wait_for(|written| written.number >= number).await;
        match outcome {
            Ok(written) => written.error.clone().map_or(Ok(()), Err),
            Err(_) => Err("sessions are not persisted: the thread that writes them has ended".to_string()),
        }
    }

    /// Schedules a write of the current sessions. Returns the number of the revision; `None` if nothing is persisted.
    pub(crate) fn save(&self) -> Option<u64> {
        let revisions = self.writer.as_ref()?.revisions.lock();
        let sender = revisions.as_ref()?;
        sender.send_modify(|number| *number += 1);
        Some(*sender.borrow())
    }

    /// Waits until all changes are on the disk. Later changes are not persisted.
    pub(crate) async fn close(&self) {
        let Some(writer) = &self.writer else { return };
        writer.revisions.lock().take();
        let thread = writer.thread.lock().take();
        if let Some(thread) = thread {
            // The thread has reported its errors.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// Writes the sessions to the file, on a thread of its own.
struct FileWriter {
    store: SessionStore,
    unrestored: Unrestored,
    server: String,
    sessions: SessionManager,
    warn: Box<dyn Fn(String) + Send>,
}

impl FileWriter {
    /// Writes each change until the sender is dropped.
    fn run(
        mut self,
        mut changes: watch::Receiver<u64>,
        mut events: broadcast::Receiver<Event>,
        outcomes: &watch::Sender<WriteOutcome>,
    ) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
        loop {
            let is_open = runtime.block_on(async {
                tokio::select! {
                    biased;
                    changed = changes.changed() => changed.is_ok(),
                    () = next_change(&mut events) => true,
                }
            });
            if !is_open {
                return;
            }
            // Many events at once are one write.
            while !events.is_empty() {
                let _ = events.try_recv();
            }
            // The sessions are listed after the number is read, so they include the requested change.
            let number = *changes.borrow_and_update();
            let error = self.write();
            outcomes.send_replace(WriteOutcome { number, error });
        }
    }

    /// Writes the present sessions. Returns the error message.
    fn write(&mut self) -> Option<String> {
        let live: Vec<Session> = self.sessions.list().into_iter().filter(Session::is_persistent).collect();
        self.unrestored.discard_replaced(&live);
        let metadata = |session| {
            let mut metadata = session_metadata(session, &self.server).without_secrets();
            metadata.graphs.extend(self.unrestored.graphs_of(session.name()));
            metadata
        };
        let all: Vec<SessionMetadata> = live.iter().map(metadata).collect();
        let removed: Vec<String> = self
            .store
            .of_server(&self.server)
            .into_iter()
            .filter(|stored| !all.iter().any(|session| session.id == stored.id))
            .filter(|stored| !self.unrestored.sessions.contains(&stored.id))
            .map(|stored| stored.id.clone())
            .collect();
        for id in removed {
            self.store.remove(&id);
        }
        for session in all {
            if self.store.get(&session.id).is_some_and(|stored| is_same(stored, &session)) {
                continue;
            }
            if let Err(error) = self.store.add(session) {
                (self.warn)(error.to_string());
            }
        }
        match self.store.save() {
            Ok(report) => {
                report.problem.map(&self.warn);
                None
            }
            Err(error) => {
                let message = format!("sessions are not persisted: {error}");
                (self.warn)(message.clone());
                Some(message)
            }
        }
    }
}

/// Waits for an event that changes the known state of a node's process: its start, the beginning and the end of a turn, its end.
async fn next_change(events: &mut broadcast::Receiver<Event>) {
    let is_change = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::NodeCreated { .. }
                | EventKind::NodeReady { .. }
                | EventKind::NodeBusy { .. }
                | EventKind::NodeBlocked { .. }
                | EventKind::NodeStopped { .. }
        )
    };
    if !wait_for(events, is_change).await {
        std::future::pending().await
    }
}

fn is_same(stored: &SessionMetadata, now: &SessionMetadata) -> bool {
    SessionMetadata { updated_at: stored.updated_at, created_at: stored.created_at, ..now.clone() } == *stored
}

/// Returns the stored form of a session.
fn session_metadata(session: &Session, server: &str) -> SessionMetadata {
    let info = session.info();
    let graphs = session.nodes().into_iter().filter_map(|(name, node)| {
        let definition = without_secrets(node.graph()?.definition()?.clone());
        Some(GraphRecord { name, definition })
    });
    SessionMetadata {
        id: format!("{server}/{}", info.name),
        name: info.name,
        server: server.to_string(),
        description: info.description,
        tags: info.tags,
        created_at: session.created(),
        updated_at: nerve_host::clock::Clock::start().now(),
        ledger: session.ledger().record(),
        nodes: session.entries().into_iter().map(|(_, entry)| to_record(entry)).collect(),
        graphs: graphs.collect(),
    }
}

/// Stored definitions that this version cannot restore. They stay in the file, because another version may.
#[derive(Debug, Default)]
struct Unrestored {
    /// Ids of sessions.
    sessions: BTreeSet<String>,
    /// Graphs of restored sessions, with the names of these.
    graphs: Vec<(String, GraphRecord)>,
}

impl Unrestored {
    /// Restores a session, or reports why it cannot be restored.
    fn restore(&mut self, stored: &SessionMetadata, sessions: &SessionManager, report: &impl Fn(String)) {
        let session = match find_or_create(stored, sessions) {
            Ok(session) => session,
            Err(error) => {
                report(format!("session '{}' was not restored and stays stored: {error}", stored.name));
                self.sessions.insert(stored.id.clone());
                return;
            }
        };
        restore_content(&session, stored, report);
        for graph in &stored.graphs {
            if let Err(error) = restore_graph(&session, graph) {
                let GraphRecord { name, .. } = graph;
                report(format!(
                    "graph '{name}' of session '{}' was not restored and stays stored: {error}",
                    stored.name
                ));
                self.graphs.push((stored.name.clone(), graph.clone()));
            }
        }
    }

    /// Discards graphs whose session was deleted, or whose name has a new node or graph.
    fn discard_replaced(&mut self, live: &[Session]) {
        let is_free = |session: &Session, graph: &GraphRecord| !session.contains(&graph.name);
        self.graphs.retain(|(name, graph)| {
            live.iter().any(|session| session.name() == name && is_free(session, graph))
        });
    }

    fn graphs_of(&self, session: &str) -> impl Iterator<Item = GraphRecord> {
        self.graphs.iter().filter(move |(name, _)| name == session).map(|(_, graph)| graph.clone())
    }
}

/// Returns the session of a stored one's name. The default session always exists.
fn find_or_create(stored: &SessionMetadata, sessions: &SessionManager) -> Result<Session, EngineError> {
    if let Some(session) = sessions.find_by_name(&stored.name) {
        return Ok(session);
    }
    let session = sessions.new_session(&stored.name, stored.created_at);
    sessions.insert(session.clone())?;
    Ok(session)
}

/// Restores everything but the graphs.
fn restore_content(session: &Session, stored: &SessionMetadata, report: &impl Fn(String)) {
    session.describe(stored.description.clone(), stored.tags.clone());
    session.set_persistent();
    session.ledger().restore(stored.ledger.clone());
    for node in &stored.nodes {
        let restored = restore_entry(node, stored);
        if !restored.env_omitted.is_empty() {
            report(format!(
                "node '{}' of session '{}': no value for {}: secrets are not persisted and the server's environment has none",
                node.spec.node_id,
                stored.name,
                restored.env_omitted.join(", ")
            ));
        }
        session.set_entry(&node.spec.node_id, Some(restored));
    }
    session.limit_entries();
}

fn restore_graph(session: &Session, graph: &GraphRecord) -> Result<(), EngineError> {
    let compiled = GraphFile::from_value(graph.definition.clone())?.compile()?;
    let graph_node = compiled.graph.with_definition(graph.definition.clone());
    session.register(Arc::new(graph_node), Some(&graph.name))
}

/// Returns the stored form of an entry.
fn to_record(entry: NodeEntry) -> NodeRecord {
    let NodeEntry { spec, last, env_omitted } = entry;
    let cwd = spec.cwd.or_else(|| std::env::current_dir().ok());
    // The record belongs to its session. A shell's environment may contain any secret.
    let spec = NodeSpec { session_id: None, cwd, shell_env: None, ..spec };
    NodeRecord { spec, env_omitted, last: Some(last) }
}

/// Returns the entry of a persisted node. Omitted variables get their values from the server's environment. A process without an
/// end counts as lost until its host is found.
fn restore_entry(node: &NodeRecord, session: &SessionMetadata) -> NodeEntry {
    let mut spec = node.spec.clone();
    spec.session_id = Some(session.name.clone()).filter(|name| name != DEFAULT_SESSION);
    let (known, env_omitted): (Vec<_>, Vec<_>) =
        node.env_omitted.iter().cloned().partition(|name| std::env::var(name).is_ok());
    spec.env
        .extend(known.into_iter().filter_map(|name| std::env::var(&name).ok().map(|value| (name, value))));
    let mut entry = NodeEntry { spec, last: node.last.clone().unwrap_or_default(), env_omitted };
    let last = &mut entry.last;
    if last.end.is_none() {
        let recording = last.recording.clone();
        let meta = recording.as_deref().and_then(|path| Meta::load(path).ok().flatten()).unwrap_or_default();
        // The host may have learned of a newer conversation after the last write.
        last.conversation_id = meta.conversation_id.or(last.conversation_id.take());
        let at = meta.ended_at.or_else(|| modified(recording.as_deref()?)).unwrap_or(session.updated_at);
        last.end = Some(ProcessEnd { exit: meta.exit, ..ProcessEnd::lost(at, LOST) });
    }
    entry
}

/// Returns when a file was modified.
fn modified(path: &Path) -> Option<TsNs> {
    let time = std::fs::metadata(path).and_then(|meta| meta.modified()).ok()?;
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok().map(TsNs)
}
