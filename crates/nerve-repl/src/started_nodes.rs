//! The nodes that this REPL has started and stops at exit.

use std::collections::BTreeSet;
use std::time::Duration;

use nerve_api::ErrorKind;
use nerve_client::{ClientError, NerveClient};
use tokio::task::JoinSet;

use super::runs::Runs;

/// Time limit for runs and nodes to stop. Those that take longer are reported.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// Session (`None`: the default session) and id of a node.
type NodeKey = (Option<String>, String);

/// The set of started nodes.
#[derive(Debug, Default)]
pub(super) struct StartedNodes {
    nodes: BTreeSet<NodeKey>,
}

impl StartedNodes {
    /// Adds a node. Returns false if it was in the set.
    pub(super) fn add(&mut self, session: Option<&str>, node: &str) -> bool {
        self.nodes.insert(key(session, node))
    }

    /// Removes a node that was stopped or failed to start.
    pub(super) fn remove(&mut self, session: Option<&str>, node: &str) {
        self.nodes.remove(&key(session, node));
    }

    /// Returns the number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Cancels the active runs concurrently, then stops the nodes concurrently. Returns messages about successes and failures.
    pub(super) async fn stop(self, client: &NerveClient, runs: &Runs) -> Vec<String> {
        let deadline = tokio::time::Instant::now() + STOP_TIMEOUT;
        let mut cancels = JoinSet::new();
        for run in runs.active() {
            let client = client.clone();
            cancels.spawn(async move {
                let done = client.cancel_run(&run).await.map(drop);
                (run, done)
            });
        }
        let mut messages = summarize("run", "cancelled", finish(cancels, runs.active(), deadline).await);
        let mut stops = JoinSet::new();
        for (session, node) in self.nodes.clone() {
            let client = client.clone();
            stops.spawn(async move {
                let done = client.node(&node, session.as_deref()).stop().await;
                (display_name(&(session, node)), done)
            });
        }
        let names = self.nodes.iter().map(display_name).collect();
        messages.extend(summarize("node", "stopped", finish(stops, names, deadline).await));
        messages
    }
}

/// The name of a run or node, and whether it could be stopped.
type TaskResult = (String, Result<(), ClientError>);

/// The tasks that stop runs or nodes, after their deadline.
#[derive(Default)]
struct TaskResults {
    done: Vec<TaskResult>,
    /// Names of the runs or nodes whose tasks have not ended.
    unfinished: Vec<String>,
}

/// Waits for the tasks until the deadline. `unfinished`: the names of all.
async fn finish(
    mut tasks: JoinSet<TaskResult>,
    mut unfinished: Vec<String>,
    deadline: tokio::time::Instant,
) -> TaskResults {
    let mut done = Vec::new();
    while let Ok(Some(Ok(next))) = tokio::time::timeout_at(deadline, tasks.join_next()).await {
        unfinished.retain(|name| *name != next.0);
        done.push(next);
    }
    done.sort_by(|one, other| one.0.cmp(&other.0));
    TaskResults { done, unfinished }
}

fn summarize(thing: &str, verb: &str, results: TaskResults) -> Vec<String> {
    let mut messages = Vec::new();
    let mut names = Vec::new();
    for (name, result) in results.done {
        match result {
            Ok(()) => names.push(name),
            // The node or the server has already ended.
            Err(ClientError::Closed(_)) => {}
            Err(error)
                if error.server().is_some_and(|error| error.details.error_type == ErrorKind::NotFound) => {}
            Err(error) => messages.push(format!("{thing} '{name}' could not be {verb}: {error}")),
        }
    }
    if !names.is_empty() {
        let plural = if names.len() == 1 { "" } else { "s" };
        messages.insert(0, format!("{verb} {thing}{plural} {}", names.join(", ")));
    }
    messages.extend(
        results
            .unfinished
            .iter()
            .map(|name| format!("{thing} '{name}' was not {verb} within {} s", STOP_TIMEOUT.as_secs())),
    );
    messages
}

fn key(session: Option<&str>, node: &str) -> NodeKey {
    (session.map(str::to_string), node.to_string())
}

fn display_name((session, node): &NodeKey) -> String {
    match session {
        Some(session) => format!("{session}/{node}"),
        None => node.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_groups_successes_and_lists_failures() {
        let done = vec![
            ("a".to_string(), Ok(())),
            ("b".to_string(), Err(ClientError::Protocol("no".to_string()))),
            ("c".to_string(), Ok(())),
            ("d".to_string(), Err(ClientError::closed())),
        ];
        assert_eq!(
            summarize("node", "stopped", TaskResults { done, unfinished: vec!["e".to_string()] }),
            [
                "stopped nodes a, c",
                "node 'b' could not be stopped: no",
                "node 'e' was not stopped within 15 s"
            ]
        );
        assert!(summarize("run", "cancelled", TaskResults::default()).is_empty());
    }
}
