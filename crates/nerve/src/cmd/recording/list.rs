//! `nerve recording list`, `prune` and `repair`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_api::reply::{PrunedRecording, RecordingInfo, RecordingList};
use nerve_api::request::{ListRecordings, PruneRecordings, Seconds};
use nerve_engine::library::{list_recordings, prune_recordings};
use nerve_record::ahr::repair as write_repaired;
use nerve_record::meta::Meta;
use nerve_record::snapshots;
use nerve_record::store::{EXTENSION, unique_prefix_len};
use nerve_server::paths::ServerPaths;
use nerve_tui::terminal::window;
use serde_json::json;

use super::{branches, find, format, read_failure};
use crate::cmd::snapshot::send;
use crate::out;
use nerve_cli::recording::{ListArgs, PruneArgs, RepairArgs};

/// Maximum characters of a command in the list.
const COMMAND_WIDTH: usize = 48;
/// Maximum characters of a working directory in the list.
const FOLDER_WIDTH: usize = 30;
/// Columns of a terminal that shows ids in full.
const WIDE: usize = 140;

/// Columns of the list.
const COLUMNS: [&str; 12] = [
    "id",
    "node",
    "profile",
    "written",
    "folder",
    "started",
    "duration",
    "size",
    "terminal",
    "snapshots",
    "conversation",
    "command",
];
/// Columns that a narrow terminal lacks, the first ones first.
const OPTIONAL_COLUMNS: [&str; 10] = [
    "terminal",
    "started",
    "conversation",
    "snapshots",
    "command",
    "size",
    "duration",
    "written",
    "folder",
    "profile",
];

/// Lists the recordings.
pub(super) fn list(args: &ListArgs) -> Result<()> {
    let dirs = ServerPaths::from_env().data_dirs();
    let all = match &args.server {
        Some(server) => {
            send(server, ListRecordings { last: args.last, ..ListRecordings::default() })?.recordings
        }
        None => list_recordings(args.last, &dirs),
    };
    if args.json {
        return out::json(&RecordingList { recordings: all, next: None });
    }
    let width = window().map(|size| usize::from(size.cols));
    let id_chars = width.filter(|width| *width < WIDE).map(|_| abbreviated_id_len(&all));
    let rows: Vec<Vec<String>> = all.iter().map(|info| row(info, id_chars)).collect();
    if rows.is_empty() {
        out::note(format_args!(
            "no recordings {}",
            format::location(args.server.as_deref(), &dirs.recordings)
        ));
    }
    let (header, rows) = out::select_columns(&COLUMNS, &rows, width, &OPTIONAL_COLUMNS);
    out::table(&header, &rows)
}

/// Returns how many characters distinguish the ids; at least the timestamp of a UUID.
fn abbreviated_id_len(all: &[RecordingInfo]) -> usize {
    let ids: Vec<&str> = all.iter().map(|info| info.recording_id.as_str()).collect();
    unique_prefix_len(&ids).max(format::ID_PREFIX_LEN)
}

/// Returns the cells of [`COLUMNS`], with the first `id_chars` characters of the id.
fn row(info: &RecordingInfo, id_chars: Option<usize>) -> Vec<String> {
    let time = |at: &Option<String>| at.as_deref().map(format::shorten_time).unwrap_or_default();
    let duration = info.duration_ms.map(Duration::from_millis).map(format::duration).unwrap_or_default();
    vec![
        info.recording_id.chars().take(id_chars.unwrap_or(usize::MAX)).collect(),
        format::node_path(info.session_id.as_deref(), info.node_id.as_deref()),
        info.profile.clone().unwrap_or_default(),
        time(&info.written_at),
        format::path_end(info.cwd.as_deref().unwrap_or_default(), FOLDER_WIDTH),
        time(&info.started_at),
        if info.live { format!("{duration}, recording") } else { duration },
        format::size(info.bytes),
        info.cols.zip(info.rows).map(|(cols, rows)| format!("{cols}x{rows}")).unwrap_or_default(),
        info.snapshots.to_string(),
        info.conversation_id.clone().unwrap_or_default(),
        out::preview(&format::command(&info.command), COMMAND_WIDTH),
    ]
}

/// Removes old recordings and unneeded branch folders.
pub(super) fn prune(args: &PruneArgs) -> Result<()> {
    let request = PruneRecordings {
        older_than: args.older_than.map(|age| Seconds::from(age.0)),
        max_size: args.max_size.map(|size| size.0),
        branches: args.branches,
        force: args.force,
        dry_run: args.dry_run,
    };
    let pruned = match &args.server {
        Some(server) => send(server, request)?,
        None => prune_recordings(&request, &ServerPaths::from_env().data_dirs(), &mut |warning| {
            out::warning(warning);
        })?,
    };
    if args.json {
        return out::json(&pruned);
    }
    for PrunedRecording { recording_id, bytes, reason, .. } in &pruned.removed {
        out::line(format_args!("{recording_id}  {}  {reason}", format::size(*bytes)))?;
    }
    for line in pruned.branches.iter().filter_map(|branch| branches::pruned_line(branch, args)) {
        out::line(line)?;
    }
    if pruned.branches.iter().any(|branch| branch.orphaned) && !args.force {
        out::note(
            "some folders without nodes and recordings were kept; --force removes them with their unsaved changes",
        );
    }
    let verb = if args.dry_run { "would be removed" } else { "removed" };
    let (removed, bytes) = (pruned.removed.len(), format::size(pruned.bytes));
    out::line(format_args!("{removed} of {} {verb}, {bytes}", pruned.total))
}

/// Makes a clean copy of a damaged recording.
pub(super) fn repair(args: &RepairArgs) -> Result<()> {
    let from = find(&args.source)?;
    let to = args.output.clone().unwrap_or_else(|| repaired_path(&from));
    let done = write_repaired(&from, &to).map_err(read_failure)?;
    let sidecars = [
        (Meta::sidecar_path(&from), Meta::sidecar_path(&to)),
        (snapshots::list_path(&from), snapshots::list_path(&to)),
    ];
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
        "{}: {} blocks and {} records kept, {} of output, {} ranges lost",
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
