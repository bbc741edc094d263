//! A fan-out, its attempts and their outcomes, as they are stored.

use std::path::{Path, PathBuf};

use nerve_commands::failure::{FAILED, Failure};
use nerve_commands::out;
use nerve_types::ErrorKind;
use serde::{Deserialize, Serialize};

use crate::plan::PlannedAttempt;

/// A fan-out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FanOut {
    /// Unique among the fan-outs of the user.
    pub name: String,
    /// Prompt of all agents.
    pub task: String,
    /// Root of the checkout in which it was started.
    pub repository: PathBuf,
    /// Directory in which it was started, relative to the root. Agents and tests start in the same directory of their worktree.
    #[serde(default)]
    pub subdirectory: PathBuf,
    /// Git directory that the checkouts of the repository share.
    pub common_dir: PathBuf,
    /// Commit at which the attempts start.
    pub base: String,
    /// Name of the server that has the nodes.
    pub server: String,
    /// Session of the nodes; `None` for the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// Shell command that tests an attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Run of the graph; `None` until it is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// In the order of their numbers.
    pub attempts: Vec<Attempt>,
}

/// One attempt of a fan-out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// `N-AGENT`; also the step of the graph.
    pub label: String,
    /// Command of the agent.
    pub command: String,
    /// Id of the node.
    pub node: String,
    /// Branch of the worktree when it is created.
    pub branch: String,
    /// Directory of the worktree.
    pub worktree: PathBuf,
    /// `None` until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// State before its end, if it was read from the server or the journal of the run.
    #[serde(skip)]
    pub current: Option<&'static str>,
    /// True if its node and worktree were removed.
    #[serde(default)]
    pub is_removed: bool,
}

/// Outcome of an attempt.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// `completed`, `failed` or `cancelled`.
    pub state: String,
    /// Exit code that `nerve send` has for this end.
    pub exit_code: u8,
    /// Message of the error that ended it.
    #[serde(default)]
    pub error: Option<String>,
    /// Kind of that error.
    #[serde(default)]
    pub error_type: Option<ErrorKind>,
    /// Hint of that error.
    #[serde(default)]
    pub hint: Option<String>,
    /// Turns of the node.
    #[serde(default)]
    pub turns: Option<u64>,
    /// Tokens that the turn used.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// Duration of the turn in milliseconds.
    #[serde(default)]
    pub duration_ms: Option<u64>,
    /// `None` without a test, or if the turn did not complete.
    #[serde(default)]
    pub test: Option<TestOutcome>,
}

/// Outcome of the test of an attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TestOutcome {
    /// Exit code of the command; `None` if it did not end by itself.
    pub exit_code: Option<u8>,
    /// Message of the error without an exit code.
    #[serde(default)]
    pub error: Option<String>,
    /// Kind of that error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorKind>,
    /// Duration in milliseconds.
    #[serde(default)]
    pub duration_ms: Option<u64>,
    /// File with the output.
    pub log: PathBuf,
}

impl Outcome {
    /// Returns the outcome of an attempt that failed without a turn.
    pub fn failed(failure: Failure) -> Outcome {
        Outcome {
            state: "failed".to_string(),
            exit_code: failure.code.max(FAILED),
            error: Some(failure.message),
            error_type: Some(failure.error_type),
            hint: failure.hint,
            ..Outcome::default()
        }
    }

    /// Returns true if the agent completed the task, and the test passed if there is one.
    pub fn is_success(&self) -> bool {
        self.exit_code == 0 && self.test.as_ref().is_none_or(|test| test.exit_code == Some(0))
    }
}

impl Attempt {
    /// Creates the state of a planned attempt.
    pub fn new(planned: PlannedAttempt, root: &Path) -> Attempt {
        let PlannedAttempt { number, label, command, node, branch } = planned;
        let worktree = root.join(&label);
        let (outcome, current, is_removed) = (None, None, false);
        Attempt { number, label, command, node, branch, worktree, outcome, current, is_removed }
    }

    /// Returns the id of the step that tests the attempt.
    pub fn test_step(&self) -> String {
        format!("{}-test", self.label)
    }
}

impl FanOut {
    /// Returns the attempts that can run: those with a node.
    pub fn open_attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|attempt| attempt.outcome.is_none() && !attempt.is_removed)
    }

    /// Returns the options that select the nodes in other commands.
    pub fn node_options(&self) -> String {
        let mut options = String::new();
        if self.server != "default" {
            options.push_str(&format!(" -s {}", self.server));
        }
        if let Some(session) = &self.session {
            options.push_str(&format!(" --session {session}"));
        }
        options
    }

    /// Returns the hint that continues after an interruption.
    pub fn wait_hint(&self) -> String {
        format!("continue with 'nerve fan-out wait {}'", self.name)
    }

    /// Returns the hint that removes the fan-out.
    pub fn clean_hint(&self) -> String {
        format!("remove it with 'nerve fan-out clean {}'", self.name)
    }

    /// Returns the first line of the task, for commit messages and lists.
    pub fn title(&self) -> String {
        let first = self.task.lines().map(str::trim).find(|line| !line.is_empty());
        out::preview(first.unwrap_or("nerve fan-out"), 72)
    }
}

/// Returns a fan-out for tests: one attempt for each agent, with worktrees below `root`.
#[cfg(test)]
pub(crate) fn example(name: &str, agents: &[&str], root: &Path) -> FanOut {
    let agents: Vec<String> = agents.iter().map(ToString::to_string).collect();
    let attempts = crate::plan::plan(name, &agents, None);
    FanOut {
        name: name.to_string(),
        task: "x".to_string(),
        repository: "/r".into(),
        subdirectory: "".into(),
        common_dir: "/r/.git".into(),
        base: "0".to_string(),
        server: "default".to_string(),
        session: None,
        created_at: "2026-01-31T10:30:00Z".to_string(),
        test: None,
        run_id: None,
        attempts: attempts.into_iter().map(|planned| Attempt::new(planned, root)).collect(),
    }
}
