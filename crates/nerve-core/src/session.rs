//! The registry of nodes: sessions by name, nodes by id within one.

use std::collections::BTreeMap;

use nerve_record::name::check;
use nerve_term::event::TsNs;

use crate::command::{NodeInfo, NodeRef, SessionInfo, StateName};
use crate::error::{EngineError, ErrorKind};
use crate::node::Node;

/// The session that is always there.
pub const DEFAULT: &str = "default";

/// All sessions of a server.
#[derive(Debug)]
pub struct Sessions {
    by_name: BTreeMap<String, Session>,
    reservations: u64,
    /// Nothing is taken in any more.
    closed: bool,
}

/// Says who reserved a name: a name can be given up and reserved again by somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation(u64);

/// A workspace: nodes under names.
#[derive(Debug)]
struct Session {
    description: String,
    tags: Vec<String>,
    created: TsNs,
    nodes: BTreeMap<String, Slot>,
}

/// A name that is taken.
#[derive(Debug)]
enum Slot {
    /// Its node is being started.
    Reserved(Reservation),
    /// Its node.
    Node(Node),
}

impl Sessions {
    /// The default session, empty.
    pub fn new(now: TsNs) -> Sessions {
        let default =
            Session { description: String::new(), tags: Vec::new(), created: now, nodes: BTreeMap::new() };
        Sessions { by_name: BTreeMap::from([(DEFAULT.to_string(), default)]), reservations: 0, closed: false }
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Never: the default session is always there.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Makes a session.
    ///
    /// # Errors
    /// A bad name, or one that is taken.
    pub fn create(
        &mut self,
        name: &str,
        description: String,
        tags: Vec<String>,
        now: TsNs,
    ) -> Result<SessionInfo, EngineError> {
        check_name(name, "session")?;
        if self.by_name.contains_key(name) {
            return Err(EngineError::new(
                ErrorKind::AlreadyExists,
                format!("session '{name}' exists already"),
            ));
        }
        self.by_name
            .insert(name.to_string(), Session { description, tags, created: now, nodes: BTreeMap::new() });
        self.info(name)
    }

    /// Makes a session if there is none of that name.
    ///
    /// # Errors
    /// A bad name.
    pub fn ensure(&mut self, name: Option<&str>, now: TsNs) -> Result<(), EngineError> {
        match name {
            Some(name) if !self.by_name.contains_key(name) => {
                self.create(name, String::new(), Vec::new(), now).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// One session.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn info(&self, name: &str) -> Result<SessionInfo, EngineError> {
        let session = self.session(name)?;
        Ok(SessionInfo {
            name: name.to_string(),
            description: session.description.clone(),
            tags: session.tags.clone(),
            nodes: session.nodes.keys().cloned().collect(),
            created: session.created,
        })
    }

    /// All sessions, by name.
    pub fn list(&self) -> Vec<SessionInfo> {
        self.by_name.keys().filter_map(|name| self.info(name).ok()).collect()
    }

    /// Forgets a session and hands out its nodes, still running.
    ///
    /// # Errors
    /// There is none of that name, or it is the default one.
    pub fn remove(&mut self, name: &str) -> Result<Vec<Node>, EngineError> {
        self.session(name)?;
        if name == DEFAULT {
            return Err(EngineError::new(ErrorKind::InvalidRequest, "the default session cannot be deleted"));
        }
        let session = self.by_name.remove(name);
        Ok(session.map(|session| running(session.nodes)).unwrap_or_default())
    }

    /// Takes nothing in from now on, and hands out all nodes, still running.
    pub fn close(&mut self) -> Vec<Node> {
        self.closed = true;
        self.all_nodes()
    }

    /// All nodes of all sessions.
    pub fn all_nodes(&self) -> Vec<Node> {
        let slots = self.by_name.values().flat_map(|session| session.nodes.values());
        slots.filter_map(Slot::node).cloned().collect()
    }

    /// The nodes of one session, by id.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn nodes(&self, session: Option<&str>) -> Result<Vec<NodeInfo>, EngineError> {
        let session = self.session(session.unwrap_or(DEFAULT))?;
        Ok(session.nodes.values().filter_map(Slot::node).map(Node::info).collect())
    }

    /// One node.
    ///
    /// # Errors
    /// No such session or node; the nodes there are, are named.
    pub fn node(&self, node: &NodeRef) -> Result<Node, EngineError> {
        let name = session_name(node);
        let session = self.session(name)?;
        if let Some(found) = session.nodes.get(&node.node).and_then(Slot::node) {
            return Ok(found.clone());
        }
        let known: Vec<&str> = session.nodes.keys().map(String::as_str).take(20).collect();
        let hint = if known.is_empty() {
            "it has no nodes".to_string()
        } else {
            format!("it has: {}", known.join(", "))
        };
        Err(EngineError::new(ErrorKind::NotFound, format!("no node '{}' in session '{name}'", node.node))
            .hint(hint))
    }

    /// Takes a name for a node that is about to start. A stopped node gives its name up.
    ///
    /// # Errors
    /// A bad name, no such session, or the name is taken.
    pub fn reserve(&mut self, node: &NodeRef) -> Result<Reservation, EngineError> {
        check_name(&node.node, "node")?;
        if self.closed {
            return Err(EngineError::new(ErrorKind::Process, "the server is shutting down"));
        }
        let name = session_name(node);
        let Some(session) = self.by_name.get_mut(name) else { return Err(self.no_session(name)) };
        match session.nodes.get(&node.node) {
            Some(Slot::Node(old)) if old.state() == StateName::Stopped => {}
            None => {}
            Some(_) => {
                let message = format!("node '{}' exists already in session '{name}'", node.node);
                return Err(EngineError::new(ErrorKind::AlreadyExists, message)
                    .hint("stop it first, or take another name"));
            }
        }
        self.reservations += 1;
        let reservation = Reservation(self.reservations);
        session.nodes.insert(node.node.clone(), Slot::Reserved(reservation));
        Ok(reservation)
    }

    /// Puts a started node under its reserved name. `false` if the reservation holds no more: its session is gone, though
    /// another of that name may be there.
    pub fn fill(&mut self, at: &NodeRef, reservation: Reservation, node: Node) -> bool {
        if self.closed {
            return false;
        }
        let slot = self.slot(at).filter(|slot| slot.is_reserved(reservation));
        slot.map(|slot| *slot = Slot::Node(node)).is_some()
    }

    /// Gives a reserved name back; nothing happens to a name that is another's by now.
    pub fn release(&mut self, at: &NodeRef, reservation: Reservation) {
        self.remove_if(at, |slot| slot.is_reserved(reservation));
    }

    /// Forgets a node; nothing happens to another that has its name by now.
    pub fn forget(&mut self, at: &NodeRef, node: &Node) {
        self.remove_if(at, |slot| slot.node().is_some_and(|there| there.is_same(node)));
    }

    fn remove_if(&mut self, at: &NodeRef, is_it: impl FnOnce(&Slot) -> bool) {
        let Some(session) = self.by_name.get_mut(session_name(at)) else { return };
        if session.nodes.get(&at.node).is_some_and(is_it) {
            session.nodes.remove(&at.node);
        }
    }

    fn slot(&mut self, at: &NodeRef) -> Option<&mut Slot> {
        self.by_name.get_mut(session_name(at))?.nodes.get_mut(&at.node)
    }

    fn session(&self, name: &str) -> Result<&Session, EngineError> {
        self.by_name.get(name).ok_or_else(|| self.no_session(name))
    }

    fn no_session(&self, name: &str) -> EngineError {
        let known: Vec<&str> = self.by_name.keys().map(String::as_str).take(20).collect();
        let error = EngineError::new(ErrorKind::NotFound, format!("no session '{name}'"));
        error.hint(format!("there are: {}", known.join(", ")))
    }
}

impl Slot {
    fn is_reserved(&self, reservation: Reservation) -> bool {
        matches!(self, Slot::Reserved(by) if *by == reservation)
    }

    fn node(&self) -> Option<&Node> {
        match self {
            Slot::Node(node) => Some(node),
            Slot::Reserved(_) => None,
        }
    }
}

fn session_name(at: &NodeRef) -> &str {
    at.session.as_deref().unwrap_or(DEFAULT)
}

fn running(nodes: BTreeMap<String, Slot>) -> Vec<Node> {
    nodes.into_values().filter_map(|slot| slot.node().cloned()).collect()
}

/// The name rule, as an engine error.
pub(crate) fn check_name(name: &str, what: &'static str) -> Result<(), EngineError> {
    check(what, name).map_err(|error| EngineError::new(ErrorKind::InvalidRequest, error.to_string()))
}
