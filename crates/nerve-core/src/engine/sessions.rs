//! Nodes and sessions: made, started again, stopped, forgotten.

use std::sync::Arc;

use super::Engine;
use crate::command::{EventKind, NodeInfo, NodeRef, NodeSpec, Outcome, Reply, StateName};
use crate::error::{EngineError, ErrorKind};
use crate::node::factory::named;
use crate::session::{Session, stop_all};

impl Engine {
    /// A start is not left half done when nobody waits for it any more.
    pub(super) async fn create_detached(&self, spec: NodeSpec) -> Outcome {
        let engine = self.clone();
        let created = self.inner.creating.spawn(async move {
            let session = engine.inner.sessions.get(spec.node.session.as_deref())?;
            engine.make(&session, spec, None).await.map(Reply::Created)
        });
        let created = created.await;
        created.unwrap_or_else(|error| Err(EngineError::new(ErrorKind::Internal, error.to_string())))
    }

    /// Makes a node, under its name.
    pub(super) async fn make(
        &self,
        session: &Session,
        spec: NodeSpec,
        forked_from: Option<String>,
    ) -> Result<NodeInfo, EngineError> {
        let at = spec.node.clone();
        let reservation = session.reserve(&at.node)?;
        let made = self.inner.factory.create(spec.clone()).await;
        let node = made.inspect_err(|_| session.release(&at.node, reservation))?;
        let info = node.info();
        if !session.fill(&at.node, reservation, Arc::clone(&node)) {
            node.stop("its session was deleted, or the server was shut down").await;
            return Err(EngineError::new(
                ErrorKind::NotFound,
                "its session was deleted meanwhile, or the server is shutting down",
            ));
        }
        self.is_made(session, &at, Some(spec), info.kind, forked_from);
        Ok(info)
    }

    /// A node is there: noted, and told.
    pub(super) fn is_made(
        &self,
        session: &Session,
        at: &NodeRef,
        spec: Option<NodeSpec>,
        kind: &'static str,
        forked_from: Option<String>,
    ) {
        session.define(&at.node, spec);
        self.inner.book.note(&self.inner.sessions);
        self.inner.events.publish(Some(&named(at)), EventKind::NodeCreated { kind, forked_from });
    }

    /// Starts a node again that is defined.
    pub(super) async fn start_node(&self, at: &NodeRef) -> Outcome {
        let session = self.inner.sessions.get(at.session.as_deref())?;
        if session.get(&at.node).is_some_and(|node| node.info().state != StateName::Stopped) {
            let message = format!("node '{}' runs already", at.node);
            return Err(EngineError::new(ErrorKind::AlreadyExists, message));
        }
        let Some(spec) = session.definition(&at.node) else {
            // Says which there are.
            session.find(&at.node)?;
            let message = format!("node '{}' has no definition to start it from", at.node);
            return Err(EngineError::new(ErrorKind::NotFound, message).hint("make it with `node create`"));
        };
        self.create_detached(self.going_on(spec)).await
    }

    pub(super) async fn stop_node(&self, at: &NodeRef) -> Outcome {
        let session = self.inner.sessions.get(at.session.as_deref())?;
        let Some(node) = session.get(&at.node) else {
            if session.definition(&at.node).is_none() {
                session.find(&at.node)?;
            }
            session.define(&at.node, None);
            self.inner.book.note(&self.inner.sessions);
            return Ok(Reply::Stopped { node: at.node.clone() });
        };
        node.stop("stopped").await;
        // Meanwhile the name may have gone to a new node.
        if session.forget(&at.node, &node) {
            session.define(&at.node, None);
        }
        self.inner.book.note(&self.inner.sessions);
        Ok(Reply::Stopped { node: at.node.clone() })
    }

    pub(super) fn list_nodes(&self, session: Option<&str>) -> Outcome {
        let session = self.inner.sessions.get(session)?;
        let mut nodes: Vec<NodeInfo> = session
            .nodes()
            .into_iter()
            .filter(|(_, node)| node.as_graph().is_none())
            .map(|(name, node)| NodeInfo { id: name, ..node.info() })
            .collect();
        for (name, spec) in session.definitions() {
            match nodes.iter_mut().find(|node| node.id == name) {
                Some(node) => node.metadata.extend(known_of(&spec)),
                None => nodes.push(defined(&session, &name, &spec)),
            }
        }
        nodes.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(Reply::Nodes(nodes))
    }

