//! `nerve recording list`, `prune` and `repair`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_api::reply::{PrunedRecording, RecordingInfo, RecordingList};
use nerve_api::request::{ListRecordings, PruneRecordings, Seconds};
use nerve_commands::clock::local_time_of;
use nerve_engine::recordings::library::{list_recordings, prune_recordings};
use nerve_host::clock::Clock;
use nerve_record::ahr::repair as write_repaired;
use nerve_record::meta::Meta;
use nerve_record::snapshots;
use nerve_record::store::{EXTENSION, unique_prefix_len};
use nerve_server::paths::ServerPaths;
use nerve_tui::dashboard::age;
use nerve_tui::terminal::window;
use nerve_types::activity::TsMs;
use serde_json::json;

use super::{branches, find, format, read_failure};
use crate::cmd::snapshot::send;
use crate::out;
use nerve_cli::recording::{ListArgs, PruneArgs, RepairArgs};

/// Maximum characters of a command in the list.
const COMMAND_WIDTH: usize = 48;
/// Maximum characters of a node and a conversation on a terminal.
const NODE_WIDTH: usize = 20;
const CONVERSATION_WIDTH: usize = 12;
/// Minimum characters of a folder on a terminal. It gets more if there is room.
const FOLDER_WIDTH: usize = 16;

/// Columns of the list.
const COLUMNS: [&str; 13] = [
    "id",
    "node",
    "profile",
    "age",
    "length",
    "size",
    "folder",
    "conversation",
    "command",
    "written",
    "started",
    "terminal",
    "snapshots",
];
/// Columns that are omitted in a narrow terminal, in this order.
const OPTIONAL_COLUMNS: [&str; 9] =
    ["terminal", "started", "written", "snapshots", "command", "conversation", "folder", "profile", "node"];
/// Columns that are aligned to the right.
const NUMBERS: [&str; 3] = ["age", "length", "size"];

/// Lists the recordings.
pub(super) fn list(args: &ListArgs) -> Result<()> {
    let dirs = ServerPaths::from_env().data;
    let all = match &args.server {
        Some(server) => {
            send(server, ListRecordings { last: args.last, ..ListRecordings::default() })?.recordings
        }
        None => list_recordings(args.last, &dirs),
    };
    if args.json {
        return out::json(&RecordingList { recordings: all, next: None });
    }
    if all.is_empty() {
        out::note(format_args!(
            "no recordings {}",
            format::location(args.server.as_deref(), &dirs.recordings)
        ));
    }
    let width = window().map(|size| usize::from(size.cols));
    let (header, rows) = select_columns(&all, width, TsMs::from(Clock::start().now()));
    out::table_with_numbers(&header, &rows, &NUMBERS)
}

/// Returns the columns and rows that fit into `width`; all of them, with full texts, without a width.
fn select_columns(
    all: &[RecordingInfo],
    width: Option<usize>,
    now: TsMs,
) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let select = |limits: Option<TextLimits>| {
        let rows: Vec<Vec<String>> = all.iter().map(|info| row(info, now, limits)).collect();
        out::select_columns(&COLUMNS, &rows, width, &OPTIONAL_COLUMNS)
    };
    let Some(width) = width else { return select(None) };
    let folder = FOLDER_WIDTH.max(width / 4);
    let limits = TextLimits { id: abbreviated_id_len(all), folder };
    let (header, rows) = select(Some(limits));
    let spare = width.saturating_sub(out::Table::new(&header, &rows).width());
    select(Some(TextLimits { folder: folder + spare, ..limits }))
}

/// Maximum lengths of texts on a terminal, in characters.
#[derive(Debug, Clone, Copy)]
struct TextLimits {
    id: usize,
    folder: usize,
}

/// Returns the number of characters that distinguish the ids; at least those of the timestamp of a UUID.
fn abbreviated_id_len(all: &[RecordingInfo]) -> usize {
    let ids: Vec<&str> = all.iter().map(|info| info.recording_id.as_str()).collect();
    unique_prefix_len(&ids).max(format::ID_PREFIX_LEN)
}

