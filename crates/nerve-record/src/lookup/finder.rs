//! Finds recordings by name, and opens only the files that the name requires.

use std::cmp::Reverse;

use super::{Candidate, LookupError, Name, select};
use crate::store::Store;

/// Finds the recordings of a store and the sessions of hosts by name.
#[derive(Debug)]
pub struct Finder<'a> {
    store: &'a Store,
    /// Sessions of hosts.
    sessions: Vec<Candidate>,
}

impl<'a> Finder<'a> {
    /// Creates a finder. `sessions`: those of hosts, with their nodes.
    pub fn new(store: &'a Store, sessions: Vec<Candidate>) -> Finder<'a> {
        Finder { store, sessions }
    }

    /// Finds the recording or session that a name selects. A complete id opens no other recording, and the first nine
    /// characters of a UUID open none: only file names are read.
    ///
    /// # Errors
    /// See [`select`].
    pub fn find(&self, name: &Name) -> Result<Candidate, LookupError> {
        let found = self.find_candidate(name);
        found.map_err(|error| match error {
            LookupError::Ambiguous { text, mut candidates } => {
                candidates.iter_mut().take(LookupError::MAX_LISTED).for_each(Candidate::load_node);
                LookupError::Ambiguous { text, candidates }
            }
            error => error,
        })
    }

    /// Finds the candidate. Those of an ambiguity may lack their nodes.
    fn find_candidate(&self, name: &Name) -> Result<Candidate, LookupError> {
        if name.is_id {
            let stored = self.store.with_id(&name.text).into_iter().map(Candidate::of_recording);
            let mut exact = self.with_sessions(stored);
            exact.retain(|one| one.has_id(&name.text));
            if !exact.is_empty() {
                return select(name, &exact).cloned();
            }
        }
        let recordings = self.store.by_last_write().into_iter().map(Candidate::of_recording);
        let mut candidates = self.with_sessions(recordings);
        if name.is_uuid_prefix() {
            match select(name, &candidates) {
                Err(LookupError::NotFound { .. }) => {}
                found => return found.cloned(),
            }
        }
        self.load_nodes(name, &mut candidates);
        select(name, &candidates).cloned()
    }

    /// Merges the sessions of hosts with the recordings that are not theirs, last written first.
    fn with_sessions(&self, recordings: impl Iterator<Item = Candidate>) -> Vec<Candidate> {
        let is_other = |recording: &Candidate| {
            !self.sessions.iter().any(|session| session.is_recorded && session.path == recording.path)
        };
        let mut all: Vec<Candidate> =
            self.sessions.iter().cloned().chain(recordings.filter(is_other)).collect();
        all.sort_by_key(|one| Reverse(one.written));
        all
    }

    /// Reads the nodes, newest recording first, until the named one is certain.
    fn load_nodes(&self, name: &Name, candidates: &mut [Candidate]) {
        let Some(node) = &name.node else { return };
        let mut missing = name.position;
        for candidate in candidates {
            candidate.load_node();
            let is_match = candidate.node.as_ref().is_some_and(|path| {
                path.node == *node
                    && match &name.session {
                        Some(session) => path.session == *session,
                        None => path.is_in_default_session(),
                    }
            });
            missing -= usize::from(is_match);
            if missing == 0 {
                return;
            }
        }
    }
}
