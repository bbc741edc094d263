//! Limits the size of the snapshot store.

use std::path::Path;

use nerve_record::branches;
pub use nerve_record::files::DiskUsage;
use nerve_record::files::{FileStore, ProtectedCopies, TrimSummary};

use crate::registry::list;

/// Removes the oldest copies of the store `snapshots` until it has at most `limit` bytes, and logs each. Copies of running sessions stay,
/// and so do those that branches were made from. With `dry_run`, only reports them. `hosts`: the directory of hosts' entries; `folders`: that
/// of the branches' folders. Blocks.
pub fn trim_snapshots(
    snapshots: &Path,
    hosts: &Path,
    folders: &Path,
    limit: u64,
    dry_run: bool,
) -> TrimSummary {
    let hosts = list(hosts);
    // A damaged entry may be that of a running session.
    let limit = if hosts.damaged.is_empty() { limit } else { u64::MAX };
    let running = hosts.entries.into_iter().filter(|host| host.is_alive()).map(|host| host.session_id);
    let notes = branches::list(folders).into_iter().filter_map(|folder| folder.note);
    let protected = ProtectedCopies {
        keys: notes.filter_map(|note| note.files.reference.parse().ok()).collect(),
        sessions: running.collect(),
    };
    let summary = FileStore::new(snapshots).trim(limit, &protected, dry_run);
    for (snapshot, freed) in summary.removed.iter().filter(|_| !dry_run) {
        tracing::info!(%snapshot, bytes = freed.bytes, limit, "snapshot removed: the store exceeded its limit");
    }
    for (snapshot, error) in &summary.failed {
        tracing::warn!(%snapshot, %error, "snapshot not removed, although the store exceeds its limit");
    }
    summary
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    use nerve_record::branches::Note;
    use nerve_record::snapshots::FilesRef;
    use nerve_testkit::harness::host_entry;

    use super::*;

    /// Creates a copy of 1000 bytes that was taken `age` seconds ago.
    fn copy(store: &FileStore, key: &str, age: u64) -> PathBuf {
        let path = store.root().join(key);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("a"), [b'x'; 1000]).unwrap();
        let taken = SystemTime::now() - Duration::from_secs(age);
        File::open(&path).unwrap().set_modified(taken).unwrap();
        path
    }

    #[test]
    fn copies_of_branches_and_running_sessions_stay() {
        let home = tempfile::tempdir().unwrap();
        let [hosts, branches] = ["hosts", "branches"].map(|name| home.path().join(name));
        let store = FileStore::new(home.path().join("snapshots"));
        let ages = [("old/1", 50), ("old/2", 40), ("running/1", 60), ("branched/1", 70), ("new/1", 10)];
        let paths = ages.map(|(key, age)| copy(&store, key, age));
        let folder = branches.join("branched-1");
        fs::create_dir_all(&folder).unwrap();
        let files = FilesRef {
            provider: "copy".into(),
            source: store.root().to_path_buf(),
            reference: "branched/1".into(),
        };
        let note = Note { recording: "r.ahr".into(), snapshot: Some(1), files, branch: None, made_at_ns: 1 };
        note.store(&folder).unwrap();
        let host = host_entry("h", "running", std::process::id());
        fs::create_dir(&hosts).unwrap();
        fs::write(hosts.join("h.json"), host.to_string()).unwrap();

        let trim = |limit, dry_run| {
            let summary = trim_snapshots(store.root(), &hosts, &branches, limit, dry_run);
            let removed = summary.removed.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>();
            (removed, summary.freed.bytes, summary.kept.bytes)
        };
        let removed = |keys: &[&str]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(trim(5000, false), (removed(&[]), 0, 5000));
        fs::write(hosts.join("damaged.json"), "{").unwrap();
        assert_eq!(trim(0, false), (removed(&[]), 0, 5000), "what runs is not known");
        fs::remove_file(hosts.join("damaged.json")).unwrap();
        assert_eq!(trim(4000, true), (removed(&["old/1"]), 1000, 4000));
        assert_eq!(trim(3500, false), (removed(&["old/1", "old/2"]), 2000, 3000));
        assert_eq!(trim(0, false), (removed(&["new/1"]), 1000, 2000));
        assert_eq!(paths.map(|path| path.exists()), [false, false, true, true, false]);
    }
}
