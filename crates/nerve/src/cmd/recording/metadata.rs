//! `nerve replay --print-meta`: prints the metadata of a recording.

use std::path::Path;

use anyhow::Result;
use nerve_api::reply::RecordedExit;
use nerve_record::ahr::Reader;
use nerve_record::inspect::Summary;
use nerve_record::library::RecordingInfo;
use nerve_record::meta::Meta;
use nerve_types::activity::TsMs;
use serde_json::json;

use super::inspect::{summary, summary_json};
use super::{Losses, format, load_meta, read_failure};
use crate::out;

/// Prints the metadata of the recording and the totals of its records. Returns the exit code.
pub(super) fn print(recording: &Path, as_json: bool) -> Result<u8> {
    let info = RecordingInfo::read(recording).map_err(read_failure)?;
    let meta = load_meta(recording);
    let mut losses = Losses::new(recording);
    let mut reader = Reader::open(recording).map_err(read_failure)?;
    let summary = summary(&mut reader, |lost| losses.add(lost)).map_err(read_failure)?;
    losses.add_contradictions(reader.contradictions());
    let code = losses.report();
    let (size, exit) = (summary.size.or(info.size), summary.exit.or(meta.exit));
    if as_json {
        out::json(&json!({
            "recording_id": info.id, "path": recording, "bytes": info.bytes, "live": info.live,
            "started_at": info.started.map(TsMs::from),
            "cols": size.map(|size| size.cols), "rows": size.map(|size| size.rows),
            "exit": exit.map(RecordedExit::from), "stats": summary_json(&summary), "meta": meta,
        }))?;
    } else {
        out::fields(&fields(recording, info, meta, &summary))?;
    }
    Ok(code)
}

/// Returns the lines of the text output.
fn fields(
    recording: &Path,
    info: RecordingInfo,
    meta: Meta,
    summary: &Summary,
) -> Vec<(&'static str, String)> {
    let (size, exit) = (summary.size.or(info.size), summary.exit.or(meta.exit));
    let counted = |count: u64, bytes: u64| format!("{} in {count} records", format::size(bytes));
    let finished = match summary.finished {
        _ if info.live => "being recorded",
        true => "yes",
        false => "no",
    };
    let damage = match summary.is_intact() {
        true => "none".to_string(),
        false => format!("{} ranges", summary.damaged),
    };
    vec![
        ("recording", recording.display().to_string()),
        ("id", info.id),
        ("command", format::command(&meta.cmd)),
        ("node", meta.node.unwrap_or_default()),
        ("session", meta.session.unwrap_or_default()),
        ("server", meta.server.unwrap_or_default()),
        ("profile", meta.profile.unwrap_or_default()),
        ("title", meta.title.unwrap_or_default()),
        ("cwd", meta.cwd.map(|cwd| cwd.display().to_string()).unwrap_or_default()),
        ("machine", [meta.host.os, meta.host.arch].join(" ").trim().to_string()),
        ("source", if meta.screens { "screen states".to_string() } else { String::new() }),
        ("terminal", size.map(|size| format!("{}x{}", size.cols, size.rows)).unwrap_or_default()),
        ("started", info.started.map(format::time).unwrap_or_default()),
        ("duration", format::duration(summary.duration())),
        ("ended", exit.map(|exit| exit.to_string()).unwrap_or_default()),
        ("on disk", format::size(info.bytes)),
        ("output", counted(summary.output.records, summary.output.bytes)),
        ("input", counted(summary.input.records, summary.input.bytes)),
        ("blocks", summary.blocks.to_string()),
        ("resizes", summary.resizes.to_string()),
        ("snapshots", summary.snapshots.to_string()),
        ("finished", finished.to_string()),
        ("damage", damage),
    ]
}
