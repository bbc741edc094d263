use std::fs;

use nerve_record::ahr::Writer;
use nerve_testkit::harness::SmallDisk;

use super::{data, noise, output, read, sealed, shape};

#[test]
fn partial_block_after_full_disk_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount("partial_block_after_full_disk_is_removed", folder.path(), "64k")
    else {
        return;
    };
    let path = folder.path().join("full.ahr");
    let mut writer = Writer::create(&path).unwrap();
    let fits = noise(1, 20_000);
    let block = sealed(&[data(0, 0, &fits)]);
    writer.append(&block).unwrap();
    // Some pages fit, and would remain without truncation.
    let large = sealed(&[data(1, 20_000, &noise(2, 100_000))]);
    for _ in 0..2 {
        assert_eq!(writer.append(&large).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), block);
    }
    // A short block fits; a long one fits when there is space again.
    writer.append(&sealed(&[data(2, 20_000, b"small")])).unwrap();
    disk.resize("1m");
    writer.append(&large).unwrap();
    let parts = read(fs::read(&path).unwrap());
    assert_eq!(shape(&parts), "BBB");
    assert_eq!(output(&parts).len(), 20_000 + 5 + 100_000);
    assert_eq!(writer.len(), fs::metadata(&path).unwrap().len());
}
