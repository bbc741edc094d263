//! Stopped nodes: their descriptions, and their removal.

use std::collections::BTreeSet;

use nerve_api::event::EventKind;
use nerve_api::reply::{BudgetStatus, Done, NodeInfo, NodeMetadata, NodeProgress, NodesPruned};
use nerve_api::request::{NodeRef, PruneNodes, RemoveNode};
use nerve_api::value::{BackendKind, NodeState};
use nerve_graph::executable::Executable;
use nerve_graph::session::Session;
use nerve_graph::session::entry::{NodeEntry, ProcessEnd};
use nerve_node::error::EngineError;
use nerve_types::ExitStatus;

use super::context::RequestContext;
use super::params::{definition_metadata, requested_command};
use crate::engine::Engine;
use crate::recordings::library::before_now;

impl Engine {
    /// Removes a stopped node, so that it cannot be started again.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (it is running or starting).
    pub async fn remove_node(
        &self,
        request: RemoveNode,
        context: RequestContext,
    ) -> Result<Done, EngineError> {
        let RemoveNode { node_id: id, session_id } = request;
        let session = self.inner.sessions.get(session_id.as_deref())?;
        session.remove_stopped(&id)?;
        self.publish_removal(&session, &id);
        self.persist(&context.warnings).await;
        Ok(Done {})
    }

    /// Removes the stopped nodes of a session. Lost nodes stay unless the request is for all, because they can be restored. With an
    /// age, nodes that stopped later or at an unknown time stay, too.
    ///
    /// # Errors
    /// NotFound (session).
    pub async fn prune_nodes(
        &self,
        request: PruneNodes,
        context: RequestContext,
    ) -> Result<NodesPruned, EngineError> {
        let session = self.inner.sessions.get(request.session_id.as_deref())?;
        let ended = session.nodes().into_iter().filter(|(_, node)| has_ended(node));
        let ended = ended.map(|(name, _)| name);
        let names: BTreeSet<String> =
            ended.chain(session.stopped().into_iter().map(|(name, _)| name)).collect();
        let not_after = request.older_than.map(|age| before_now(age.duration()));
        let is_chosen = |name: &String| {
            let entry = session.entry(name);
            let is_lost = entry.as_ref().is_some_and(NodeEntry::is_lost);
            let end = entry.and_then(|entry| entry.last.end).map(|end| end.at);
            (request.all || !is_lost) && not_after.is_none_or(|limit| end.is_some_and(|end| end <= limit))
        };
        let chosen = names.into_iter().filter(is_chosen);
        let remove = |name: &String| {
            // A node that was started meanwhile stays.
            let is_removed = session.remove_stopped(name).is_ok();
            if is_removed {
                self.publish_removal(&session, name);
            }
            is_removed
        };
        let removed = chosen.filter(|name| request.dry_run || remove(name)).collect();
        self.persist(&context.warnings).await;
        Ok(NodesPruned { removed })
    }

    /// Publishes that a node is no longer listed.
    pub(crate) fn publish_removal(&self, session: &Session, name: &str) {
        let at = NodeRef { session: Some(session.name().to_string()), node: name.to_string() };
        self.inner.events.publish(Some(&at), EventKind::NodeRemoved {});
    }

    /// Sets the end of a node that was stopped by a request. Publishes the removal of a node without an entry, and of the nodes
    /// that were dropped over the limit.
    pub(super) fn retire(&self, session: &Session, name: &str, node: &Executable, reason: &str) {
        let dropped = session.retire(name, node, ProcessEnd::requested(self.inner.clock.now(), reason));
        dropped.iter().filter(|other| *other != name).for_each(|other| self.publish_removal(session, other));
        if session.get(name).is_none() && session.definition(name).is_none() {
            self.publish_removal(session, name);
        }
    }

    /// Describes the stopped nodes of a session, sorted by id.
    ///
    /// # Errors
    /// NotFound (session).
    pub(super) fn stopped_nodes(&self, session: Option<&str>) -> Result<Vec<NodeInfo>, EngineError> {
        let session = self.inner.sessions.get(session)?;
        let stopped = session.stopped();
        Ok(stopped.iter().map(|(name, entry)| stopped_node_info(&session, name, entry)).collect())
    }
}

/// Returns true for a node whose program has ended. A graph never ends.
pub(super) fn has_ended(node: &Executable) -> bool {
    !node.is_graph() && node.info().state == NodeState::Stopped
}

/// Describes a stopped node.
pub(super) fn stopped_node_info(session: &Session, name: &str, entry: &NodeEntry) -> NodeInfo {
    let NodeEntry { spec, last, .. } = entry;
    let mut metadata = NodeMetadata::new(Some(session.name().to_string()));
    metadata.set("command", requested_command(spec).unwrap_or_default());
    metadata.set_some("cwd", spec.cwd.as_ref().map(|cwd| cwd.display().to_string()));
    metadata.set_some("profile", last.profile.clone().or_else(|| spec.profile.clone()));
    metadata.set_some("cols", spec.cols);
    metadata.set_some("rows", spec.rows);
    metadata
        .set_some("conversation_id", last.conversation_id.clone().or_else(|| spec.conversation_id.clone()));
    metadata.set_some("recording_path", last.recording.as_ref().map(|path| path.display().to_string()));
    let end = last.end.as_ref();
    metadata.set_some("end", end.map(|end| end.cause.as_str()));
    metadata.set_some("reason", end.map(|end| end.reason.as_str()));
    if let Some(exit) = end.and_then(known_exit) {
        metadata.set_exit(exit);
    }
    metadata.extend(definition_metadata(spec));
    NodeInfo {
        node_id: name.to_string(),
        kind: spec.backend.to_string(),
        state: NodeState::Stopped,
        persistent: spec.backend != BackendKind::Bash,
        approximate: spec.pane_id.is_some(),
        progress: NodeProgress {
            state_changed_at: end.map(|end| end.at.into()),
            budget: Some(entry.ledger().status()).filter(BudgetStatus::has_limits),
            ..NodeProgress::default()
        },
        metadata,
    }
}

fn known_exit(end: &ProcessEnd) -> Option<ExitStatus> {
    end.exit.filter(|exit| *exit != ExitStatus::Unknown)
}
