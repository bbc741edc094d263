//! Contradictions between intact blocks: offsets and times.

use std::fs;
use std::path::Path;

use nerve_record::ahr::{Body, Contradiction, Part, Reader, Record, Segment, repair};
use nerve_record::library::RecordingInfo;
use nerve_record::meta::Meta;
use nerve_types::TsNs;

use crate::{START, at, data, patch, read, records, sealed};

/// 219 years.
const FAR: u64 = 219 * 365 * 24 * 60 * 60 * 1000;

fn contradictions(bytes: &[u8]) -> Vec<Contradiction> {
    let mut reader = Reader::new(std::io::Cursor::new(bytes)).unwrap();
    while reader.next().unwrap().is_some() {}
    reader.contradictions().cloned().collect()
}

fn times(bytes: &[u8]) -> Vec<TsNs> {
    records(&read(bytes)).iter().map(|record| record.at).collect()
}

#[test]
fn flipped_time_of_record_becomes_time_before() {
    let file = [
        sealed(&[data(0, 0, b"a"), data(10, 1, b"b")]),
        sealed(&[data(20, 2, b"c"), data(FAR, 3, b"d"), data(30, 4, b"e")]),
        sealed(&[data(40, 5, b"f")]),
    ];
    let second = file[0].len() as u64;
    assert_eq!(times(&file.concat()), [at(0), at(10), at(20), at(20), at(30), at(40)]);
    let found = Contradiction::Times { block: second, count: 1, first: at(FAR) };
    assert_eq!(contradictions(&file.concat()), [found]);
}

#[test]
fn times_of_any_single_block_are_bounded() {
    for flipped in 0..3 {
        for wrong in [at(FAR), TsNs(START ^ 1 << 60), TsNs(u64::MAX), TsNs(7)] {
            let block = |nth: u64| {
                let at = if nth == flipped { wrong } else { at(nth * 10) };
                sealed(&[Record { at, body: Body::Data { off: nth, bytes: b"x" } }])
            };
            let file = [block(0), block(1), block(2)].concat();
            let mut reader = Reader::new(std::io::Cursor::new(&file)).unwrap();
            let (mut first, mut last) = (None, TsNs(0));
            while let Some(Part::Block(block)) = reader.next().unwrap() {
                for record in block.records() {
                    first.get_or_insert(record.at);
                    last = last.max(record.at);
                }
            }
            assert!(
                last.since(first.unwrap()).as_secs() == 0,
                "block {flipped} at {wrong:?}: {first:?} to {last:?}"
            );
            assert!(reader.contradictions().next().is_some(), "block {flipped} at {wrong:?}");
        }
    }
}

#[test]
fn damaged_header_changes_no_time_of_other_blocks() {
    const START_FIELD: usize = 8;
    let file = || {
        [
            sealed(&[data(0, 0, b"a"), data(5, 1, b"b")]),
            sealed(&[data(9, 2, b"c")]),
            sealed(&[data(9, 3, b"d")]),
        ]
    };
    let clean = times(&file().concat());
    for (nth, wrong) in [
        (0, 7),
        (1, 7),
        (2, 7),
        (0, START ^ 1 << 54),
        (1, START ^ 1 << 54),
        (1, START ^ 1 << 60),
        (2, u64::MAX),
    ] {
        let mut damaged = file();
        patch(&mut damaged[nth], START_FIELD, u64::to_le_bytes(wrong));
        assert_eq!(times(&damaged.concat()), clean, "header {nth}: {wrong}");
    }
    let mut empty = Segment::new(0).seal(4, false);
    patch(&mut empty, START_FIELD, u64::to_le_bytes(START ^ 1 << 60));
    assert_eq!(times(&[empty, file().concat()].concat()), clean);
}

#[test]
fn metadata_bound_times_of_only_block() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ahr");
    fs::write(&path, sealed(&[data(0, 0, b"a"), data(FAR / 1000, 1, b"b")])).unwrap();
    let read = |path: &Path| {
        let mut reader = Reader::open(path).unwrap();
        let Some(Part::Block(block)) = reader.next().unwrap() else { panic!("no block") };
        (block.records().map(|record| record.at).collect::<Vec<_>>(), reader.contradictions().count())
    };
    assert_eq!(read(&path), (vec![at(0), at(FAR / 1000)], 0), "80 days are possible");
    let meta = Meta { started_at: at(0), ended_at: Some(at(50)), ..Meta::default() };
    meta.store(&path).unwrap();
    assert_eq!(read(&path), (vec![at(0), at(0)], 1));
    // Metadata of another session is not trusted.
    Meta { started_at: at(FAR), ended_at: Some(at(FAR)), ..meta }.store(&path).unwrap();
    assert_eq!(read(&path).1, 0);
}

#[test]
fn flipped_time_does_not_lengthen_listed_session() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ahr");
    let last = sealed(&[data(30, 1, b"b"), data(FAR, 2, b"c")]);
    fs::write(&path, [sealed(&[data(0, 0, b"a")]), last].concat()).unwrap();
    let duration = RecordingInfo::read(&path).unwrap().duration.unwrap();
    assert_eq!(duration.as_millis(), 30);
    let clean = dir.path().join("b.ahr");
    assert_eq!(repair(&path, &clean).unwrap().repacked, 1);
    assert_eq!(contradictions(&fs::read(&clean).unwrap()), []);
}

#[test]
fn repeated_and_missing_output_is_found_by_reader() {
    let file =
        [sealed(&[data(0, 0, b"abc")]), sealed(&[data(1, 10, b"def")]), sealed(&[data(2, 12, b"ghi")])];
    let found = [Contradiction::Missing(3..10), Contradiction::Repeated(12..13)];
    assert_eq!(contradictions(&file.concat()), found);
    // After a seek, the offset before is unknown.
    let mut reader = Reader::new(std::io::Cursor::new(file.concat())).unwrap();
    reader.seek_to(file[0].len() as u64).unwrap();
    reader.next().unwrap();
    assert_eq!(reader.contradictions().count(), 0);
}
