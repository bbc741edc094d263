use std::fs;

use nerve_record::history::{Filter, HistoryReader, HistoryWriter, Operation};
use nerve_testkit::harness::SmallDisk;

use super::at;

#[test]
fn full_disk_loses_entries_and_then_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount("full_disk_loses_entries_and_then_recovers", folder.path(), "64k")
    else {
        return;
    };
    let mut writer = HistoryWriter::create(folder.path(), "server", "node").unwrap();
    assert_eq!(writer.log(&Operation::Run { ts: at(0), input: "fits" }), 1);
    // Leaves space for only part of the next entry.
    assert_eq!(writer.log(&Operation::Write { ts: at(0), input: &"x".repeat(100 << 10) }), 0);
    assert_eq!(writer.log(&Operation::Interrupt { ts: at(0) }), 0);
    assert_eq!((writer.lost(), writer.seq(), writer.is_enabled()), (2, 3, true));

    let path = writer.path().unwrap().to_path_buf();
    assert!(!fs::read(&path).unwrap().ends_with(b"\n"));
    disk.resize("1m");
    assert_eq!(writer.log(&Operation::Run { ts: at(0), input: "room again" }), 4);
    assert_eq!(writer.log(&Operation::Close { ts: at(0), reason: None }), 5);
    assert_eq!(writer.lost(), 2);

    let page =
        HistoryReader::open(folder.path(), "server", "node").unwrap().query(&Filter::default()).unwrap();
    assert_eq!((page.total, page.malformed), (3, 1));
    assert!(page.entries[1].contains("room again"));
}
