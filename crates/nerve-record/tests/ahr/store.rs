use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use nerve_record::store::{Store, StoreError, id_of};
use nerve_types::TsNs;

struct TestStore {
    store: Store,
    _folder: tempfile::TempDir,
}

impl TestStore {
    /// Creates a store with recordings: start time in nanoseconds, id, and age of the last write in seconds.
    fn with(recordings: &[(u64, &str, u64)]) -> TestStore {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("recordings"));
        for &(started, id, age) in recordings {
            let file = File::create(store.prepare(id, TsNs(started)).unwrap()).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        TestStore { store, _folder: folder }
    }

    fn ids(&self) -> Vec<String> {
        self.store.all().iter().filter_map(|path| id_of(path).map(String::from)).collect()
    }
}

/// 2025-12-31T23:59:59.999999999Z and the nanosecond after it.
const OLD_YEAR: u64 = 1_767_225_599_999_999_999;
const NEW_YEAR: u64 = OLD_YEAR + 1;

#[test]
fn paths_use_utc_year_and_month() {
    let store = Store::new("/r");
    let path = |started| store.path_for("Abc_-9", TsNs(started)).unwrap();
    assert_eq!(path(OLD_YEAR), PathBuf::from("/r/2025/12/Abc_-9.ahr"));
    assert_eq!(path(NEW_YEAR), PathBuf::from("/r/2026/01/Abc_-9.ahr"));
    assert_eq!(path(0), PathBuf::from("/r/1970/01/Abc_-9.ahr"));
    assert_eq!(path(u64::MAX), PathBuf::from("/r/2554/07/Abc_-9.ahr"));
}

#[test]
fn ids_unsafe_in_paths_are_rejected() {
    let store = Store::new("/r");
    store.path_for(&"x".repeat(64), TsNs(0)).unwrap();
    for bad in ["", ".", "..", "a/b", "../x", "a.b", "a b", "naïve", "a\0", "a\n", &"x".repeat(65)] {
        assert!(matches!(store.path_for(bad, TsNs(0)), Err(StoreError::Id { .. })), "{bad:?}");
    }
    let error = store.path_for(&"y".repeat(1 << 20), TsNs(0)).unwrap_err().to_string();
    assert!(error.len() < 300, "{} bytes", error.len());
}

#[test]
fn folders_are_private() {
    let store = TestStore::with(&[(NEW_YEAR, "a", 0)]);
    for folder in ["", "2026", "2026/01"] {
        let mode = store.store.root().join(folder).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{folder:?}");
    }
}

#[test]
fn only_recordings_are_listed_newest_first() {
    let store =
        TestStore::with(&[(NEW_YEAR, "middle", 50), (OLD_YEAR, "newest", 10), (OLD_YEAR, "oldest", 90)]);
    let root = store.store.root();
    for (path, text) in [("2026/01/middle.meta.json", "{}"), ("2026/stray.ahr", ""), ("2026/01/.ahr.swp", "")]
    {
        fs::write(root.join(path), text).unwrap();
    }
    fs::create_dir_all(root.join("2026/01/folder.ahr")).unwrap();
    fs::create_dir_all(root.join("old/01")).unwrap();
    fs::write(root.join("old/01/x.ahr"), "").unwrap();
    assert_eq!(store.ids(), ["newest", "middle", "oldest"]);
    assert!(Store::new("/nowhere/at/all").all().is_empty());
}

#[test]
fn recordings_with_an_id_are_found_without_listing() {
    let store = TestStore::with(&[
        (NEW_YEAR, "abc", 5),
        (OLD_YEAR, "abcd", 4),
        (NEW_YEAR, "twice", 3),
        (OLD_YEAR, "twice", 2),
    ]);
    let store = &store.store;
    let paths = |id: &str| -> Vec<PathBuf> { store.with_id(id).into_iter().map(|one| one.path).collect() };
    let (december, january) = (store.root().join("2025/12"), store.root().join("2026/01"));
    assert_eq!(paths("abc"), [january.join("abc.ahr")]);
    assert_eq!(paths("twice"), [december.join("twice.ahr"), january.join("twice.ahr")]);
    assert!(paths("ab").is_empty());
}
