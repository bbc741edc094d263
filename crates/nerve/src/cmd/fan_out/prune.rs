//! Removes worktrees for `nerve prune` if no work is lost with them, and counts the others.

use std::time::SystemTime;

use nerve_fan_out::fan_out::FanOut;
use nerve_fan_out::removal;
use nerve_fan_out::store::Store;

use super::{follow, open_store};
use crate::cmd::prune::stored_data::{FileTotal, directory_size};
use crate::cmd::server::connect;
use crate::out;

/// Numbers and sizes of worktrees.
#[derive(Default)]
pub(in crate::cmd) struct PrunedWorktrees {
    pub(in crate::cmd) removed: FileTotal,
    pub(in crate::cmd) kept: FileTotal,
}

/// Removes worktrees of fan-outs that ended before `not_before`, if their nodes are gone and they have no work of their own.
/// `is_pruned`: returns true for a server and its node that a dry run only counts as removed.
pub(in crate::cmd) async fn prune(
    not_before: SystemTime,
    dry_run: bool,
    is_pruned: impl Fn(&str, &str) -> bool,
) -> PrunedWorktrees {
    let (store, mut pruned) = (open_store(), PrunedWorktrees::default());
    for mut fan_out in store.list(|_, _| ()) {
        // Another command may be starting or removing it.
        let reserved = store.reserve_current(&mut fan_out);
        let old = match &reserved {
            Ok(_) => find_old(&store, &mut fan_out, not_before, &is_pruned).await,
            Err(_) => Vec::new(),
        };
        let worktrees = fan_out.attempts.iter().enumerate().filter(|(_, attempt)| attempt.worktree.is_dir());
        let sizes: Vec<(usize, u64)> =
            worktrees.map(|(index, attempt)| (index, directory_size(&attempt.worktree))).collect();
        if !dry_run && !old.is_empty() {
            match removal::remove(None, &store, &mut fan_out, &old, false).await {
                Ok(report) => report.failed.iter().for_each(|(label, reason)| {
                    out::warning(format_args!("kept {}/{label}: {}", fan_out.name, out::sanitize(reason)));
                }),
                Err(error) => out::warning(format_args!("fan-out '{}': {error:#}", fan_out.name)),
            }
        }
        for (index, bytes) in sizes {
            let is_removed =
                if dry_run { old.contains(&index) } else { !fan_out.attempts[index].worktree.exists() };
            let total = if is_removed { &mut pruned.removed } else { &mut pruned.kept };
            total.files += 1;
            total.bytes += bytes;
        }
    }
    pruned
}

/// Returns the indexes of the attempts to remove: none while an attempt has not ended.
async fn find_old(
    store: &Store,
    fan_out: &mut FanOut,
    not_before: SystemTime,
    is_pruned: &impl Fn(&str, &str) -> bool,
) -> Vec<usize> {
    follow::refresh(store, fan_out).await;
    let is_old = store.written(&fan_out.name).is_some_and(|written| written < not_before);
    if !is_old || fan_out.open_attempts().next().is_some() {
        return Vec::new();
    }
    // Without a server it is unknown which nodes would be started again.
    let Ok(client) = connect(&fan_out.server).await else { return Vec::new() };
    let session = fan_out.session.as_deref();
    let Ok(running) = client.list_nodes(session).await else { return Vec::new() };
    let Ok(stopped) = client.list_stopped_nodes(session).await else { return Vec::new() };
    let nodes = running.iter().chain(&stopped).map(|node| node.node_id.as_str());
    let nodes: Vec<&str> = nodes.filter(|node| !is_pruned(&fan_out.server, node)).collect();
    let attempts = fan_out.attempts.iter().enumerate();
    let attempts =
        attempts.filter(|(_, attempt)| !attempt.is_removed && !nodes.contains(&attempt.node.as_str()));
    let unchanged = attempts.filter(|(_, attempt)| !removal::has_own_work(fan_out, attempt).unwrap_or(true));
    unchanged.map(|(index, _)| index).collect()
}
