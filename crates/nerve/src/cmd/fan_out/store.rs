//! The state of fan-outs: one JSON file each in the state directory.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use nerve_server::paths::ServerPaths;
use nerve_types::files::private_folder;
use nerve_types::{ErrorKind, name};
use serde::{Deserialize, Serialize};

use crate::exit::{FAILED, Failure};
use crate::out;
use nerve_cli::fan_out::plan::PlannedAttempt;

/// A fan-out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FanOut {
    pub(super) name: String,
    pub(super) task: String,
    /// Root of the checkout in which it was started.
    pub(super) repository: PathBuf,
    /// Directory in which it was started, relative to the root. Agents and tests start in the same directory of their worktree.
    #[serde(default)]
    pub(super) subdirectory: PathBuf,
    /// Git directory that the checkouts of the repository share.
    pub(super) common_dir: PathBuf,
    /// Commit at which the attempts start.
    pub(super) base: String,
    pub(super) server: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    /// RFC 3339, UTC.
    pub(super) created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) test: Option<String>,
    /// Run of the graph; `None` until it is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run_id: Option<String>,
    pub(super) attempts: Vec<Attempt>,
}

/// One attempt of a fan-out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Attempt {
    pub(super) number: u32,
    /// `N-AGENT`; also the step of the graph.
    pub(super) label: String,
    pub(super) command: String,
    pub(super) node: String,
    pub(super) branch: String,
    pub(super) worktree: PathBuf,
    /// `None` until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<Outcome>,
    /// State before its end, if it was read from the server or the journal of the run.
    #[serde(skip)]
    pub(super) current: Option<&'static str>,
    /// True if its node and worktree were removed.
    #[serde(default)]
    pub(super) is_removed: bool,
}

/// Outcome of an attempt.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// `completed`, `failed` or `cancelled`.
    pub(super) state: String,
    /// Exit code that `nerve send` has for this end.
    pub(super) exit_code: u8,
    #[serde(default)]
    pub(super) error: Option<String>,
    #[serde(default)]
    pub(super) error_type: Option<ErrorKind>,
    #[serde(default)]
    pub(super) hint: Option<String>,
    #[serde(default)]
    pub(super) turns: Option<u64>,
    #[serde(default)]
    pub(super) tokens: Option<u64>,
    #[serde(default)]
    pub(super) duration_ms: Option<u64>,
    #[serde(default)]
    pub(super) test: Option<TestOutcome>,
}

/// Outcome of the test of an attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TestOutcome {
    /// Exit code of the command; `None` if it did not end by itself.
    pub(super) exit_code: Option<u8>,
    #[serde(default)]
    pub(super) error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error_type: Option<ErrorKind>,
    #[serde(default)]
    pub(super) duration_ms: Option<u64>,
    /// File with the output.
    pub(super) log: PathBuf,
}

impl Outcome {
    /// Returns the outcome of an attempt that failed without a turn.
    pub(super) fn failed(failure: Failure) -> Outcome {
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
    pub(super) fn is_success(&self) -> bool {
        self.exit_code == 0 && self.test.as_ref().is_none_or(|test| test.exit_code == Some(0))
    }
}

impl Attempt {
    /// Creates the state of a planned attempt.
    pub(super) fn new(planned: PlannedAttempt, root: &Path) -> Attempt {
        let PlannedAttempt { number, label, command, node, branch } = planned;
        let worktree = root.join(&label);
        let (outcome, current, is_removed) = (None, None, false);
        Attempt { number, label, command, node, branch, worktree, outcome, current, is_removed }
    }

    /// Returns the id of the step that tests the attempt.
    pub(super) fn test_step(&self) -> String {
        format!("{}-test", self.label)
    }
}

impl FanOut {
    /// Returns the attempts that can run: those with a node.
    pub(super) fn open_attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|attempt| attempt.outcome.is_none() && !attempt.is_removed)
    }

    /// Returns the options that select the nodes in other commands.
    pub(super) fn node_options(&self) -> String {
        let mut options = String::new();
        if self.server != "default" {
            options.push_str(&format!(" -s {}", self.server));
        }
        if let Some(session) = &self.session {
            options.push_str(&format!(" --session {session}"));
        }
        options
    }

    /// Returns the first line of the task, for commit messages and lists.
    pub(super) fn title(&self) -> String {
        let first = self.task.lines().map(str::trim).find(|line| !line.is_empty());
        out::preview(first.unwrap_or("nerve fan-out"), 72)
    }
}