/// Returns the cells of [`COLUMNS`].
fn row(info: &RecordingInfo, now: TsMs, limits: Option<TextLimits>) -> Vec<String> {
    let time = |at: &Option<String>| at.as_deref().map(local_time_of).unwrap_or_default();
    let shorten = |text: &str, limit: usize| {
        let limit = if limits.is_some() { limit } else { usize::MAX };
        out::shorten_middle(text, limit)
    };
    let written = info.written_at.clone().and_then(|at| TsMs::try_from(at).ok());
    let age = written.map(|at| age::format(Duration::from_millis(now.0.saturating_sub(at.0))));
    let id_chars = limits.map_or(usize::MAX, |limits| limits.id);
    vec![
        info.recording_id.chars().take(id_chars).collect(),
        shorten(&format::node_path(info.session_id.as_deref(), info.node_id.as_deref()), NODE_WIDTH),
        info.profile.clone().unwrap_or_default(),
        if info.live { "recording".to_string() } else { age.unwrap_or_default() },
        info.duration_ms.map(Duration::from_millis).map(format::duration).unwrap_or_default(),
        format::size(info.bytes),
        shorten(info.cwd.as_deref().unwrap_or_default(), limits.map_or(0, |limits| limits.folder)),
        shorten(info.conversation_id.as_deref().unwrap_or_default(), CONVERSATION_WIDTH),
        out::preview(&format::command(&info.command), COMMAND_WIDTH),
        time(&info.written_at),
        time(&info.started_at),
        info.cols.zip(info.rows).map(|(cols, rows)| format!("{cols}x{rows}")).unwrap_or_default(),
        info.snapshots.to_string(),
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
        None => prune_recordings(&request, &ServerPaths::from_env().data, &mut |warning| {
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
    let summary = write_repaired(&from, &to).map_err(read_failure)?;
    let sidecars = [
        (Meta::sidecar_path(&from), Meta::sidecar_path(&to)),
        (snapshots::list_path(&from), snapshots::list_path(&to)),
    ];
    for (from, to) in sidecars.iter().filter(|(from, to)| from.exists() && !to.exists()) {
        fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    if args.json {
        let lost: Vec<String> = summary.lost.iter().map(ToString::to_string).collect();
        return out::json(&json!({
            "path": to, "blocks": summary.blocks, "repacked": summary.repacked, "records": summary.records,
            "output_bytes": summary.output, "gaps": summary.gaps, "stretches": summary.stretches, "lost": lost,
        }));
    }
    summary.lost.iter().for_each(out::warning);
    out::line(format_args!(
        "{}: {} blocks and {} records kept, {} of output, {} ranges lost",
        to.display(),
        summary.blocks,
        summary.records,
        format::size(summary.output),
        summary.stretches
    ))
}

fn repaired_path(from: &Path) -> PathBuf {
    let stem = from.file_stem().unwrap_or_default().to_string_lossy();
    from.with_file_name(format!("{stem}-repaired.{EXTENSION}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> RecordingInfo {
        RecordingInfo {
            recording_id: "0195e3a1-77aa-7bcd-8000-0123456789ab".into(),
            written_at: Some(TsMs(1_000).iso()),
            duration_ms: Some(192_000),
            bytes: 1_258_291,
            session_id: Some("nightly-reviews".into()),
            node_id: Some("reviewer-of-everything".into()),
            profile: Some("opencode".into()),
            cwd: Some("/home/someone/projects/with/a/long/name/nerve".into()),
            conversation_id: Some("a81bc81b-dead-4e5d-abff-90865d1e13b1".into()),
            command: vec!["claude".into(), "x".repeat(60)],
            ..RecordingInfo::default()
        }
    }

    #[test]
    fn narrow_terminals_show_the_most_important_columns() {
        let now = TsMs(3 * 86_400_000 + 1_000);
        let columns = |width| select_columns(&[recording()], Some(width), now);
        let all = ["id", "node", "profile", "age", "length", "size", "folder", "conversation"];
        for (width, titles) in [(80, &all[..6]), (100, &all[..7]), (140, &all[..])] {
            let (header, rows) = columns(width);
            assert_eq!(header[..titles.len()], *titles, "{width}");
            assert!(out::Table::new(&header, &rows).width() <= width, "{width}: {rows:?}");
        }
        assert_eq!(columns(60).0, ["id", "node", "age", "length", "size"]);
        let (_, rows) = columns(140);
        let start = ["0195e3a1-77aa", "nightl…of-everything", "opencode", "3d", "3m 12s", "1.2 MiB"];
        assert_eq!(rows[0][..6], start);
        assert!(rows[0][6].starts_with("/home/") && rows[0][6].ends_with("/nerve"), "{rows:?}");
        assert_eq!(rows[0][7], "a81b…d1e13b1", "{rows:?}");
    }
}
