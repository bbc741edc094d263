//! `nerve recording inspect`: prints the blocks and records of a recording.

use nerve_types::activity::TsMs;
use std::io::{self, BufWriter, Write};

use anyhow::Result;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nerve_api::reply::RecordedExit;
use nerve_record::ahr::{AhrError, Block, Body, DamagedRange, Mark, Reader, Record};
use nerve_record::export::ExportError;
use nerve_record::inspect::{Fault, Finding, Summary, inspect as visit_parts};
use nerve_types::TsNs;
use serde_json::{Value, json};

use super::{export_failure, find, format, read_failure, write_failure};
use crate::exit::{DONE, FAILED};
use nerve_cli::recording::InspectArgs;

/// Characters shown of an output or input record.
const PREVIEW_LEN: usize = 60;

/// Level of detail of the output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Blocks,
    /// Blocks with their records.
    Records,
}

/// Prints the contents of a recording. Returns [`FAILED`] if it is damaged.
pub(crate) fn inspect(args: &InspectArgs) -> Result<u8> {
    let recording = find(&args.source)?;
    let mut reader = Reader::open(&recording).map_err(read_failure)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let detail = if args.blocks { Detail::Blocks } else { Detail::Records };
    let summary = if args.json {
        let name = recording.display().to_string();
        as_json(&mut reader, &name, detail, &mut out)
    } else {
        as_text(&mut reader, detail, &mut out)
    };
    let summary = summary.map_err(export_failure)?;
    out.flush().map_err(write_failure)?;
    Ok(if summary.is_intact() { DONE } else { FAILED })
}

type Recording = Reader<io::BufReader<std::fs::File>>;

fn as_text(reader: &mut Recording, detail: Detail, out: &mut impl Write) -> Result<Summary, ExportError> {
    let mut start = None;
    let summary = visit_parts(reader, |finding| -> Result<(), ExportError> {
        match finding {
            Finding::Lost(lost) => writeln!(out, "LOST   {lost}")?,
            Finding::Block(block, faults) => {
                let first = *start.get_or_insert(block.header.start);
                block_text(block, first, out)?;
                if detail == Detail::Records {
                    for record in block.records() {
                        writeln!(out, "  {} {}", relative_time(first, record.at), record_text(&record))?;
                    }
                }
                for fault in faults {
                    writeln!(out, "DAMAGE {fault}")?;
                }
            }
        }
        Ok(())
    })?;
    let Summary { blocks, records, snapshots, damaged, .. } = summary;
    writeln!(
        out,
        "{blocks} blocks, {records} records, {} of output, {} of input, {snapshots} snapshots, {}, {}",
        format::size(summary.output.bytes),
        format::size(summary.input.bytes),
        format::duration(summary.duration()),
        if summary.finished { "finished" } else { "not finished" },
    )?;
    match damaged {
        0 => writeln!(out, "intact")?,
        1 => writeln!(out, "1 damaged range")?,
        count => writeln!(out, "{count} damaged ranges")?,
    }
    Ok(summary)
}

fn block_text(block: &Block, first: TsNs, out: &mut impl Write) -> io::Result<()> {
    let header = &block.header;
    let file = block.file();
    let flags = [
        header.last.then_some("last"),
        header.checksum.is_none().then_some("no checksum"),
        (header.header_len != 44).then_some("header says 48"),
    ];
    let flags: String = flags.into_iter().flatten().map(|flag| format!(", {flag}")).collect();
    writeln!(
        out,
        "BLOCK  file {}..{}  {}  output from {}  {} records  {} bytes, {} compressed{flags}",
        file.start,
        file.end,
        if header.start.0 > 0 {
            format!("{} ({})", format::time(header.start), relative_time(first, header.start).trim())
        } else {
            "no time".into()
        },
        header.start_off,
        header.records,
        header.uncompressed,
        header.compressed,
    )
}

/// Formats the seconds since the start; negative if the clock stepped back.
fn relative_time(first: TsNs, at: TsNs) -> String {
    let nanos = i128::from(at.0) - i128::from(first.0);
    format!("{:+12.6}", nanos as f64 / 1e9)
}

fn record_text(record: &Record<'_>) -> String {
    match record.body {
        Body::Data { off, bytes } => format!("output   {off} +{} {}", bytes.len(), preview(bytes)),
        Body::Resize { cols, rows } => format!("resize   {cols}x{rows}"),
        Body::Input { bytes } => format!("input    {} {}", bytes.len(), preview(bytes)),
        Body::Mark(mark) => format!("mark     {}", mark_text(mark)),
        Body::Snapshot { id, anchor, label } => {
            format!("snapshot {id} at byte {anchor} {:?}", String::from_utf8_lossy(label))
        }
    }
}

fn mark_text(mark: Mark) -> String {
    match mark {
        Mark::Input { origin, redacted } => {
            format!("typed by {}{}", origin.as_str(), if redacted { ", redacted" } else { "" })
        }
        Mark::Exit(status) => format!("ended: {status}"),
        Mark::Gap(reason) => format!("output is missing here ({reason})"),
        Mark::Other { code, val } => format!("code {code}, value {val}"),
    }
}

