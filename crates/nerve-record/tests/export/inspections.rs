//! Totals and faults of an inspection.

use nerve_record::ahr::{AhrError, Body, Mark};
use nerve_record::inspect::{Finding, Summary, inspect};
use nerve_types::{ExitStatus, Size};

use crate::{data, reader, recording, resize, sample};

fn inspect_all(file: &[u8]) -> (Summary, Vec<String>) {
    let mut faults = Vec::new();
    let summary = inspect::<_, AhrError>(&mut reader(file), |found| {
        match found {
            Finding::Block(_, found) => faults.extend(found.iter().map(ToString::to_string)),
            Finding::Lost(lost) => faults.push(lost.to_string()),
        }
        Ok(())
    });
    (summary.unwrap(), faults)
}

#[test]
fn intact_recording_is_counted() {
    let (summary, faults) = inspect_all(&sample());
    assert_eq!((faults.len(), summary.is_intact(), summary.finished), (0, true, true));
    assert_eq!((summary.blocks, summary.records, summary.snapshots, summary.resizes), (10, 9, 4, 1));
    assert_eq!((summary.output.records, summary.output.bytes), (4, 80));
    assert_eq!((summary.duration().as_millis(), summary.size), (80, Some(Size::new(80, 24))));
}

#[test]
fn input_and_exit_are_counted() {
    let (summary, _) = inspect_all(&recording(&[
        (0, resize(80, 24)),
        (1, Body::Input { bytes: b"ls\r" }),
        (2, Body::Mark(Mark::Exit(ExitStatus::Code(3)))),
    ]));
    assert_eq!((summary.input.records, summary.input.bytes, summary.exit), (1, 3, Some(ExitStatus::Code(3))));
}

#[test]
fn output_jump_is_damage_unless_marked() {
    let jump = [(0, data(0, "abc")), (1, data(10, "def")), (2, data(12, "ghi"))];
    let (summary, faults) = inspect_all(&recording(&jump));
    assert_eq!(faults, ["output bytes 3..10 are missing", "output bytes 12..13 are repeated"]);
    assert_eq!((summary.damaged, summary.is_intact()), (2, false));
    let marked = [(0, data(0, "abc")), (1, Body::Mark(Mark::Gap(1))), (1, data(10, "def"))];
    assert!(inspect_all(&recording(&marked)).0.is_intact());
}

#[test]
fn damaged_block_is_reported_once() {
    let mut file = sample();
    let starts: Vec<usize> = (0..file.len()).filter(|at| file[*at..].starts_with(b"AHRC")).collect();
    file[starts[3] + 45] ^= 0xff;
    let (summary, faults) = inspect_all(&file);
    assert_eq!((summary.damaged, summary.blocks, faults.len()), (1, 9, 1));
    assert!(faults[0].contains("output bytes 20..47 are missing"), "{faults:?}");
    let cut = &sample()[..starts[8] + 50];
    let (summary, faults) = inspect_all(cut);
    assert!(!summary.is_intact() && !summary.finished && faults.len() == 1, "{faults:?}");
}

#[test]
fn visitor_can_stop_inspection() {
    #[derive(Debug, PartialEq)]
    struct Stop;
    impl From<AhrError> for Stop {
        fn from(_: AhrError) -> Stop {
            Stop
        }
    }
    assert_eq!(inspect(&mut reader(&sample()), |_| Err(Stop)), Err(Stop));
}
