//! `nerve recordings branches`, and the branches that `nerve recordings prune` removes.

use anyhow::Result;
use nerve_api::reply::BranchInfo;
use nerve_engine::branches::{BranchFolders, PruneOutcome};
use nerve_server::paths::ServerPaths;
use nerve_types::TsNs;
use serde_json::{Value, json};

use super::format;
use crate::cli::recording::BranchesArgs;
use crate::out;

/// Lists the branch folders.
pub(super) fn list(args: &BranchesArgs) -> Result<()> {
    let dirs = ServerPaths::from_env().data_dirs();
    let folders = BranchFolders::scan(&dirs);
    if let Some(why) = folders.unknown() {
        out::warning(format_args!("restartable nodes are unknown: {why}"));
    }
    let branches = folders.list();
    if args.json {
        return out::json(&serde_json::to_value(branches)?);
    }
    if branches.is_empty() {
        out::note(format_args!("no branches in {}", dirs.branches.display()));
    }
    let rows: Vec<Vec<String>> = branches.into_iter().map(row).collect();
    out::table(&["folder", "created", "source", "used by", "recordings", "changes"], &rows)
}

fn row(branch: BranchInfo) -> Vec<String> {
    vec![
        branch.path,
        branch.made_ts_ns.map(|at| format::time(TsNs(at))).unwrap_or_default(),
        branch.source.unwrap_or_default(),
        branch.used_by.unwrap_or_else(|| "no node".to_string()),
        branch.recordings.len().to_string(),
        match branch.changed {
            Some(false) => "none".to_string(),
            Some(true) => branch.changes.unwrap_or_default(),
            None => "unknown".to_string(),
        },
    ]
}

/// Returns the outcome for a folder as JSON.
pub(super) fn outcome_json(outcome: &PruneOutcome) -> Value {
    json!({ "path": outcome.folder, "removed": outcome.removed, "why": outcome.why })
}

/// Returns a line for the output; `None` for folders that are needed.
pub(super) fn outcome_line(outcome: &PruneOutcome, dry_run: bool) -> Option<String> {
    let folder = outcome.folder.display();
    match (outcome.removed, &outcome.why) {
        (true, None) if dry_run => Some(format!("branch {folder}  would be removed")),
        (true, None) => Some(format!("branch {folder}  removed")),
        (true, Some(why)) => Some(format!("branch {folder}  removed; {why}")),
        (false, Some(why)) if outcome.is_reported => Some(format!("branch {folder}  kept: {why}")),
        (false, _) => None,
    }
}
