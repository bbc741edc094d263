//! Waits for the next run of an execution id (`--follow`).

use anyhow::{Context, Result};
use nerve_host::executions::runs::Runs;
use nerve_server::paths::ServerPaths;
use nerve_tui::mirror::TerminalMirror;
use serde_json::Value;

use super::MAX_TOOL_NAME;
use super::tools::open_tool_mirror;
use crate::out;

/// The next runs of an id, in any session.
pub(crate) struct NextRuns {
    runs: Runs,
    paths: ServerPaths,
}

/// A started run.
pub(crate) struct Run {
    pub(crate) mirror: TerminalMirror,
    /// Command of the tool, shortened.
    pub(crate) name: String,
    /// Message shown at first.
    pub(crate) notice: Option<&'static str>,
}

impl NextRuns {
    /// Watches for runs from now on. Must be called on a runtime.
    ///
    /// # Errors
    /// Runs cannot be watched.
    pub(crate) fn new(id: &str, paths: &ServerPaths) -> Result<NextRuns> {
        let runs = Runs::watch(id, paths.data.hosts.clone()).context("cannot wait for the next run")?;
        Ok(NextRuns { runs, paths: paths.clone() })
    }

    /// Returns the next run. Cancel-safe.
    ///
    /// # Errors
    /// Runs cannot be watched any more.
    pub(crate) async fn next(&mut self) -> Result<Run> {
        let entry = self.runs.next().await.context("cannot wait for the next run")?;
        let command = entry.label.get("command").and_then(Value::as_str).map(str::to_string);
        let name = out::preview(&command.unwrap_or_else(|| entry.argv.join(" ")), MAX_TOOL_NAME);
        let notice = Some("the tool was started again: showing the next run");
        Ok(Run { mirror: open_tool_mirror(entry, &self.paths)?, name, notice })
    }
}

/// Returns the next run; pending without a watch.
pub(crate) async fn next_run(next_runs: &mut Option<NextRuns>) -> Result<Run> {
    match next_runs {
        Some(next_runs) => next_runs.next().await,
        None => std::future::pending().await,
    }
}
