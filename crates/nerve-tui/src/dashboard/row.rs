//! A node in the dashboard.

use std::time::Duration;

use nerve_api::reply::NodeInfo;
use nerve_api::value::NodeState;
use nerve_types::activity::TsMs;

/// Identifies a node among all servers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey {
    /// Name of the server, or `machine://NAME`.
    pub server: String,
    /// Session of the node.
    pub session: String,
    /// Id of the node.
    pub node: String,
}

/// Returns the machine of a server that is named by its machine.
pub(super) fn machine_of(server: &str) -> Option<&str> {
    server.strip_prefix("machine://")
}

/// A node in the dashboard.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRow {
    /// Identity.
    pub key: NodeKey,
    /// The server's description.
    pub info: NodeInfo,
    /// Last activity of the agent, such as a tool call.
    pub activity: Option<String>,
    /// Git branch of its working directory.
    pub branch: Option<String>,
}

impl NodeRow {
    /// Creates the row of a server's node.
    pub fn new(server: &str, info: NodeInfo) -> NodeRow {
        let key = NodeKey {
            server: server.to_string(),
            session: info.metadata.session_id.clone(),
            node: info.node_id.clone(),
        };
        NodeRow { key, info, activity: None, branch: None }
    }

    /// Takes over the activity of an earlier description of the node if it belongs to the same turn.
    pub fn keep_activity(&mut self, old: NodeRow) {
        if self.info.progress.turn_started_at == old.info.progress.turn_started_at {
            self.activity = old.activity;
        }
    }

    /// Returns true if the node's program has ended.
    pub(super) fn is_stopped(&self) -> bool {
        self.info.state == NodeState::Stopped
    }

    /// Returns a detail of the node; empty if it is unknown.
    pub(super) fn detail(&self, name: &str) -> &str {
        self.info.metadata.text(name)
    }

    /// Returns the state with its reason: `blocked: permission`, `stopped: exit code 1`.
    pub(super) fn state_text(&self) -> String {
        self.info.metadata.state_text(self.info.state)
    }

    /// Returns the time since the state changed.
    pub(super) fn state_age(&self, now: TsMs) -> Option<Duration> {
        self.info.progress.state_changed_at.map(|since| elapsed(since, now))
    }

    /// Returns the time since the running turn began.
    pub(super) fn turn_age(&self, now: TsMs) -> Option<Duration> {
        self.info.progress.turn_started_at.map(|since| elapsed(since, now))
    }

    /// Returns a summary of the node's work: the activity of the running turn, else the end of the last answer, else the prompt.
    pub fn summary(&self) -> &str {
        let progress = &self.info.progress;
        let activity = self.activity.as_deref().filter(|_| progress.turn_started_at.is_some());
        let answer = progress.last_line.as_deref().filter(|_| progress.turn_started_at.is_none());
        activity.or(answer).or(progress.last_prompt.as_deref()).unwrap_or_default()
    }

    /// Returns true if every word occurs in one of the row's texts, whatever its case.
    pub(super) fn matches(&self, filter: &str) -> bool {
        let NodeKey { server, session, node } = &self.key;
        let prompt = self.info.progress.last_prompt.as_deref().unwrap_or_default();
        let branch = self.branch.as_deref().unwrap_or_default();
        let details = [self.detail("command"), self.detail("profile"), self.detail("cwd"), prompt, branch];
        let texts = [server.as_str(), session, node, &self.state_text(), &details.join("\n")];
        let text = texts.join("\n").to_lowercase();
        filter.to_lowercase().split_whitespace().all(|word| text.contains(word))
    }
}

/// Returns the time between two moments; zero if the clock was set back.
fn elapsed(since: TsMs, now: TsMs) -> Duration {
    Duration::from_millis(now.0.saturating_sub(since.0))
}

/// Nodes for tests.
#[cfg(test)]
pub(super) mod examples {
    use nerve_api::reply::{NodeMetadata, NodeProgress};

    use super::*;

    /// Returns a node of the server `default`.
    pub(in crate::dashboard) fn row(node: &str, state: NodeState, progress: NodeProgress) -> NodeRow {
        let info = NodeInfo {
            node_id: node.to_string(),
            kind: "pty".to_string(),
            state,
            persistent: true,
            approximate: false,
            progress,
            metadata: NodeMetadata::default(),
        };
        NodeRow::new("default", info)
    }

    /// Returns a node that changed its state a second after 1970 began.
    pub(in crate::dashboard) fn row_in(node: &str, state: NodeState) -> NodeRow {
        row(node, state, NodeProgress { state_changed_at: Some(TsMs(1000)), ..NodeProgress::default() })
    }
}
