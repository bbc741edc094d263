//! Copies of directories without git.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::time::{Duration, SystemTime};

use nerve_record::files::{CopyProvider, FilesError, Provider, choose, find_provider};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::{Fixture, MEGABYTE, REQUEST, key, listing};

fn provider(fixture: &Fixture) -> CopyProvider {
    CopyProvider::new(&fixture.work(), &fixture.store(), MEGABYTE).unwrap()
}

#[test]
fn files_links_modes_and_times_are_restored() {
    let fixture = Fixture::new();
    fixture.put("a.txt", "one");
    fixture.put("deep/er/b", [0, 255, 10]);
    fixture.put("run.sh", "#!/bin/sh\n");
    fixture.put("readonly/inside", "x");
    fs::create_dir(fixture.work().join("empty")).unwrap();
    fs::write(fixture.work().join(OsStr::from_bytes(b"not\xffutf8\n")), "n").unwrap();
    symlink("a.txt", fixture.work().join("link")).unwrap();
    symlink("../../outside", fixture.work().join("dangling")).unwrap();
    symlink(".", fixture.work().join("loop")).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    fs::File::open(fixture.work().join("a.txt")).unwrap().set_modified(time).unwrap();
    let mode = |path: &str, mode| {
        fs::set_permissions(fixture.work().join(path), Permissions::from_mode(mode)).unwrap();
    };
    mode("run.sh", 0o750);
    mode("a.txt", 0o640);
    mode("readonly", 0o500);
    let before = listing(&fixture.work());

    let taken = provider(&fixture).take(&key(3), &REQUEST).unwrap();
    assert_eq!(taken.left_out, Vec::<String>::new());
    assert!(["copy", "reflink"].contains(&taken.files.provider.as_str()), "{taken:?}");
    assert_eq!((taken.files.source.clone(), taken.files.reference.as_str()), (fixture.work(), "session-1/3"));

    // Found by its reference, even if the original no longer exists.
    fs::set_permissions(fixture.work().join("readonly"), Permissions::from_mode(0o700)).unwrap();
    fs::remove_dir_all(fixture.work()).unwrap();
    let (provider, found) = find_provider(&taken.files, &fixture.store()).unwrap();
    assert_eq!((provider.keys().unwrap(), &found), (vec![key(3)], &key(3)));
    assert_eq!(provider.restore(&found, &fixture.target()).unwrap(), Vec::<String>::new());
    assert_eq!(listing(&fixture.target()), before);
    let meta = |path: &str| fixture.target().join(path).metadata().unwrap();
    let modes = ["run.sh", "a.txt", "readonly"].map(|path| meta(path).permissions().mode() & 0o7777);
    assert_eq!(modes, [0o750, 0o640, 0o500]);
    assert_eq!(meta("a.txt").modified().unwrap(), time);
    assert!(meta("empty").is_dir());
}

#[test]
fn unchanged_files_are_shared_with_the_latest_copy() {
    let fixture = Fixture::new();
    let big = vec![7; 700 << 10];
    fixture.put("big", &big);
    fixture.put("same", "one");
    fixture.put("touched", "one");
    let copy = |id: u64, file: &str| fixture.store().root().join(format!("session-1/{id}")).join(file);
    let inode = |id, file: &str| copy(id, file).metadata().unwrap().ino();
    let first = provider(&fixture).take(&key(1), &REQUEST).unwrap();
    if first.files.provider == "reflink" {
        return;
    }
    // A change that keeps size and time of the file.
    let time = fixture.work().join("touched").metadata().unwrap().modified().unwrap();
    fixture.put("touched", "two");
    fs::File::options().write(true).open(fixture.work().join("touched")).unwrap().set_modified(time).unwrap();
    // Together with the first file it exceeds the limit of what is copied.
    fixture.put("new", &big);
    let before = listing(&fixture.work());
    provider(&fixture).take(&key(2), &REQUEST).unwrap();
    for file in ["big", "same"] {
        assert_eq!(inode(1, file), inode(2, file), "{file}");
    }
    assert_ne!(inode(1, "touched"), inode(2, "touched"));
    assert_eq!(fs::read_to_string(copy(1, "touched")).unwrap(), "one");
    assert_eq!(fs::read_to_string(copy(2, "touched")).unwrap(), "two");

    // Copies do not depend on each other, and a restored file is a new one.
    fs::remove_dir_all(copy(1, "")).unwrap();
    provider(&fixture).restore(&key(2), &fixture.target()).unwrap();
    assert_eq!(listing(&fixture.target()), before);
    assert_ne!(fixture.target().join("big").metadata().unwrap().ino(), inode(2, "big"));
    assert_eq!(provider(&fixture).keys().unwrap(), [key(2)]);
}

#[test]
fn sweep_forgets_latest_copies_that_are_gone() {
    let fixture = Fixture::new();
    fixture.put("a", "a");
    let index = fixture.store().root().join(".latest");
    let entries = || fs::read_dir(&index).unwrap().count();
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
    fixture.store().sweep();
    assert_eq!(entries(), 1, "the directory and its copy exist");
    fs::write(index.join("damaged"), "nothing").unwrap();
    fs::remove_dir_all(fixture.store().root().join("session-1/1")).unwrap();
    let unfinished = index.join(".new-AbCdEf");
    fs::write(&unfinished, "").unwrap();
    fixture.store().sweep();
    assert_eq!(entries(), 1, "the copy is gone; another process writes an entry");
    fs::remove_file(unfinished).unwrap();
    provider(&fixture).take(&key(2), &REQUEST).unwrap();
    fs::remove_dir_all(fixture.work()).unwrap();
    fixture.store().sweep();
    assert_eq!(entries(), 0, "the directory is gone");
}

