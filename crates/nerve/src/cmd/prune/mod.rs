//! `nerve prune`: removes stopped nodes and old stored data.

mod git_snapshots;
pub(super) mod stored_data;

use std::time::{Duration, SystemTime};

use anyhow::Result;
use nerve_api::request::{PruneNodes, PruneRecordings, Seconds};
use nerve_cli::node::NodeArgs;
use nerve_cli::prune::PruneArgs;
use nerve_commands::node_command::{self, NodeCommand};
use nerve_engine::recordings::library::{list_recordings, prune_recordings};
use nerve_server::paths::ServerPaths;
use serde_json::{Value, json};

use self::stored_data::{FileTotal, PruneRules, StoredData};
use super::fan_out::{self, PrunedWorktrees};
use super::node;
use super::recording::format;
use super::server::{connect, is_remote};
use crate::exit::{Failure, USAGE};
use crate::{out, settings};

/// The removed nodes and data, or those that would be removed.
struct PruneReport {
    /// Names of nodes; `None` if the server is not running.
    nodes: Option<Vec<String>>,
    data: Vec<DataTotals>,
}

/// Totals of the stored data of a kind.
struct DataTotals {
    kind: &'static str,
    removed: FileTotal,
    kept: FileTotal,
}

/// Runs the command. Without an age, it is 'nerve node prune'.
pub(super) async fn run(args: PruneArgs) -> Result<()> {
    let server = &args.target.server.server;
    let Some(age) = args.older_than else {
        let command = NodeCommand::Prune(node_command::PruneArgs { all: args.all, dry_run: args.dry_run });
        return node::run(NodeArgs { target: args.target, command }).await;
    };
    if is_remote(server) {
        let failure = Failure::new(USAGE, "--older-than works on this machine only");
        let hint =
            format!("for a server elsewhere: nerve recording prune --older-than AGE --server {server}");
        return Err(failure.hint(hint).into());
    }
    let snapshot_limit = settings::load()?.snapshot_limit.0;
    let nodes = match connect(server).await {
        Ok(client) => {
            let session_id = args.target.session.clone();
            let older_than = Some(Seconds::from(age.0));
            let request = PruneNodes { session_id, all: args.all, older_than, dry_run: args.dry_run };
            Some(client.request(&request).await?.removed)
        }
        Err(error) => {
            out::note(format_args!("nodes are left alone: {error}"));
            None
        }
    };
    let not_before = SystemTime::now().checked_sub(age.0).unwrap_or(SystemTime::UNIX_EPOCH);
    let is_pruned = |server_name: &str, node: &str| {
        server_name == server.as_str()
            && nodes.iter().flatten().any(|name| name.rsplit('/').next() == Some(node))
    };
    // Worktrees go first: the journals of their runs are removed below.
    let PrunedWorktrees { removed, kept } = fan_out::prune(not_before, args.dry_run, is_pruned).await;
    let mut data = vec![DataTotals { kind: "worktrees", removed, kept }];
    let rules =
        PruneRules { not_before, snapshot_limit, conversations: args.everything, dry_run: args.dry_run };
    data.extend(prune_data(age.0, rules, args.everything)?);
    print(&PruneReport { nodes, data }, &args)
}

/// Removes recordings that ended `age` ago, and other data by `rules`. `everything`: removes the snapshots of removed recordings in git
/// repositories, too. Returns the removed and the kept data of each kind.
fn prune_data(age: Duration, rules: PruneRules, everything: bool) -> Result<Vec<DataTotals>> {
    let dry_run = rules.dry_run;
    let paths = ServerPaths::from_env();
    let dirs = &paths.data;
    let mut warn = |warning| out::warning(warning);
    let all = list_recordings(None, dirs);
    let folders = everything.then(|| git_snapshots::list_folders(dirs));
    let request =
        PruneRecordings { older_than: Some(Seconds::from(age)), dry_run, ..PruneRecordings::default() };
    let recordings = prune_recordings(&request, dirs, &mut warn)?;
    let removed = FileTotal { files: recordings.removed.len() as u64, bytes: recordings.bytes };
    let bytes: u64 = all.iter().map(|recording| recording.bytes).sum();
    let kept = FileTotal {
        files: (all.len() as u64).saturating_sub(removed.files),
        bytes: bytes.saturating_sub(removed.bytes),
    };
    let mut data = vec![DataTotals { kind: "recordings", removed, kept }];
    if let Some(folders) = folders {
        let (removed, kept) = git_snapshots::prune(&recordings, &folders, dirs, &mut warn);
        data.push(DataTotals { kind: "git snapshots", removed, kept });
    }
    let others = stored_data::prune(&paths, rules, &mut warn);
    let others = others.into_iter();
    data.extend(others.map(|StoredData { kind, removed, kept }| DataTotals {
        kind: kind.as_str(),
        removed,
        kept,
    }));
    for branch in recordings.branches.iter().filter(|branch| branch.removed) {
        let verb = if dry_run { "would be removed" } else { "removed" };
        out::note(format_args!("folder {} of a branch {verb}", branch.path));
    }
    Ok(data)
}

fn print(pruned: &PruneReport, args: &PruneArgs) -> Result<()> {
    let verb = if args.dry_run { "would be removed" } else { "removed" };
    if args.target.server.json {
        return out::json(&as_json(pruned, args.dry_run));
    }
    for node in pruned.nodes.iter().flatten() {
        out::line(format_args!("node '{node}' {verb}"))?;
    }
    if pruned.nodes.as_ref().is_some_and(Vec::is_empty) {
        out::note("no nodes that stopped so long ago");
    }
    let cells = |total: &FileTotal| [total.files.to_string(), format::size(total.bytes)];
    let row = |data: &DataTotals| {
        [vec![data.kind.to_string()], cells(&data.removed).into(), cells(&data.kept).into()].concat()
    };
    let data = pruned.data.iter();
    let rows: Vec<_> =
        data.clone().filter(|data| data.removed.files + data.kept.files > 0).map(row).collect();
    let removed: u64 = data.clone().map(|data| data.removed.bytes).sum();
    let kept: u64 = data.map(|data| data.kept.bytes).sum();
    out::table(&["data", if args.dry_run { "old" } else { "removed" }, "size", "kept", "size"], &rows)?;
    out::line(format_args!("{} {verb}, {} kept", format::size(removed), format::size(kept)))
}

/// Returns the JSON form. `removed` is null if the nodes are unknown because the server is not running.
fn as_json(pruned: &PruneReport, dry_run: bool) -> Value {
    let total = |total: &FileTotal| json!({ "files": total.files, "bytes": total.bytes });
    let data = pruned.data.iter().map(|DataTotals { kind, removed, kept }| {
        json!({ "kind": kind.replace(' ', "_"), "removed": total(removed), "kept": total(kept) })
    });
    json!({ "removed": pruned.nodes, "data": data.collect::<Vec<_>>(), "dry_run": dry_run })
}
