//! `nerve recording branches`, and the branches that `nerve recording prune` removes.

use anyhow::Result;
use nerve_api::reply::{BranchInfo, PrunedBranch};
use nerve_api::request::ListBranches;
use nerve_commands::clock::local_time;
use nerve_engine::branches::BranchFolders;
use nerve_server::paths::ServerPaths;

use super::format;
use crate::cmd::snapshot::send;
use crate::out;
use nerve_cli::recording::{BranchesArgs, PruneArgs};

/// Lists the branch folders.
pub(super) fn list(args: &BranchesArgs) -> Result<()> {
    let dirs = ServerPaths::from_env().data;
    let branches = match &args.server {
        Some(server) => send(server, ListBranches {})?.branches,
        None => {
            let folders = BranchFolders::scan(&dirs);
            if let Some(error) = folders.sessions_error() {
                out::warning(format_args!("restartable nodes are unknown: {error}"));
            }
            folders.list()
        }
    };
    if args.json {
        return out::json(&serde_json::json!({ "branches": branches }));
    }
    if branches.is_empty() {
        out::note(format_args!("no branches {}", format::location(args.server.as_deref(), &dirs.branches)));
    }
    let rows: Vec<Vec<String>> = branches.into_iter().map(row).collect();
    out::table(&["folder", "created", "source", "used by", "recordings", "changes"], &rows)
}

fn row(branch: BranchInfo) -> Vec<String> {
    vec![
        branch.path,
        branch.created_at.map(|at| local_time(at.seconds())).unwrap_or_default(),
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

/// Returns a line for the output; `None` for folders that are needed.
pub(super) fn pruned_line(branch: &PrunedBranch, args: &PruneArgs) -> Option<String> {
    let PrunedBranch { path, removed, reason, needed, .. } = branch;
    match (removed, reason) {
        (true, None) if args.dry_run => Some(format!("branch {path}  would be removed")),
        (true, None) => Some(format!("branch {path}  removed")),
        (true, Some(note)) => Some(format!("branch {path}  removed; {note}")),
        (false, Some(reason)) if !needed || args.branches => Some(format!("branch {path}  kept: {reason}")),
        (false, _) => None,
    }
}
