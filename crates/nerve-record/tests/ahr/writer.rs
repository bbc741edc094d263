use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use nerve_record::ahr::{AhrError, Part, ROTATE_BYTES, Reader, Segment, Writer};

use super::{counting, data, noise, read, shape};

#[test]
fn blocks_are_appended_to_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.ahr");
    let mut writer = Writer::create(&path).unwrap();
    assert_eq!((writer.path(), writer.len(), writer.is_empty()), (&*path, 0, true));
    let blocks = counting(&[1, 2, 3]);
    for block in &blocks {
        writer.append(block).unwrap();
    }
    writer.sync().unwrap();
    assert_eq!(fs::read(&path).unwrap(), blocks.concat());
    assert_eq!(writer.len(), blocks.concat().len() as u64);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn second_recorder_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.ahr");
    let mut first = Writer::create(&path).unwrap();
    // Both while the file is empty and when it is not.
    assert!(matches!(Writer::create(&path), Err(AhrError::Busy { .. })));
    first.append(&counting(&[1])[0]).unwrap();
    let error = Writer::create(&path).unwrap_err();
    assert!(matches!(error, AhrError::Busy { .. }));
    assert!(error.to_string().contains("one.ahr is being written by another recorder"), "{error}");
    // Readers are not locked out.
    assert!(matches!(Reader::open(&path).unwrap().next(), Ok(Some(Part::Block(_)))));

    drop(first);
    assert!(matches!(Writer::create(&path), Err(AhrError::Exists { .. })));
    assert_eq!(fs::read(&path).unwrap(), counting(&[1])[0]);
}

#[test]
fn empty_file_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.ahr");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    Writer::create(&path).unwrap().append(&counting(&[1])[0]).unwrap();
    assert_eq!(shape(&read(fs::read(&path).unwrap())), "B");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600,
        "recording is readable by others"
    );
}

#[test]
fn non_regular_file_is_rejected_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    fs::write(at("real"), "").unwrap();
    symlink(at("real"), at("link")).unwrap();
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    for name in ["folder", "link", "pipe"] {
        assert!(matches!(Writer::create(&at(name)), Err(AhrError::NotAFile { .. })), "{name}");
    }
    for name in ["folder", "pipe"] {
        assert!(matches!(Reader::open(&at(name)), Err(AhrError::NotAFile { .. })), "{name}");
    }
    assert!(matches!(Writer::create(&at("missing/new.ahr")), Err(AhrError::Io { .. })));
    assert!(matches!(Reader::open(&at("missing")), Err(AhrError::Io { .. })));
}

#[test]
fn segment_reports_fill_and_contents() {
    let bytes = noise(1, ROTATE_BYTES - 24);
    let mut segment = Segment::new(500);
    assert_eq!((segment.start(), segment.end(), segment.first_at()), (500, 500, None));
    segment.push(&data(7, 500, &bytes[1..])).unwrap();
    assert!(!segment.is_full());
    segment.push(&data(8, 500 + bytes.len() as u64 - 1, b"x")).unwrap();
    assert!(segment.is_full());
    assert_eq!((segment.records(), segment.end()), (2, 500 + bytes.len() as u64));
    assert_eq!(segment.first_at(), Some(super::at(7)));
    // Incompressible data grows by a few bytes only.
    let block = segment.seal(4, true);
    assert!(block.len() < segment.len() + 100, "{} of {}", block.len(), segment.len());
}

#[test]
fn all_qualities_round_trip() {
    let bytes = noise(1, 1000).repeat(10);
    for quality in 0..=12 {
        let mut segment = Segment::new(0);
        segment.push(&data(0, 0, &bytes)).unwrap();
        assert_eq!(super::output(&read(segment.seal(quality, false))), bytes, "quality {quality}");
    }
}
