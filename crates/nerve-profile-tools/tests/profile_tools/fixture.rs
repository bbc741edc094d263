//! Recordings of real programs, converted to `.ahr` files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_record::ahr::{Body, Mark, Record, Segment, Writer};
use nerve_types::{Origin, Size, TsNs};

/// 2024-03-09T16:00:00Z.
pub(crate) const START: TsNs = TsNs(1_710_000_000_000_000_000);
/// Size of the terminal in all of them.
pub(crate) const SIZE: Size = Size { cols: 120, rows: 40 };

/// Writes records, each with its time since the start, to a new recording.
pub(crate) fn write(path: &Path, records: &[(Duration, Body<'_>)]) {
    let mut writer = Writer::create(path).unwrap();
    let mut segment = Segment::new(0);
    for (at, body) in records {
        if segment.is_full() {
            let end = segment.end();
            writer.append(&std::mem::replace(&mut segment, Segment::new(end)).seal(1, false)).unwrap();
        }
        segment.push(&Record { at: START + *at, body: *body }).unwrap();
    }
    writer.append(&segment.seal(1, true)).unwrap();
}

/// Converts a session of a real agent, nine turns each. Lines of its timing are `O seconds bytes` for output, and `I` for input.
pub(crate) fn agent_recording(folder: &Path, agent: &str, name: &str) -> PathBuf {
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../nerve-vt/tests/fixtures/recordings").join(agent);
    let read = |suffix: &str| std::fs::read(fixtures.join(format!("{name}{suffix}"))).unwrap();
    let (output, input) = (read(".raw"), read(".in.raw"));
    let timing = String::from_utf8(read(".timing")).unwrap();
    let mut records = vec![(Duration::ZERO, Body::Resize { cols: SIZE.cols, rows: SIZE.rows })];
    let (mut at, mut off, mut typed) = (Duration::ZERO, 0, 0);
    for line in timing.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        at += Duration::from_secs_f64(words[1].parse().unwrap());
        let len: usize = words[2].parse().unwrap();
        if words[0] == "O" {
            records.push((at, Body::Data { off: off as u64, bytes: &output[off..off + len] }));
            off += len;
        } else {
            let bytes = &input[typed..typed + len];
            let is_reply = bytes.len() > 1 && bytes[0] == 0x1b && !bytes.starts_with(b"\x1b[200~");
            let origin = if is_reply { Origin::Terminal } else { Origin::User };
            records.push((at, Body::Mark(Mark::Input { origin, redacted: false })));
            records.push((at, Body::Input { bytes }));
            typed += len;
        }
    }
    let path = folder.join(format!("{agent}-{name}.ahr"));
    write(&path, &records);
    path
}
