//! Replay, export and inspection of recordings.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

mod casts;
mod images;
mod inspections;
mod replay;
mod reports;
mod sessions;

use std::io::Cursor;

use nerve_record::ahr::{Body, Reader, Record, Segment};
use nerve_record::replay::TerminalReplay;
use nerve_types::TsNs;

/// Start time of the recordings: 2024-03-09T16:00:00Z.
const START: u64 = 1_710_000_000_000_000_000;

/// Encodes records at these milliseconds, each as one block.
fn recording(records: &[(u64, Body<'_>)]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut end = 0;
    for (ms, body) in records {
        let mut segment = Segment::new(end);
        segment.push(&record(*ms, *body)).unwrap();
        end = segment.end();
        file.extend(segment.seal(4, false));
    }
    file.extend(Segment::new(end).seal(4, true));
    file
}

fn record(ms: u64, body: Body<'_>) -> Record<'_> {
    Record { at: TsNs(START + ms * 1_000_000), body }
}

fn data(off: u64, text: &str) -> Body<'_> {
    Body::Data { off, bytes: text.as_bytes() }
}

fn resize(cols: u16, rows: u16) -> Body<'static> {
    Body::Resize { cols, rows }
}

fn snapshot(id: u64, anchor: u64, label: &str) -> Body<'_> {
    Body::Snapshot { id, anchor, label: label.as_bytes() }
}

/// A sample with lines, an overwritten progress line and four snapshots.
fn sample() -> Vec<u8> {
    recording(&[
        (0, resize(80, 24)),
        (10, data(0, "line one\r\nline two\r\n")),
        (20, snapshot(0, 20, "first")),
        (30, data(20, "progress  10%\rprogress  50%")),
        (40, snapshot(7, 47, "mid ✓ м")),
        (50, snapshot(8, 47, "mid|again")),
        (60, data(47, "\rprogress 100%\r\n")),
        (70, snapshot(9, 63, "")),
        (80, data(63, "tail \"x\", y\r\n\r\n\r\n")),
    ])
}

fn reader(file: &[u8]) -> Reader<Cursor<&[u8]>> {
    Reader::new(Cursor::new(file)).unwrap()
}

fn replayed(file: &[u8]) -> TerminalReplay {
    TerminalReplay::read_all(&mut reader(file), |lost| panic!("{lost}")).unwrap()
}
