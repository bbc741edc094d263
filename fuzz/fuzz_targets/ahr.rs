//! Reads, replays and repairs a recording. A repaired copy is intact and has the output that the reader found.
#![no_main]

use std::io::Cursor;
use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nerve_fuzz::Scratch;
use nerve_record::ahr::{AhrError, Body, Part, Reader, repair};
use nerve_record::replay::TerminalReplay;

static SCRATCH: LazyLock<Scratch> = LazyLock::new(Scratch::new);

fuzz_target!(|data: &[u8]| {
    let Ok((output, _)) = read(Reader::new(Cursor::new(data))) else { return };
    if let Ok(mut reader) = Reader::new(Cursor::new(data)) {
        let _ = TerminalReplay::read_all(&mut reader, |_| ());
    }
    let (from, to) = (SCRATCH.file("damaged.ahr"), SCRATCH.file("repaired.ahr"));
    std::fs::write(&from, data).expect("no space");
    let _ = std::fs::remove_file(&to);
    let Ok(report) = repair(&from, &to) else { return };
    assert_eq!(report.output, output.len() as u64);
    let (copy, damages) = read(Reader::open(Path::new(&to))).expect("a repaired copy is unreadable");
    assert_eq!(damages, 0, "a repaired copy is damaged");
    assert!(copy == output, "a repaired copy has other output");
});

/// Returns the output and the number of damaged places.
fn read<R: std::io::Read + std::io::Seek>(
    reader: Result<Reader<R>, AhrError>,
) -> Result<(Vec<u8>, usize), AhrError> {
    let (mut reader, mut output, mut damages) = (reader?, Vec::new(), 0);
    while let Some(part) = reader.next()? {
        let Part::Block(block) = part else {
            damages += 1;
            continue;
        };
        damages += usize::from(block.damage().is_some());
        for record in block.records() {
            if let Body::Data { bytes, .. } = record.body {
                output.extend_from_slice(bytes);
            }
        }
    }
    Ok((output, damages))
}
