//! What this REPL has started and is to stop when it is left.

use std::collections::BTreeSet;
use std::time::Duration;

use nerve_client::{ClientError, NerveClient};
use tokio::task::JoinSet;

use super::runs::Runs;

/// Agents get this long to end; those that take longer are told of.
const PATIENCE: Duration = Duration::from_secs(15);

/// A node: its session (`None` is the default one) and its id.
type At = (Option<String>, String);

/// Nodes that were started here.
#[derive(Debug, Default)]
pub(super) struct Started {
    nodes: BTreeSet<At>,
}

impl Started {
    /// A node is being started. `false`: it was before.
    pub(super) fn add(&mut self, session: Option<&str>, node: &str) -> bool {
        self.nodes.insert(at(session, node))
    }

    /// It is stopped, or was not started.
    pub(super) fn remove(&mut self, session: Option<&str>, node: &str) {
        self.nodes.remove(&at(session, node));
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Cancels the runs, then stops the nodes, all at once. Says what was done, and what could not be.
    pub(super) async fn stop(self, client: &NerveClient, runs: &Runs) -> Vec<String> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut cancelling = JoinSet::new();
        for run in runs.going_on() {
            let client = client.clone();
            cancelling.spawn(async move {
                let done = client.cancel_run(&run).await.map(drop);
                (run, done)
            });
        }
        let mut said = told("run", "cancelled", finish(cancelling, runs.going_on(), deadline).await);
        let mut stopping = JoinSet::new();
        for (session, node) in self.nodes.clone() {
            let client = client.clone();
            stopping.spawn(async move {
                let done = client.node(&node, session.as_deref()).stop().await;
                (shown(&(session, node)), done)
            });
        }
        let names = self.nodes.iter().map(shown).collect();
        said.extend(told("node", "stopped", finish(stopping, names, deadline).await));
        said
    }
}

type Done = (String, Result<(), ClientError>);

/// Waits for all, until the deadline. Those that are not done then have no result.
async fn finish(
    mut tasks: JoinSet<Done>,
    mut left: Vec<String>,
    deadline: tokio::time::Instant,
) -> (Vec<Done>, Vec<String>) {
    let mut done = Vec::new();
    while let Ok(Some(Ok(next))) = tokio::time::timeout_at(deadline, tasks.join_next()).await {
        left.retain(|name| *name != next.0);
        done.push(next);
    }
    done.sort_by(|one, other| one.0.cmp(&other.0));
    (done, left)
}

fn told(thing: &str, how: &str, (done, late): (Vec<Done>, Vec<String>)) -> Vec<String> {
    let mut said = Vec::new();
    let mut names = Vec::new();
    for (name, result) in done {
        match result {
            Ok(()) => names.push(name),
            // It has ended by itself, or the server has, with all that it had.
            Err(ClientError::Closed(_)) => {}
            Err(error) if error.server().is_some_and(|error| error.error_type == "not_found_error") => {}
            Err(error) => said.push(format!("{thing} '{name}' could not be {how}: {error}")),
        }
    }
    if !names.is_empty() {
        let plural = if names.len() == 1 { "" } else { "s" };
        said.insert(0, format!("{how} {thing}{plural} {}", names.join(", ")));
    }
    said.extend(
        late.iter().map(|name| format!("{thing} '{name}' is not {how} after {} s", PATIENCE.as_secs())),
    );
    said
}

fn at(session: Option<&str>, node: &str) -> At {
    (session.map(str::to_string), node.to_string())
}

fn shown((session, node): &At) -> String {
    match session {
        Some(session) => format!("{session}/{node}"),
        None => node.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_told_in_one_line_and_what_was_not_in_one_each() {
        let done = vec![
            ("a".to_string(), Ok(())),
            ("b".to_string(), Err(ClientError::Protocol("no".to_string()))),
            ("c".to_string(), Ok(())),
            ("d".to_string(), Err(ClientError::closed())),
        ];
        assert_eq!(
            told("node", "stopped", (done, vec!["e".to_string()])),
            ["stopped nodes a, c", "node 'b' could not be stopped: no", "node 'e' is not stopped after 15 s"]
        );
        assert!(told("run", "cancelled", (Vec::new(), Vec::new())).is_empty());
    }
}
