//! `nerve recordings`: list, prune and repair.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use nerve_engine::branches::BranchFolders;
use nerve_record::ahr::repair as write_repaired;
use nerve_record::library::{Reason, RecordingInfo, Retention, list as list_stored, remove, select_expired};
use nerve_record::meta::Meta;
use nerve_record::snapshots;
use nerve_record::store::EXTENSION;
use nerve_server::paths::ServerPaths;
use nerve_types::TsNs;
use serde_json::{Value, json};

use super::branches::{self, outcome_json, outcome_line};
use super::{find, format, store, unreadable};
use crate::cli::recording::{ListArgs, PruneArgs, RecordingsArgs, RecordingsCommand, RepairArgs};
use crate::out;

/// Maximum characters of a command in the list.
const COMMAND_WIDTH: usize = 48;

/// Runs the subcommand.
pub(crate) fn recordings(args: &RecordingsArgs) -> Result<()> {
    match &args.command {
        RecordingsCommand::List(args) => list(args),
        RecordingsCommand::Prune(args) => prune(args),
        RecordingsCommand::Branches(args) => branches::list(args),
        RecordingsCommand::Repair(args) => repair(args),
    }
}

fn list(args: &ListArgs) -> Result<()> {
    let mut all = list_stored(&store());
    all.truncate(args.last.unwrap_or(usize::MAX));
    if args.json {
        return out::json(&all.iter().map(info_json).collect());
    }
    let header = ["id", "started", "duration", "size", "terminal", "snapshots", "command"];
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    if rows.is_empty() {
        out::note(format_args!("no recordings in {}", store().root().display()));
    }
    out::table(&header, &rows)
}

fn row(info: &RecordingInfo) -> Vec<String> {
    let duration = info.duration.map(format::duration).unwrap_or_default();
    vec![
        info.id.clone(),
        info.started.map(format::time).unwrap_or_default(),
        if info.live { format!("{duration}, recording") } else { duration },
        format::size(info.bytes),
        info.size.map(|size| format!("{}x{}", size.cols, size.rows)).unwrap_or_default(),
        info.snapshots.to_string(),
        out::preview(&format::command(&info.command), COMMAND_WIDTH),
    ]
}

fn info_json(info: &RecordingInfo) -> Value {
    json!({
        "id": info.id, "path": info.path, "bytes": info.bytes, "live": info.live,
        "started": info.started.map(format::rfc3339), "started_ts_ns": info.started.map(|at| at.0),
        "duration_ns": info.duration.map(|duration| duration.as_nanos() as u64),
        "cols": info.size.map(|size| size.cols), "rows": info.size.map(|size| size.rows),
        "cmd": info.command, "exit": info.exit.map(format::exit_json), "snapshots": info.snapshots,
    })
}

fn prune(args: &PruneArgs) -> Result<()> {
    let all = list_stored(&store());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let not_before = args.older_than.map(|age| TsNs::default() + now.saturating_sub(age.0));
    let keep = Retention { not_before, bytes: args.max_size.map(|size| size.0) };
    let mut removed = Vec::new();
    for (info, reason) in select_expired(&all, keep) {
        let is_removed = args.dry_run
            || remove(&info.path).with_context(|| format!("cannot remove {}", info.path.display()))?;
        if is_removed {
            removed.push((info, reason));
        } else {
            out::warning(format_args!("{} kept: it is being recorded", info.id));
        }
    }
    let bytes: u64 = removed.iter().map(|(info, _)| info.bytes).sum();
    let paths = removed.iter().map(|(info, _)| info.path.clone()).collect();
    let outcomes = BranchFolders::scan(&ServerPaths::from_env().data_dirs()).prune(
        &paths,
        args.branches,
        args.force,
        args.dry_run,
    );
    if args.json {
        let removed: Vec<Value> = removed
            .iter()
            .map(|(info, reason)| {
                json!({"id": info.id, "path": info.path, "bytes": info.bytes, "reason": reason_name(*reason)})
            })
            .collect();
        let branches: Vec<Value> = outcomes.iter().map(outcome_json).collect();
        return out::json(
            &json!({"removed": removed, "bytes": bytes, "branches": branches, "dry_run": args.dry_run}),
        );
    }
    for (info, reason) in &removed {
        out::line(format_args!("{}  {}  {}", info.id, format::size(info.bytes), reason_name(*reason)))?;
    }
    for line in outcomes.iter().filter_map(|outcome| outcome_line(outcome, args.dry_run)) {
        out::line(line)?;
    }
    if outcomes.iter().any(|outcome| outcome.is_orphaned) && !args.force {
        out::note(
            "some folders without nodes and recordings were kept; --force removes them with their unsaved changes",
        );
    }
    let verb = if args.dry_run { "would be removed" } else { "removed" };
    out::line(format_args!("{} of {} {verb}, {}", removed.len(), all.len(), format::size(bytes)))
}

fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::Age => "age",
        Reason::Bytes => "size",
    }
}

fn repair(args: &RepairArgs) -> Result<()> {
    let from = find(&args.source)?;
    let to = args.output.clone().unwrap_or_else(|| repaired_path(&from));
    let done = write_repaired(&from, &to).map_err(unreadable)?;
    let sidecars =
        [(Meta::path_of(&from), Meta::path_of(&to)), (snapshots::path_of(&from), snapshots::path_of(&to))];
    for (from, to) in sidecars.iter().filter(|(from, to)| from.exists() && !to.exists()) {
        fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    if args.json {
        let lost: Vec<String> = done.lost.iter().map(ToString::to_string).collect();
        return out::json(&json!({
            "path": to, "blocks": done.blocks, "repacked": done.repacked, "records": done.records,
            "output_bytes": done.output, "gaps": done.gaps, "stretches": done.stretches, "lost": lost,
        }));
    }
    done.lost.iter().for_each(out::warning);
    out::line(format_args!(
        "{}: {} blocks and {} records kept, {} of output, {} stretches lost",
        to.display(),
        done.blocks,
        done.records,
        format::size(done.output),
        done.stretches
    ))
}

fn repaired_path(from: &Path) -> PathBuf {
    let stem = from.file_stem().unwrap_or_default().to_string_lossy();
    from.with_file_name(format!("{stem}-repaired.{EXTENSION}"))
}
