//! Persists sessions and the definitions of their nodes across restarts.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use nerve_graph::file::{GraphFile, without_secrets};
use nerve_graph::session::manager::SessionManager;
use nerve_graph::session::store::{GraphRecord, NodeRecord, SessionMetadata, SessionStore};
use nerve_graph::session::{DEFAULT, Session};
use nerve_node::command::{EventKind, NodeSpec};
use nerve_node::error::EngineError;
use nerve_node::events::Publisher;

/// Writes the sessions of a server to a file. A thread writes only the latest state, so that many changes at once are one write.
#[derive(Debug)]
pub(super) struct SessionPersister {
    writer: Option<Writer>,
    /// Problems with the persisted sessions.
    warnings: Vec<String>,
}

#[derive(Debug)]
struct Writer {
    server: String,
    /// Taken by `close`.
    snapshots: Mutex<Option<watch::Sender<Revision>>>,
    written: watch::Receiver<Written>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// A state of the sessions.
#[derive(Debug, Default)]
struct Revision {
    number: u64,
    sessions: Vec<SessionMetadata>,
}

/// The last revision that was written, or could not be written.
#[derive(Debug, Default)]
struct Written {
    number: u64,
    error: Option<String>,
}

impl SessionPersister {
    /// Loads the persisted sessions of `server` into `sessions` and starts to persist changes. Does nothing without a file.
    pub(super) fn open(
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
                events.publish(None, EventKind::Error { message });
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
                for stored in store.of_server(server) {
                    if let Err(error) = restore(stored, sessions, &report) {
                        report(format!("session '{}' was not restored: {error}", stored.name));
                    }
                }
                Some(store)
            }
            Err(error) => {
                report(format!("sessions are not persisted: {error}"));
                None
            }
        };
        let warnings = warnings.into_inner();
        let Some(store) = store else { return SessionPersister { writer: None, warnings } };
        let (snapshots, changes) = watch::channel(Revision::default());
        let (outcomes, written) = watch::channel(Written::default());
        let writer_server = server.to_string();
        let thread = std::thread::Builder::new()
            .name("sessions".to_string())
            .spawn(move || write(store, &writer_server, (changes, outcomes), warn))
            .ok();
        let writer = Writer {
            server: server.to_string(),
            snapshots: Mutex::new(Some(snapshots)),
            written,
            thread: Mutex::new(thread),
        };
        SessionPersister { writer: Some(writer), warnings }
    }

    /// Returns problems found when the persisted sessions were loaded.
    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Schedules a write of the current sessions.
    pub(super) fn save(&self, sessions: &SessionManager) {
        self.schedule(sessions);
    }

    /// Writes the current sessions and waits until they are on the disk.
    ///
    /// # Errors
    /// They cannot be written; the message.
    pub(super) async fn save_now(&self, sessions: &SessionManager) -> Result<(), String> {
        let (Some(writer), Some(number)) = (&self.writer, self.schedule(sessions)) else { return Ok(()) };
        let mut written = writer.written.clone();
        let outcome = written.wait_for(|written| written.number >= number).await;
        match outcome {
            Ok(written) => written.error.clone().map_or(Ok(()), Err),
            Err(_) => Err("sessions are not persisted: the thread that writes them has ended".to_string()),
        }
    }

    /// Returns the number of the scheduled revision; `None` if nothing is persisted.
    fn schedule(&self, sessions: &SessionManager) -> Option<u64> {
        let writer = self.writer.as_ref()?;
        // The sessions are listed under the lock, so that an older list never replaces a newer one.
        let snapshots = writer.snapshots.lock();
        let sender = snapshots.as_ref()?;
        let stored = sessions.list().into_iter().filter(Session::is_kept);
        let sessions = stored.map(|session| metadata(&session, &writer.server)).collect();
        let number = sender.borrow().number + 1;
        sender.send_replace(Revision { number, sessions });
        Some(number)
    }

    /// Waits until all changes are on the disk.
    pub(super) async fn close(&self) {
        let Some(writer) = &self.writer else { return };
        writer.snapshots.lock().take();
        let thread = writer.thread.lock().take();
        if let Some(thread) = thread {
            // The thread has reported its errors.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// Writes each change until the sender is dropped.
fn write(
    mut store: SessionStore,
    server: &str,
    (mut changes, outcomes): (watch::Receiver<Revision>, watch::Sender<Written>),
    warn: impl Fn(String),
) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    while runtime.block_on(changes.changed()).is_ok() {
        let (number, all) = {
            let revision = changes.borrow_and_update();
            (revision.number, revision.sessions.clone())
        };
        let removed: Vec<String> = store
            .of_server(server)
            .into_iter()
            .filter(|stored| !all.iter().any(|session| session.id == stored.id))
            .map(|stored| stored.id.clone())
            .collect();
        for id in removed {
            store.remove(&id);
        }
        for session in all {
            if store.get(&session.id).is_some_and(|stored| is_same(stored, &session)) {
                continue;
            }
            if let Err(error) = store.add(session) {
                warn(error.to_string());
            }
        }
        let mut failure = None;
        match store.save() {
            Ok(report) => drop(report.problem.map(&warn)),
            Err(error) => {
                let message = format!("sessions are not persisted: {error}");
                warn(message.clone());
                failure = Some(message);
            }
        }
        outcomes.send_replace(Written { number, error: failure });
    }
}

fn is_same(stored: &SessionMetadata, now: &SessionMetadata) -> bool {
    SessionMetadata { updated_at: stored.updated_at, created_at: stored.created_at, ..now.clone() } == *stored
}

fn metadata(session: &Session, server: &str) -> SessionMetadata {
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
        nodes: session.definitions().into_iter().map(|(_, spec)| record(spec)).collect(),
        graphs: graphs.collect(),
    }
}

