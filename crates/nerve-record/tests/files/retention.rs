//! The size limit of the store.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use nerve_record::files::{CopyProvider, DiskUsage, FilesError, ProtectedCopies, Provider, TrimSummary};

use crate::{Fixture, MEGABYTE, REQUEST, key};

/// Creates a copy that was taken `age` seconds ago, with a file of its own of 1000 bytes.
fn copy(fixture: &Fixture, id: u64, age: u64) -> PathBuf {
    let path = fixture.store().root().join(key(id).to_string());
    fs::create_dir_all(path.join("deep")).unwrap();
    fs::write(path.join("deep/own"), [b'x'; 1000]).unwrap();
    set_age(&path, age);
    path
}

fn set_age(path: &PathBuf, age: u64) {
    File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
}

fn removed_ids(summary: &TrimSummary) -> Vec<u64> {
    summary.removed.iter().map(|(key, _)| key.id()).collect()
}

#[test]
fn oldest_copies_are_removed_until_the_rest_fits() {
    let fixture = Fixture::new();
    let store = fixture.store();
    let paths = [(1, 10), (2, 30), (3, 20)].map(|(id, age)| copy(&fixture, id, age));
    let none = ProtectedCopies::default();
    assert_eq!(removed_ids(&store.trim(3000, &none, false)), [0; 0]);
    let planned = store.trim(1500, &none, true);
    assert_eq!((removed_ids(&planned), planned.kept), (vec![2, 3], DiskUsage { files: 1, bytes: 1000 }));
    assert!(paths.iter().all(|path| path.exists()), "a dry run removes nothing");
    assert_eq!(store.trim(1500, &none, false), planned);
    assert_eq!(paths.map(|path| path.exists()), [true, false, false]);
}

#[test]
fn shared_files_are_freed_with_their_last_copy() {
    let fixture = Fixture::new();
    let (first, second) = (copy(&fixture, 1, 20), copy(&fixture, 2, 10));
    fs::write(first.join("shared"), [b'y'; 5000]).unwrap();
    fs::hard_link(first.join("shared"), second.join("shared")).unwrap();
    set_age(&first, 20);
    set_age(&second, 10);
    let trimmed = fixture.store().trim(6999, &ProtectedCopies::default(), false);
    assert_eq!(removed_ids(&trimmed), [1]);
    assert_eq!((trimmed.freed.bytes, trimmed.kept.bytes), (1000, 6000));
    let trimmed = fixture.store().trim(0, &ProtectedCopies::default(), false);
    assert_eq!((trimmed.freed.bytes, trimmed.kept), (6000, DiskUsage::default()));
}

#[test]
fn protected_and_locked_copies_stay() {
    let fixture = Fixture::new();
    let store = fixture.store();
    let paths = [copy(&fixture, 1, 30), copy(&fixture, 2, 20)];
    let keys = ProtectedCopies { keys: [key(1)].into(), ..ProtectedCopies::default() };
    assert_eq!(removed_ids(&store.trim(0, &keys, true)), [2]);
    let sessions =
        ProtectedCopies { sessions: ["session-1".to_string()].into(), ..ProtectedCopies::default() };
    assert_eq!(
        store.trim(0, &sessions, false),
        TrimSummary { kept: DiskUsage { files: 2, bytes: 2000 }, ..TrimSummary::default() }
    );
    let lock = File::create(store.root().join("session-1/lock")).unwrap();
    lock.lock().unwrap();
    let locked = store.trim(0, &ProtectedCopies::default(), false);
    assert_eq!((locked.removed.len(), locked.kept.bytes), (0, 2000));
    assert!(paths.iter().all(|path| path.exists()));
}

#[test]
fn copy_that_is_being_removed_is_not_restored() {
    let fixture = Fixture::new();
    fixture.put("file", "x");
    let provider = CopyProvider::new(&fixture.work(), &fixture.store(), MEGABYTE).unwrap();
    provider.take(&key(1), &REQUEST).unwrap();
    // As the limit of the store removes it: under the lock of the session.
    let session = fixture.store().root().join("session-1");
    let lock = File::create(session.join("lock")).unwrap();
    lock.lock().unwrap();
    let (started, is_started) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let restored = scope.spawn(|| {
            started.send(()).unwrap();
            provider.restore(&key(1), &fixture.target())
        });
        is_started.recv().unwrap();
        fs::remove_dir_all(session.join("1")).unwrap();
        drop(lock);
        let error = restored.join().unwrap().unwrap_err();
        assert!(matches!(error, FilesError::NotFound { .. }), "{error:?}");
    });
    assert!(!fixture.target().exists());
}

#[test]
fn real_copies_with_read_only_folders_are_removed() {
    let fixture = Fixture::new();
    fixture.put("readonly/inside", "x");
    let folder = fixture.work().join("readonly");
    fs::set_permissions(&folder, Permissions::from_mode(0o500)).unwrap();
    let provider = CopyProvider::new(&fixture.work(), &fixture.store(), MEGABYTE).unwrap();
    let files = provider.take(&key(1), &REQUEST).unwrap().files;
    let trimmed = fixture.store().trim(0, &ProtectedCopies::default(), false);
    assert_eq!((removed_ids(&trimmed), trimmed.failed), (vec![1], vec![]));
    assert_eq!((provider.keys().unwrap(), files.reference.as_str()), (vec![], "session-1/1"));
    provider.take(&key(2), &REQUEST).unwrap();
    assert_eq!(provider.keys().unwrap(), [key(2)], "the next copy does not need the removed one");
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
}