/// The directory of the state files.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    worktrees: PathBuf,
}

impl Store {
    /// Uses the user's state directory.
    pub(super) fn open() -> Store {
        let state = ServerPaths::from_env().state;
        Store { dir: state.join("fan-outs"), worktrees: state.join("worktrees") }
    }

    /// Returns the directory of the worktrees of a fan-out.
    pub(super) fn worktree_root(&self, common_dir: &Path, repository: &Path, name: &str) -> PathBuf {
        let repository = repository.file_name().unwrap_or_default().to_string_lossy();
        let hash = nerve_graph::journal::key(0, None, &common_dir.to_string_lossy().into());
        // git names worktrees by their real paths.
        let _ = fs::create_dir_all(&self.worktrees);
        let root = self.worktrees.canonicalize().unwrap_or_else(|_| self.worktrees.clone());
        root.join(format!("{repository}-{:08x}", hash & 0xffff_ffff)).join(name)
    }

    /// Returns all fan-outs, oldest first. `report` gets the unreadable files.
    pub(super) fn list(&self, report: impl Fn(&Path, &anyhow::Error)) -> Vec<FanOut> {
        let files = fs::read_dir(&self.dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let read = |path: PathBuf| read(&path).inspect_err(|error| report(&path, error)).ok();
        let mut fan_outs: Vec<FanOut> = files.filter_map(read).collect();
        fan_outs.sort_by(|a, b| (&a.created_at, &a.name).cmp(&(&b.created_at, &b.name)));
        fan_outs
    }

    /// Returns true if a fan-out of this name exists.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// Returns the time at which the state of a fan-out was last written.
    pub(super) fn written(&self, name: &str) -> Option<SystemTime> {
        self.file(name).metadata().ok()?.modified().ok()
    }

    /// Stores a new fan-out; returns false if its name is taken.
    pub(super) fn create(&self, fan_out: &FanOut) -> Result<bool> {
        private_folder(&self.dir).with_context(|| format!("cannot create {}", self.dir.display()))?;
        let path = self.file(&fan_out.name);
        match self.write(fan_out)?.persist_noclobber(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error.error).with_context(|| format!("cannot write {}", path.display())),
        }
    }

    /// Replaces the state of a fan-out.
    pub(super) fn save(&self, fan_out: &FanOut) -> Result<()> {
        let path = self.file(&fan_out.name);
        self.write(fan_out)?.persist(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(())
    }

    /// Forgets a fan-out, and removes the output of its tests and its empty directories.
    pub(super) fn remove(&self, fan_out: &FanOut) -> Result<()> {
        for attempt in &fan_out.attempts {
            let _ = fs::remove_file(self.test_log(&fan_out.name, attempt));
            let _ = fs::remove_file(self.test_exit(&fan_out.name, attempt));
            // Only empty directories are removed.
            let parents = attempt.worktree.ancestors().skip(1).take(2);
            parents.for_each(|parent| drop(fs::remove_dir(parent)));
        }
        let path = self.file(&fan_out.name);
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
    }

    /// Returns the file with the output of an attempt's test.
    pub(super) fn test_log(&self, name: &str, attempt: &Attempt) -> PathBuf {
        self.dir.join(format!("{name}.{}.log", attempt.label))
    }

    /// Returns the file with the exit code of an attempt's test.
    pub(super) fn test_exit(&self, name: &str, attempt: &Attempt) -> PathBuf {
        self.dir.join(format!("{name}.{}.exit", attempt.label))
    }

    fn write(&self, fan_out: &FanOut) -> Result<tempfile::NamedTempFile> {
        let failed = || format!("cannot write the state of fan-out '{}'", fan_out.name);
        let mut file = tempfile::NamedTempFile::new_in(&self.dir).with_context(failed)?;
        let text = serde_json::to_string_pretty(fan_out)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).with_context(failed)?;
        Ok(file)
    }

    fn file(&self, name: &str) -> PathBuf {
        debug_assert!(name::check("fan-out", name).is_ok(), "{name}");
        self.dir.join(format!("{name}.json"))
    }
}

fn read(path: &Path) -> Result<FanOut> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}
