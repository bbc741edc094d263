//! The index sidecar: extended when the recording grows, rebuilt when it does not match.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nerve_record::ahr::Writer;
use nerve_record::index::{Index, Position, SPACING};
use nerve_record::playback::Playback;
use nerve_types::Size;

use crate::{GeneratedRecording, replay_from_start, write_file};

fn assert_screen_at(path: &std::path::Path, offset: u64) {
    let to = Position::Offset(offset);
    let mut play = Playback::open(path, Size::default()).unwrap();
    play.seek(to).unwrap();
    assert_eq!(play.replay().terminal.screen(), replay_from_start(path, to).terminal.screen(), "{offset}");
}

#[test]
fn index_of_growing_recording_is_extended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("growing.ahr");
    let mut writer = Writer::create(&path).unwrap();
    let mut generated = GeneratedRecording::new(Size::new(60, 12));
    let mut before: Option<Vec<u8>> = None;
    for round in 1..=2 {
        while generated.segment.end() < round * SPACING + 100_000 {
            generated.burst();
        }
        generated.write(&mut writer);
        let index = Index::ensure(&path).unwrap().unwrap();
        assert_eq!((u64::from(index.keyframes()), index.covered()), (round, writer.len()));
        assert_eq!(index.end().0, generated.segment.end());
        // Known entries are reused: the first keyframe's entry is identical except for the position of its dump.
        let bytes = fs::read(Index::sidecar_path(&path)).unwrap();
        if let Some(before) = before {
            assert_eq!(bytes[64..96], before[64..96]);
        }
        before = Some(bytes);
        assert_screen_at(&path, generated.segment.end() - 50_000);
    }
    // Half a block of growth does not cause an update.
    let old = fs::read(Index::sidecar_path(&path)).unwrap();
    generated.burst();
    generated.write(&mut writer);
    assert_screen_at(&path, generated.segment.end() - 1);
    assert_eq!(fs::read(Index::sidecar_path(&path)).unwrap(), old);
    // An index built at once equals the extended one.
    let grown = Index::open(&path).unwrap();
    let frames = grown.keyframes();
    fs::remove_file(Index::sidecar_path(&path)).unwrap();
    let rebuilt = Index::ensure(&path).unwrap().unwrap();
    assert_eq!(rebuilt.keyframes(), frames);
    for offset in [SPACING + 50_000, u64::MAX] {
        let to = Position::Offset(offset);
        assert_eq!(
            rebuilt.keyframe_before(to).map(|(frame, position)| (frame.offset, frame.dump, position)),
            grown.keyframe_before(to).map(|(frame, position)| (frame.offset, frame.dump, position))
        );
    }
}

#[test]
fn mismatched_index_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ahr");
    let mut generated = GeneratedRecording::new(Size::new(60, 12));
    while generated.segment.end() < SPACING + 100_000 {
        generated.burst();
    }
    let bytes = generated.bytes();
    write_file(&path, &bytes);
    let index = Index::ensure(&path).unwrap().unwrap();
    assert_eq!(index.keyframes(), 1);
    let sidecar = Index::sidecar_path(&path);
    assert_eq!(sidecar.file_name().unwrap(), "a.ahr.index");
    assert_eq!(fs::metadata(&sidecar).unwrap().permissions().mode() & 0o777, 0o600);
    let good = fs::read(&sidecar).unwrap();

    // The recording was truncated or replaced.
    write_file(&path, &bytes[..bytes.len() - 1]);
    assert!(Index::open(&path).is_none());
    let mut other = bytes.clone();
    other[100] ^= 1;
    write_file(&path, &other);
    assert!(Index::open(&path).is_none());
    write_file(&path, &bytes);
    assert!(Index::open(&path).is_some());

    // The sidecar has another version, is damaged in its head, truncated, empty, or claims too much.
    for (at, byte) in [(4, 9), (0, b'X'), (20, 0xff), (27, 0xff)] {
        let mut bad = good.clone();
        bad[at] = byte;
        write_file(&sidecar, &bad);
        assert!(Index::open(&path).is_none(), "byte {at}");
    }
    for len in [0, 30, 64, good.len() / 8] {
        write_file(&sidecar, &good[..len]);
        assert!(Index::open(&path).is_none(), "{len} bytes");
    }
    // Damage anywhere never leads to a wrong screen.
    for at in (64..good.len()).step_by(97) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        write_file(&sidecar, &bad);
        if at % 20 == 0 || at > good.len() - 200 {
            assert_screen_at(&path, generated.segment.end() - 1000);
        } else if let Some(index) = Index::open(&path) {
            let _ = index.keyframe_before(Position::Offset(u64::MAX));
            let _ = index.block_before(Position::Offset(u64::MAX));
        }
    }
}

#[test]
fn unwritable_index_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ahr");
    let mut generated = GeneratedRecording::new(Size::new(60, 12));
    while generated.segment.end() < SPACING + 100_000 {
        generated.burst();
    }
    write_file(&path, &generated.bytes());
    // A folder in place of the sidecar: not even root can replace it.
    fs::create_dir(Index::sidecar_path(&path)).unwrap();
    fs::write(Index::sidecar_path(&path).join("x"), "x").unwrap();
    assert!(Index::ensure(&path).unwrap().is_none());
    assert_screen_at(&path, generated.segment.end() - 1000);
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "temporary file left: {names:?}");
}
