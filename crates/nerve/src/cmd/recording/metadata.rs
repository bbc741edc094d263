//! `nerve replay --print-meta`: prints the metadata of a recording.

use nerve_types::activity::TsMs;
use std::path::Path;

use anyhow::Result;
use nerve_api::reply::RecordedExit;
use nerve_record::ahr::Reader;
use nerve_record::library::RecordingInfo;
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
    let size = summary.size.or(info.size);
    let exit = summary.exit.or(meta.exit);
    let started = info.started;
    if as_json {
        out::json(&json!({
            "recording_id": info.id, "path": recording, "bytes": info.bytes, "live": info.live,
            "started_at": started.map(TsMs::from),
            "cols": size.map(|size| size.cols), "rows": size.map(|size| size.rows),
            "exit": exit.map(RecordedExit::from), "stats": summary_json(&summary), "meta": meta,
        }))?;
        return Ok(code);
    }
    let known = |text: &Option<String>| text.clone().unwrap_or_default();
    let counted = |count: u64, bytes: u64| format!("{} in {count} records", format::size(bytes));
    out::fields(&[
        ("recording", recording.display().to_string()),
        ("id", info.id),
        ("command", format::command(&meta.cmd)),
        ("node", known(&meta.node)),
        ("session", known(&meta.session)),
        ("server", known(&meta.server)),
        ("profile", known(&meta.profile)),
        ("title", known(&meta.title)),
        ("cwd", meta.cwd.map(|cwd| cwd.display().to_string()).unwrap_or_default()),
        ("machine", [meta.host.os, meta.host.arch].join(" ").trim().to_string()),
        ("source", if meta.screens { "screen states".to_string() } else { String::new() }),
        ("terminal", size.map(|size| format!("{}x{}", size.cols, size.rows)).unwrap_or_default()),
        ("started", started.map(format::time).unwrap_or_default()),
        ("duration", format::duration(summary.duration())),
        ("ended", exit.map(|exit| exit.to_string()).unwrap_or_default()),
        ("on disk", format::size(info.bytes)),
        ("output", counted(summary.output.records, summary.output.bytes)),
        ("input", counted(summary.input.records, summary.input.bytes)),
        ("blocks", summary.blocks.to_string()),
        ("resizes", summary.resizes.to_string()),
        ("snapshots", summary.snapshots.to_string()),
        (
            "finished",
            if info.live {
                "being recorded"
            } else if summary.finished {
                "yes"
            } else {
                "no"
            }
            .to_string(),
        ),
        (
            "damage",
            if summary.is_intact() { "none".to_string() } else { format!("{} ranges", summary.damaged) },
        ),
    ])?;
    Ok(code)
}
