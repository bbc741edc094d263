//! Tests of file snapshots with real repositories and directories.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

mod copy;
mod git;
mod retention;
mod store;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nerve_record::files::{FileStore, SnapshotKey, SnapshotRequest};
use nerve_types::TsNs;
use tempfile::TempDir;

const REQUEST: SnapshotRequest<'static> =
    SnapshotRequest { at: TsNs(1_766_399_400_000_000_000), label: Some("before the fix"), stop: None };
const MEGABYTE: u64 = 1 << 20;

fn key(id: u64) -> SnapshotKey {
    SnapshotKey::new("session-1", id).unwrap()
}

/// A directory to take snapshots of, and a store next to it.
struct Fixture {
    root: TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("work")).unwrap();
        Fixture { root }
    }

    fn work(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("work")
    }

    fn store(&self) -> FileStore {
        FileStore::new(self.root.path().join("state/snapshots"))
    }

    /// Returns a path that does not exist yet.
    fn target(&self) -> PathBuf {
        self.root.path().join("restored")
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.work().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// Lists everything under a directory as text: content, link target, executable or not. Without `.git`.
fn listing(root: &Path) -> BTreeMap<String, String> {
    fn walk(root: &Path, dir: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            let meta = path.symlink_metadata().unwrap();
            if name == ".git" {
            } else if meta.is_dir() {
                walk(root, &path, found);
            } else if meta.is_symlink() {
                found.insert(name, format!("-> {}", fs::read_link(&path).unwrap().display()));
            } else {
                let mode = if meta.permissions().mode() & 0o100 == 0 { "" } else { "x " };
                let content = fs::read(&path).unwrap();
                found.insert(name, format!("{mode}{}", content.escape_ascii()));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}