/// Returns the start of the bytes, quoted and escaped.
fn preview(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(4 * PREVIEW_LEN)];
    let text = String::from_utf8_lossy(start);
    let cut: String = text.chars().take(PREVIEW_LEN).collect();
    let more = if cut.len() < text.len() || start.len() < bytes.len() { "…" } else { "" };
    format!("{cut:?}{more}")
}

/// Writes one JSON object incrementally, because a recording may be large.
fn as_json(
    reader: &mut Recording,
    name: &str,
    detail: Detail,
    out: &mut impl Write,
) -> Result<Summary, ExportError> {
    writeln!(out, "{{\n\"path\": {},\n\"parts\": [", json!(name))?;
    let mut separator = "";
    let summary = visit_parts(reader, |finding| -> Result<(), ExportError> {
        let part = match finding {
            Finding::Lost(lost) => lost_json(lost),
            Finding::Block(block, faults) => block_json(block, faults, detail),
        };
        write!(out, "{separator}{part}")?;
        separator = ",\n";
        Ok(())
    })?;
    writeln!(out, "\n],\n\"summary\": {},\n\"ok\": {}\n}}", summary_json(&summary), summary.is_intact())?;
    Ok(summary)
}

fn lost_json(lost: &DamagedRange) -> Value {
    json!({
        "kind": "lost", "file": [lost.file.start, lost.file.end], "tail": lost.tail, "reason": lost.reason,
        "output": lost.output.as_ref().map(|output| [output.start, output.end]),
    })
}

fn block_json(block: &Block, faults: &[Fault], detail: Detail) -> Value {
    let header = &block.header;
    let mut part = json!({
        "kind": "block", "file": [block.file().start, block.file().end], "version": header.version,
        "header_len": header.header_len, "started_at": Some(header.start).filter(|start| start.0 > 0).map(TsMs::from),
        "start_byte_off": header.start_off,
        "uncompressed_len": header.uncompressed, "compressed_len": header.compressed,
        "record_count": header.records, "last": header.last, "checksum": header.checksum,
        "damage": faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    if detail == Detail::Records {
        part["records"] = block.records().map(|record| record_json(&record)).collect();
    }
    part
}

fn record_json(record: &Record<'_>) -> Value {
    let mut object = match record.body {
        Body::Data { off, bytes } => {
            json!({"kind": "data", "start_byte_off": off, "len": bytes.len(), "b64": BASE64_STANDARD.encode(bytes)})
        }
        Body::Resize { cols, rows } => json!({"kind": "resize", "cols": cols, "rows": rows}),
        Body::Input { bytes } => {
            json!({"kind": "input", "len": bytes.len(), "b64": BASE64_STANDARD.encode(bytes)})
        }
        Body::Mark(mark) => {
            let (code, val) = mark.parts();
            json!({"kind": "mark", "code": code, "val": val, "meaning": mark_text(mark)})
        }
        Body::Snapshot { id, anchor, label } => json!({
            "kind": "snapshot", "snapshot_id": id, "anchor_byte": anchor, "label": String::from_utf8_lossy(label),
        }),
    };
    object["recorded_at"] = json!(TsMs::from(record.at));
    object
}

pub(super) fn summary_json(summary: &Summary) -> Value {
    json!({
        "blocks": summary.blocks, "records": summary.records, "output_records": summary.output.records,
        "output_bytes": summary.output.bytes, "input_records": summary.input.records,
        "input_bytes": summary.input.bytes, "resizes": summary.resizes, "snapshots": summary.snapshots,
        "uncompressed_bytes": summary.uncompressed, "duration_ms": nerve_types::millis(summary.duration()),
        "started_at": summary.times.map(|(first, _)| TsMs::from(first)),
        "ended_at": summary.times.map(|(_, last)| TsMs::from(last)),
        "exit": summary.exit.map(RecordedExit::from), "finished": summary.finished, "damaged": summary.damaged,
    })
}

/// Summarizes a recording without printing it.
pub(super) fn summary(
    reader: &mut Recording,
    mut lost: impl FnMut(&DamagedRange),
) -> Result<Summary, AhrError> {
    visit_parts(reader, |finding| {
        match finding {
            Finding::Lost(range) => lost(range),
            Finding::Block(block, _) => block.damage().into_iter().for_each(&mut lost),
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_base64_of_rfc_4648() {
        let encoded = |bytes| {
            record_json(&Record { at: TsNs(0), body: Body::Input { bytes } })["b64"]
                .as_str()
                .map(str::to_string)
        };
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (text, expected) in cases {
            assert_eq!(encoded(text.as_bytes()).as_deref(), Some(expected));
        }
        assert_eq!(encoded(&[0xff, 0xfe, 0xfd]).as_deref(), Some("//79"));
    }

    #[test]
    fn preview_is_escaped_and_marks_truncation() {
        assert_eq!(preview(b"a\x1b[31m\r\n"), r#""a\u{1b}[31m\r\n""#);
        assert_eq!(preview("ä".repeat(61).as_bytes()), format!("\"{}\"…", "ä".repeat(60)));
    }
}
