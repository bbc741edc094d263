//! All sessions of a server, by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nerve_api::DEFAULT_SESSION;
use nerve_api::request::NodeRef;
use nerve_host::clock::Clock;
use nerve_node::NodeHandle;
use nerve_node::error::EngineError;
use nerve_node::factory::NodeFactory;
use nerve_node::names::check_name;
use nerve_node::usage_ledger::{Pricing, built_in_pricing};
use nerve_types::{TsNs, text_limit};
use parking_lot::Mutex;

use super::{Session, stop_all};
use crate::executable::Executable;

/// All sessions of a server: the default one and those that were created. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SessionManager {
    shared: Arc<Shared>,
}

struct Shared {
    sessions: Mutex<BTreeMap<String, Session>>,
    factory: NodeFactory,
    pricing: Pricing,
    /// No more sessions are accepted. Changed only while `sessions` is locked.
    closed: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

impl SessionManager {
    /// Creates a manager with an empty default session and the built-in prices. `factory` creates nodes on request.
    pub fn new(factory: NodeFactory) -> SessionManager {
        SessionManager::with_pricing(factory, built_in_pricing())
    }

    /// Creates a manager with an empty default session. Costs follow `pricing`.
    pub fn with_pricing(factory: NodeFactory, pricing: Pricing) -> SessionManager {
        let default = Session::with_pricing(DEFAULT_SESSION, Clock::start().now(), Arc::clone(&pricing));
        default.set_persistent();
        let sessions = Mutex::new(BTreeMap::from([(DEFAULT_SESSION.to_string(), default)]));
        let closed = AtomicBool::new(false);
        SessionManager { shared: Arc::new(Shared { sessions, factory, pricing, closed }) }
    }

    /// Creates a session that is not in the manager yet.
    pub fn new_session(&self, name: &str, created: TsNs) -> Session {
        Session::with_pricing(name, created, Arc::clone(&self.shared.pricing))
    }

    /// Returns the factory. The nodes that it creates are not registered.
    pub(crate) fn node_factory(&self) -> &NodeFactory {
        &self.shared.factory
    }

    /// Creates a session.
    ///
    /// # Errors
    /// InvalidRequest: invalid name, description or tags over their limits ([`nerve_types::text_limit`]); AlreadyExists.
    pub fn create(&self, name: &str, description: String, tags: Vec<String>) -> Result<Session, EngineError> {
        text_limit::check_description(&description)
            .and_then(|()| text_limit::check_tags(&tags))
            .map_err(|error| EngineError::invalid_request(format!("session '{name}': {error}")))?;
        let session = self.new_session(name, Clock::start().now());
        session.describe(description, tags);
        session.set_persistent();
        self.insert(session.clone())?;
        Ok(session)
    }

    /// Returns the session of that name after creating it if it does not exist; the default session if `name` is `None`.
    ///
    /// # Errors
    /// InvalidRequest: invalid name.
    pub fn ensure(&self, name: Option<&str>) -> Result<Session, EngineError> {
        match self.find_by_name(name.unwrap_or(DEFAULT_SESSION)) {
            Some(session) => Ok(session),
            None => {
                let session = self.new_session(name.unwrap_or(DEFAULT_SESSION), Clock::start().now());
                self.insert(session.clone())?;
                Ok(session)
            }
        }
    }

    /// Adds a session that was created elsewhere.
    ///
    /// # Errors
    /// InvalidRequest: invalid name; AlreadyExists.
    pub fn insert(&self, session: Session) -> Result<(), EngineError> {
        check_name(session.name(), "session")?;
        let mut sessions = self.shared.sessions.lock();
        if self.shared.closed.load(Ordering::Relaxed) {
            return Err(EngineError::process("the server is shutting down"));
        }
        if sessions.contains_key(session.name()) {
            return Err(EngineError::already_exists(format!("session '{}' exists already", session.name())));
        }
        sessions.insert(session.name().to_string(), session);
        Ok(())
    }

    /// Returns the session of that name; the default session if `name` is `None`.
    ///
    /// # Errors
    /// NotFound; the hint lists the existing sessions.
    pub fn get(&self, name: Option<&str>) -> Result<Session, EngineError> {
        let name = name.unwrap_or(DEFAULT_SESSION);
        let sessions = self.shared.sessions.lock();
        sessions.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = sessions.keys().map(String::as_str).take(20).collect();
            let error = EngineError::not_found(format!("no session '{name}'"));
            error.hint(format!("sessions: {}", known.join(", ")))
        })
    }

    /// Returns the session of that name, if it exists.
    pub fn find_by_name(&self, name: &str) -> Option<Session> {
        self.shared.sessions.lock().get(name).cloned()
    }

    /// Returns all sessions, sorted by name.
    pub fn list(&self) -> Vec<Session> {
        self.shared.sessions.lock().values().cloned().collect()
    }

    /// Returns a node or a graph of a session.
    ///
    /// # Errors
    /// NotFound.
    pub fn find(&self, at: &NodeRef) -> Result<Executable, EngineError> {
        self.get(at.session.as_deref())?.find(&at.node)
    }

    /// Stops the nodes of a session and removes it.
    ///
    /// # Errors
    /// NotFound; InvalidRequest: the default session cannot be closed.
    pub async fn close(&self, name: &str) -> Result<(), EngineError> {
        let session = self.get(Some(name))?;
        if name == DEFAULT_SESSION {
            return Err(EngineError::invalid_request("the default session cannot be deleted"));
        }
        let nodes = session.close_registration();
        self.shared.sessions.lock().remove(name);
        stop_all(nodes, "its session was deleted").await;
        Ok(())
    }

    /// Removes a session. Its nodes keep running.
    pub fn forget(&self, name: &str) {
        self.shared.sessions.lock().remove(name);
    }

    /// Stops all nodes of all sessions and accepts no more.
    pub async fn close_all(&self) {
        stop_all(self.close_registration(), "all sessions were closed").await;
    }

    /// Accepts nothing from now on, and returns all nodes, still running.
    pub fn close_registration(&self) -> Vec<NodeHandle> {
        let sessions: Vec<Session> = {
            let sessions = self.shared.sessions.lock();
            self.shared.closed.store(true, Ordering::Relaxed);
            sessions.values().cloned().collect()
        };
        sessions.iter().flat_map(Session::close_registration).collect()
    }
}