#[test]
fn special_files_are_skipped_and_reported() {
    let fixture = Fixture::new();
    fixture.put("a", "a");
    let _socket = UnixListener::bind(fixture.work().join("sock")).unwrap();
    mknodat(CWD, fixture.work().join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let mut left_out = provider(&fixture).take(&key(1), &REQUEST).unwrap().left_out;
    left_out.sort();
    assert_eq!(left_out, [r#""pipe": a named pipe"#, r#""sock": a socket"#]);
    provider(&fixture).restore(&key(1), &fixture.target()).unwrap();
    assert_eq!(listing(&fixture.target()).into_keys().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn oversized_copy_is_rejected_without_leftovers() {
    let fixture = Fixture::new();
    let put_both = |byte: u8| ["a", "b"].map(|name| fixture.put(name, vec![byte; 600 << 10]));
    put_both(b'x');
    let shares_blocks = CopyProvider::new(&fixture.work(), &fixture.store(), u64::MAX)
        .and_then(|provider| provider.take(&key(1), &REQUEST))
        .unwrap()
        .files
        .provider
        == "reflink";
    // Unchanged files would be shared with the first copy.
    put_both(b'y');
    let taken = provider(&fixture).take(&key(2), &REQUEST);
    if shares_blocks {
        assert_eq!(taken.unwrap().files.provider, "reflink");
        return;
    }
    let error = taken.unwrap_err();
    assert!(matches!(error, FilesError::TooLarge { bytes: 1_228_800, limit: MEGABYTE, .. }), "{error:?}");
    assert!(error.to_string().contains("1228800 bytes to copy, more than the limit of 1048576"), "{error}");
    assert_eq!(provider(&fixture).keys().unwrap(), [key(1)]);
    let session = fixture.store().root().join("session-1");
    let mut names: Vec<_> = fs::read_dir(session).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["1", "lock"]);
}

#[test]
fn store_is_excluded_from_its_snapshots() {
    let fixture = Fixture::new();
    fixture.put("a", "a");
    let store = nerve_record::files::FileStore::new(fixture.work().join(".nerve/snapshots"));
    let provider = CopyProvider::new(&fixture.work(), &store, MEGABYTE).unwrap();
    for id in 1..=3 {
        provider.take(&key(id), &REQUEST).unwrap();
    }
    provider.restore(&key(3), &fixture.target()).unwrap();
    assert_eq!(listing(&fixture.target()).into_keys().collect::<Vec<_>>(), ["a"]);
    for inside in ["", "session-1", "session-1/1"] {
        let refused = CopyProvider::new(&store.root().join(inside), &store, MEGABYTE);
        assert!(matches!(refused, Err(FilesError::OwnStore { .. })), "{inside}");
    }
}

#[test]
fn snapshot_is_taken_once_and_restored_only_into_empty_dir() {
    let fixture = Fixture::new();
    fixture.put("a", "old");
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
    fixture.put("a", "new");
    assert!(matches!(provider(&fixture).take(&key(1), &REQUEST), Err(FilesError::Exists { .. })));
    assert!(matches!(
        provider(&fixture).restore(&key(2), &fixture.target()),
        Err(FilesError::NotFound { .. })
    ));
    assert!(!fixture.target().exists());
    let error = provider(&fixture).restore(&key(1), &fixture.work()).unwrap_err();
    assert!(matches!(error, FilesError::NotEmpty { .. }));
    assert_eq!(listing(&fixture.work())["a"], "new");
    // An empty directory is accepted.
    fs::create_dir(fixture.target()).unwrap();
    provider(&fixture).restore(&key(1), &fixture.target()).unwrap();
    assert_eq!(listing(&fixture.target())["a"], "old");
}

#[test]
fn leftovers_of_killed_process_are_removed() {
    let fixture = Fixture::new();
    fixture.put("a", "a");
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
    let scratch = fixture.store().root().join("session-1/scratch/copy/half");
    fs::create_dir_all(&scratch).unwrap();
    provider(&fixture).take(&key(2), &REQUEST).unwrap();
    assert!(!fixture.store().root().join("session-1/scratch").exists());
    assert_eq!(provider(&fixture).keys().unwrap(), [key(1), key(2)]);
}

#[test]
fn directory_without_git_is_copied_and_missing_one_fails() {
    let fixture = Fixture::new();
    fixture.put("a", "a");
    let taken = choose(&fixture.work(), &fixture.store(), MEGABYTE).unwrap().take(&key(1), &REQUEST).unwrap();
    assert_ne!(taken.files.provider, "git");
    let missing = choose(&fixture.target(), &fixture.store(), MEGABYTE);
    assert!(missing.err().unwrap().to_string().contains("restored"));
    fixture.put("file", "f");
    assert!(choose(&fixture.work().join("file"), &fixture.store(), MEGABYTE).is_err());
}

#[test]
fn restored_directory_is_as_private_as_its_source() {
    for mode in [0o700, 0o755] {
        let fixture = Fixture::new();
        fixture.put("a.txt", "one");
        fs::set_permissions(fixture.work(), Permissions::from_mode(mode)).unwrap();
        provider(&fixture).take(&key(3), &REQUEST).unwrap();
        provider(&fixture).restore(&key(3), &fixture.target()).unwrap();
        assert_eq!(fixture.target().metadata().unwrap().mode() & 0o777, mode);
    }
}
