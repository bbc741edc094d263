//! The entries of a session's nodes, which outlive their processes.

use nerve_api::reply::BudgetStatus;
use nerve_api::request::{NodeSpec, UsageLimits};
use nerve_api::session_option;
use nerve_api::value::NodeState;
use nerve_node::error::EngineError;

use super::Session;
use super::entry::{NodeEntry, ProcessEnd};
use super::state::{Reservation, Slot, State};
use crate::executable::Executable;

impl Session {
    /// Puts a started node under its reserved name, like [`Session::fill`], together with the entry from which it can be started
    /// again. `None` removes the old entry of the name.
    pub fn fill_with_entry(
        &self,
        name: &str,
        reservation: Reservation,
        node: impl Into<Executable>,
        entry: Option<NodeEntry>,
    ) -> bool {
        let mut state = self.inner.state.lock();
        let is_filled = state.fill(name, reservation, node.into());
        if is_filled {
            state.set_entry(name, entry);
        }
        is_filled
    }

    /// Sets or removes the entry of a node.
    pub fn set_entry(&self, name: &str, entry: Option<NodeEntry>) {
        self.inner.state.lock().set_entry(name, entry);
    }

    /// Drops the oldest entries of nodes that do not run, beyond the limit.
    pub fn limit_entries(&self) {
        self.inner.state.lock().drop_surplus_entries();
    }

    /// Restores the earlier entry of a node whose start has failed, and frees its name. Returns false, and changes nothing, if the
    /// name belongs to another node by now, or a client has requested to stop the node.
    pub fn restore_entry(&self, name: &str, node: &Executable, entry: NodeEntry) -> bool {
        let mut state = self.inner.state.lock();
        let is_stop_requested = state.entries.get(name).is_none_or(|entry| entry.last.is_stop_requested);
        if is_stop_requested || !state.is_registered(name, node) {
            return false;
        }
        state.slots.remove(name);
        state.set_entry(name, Some(entry));
        true
    }

    /// Removes a stopped node and its entry.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (it is running or starting).
    pub fn remove_stopped(&self, name: &str) -> Result<(), EngineError> {
        let refusal = {
            let mut state = self.inner.state.lock();
            let State { slots, entries, .. } = &mut *state;
            match slots.get(name) {
                Some(Slot::Reserved(_)) => Some("it is starting"),
                Some(Slot::Registered(node)) if node.is_graph() || node.state() != NodeState::Stopped => {
                    Some("it is running")
                }
                Some(Slot::Registered(_)) => {
                    slots.remove(name);
                    entries.remove(name);
                    return Ok(());
                }
                None if entries.remove(name).is_some() => return Ok(()),
                None => None,
            }
        };
        let Some(refusal) = refusal else { return Err(self.not_found(name)) };
        let error = EngineError::invalid_request(format!("cannot remove node '{name}': {refusal}"));
        Err(error.hint(format!("stop it first: `nerve stop {name}{}`", session_option(self.name()))))
    }

    /// Returns the definition of the node of that name.
    pub fn definition(&self, name: &str) -> Option<NodeSpec> {
        self.inner.state.lock().entries.get(name).map(|entry| entry.spec.clone())
    }

    /// Replaces the budget in the entry of a node that does not run.
    ///
    /// # Errors
    /// NotFound, Busy (it is starting).
    pub fn set_stopped_budget(
        &self,
        name: &str,
        budget: Option<UsageLimits>,
    ) -> Result<BudgetStatus, EngineError> {
        let mut state = self.inner.state.lock();
        if state.slots.contains_key(name) {
            let error = EngineError::busy(format!("cannot set the budget of node '{name}': it is starting"));
            return Err(error.hint("try again in a moment"));
        }
        let Some(entry) = state.entries.get_mut(name) else {
            drop(state);
            return Err(self.not_found(name));
        };
        let ledger = entry.ledger();
        ledger.set_limits(budget);
        entry.observe_usage(&ledger);
        Ok(ledger.status())
    }

    /// Returns the entry of the node of that name, with the present state of its process.
    pub fn entry(&self, name: &str) -> Option<NodeEntry> {
        self.observe(|other| other == name);
        self.inner.state.lock().entries.get(name).cloned()
    }

    /// Returns the names and entries of all nodes, with the present states of their processes.
    pub fn entries(&self) -> Vec<(String, NodeEntry)> {
        self.observe(|_| true);
        self.inner.state.lock().entries.iter().map(|(name, entry)| (name.clone(), entry.clone())).collect()
    }

    /// Returns the names of the nodes that are being started.
    pub fn starting(&self) -> Vec<String> {
        let state = self.inner.state.lock();
        let starting = state.slots.iter().filter(|(_, slot)| slot.executable().is_none());
        starting.map(|(name, _)| name.clone()).collect()
    }

    /// Returns true if the node of that name is being started.
    pub fn is_starting(&self, name: &str) -> bool {
        self.inner.state.lock().slots.get(name).is_some_and(|slot| slot.executable().is_none())
    }

    /// Returns the names and entries of the nodes that neither run nor start.
    pub fn stopped(&self) -> Vec<(String, NodeEntry)> {
        let state = self.inner.state.lock();
        state.stopped().map(|(name, entry)| (name.clone(), entry.clone())).collect()
    }

    /// Notes that a client stops a running node, so that its end counts as requested, whatever its exit status. Does nothing if the
    /// node has ended by itself, or the name belongs to another node by now.
    pub fn request_stop(&self, name: &str, node: &Executable) {
        let mut state = self.inner.state.lock();
        if state.is_registered(name, node)
            && node.state() != NodeState::Stopped
            && let Some(entry) = state.entries.get_mut(name)
        {
            entry.last.is_stop_requested = true;
        }
    }

    /// Sets the end in the entry of a node that neither runs nor starts.
    pub fn set_end(&self, name: &str, end: ProcessEnd) {
        let mut state = self.inner.state.lock();
        if !state.slots.contains_key(name)
            && let Some(entry) = state.entries.get_mut(name)
        {
            entry.set_end(end);
        }
    }

    /// Removes a stopped node and sets the end in its entry; a node in an existing pane keeps none. Does nothing if the name belongs
    /// to another node by now. Drops the oldest entries over the limit, and returns their names.
    pub fn retire(&self, name: &str, node: &Executable, end: ProcessEnd) -> Vec<String> {
        let info = node.info();
        let mut state = self.inner.state.lock();
        let is_registered = state.is_registered(name, node);
        // Another request may have freed the name meanwhile.
        if !is_registered && state.slots.contains_key(name) {
            return Vec::new();
        }
        state.slots.remove(name);
        match state.entries.get_mut(name) {
            Some(entry) if entry.spec.pane_id.is_some() => drop(state.entries.remove(name)),
            Some(entry) => {
                if is_registered {
                    entry.observe(&info, node.ledger());
                }
                entry.set_end(end);
            }
            None => {}
        }
        state.drop_surplus_entries()
    }

    /// Updates the entries of registered nodes from their descriptions.
    fn observe(&self, is_wanted: impl Fn(&str) -> bool) {
        for (name, node) in self.nodes().into_iter().filter(|(name, _)| is_wanted(name)) {
            let info = node.info();
            let mut state = self.inner.state.lock();
            // The name may belong to a newer node by now.
            let is_same = state.is_registered(&name, &node);
            if let Some(entry) = state.entries.get_mut(&name).filter(|_| is_same) {
                entry.observe(&info, node.ledger());
            }
        }
    }
}