fn restore(
    stored: &SessionMetadata,
    sessions: &SessionManager,
    report: &impl Fn(String),
) -> Result<(), EngineError> {
    let session = match sessions.find_by_name(&stored.name) {
        // The default session always exists.
        Some(session) => session,
        None => {
            let session = Session::created_at(&stored.name, stored.created_at);
            sessions.insert(session.clone())?;
            session
        }
    };
    session.describe(stored.description.clone(), stored.tags.clone());
    session.keep();
    for node in &stored.nodes {
        let missing: Vec<&str> = node
            .env_omitted
            .iter()
            .map(String::as_str)
            .filter(|name| std::env::var_os(name).is_none())
            .collect();
        if !missing.is_empty() {
            report(format!(
                "node '{}' of session '{}': no value for {}: secrets are not persisted and the server's environment has none",
                node.spec.node_id,
                stored.name,
                missing.join(", ")
            ));
        }
        session.define(&node.spec.node_id, Some(spec(node, &stored.name)));
    }
    for graph in &stored.graphs {
        let compiled = GraphFile::from_value(graph.definition.clone()).and_then(|file| file.compile());
        match compiled {
            Ok(compiled) => {
                let graph_node = compiled.graph.with_definition(graph.definition.clone());
                session.register(Arc::new(graph_node), Some(&graph.name))?;
            }
            Err(error) => report(format!(
                "graph '{}' of session '{}' was not restored: {error}",
                graph.name, stored.name
            )),
        }
    }
    Ok(())
}

/// Returns the stored form of a definition.
fn record(spec: NodeSpec) -> NodeRecord {
    let cwd = spec.cwd.or_else(|| std::env::current_dir().ok());
    // The record belongs to its session.
    NodeRecord { spec: NodeSpec { session_id: None, cwd, ..spec }, env_omitted: Vec::new() }
}

/// Returns the definition of a persisted node. Omitted variables get their values from the server's environment.
fn spec(node: &NodeRecord, session: &str) -> NodeSpec {
    let mut spec = node.spec.clone();
    spec.session_id = Some(session.to_string()).filter(|session| session != DEFAULT);
    let values = node.env_omitted.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
    spec.env.extend(values);
    spec
}