    pub(super) fn node_info(&self, at: &NodeRef) -> Result<NodeInfo, EngineError> {
        let session = self.inner.sessions.get(at.session.as_deref())?;
        match (session.get(&at.node), session.definition(&at.node)) {
            (Some(node), spec) => {
                let mut info = node.info();
                info.metadata.extend(spec.iter().flat_map(known_of));
                Ok(info)
            }
            (None, Some(spec)) => Ok(defined(&session, &at.node, &spec)),
            (None, None) => session.find(&at.node).map(|node| node.info()),
        }
    }

    pub(super) fn create_session(&self, name: &str, description: String, tags: Vec<String>) -> Outcome {
        let session = self.inner.sessions.create(name, description, tags)?;
        self.inner.book.note(&self.inner.sessions);
        Ok(Reply::Session(session.info()))
    }

    pub(super) async fn delete_session(&self, name: &str) -> Outcome {
        self.inner.sessions.close(name).await?;
        self.inner.book.note(&self.inner.sessions);
        Ok(Reply::Done)
    }

    /// Starts what is defined and does not run, at the same time.
    pub(super) async fn start_session(&self, name: &str) -> Outcome {
        let session = self.inner.sessions.get(Some(name))?;
        let down = session
            .definitions()
            .into_iter()
            .filter(|(name, _)| session.get(name).is_none_or(|node| node.info().state == StateName::Stopped));
        let starts: Vec<_> = down
            .map(|(name, _)| {
                let engine = self.clone();
                let at = NodeRef { session: Some(session.name().to_string()), node: name };
                (at.node.clone(), tokio::spawn(async move { engine.start_node(&at).await }))
            })
            .collect();
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for (name, start) in starts {
            match start.await {
                Ok(Ok(_)) => done.push(name),
                Ok(Err(error)) => failed.push((name, error.to_string())),
                Err(error) => failed.push((name, error.to_string())),
            }
        }
        Ok(Reply::Lifecycle { done, failed })
    }

    /// Stops what runs; what is defined can be started again.
    pub(super) async fn stop_session(&self, name: &str) -> Outcome {
        let session = self.inner.sessions.get(Some(name))?;
        let running: Vec<_> =
            session.nodes().into_iter().filter(|(_, node)| node.as_graph().is_none()).collect();
        stop_all(running.iter().map(|(_, node)| Arc::clone(node)).collect(), "its session was stopped").await;
        for (name, node) in &running {
            session.forget(name, node);
        }
        let done = running.into_iter().map(|(name, _)| name).collect();
        Ok(Reply::Lifecycle { done, failed: Vec::new() })
    }

    /// The session of a node that is taken back; that of a run is made inside the one that the run uses.
    pub(super) fn session_of(&self, at: &NodeRef) -> Result<Session, EngineError> {
        self.inner.sessions.ensure(at.session.as_deref())
    }
}

/// What is known of a node that does not run.
/// What a node was given that its terminal does not show: the names of its variables, never a value.
fn known_of(spec: &NodeSpec) -> impl Iterator<Item = (String, String)> {
    let names: Vec<&str> = spec.env.keys().map(String::as_str).collect();
    let env = (!names.is_empty()).then(|| ("env".to_string(), names.join(" ")));
    let proxy = spec.proxy.as_ref().map(|proxy| ("proxy".to_string(), proxy.kind.as_str().to_string()));
    env.into_iter().chain(proxy)
}

fn defined(session: &Session, name: &str, spec: &NodeSpec) -> NodeInfo {
    use crate::command::{BackendKind, CommandLine};

    let command = match &spec.command {
        CommandLine::Text(text) => text.clone(),
        CommandLine::Argv(argv) => shell_words::join(argv),
    };
    let mut metadata = std::collections::BTreeMap::from([("command".to_string(), command)]);
    if let Some(cwd) = &spec.cwd {
        metadata.insert("cwd".to_string(), cwd.display().to_string());
    }
    if let Some(id) = &spec.agent_session {
        metadata.insert("agent_session".to_string(), id.clone());
    }
    metadata.extend(known_of(spec));
    NodeInfo {
        id: name.to_string(),
        session: session.name().to_string(),
        kind: spec.backend.as_str(),
        state: StateName::Created,
        persistent: spec.backend != BackendKind::Bash,
        metadata,
    }
}
