use std::fs;
use std::path::PathBuf;

use nerve_record::ahr::{AhrError, Body, HEADER_LEN, Mark, Part, Record, RepairReport, Segment, repair};

use super::{
    at, blocks, counting, data, fixture, foreign, lost, output, patch, read, records, sealed, shape,
};

struct RepairDir {
    folder: tempfile::TempDir,
}

impl RepairDir {
    fn with(bytes: &[u8]) -> RepairDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("from.ahr"), bytes).unwrap();
        RepairDir { folder }
    }

    fn to(&self) -> PathBuf {
        self.folder.path().join("to.ahr")
    }

    fn repair(&self) -> Result<RepairReport, AhrError> {
        repair(&self.folder.path().join("from.ahr"), &self.to())
    }

    /// Reads the copy, which must be intact.
    fn copy(&self) -> Vec<Part> {
        let parts = read(fs::read(self.to()).unwrap());
        assert_eq!(lost(&parts), Vec::<&nerve_record::ahr::DamagedRange>::new());
        for block in blocks(&parts) {
            assert_eq!(block.damage(), None);
        }
        assert!(blocks(&parts).last().unwrap().header.last);
        parts
    }
}

fn gaps(parts: &[Part]) -> Vec<Record<'_>> {
    records(parts).into_iter().filter(|record| matches!(record.body, Body::Mark(Mark::Gap(_)))).collect()
}

#[test]
fn damaged_middle_becomes_gap() {
    let mut bytes = fs::read(fixture("multiblock.ahr")).unwrap();
    let original = read(&bytes);
    bytes[66_982] ^= 0x55;
    let dir = RepairDir::with(&bytes);
    let report = dir.repair().unwrap();
    assert_eq!((report.blocks, report.repacked, report.records), (6, 0, 316));
    assert_eq!((report.output, report.gaps, report.stretches), (1_241_240, 1, 1));
    assert_eq!(report.lost[0].output, Some(260_260..520_520));

    let copy = dir.copy();
    assert_eq!(shape(&copy), "BBBBBBB");
    let next = blocks(&copy)[3];
    assert_eq!(gaps(&copy), [Record { at: next.header.start, body: Body::Mark(Mark::GAP_REPAIRED) }]);
    assert_eq!(blocks(&copy)[2].output(), 260_260..260_260);
    let rest: Vec<Record<'_>> =
        [0, 1, 3, 4, 5, 6].iter().flat_map(|&n| blocks(&original)[n].records()).collect();
    let kept: Vec<Record<'_>> =
        records(&copy).into_iter().filter(|record| !matches!(record.body, Body::Mark(_))).collect();
    assert_eq!(kept, rest);
    assert_eq!(fs::read(dir.folder.path().join("from.ahr")).unwrap(), bytes, "original changed");
}

#[test]
fn lost_end_becomes_gap_and_final_block() {
    let mut bytes = fs::read(fixture("multiblock.ahr")).unwrap();
    bytes.truncate(384_296);
    let dir = RepairDir::with(&bytes);
    let report = dir.repair().unwrap();
    assert_eq!((report.blocks, report.records, report.gaps), (6, 332, 1));
    let copy = dir.copy();
    assert_eq!(shape(&copy), "BBBBBBBB");
    assert_eq!(gaps(&copy).len(), 1);
    let last_kept = blocks(&copy)[5].records().last().unwrap().at;
    assert_eq!(gaps(&copy)[0].at, last_kept);
    assert_eq!(blocks(&copy)[7].header.start, last_kept);
}

#[test]
fn intact_recording_is_copied_unchanged() {
    let bytes = fs::read(fixture("snapshots.ahr")).unwrap();
    let dir = RepairDir::with(&bytes);
    let report = dir.repair().unwrap();
    assert_eq!((report.blocks, report.repacked, report.gaps, report.stretches), (5, 0, 0, 0));
    assert_eq!(fs::read(dir.to()).unwrap(), bytes);
}

#[test]
fn garbage_is_dropped_and_final_block_added() {
    let [one, two] = counting(&[1, 2]).try_into().unwrap();
    let dir = RepairDir::with(&[&one[..], b"garbage", &two[..]].concat());
    let report = dir.repair().unwrap();
    assert_eq!((report.blocks, report.gaps, report.stretches), (2, 0, 1));
    let copy = fs::read(dir.to()).unwrap();
    assert_eq!(copy[..one.len() + two.len()], [one, two].concat());
    assert_eq!(shape(&dir.copy()), "BBB");
}

#[test]
fn partially_readable_blocks_are_recompressed() {
    let mut segment = Vec::new();
    data(1, 0, b"kept").encode(&mut segment).unwrap();
    segment.extend([9; 20]);
    let unknown_tag = foreign(&segment, 2, 16);
    let mut wrong_count = sealed(&[data(2, 4, b"too")]);
    patch(&mut wrong_count, 32, 5_u32.to_le_bytes());
    let mut wide = foreign(&segment[..28], 1, 16);
    wide.splice(HEADER_LEN..HEADER_LEN, [0; 4]);
    let mut resealed = Segment::new(7);
    resealed.push(&Record { at: at(3), body: Body::Resize { cols: 80, rows: 24 } }).unwrap();

    let dir = RepairDir::with(&[unknown_tag, wrong_count, resealed.seal(4, false), wide].concat());
    let report = dir.repair().unwrap();
    assert_eq!((report.blocks, report.repacked, report.stretches), (4, 3, 2));
    // Only records after the unknown one may be missing.
    assert_eq!(report.gaps, 1);
    let copy = dir.copy();
    assert_eq!(output(&copy), b"kepttookept");
    assert!(matches!(blocks(&copy)[1].records().next().unwrap().body, Body::Mark(Mark::Gap(2))));
}

#[test]
fn repair_never_overwrites_and_rejects_missing_source() {
    let dir = RepairDir::with(&counting(&[1])[0]);
    fs::write(dir.to(), "precious").unwrap();
    assert!(matches!(dir.repair(), Err(AhrError::Exists { .. })));
    assert_eq!(fs::read(dir.to()).unwrap(), b"precious");

    let from = dir.folder.path().join("from.ahr");
    assert!(matches!(repair(&from, &from), Err(AhrError::Exists { .. })));
    assert_eq!(fs::read(&from).unwrap(), counting(&[1])[0]);

    let dir = RepairDir::with(b"");
    dir.repair().unwrap();
    assert_eq!(shape(&dir.copy()), "B");
}
