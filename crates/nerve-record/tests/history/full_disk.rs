use std::fs;

use nerve_record::history::{Filter, HistoryReader, HistoryWriter};
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
    assert_eq!(writer.log_run(at(0), "fits"), 1);
    // Leaves space for only part of the next entry.
    assert_eq!(writer.log_write(at(0), &"x".repeat(100 << 10)), 0);
    assert_eq!(writer.log_interrupt(at(0)), 0);
    assert_eq!((writer.lost(), writer.seq(), writer.is_enabled()), (2, 3, true));

    let path = writer.path().unwrap().to_path_buf();
    assert!(!fs::read(&path).unwrap().ends_with(b"\n"));
    disk.resize("1m");
    assert_eq!(writer.log_run(at(0), "room again"), 4);
    assert_eq!(writer.log_close(at(0), None), 5);
    assert_eq!(writer.lost(), 2);

    let page =
        HistoryReader::open(folder.path(), "server", "node").unwrap().query(&Filter::default()).unwrap();
    assert_eq!((page.total, page.malformed), (3, 1));
    assert!(page.entries[1].contains("room again"));
}
