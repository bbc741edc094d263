//! The names of a session, and the nodes and graphs that they refer to.

use std::collections::BTreeMap;

use nerve_types::TsNs;

use super::Session;
use super::entry::{MAX_STOPPED, NodeEntry};
use crate::executable::Executable;

/// The changeable part of a session, behind its lock.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) description: String,
    pub(super) tags: Vec<String>,
    /// The session in which unknown names are looked up.
    pub(super) outer: Option<Session>,
    /// The session is restored after a restart of its server.
    pub(super) is_persistent: bool,
    pub(super) slots: BTreeMap<String, Slot>,
    /// The entries of nodes, running or not, from which they can be started again.
    pub(super) entries: BTreeMap<String, NodeEntry>,
    pub(super) reservations: u64,
    /// No more nodes are accepted.
    pub(super) closed: bool,
}

/// A reserved or used name.
#[derive(Debug)]
pub(super) enum Slot {
    /// The node is being started.
    Reserved(Reservation),
    /// A registered node or graph.
    Registered(Executable),
}

/// Identifies the caller that reserved a name, because a name can be released and reserved again by another caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation(pub(super) u64);

impl State {
    /// Returns the names and entries of the nodes that neither run nor start.
    pub(super) fn stopped(&self) -> impl Iterator<Item = (&String, &NodeEntry)> {
        self.entries.iter().filter(move |(name, _)| !self.slots.contains_key(*name))
    }

    /// Returns true if the name belongs to this node or graph.
    pub(super) fn is_registered(&self, name: &str, node: &Executable) -> bool {
        self.slots.get(name).and_then(Slot::executable).is_some_and(|other| other.is_same(node))
    }

    pub(super) fn fill(&mut self, name: &str, reservation: Reservation, entry: Executable) -> bool {
        let closed = self.closed;
        let slot = self.slots.get_mut(name).filter(|slot| !closed && slot.is_reserved(reservation));
        slot.map(|slot| *slot = Slot::Registered(entry)).is_some()
    }

    pub(super) fn set_entry(&mut self, name: &str, entry: Option<NodeEntry>) {
        match entry {
            Some(entry) => drop(self.entries.insert(name.to_string(), entry)),
            None => drop(self.entries.remove(name)),
        }
    }

    /// Drops the oldest entries of nodes that do not run, beyond the limit. Returns their names.
    pub(super) fn drop_surplus_entries(&mut self) -> Vec<String> {
        let end_time = |entry: &NodeEntry| entry.last.end.as_ref().map(|end| end.at);
        let mut ended: Vec<(Option<TsNs>, String)> =
            self.stopped().map(|(name, entry)| (end_time(entry), name.clone())).collect();
        ended.sort();
        let surplus = ended.len().saturating_sub(MAX_STOPPED);
        let dropped: Vec<String> = ended.into_iter().take(surplus).map(|(_, name)| name).collect();
        for name in &dropped {
            self.entries.remove(name);
        }
        dropped
    }
}

impl Slot {
    pub(super) fn is_reserved(&self, reservation: Reservation) -> bool {
        matches!(self, Slot::Reserved(by) if *by == reservation)
    }

    pub(super) fn executable(&self) -> Option<&Executable> {
        match self {
            Slot::Registered(entry) => Some(entry),
            Slot::Reserved(_) => None,
        }
    }
}
