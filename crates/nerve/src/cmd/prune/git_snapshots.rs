//! The snapshots of removed recordings in git repositories.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use nerve_api::reply::{PrunedBranch, RecordingsPruned};
use nerve_engine::data_dirs::DataDirs;
use nerve_host::registry::{self, Entry, canonical_path};
use nerve_record::branches::{self, Folder};
use nerve_record::files::{FileStore, FilesError, remove_from_git};
use nerve_record::library;
use nerve_record::snapshots::{self, FilesRef, SnapshotLine};
use nerve_record::store::Store;

use super::stored_data::FileTotal;

/// The snapshots that branches, running sessions and recordings need.
struct NeededSnapshots {
    references: BTreeSet<String>,
    /// The sessions of hosts that run.
    sessions: BTreeSet<String>,
    /// False if a branch or a host cannot be read, which may need any snapshot.
    is_complete: bool,
}

/// Lists the folders of branches.
pub(super) fn list_folders(dirs: &DataDirs) -> Vec<Folder> {
    branches::list(&canonical_path(&dirs.branches))
}

/// Removes the snapshots of removed recordings, also of those that were removed earlier. Snapshots stay if a branch, a running session or a
/// recording needs them, or if their folder is gone. `folders`: those of branches before recordings were removed. Returns the numbers of
/// the removed and of the kept snapshots; their bytes belong to git. Passes a warning for each that git cannot remove.
pub(super) fn prune(
    pruned: &RecordingsPruned,
    folders: &[Folder],
    dirs: &DataDirs,
    warn: &mut dyn FnMut(String),
) -> (FileTotal, FileTotal) {
    let recordings = Store::new(&dirs.recordings);
    let planned = pruned.removed.iter().filter(|_| pruned.dry_run);
    let planned: BTreeSet<PathBuf> = planned.map(|recording| PathBuf::from(&recording.path)).collect();
    let left = recordings.all().into_iter().filter(|path| !planned.contains(path));
    let left: Vec<SnapshotLine> = left.flat_map(|path| read(&path, folders).unwrap_or_default()).collect();
    let needed = NeededSnapshots::read(dirs, &pruned.branches, &left);
    let store = FileStore::new(&dirs.snapshots);
    let [mut removed, mut kept] = [FileTotal::default(); 2];
    kept.files = left.len() as u64;
    for path in library::removed(&recordings).iter().chain(&planned) {
        let remove = |line: &SnapshotLine| {
            let is_free = |files: &&FilesRef| files.source.is_dir() && !needed.contains(files);
            let Some(files) = line.files.as_ref().filter(is_free) else { return false };
            if pruned.dry_run {
                return true;
            }
            let failed = |error: FilesError| {
                format!("cannot remove {} in {}: {error}", files.reference, files.source.display())
            };
            remove_from_git(files, &store).map_err(failed).map_err(&mut *warn).is_ok()
        };
        match prune_list(path, folders, pruned.dry_run, remove) {
            Ok((gone, left)) => {
                removed.files += gone;
                kept.files += left;
            }
            Err(error) => warn(format!("cannot update {}: {error}", snapshots::list_path(path).display())),
        }
    }
    (removed, kept)
}

/// Removes snapshots from the list next to `path`, unless `dry_run`: those for which `remove` returns true. Returns the numbers of them and of
/// the others.
fn prune_list(
    path: &Path,
    folders: &[Folder],
    dry_run: bool,
    remove: impl FnMut(&SnapshotLine) -> bool,
) -> io::Result<(u64, u64)> {
    let (gone, left): (Vec<_>, Vec<_>) = read(path, folders)?.into_iter().partition(remove);
    if !dry_run {
        snapshots::replace(path, &left)?;
    }
    Ok((gone.len() as u64, left.len() as u64))
}

/// Reads the snapshots of a recording in git repositories.
fn read(recording: &Path, folders: &[Folder]) -> io::Result<Vec<SnapshotLine>> {
    let lines = snapshots::read(recording)?;
    Ok(lines.into_iter().filter_map(|line| with_repository(line, folders)).collect())
}

/// Returns a snapshot in a git repository; `None` for others. The folder of a branch is replaced by the work tree that the branch was made
/// from: it is removed with the branch, but the repository stays.
fn with_repository(mut line: SnapshotLine, folders: &[Folder]) -> Option<SnapshotLine> {
    let files = line.files.as_mut().filter(|files| files.is_in_git())?;
    // A branch can be made from another one.
    for _ in folders {
        let folder = folders.iter().find(|folder| folder.path == files.source);
        let note = folder.and_then(|folder| folder.note.as_ref()).filter(|note| note.files.is_in_git());
        let Some(note) = note else { break };
        files.source.clone_from(&note.files.source);
    }
    Some(line)
}

impl NeededSnapshots {
    /// Reads the hosts and the branches, without those that were removed or would be. `lines`: the snapshots of recordings.
    fn read(dirs: &DataDirs, pruned: &[PrunedBranch], lines: &[SnapshotLine]) -> NeededSnapshots {
        let hosts = registry::list(&dirs.hosts);
        let running = hosts.entries.into_iter().filter(Entry::is_alive);
        let is_pruned = |folder: &Folder| {
            pruned.iter().any(|branch| branch.removed && Path::new(&branch.path) == folder.path)
        };
        let folders = list_folders(dirs);
        let notes = folders.iter().filter(|folder| !is_pruned(folder)).map(|folder| folder.note.as_ref());
        let notes: Option<Vec<_>> = notes.collect();
        let of_branches = notes.iter().flatten().map(|note| &note.files);
        let of_recordings = lines.iter().filter_map(|line| line.files.as_ref());
        NeededSnapshots {
            references: of_branches.chain(of_recordings).map(|files| files.reference.clone()).collect(),
            sessions: running.map(|host| host.session_id).collect(),
            is_complete: hosts.damaged.is_empty() && notes.is_some(),
        }
    }

    fn contains(&self, files: &FilesRef) -> bool {
        // A reference is `refs/nerve/snapshots/<session>/<id>`.
        let session = files.reference.rsplit('/').nth(1).unwrap_or_default();
        !self.is_complete || self.references.contains(&files.reference) || self.sessions.contains(session)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nerve_record::branches::Note;
    use nerve_testkit::harness::host_entry;

    use super::*;

    fn snapshot(session: &str) -> FilesRef {
        let reference = format!("refs/nerve/snapshots/{session}/1");
        FilesRef { provider: "git".into(), source: "/repository".into(), reference }
    }

    #[test]
    fn snapshots_of_branches_and_running_sessions_are_needed() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().canonicalize().unwrap().join(name);
        let dirs = DataDirs { branches: at("branches"), hosts: at("hosts"), ..DataDirs::default() };
        let folder = at("branches/branched-1");
        fs::create_dir_all(&folder).unwrap();
        let note = Note {
            recording: "r.ahr".into(),
            snapshot: Some(1),
            files: snapshot("branched"),
            branch: None,
            made_at_ns: 1,
        };
        note.store(&folder).unwrap();
        let host = host_entry("h", "running", std::process::id());
        fs::create_dir(&dirs.hosts).unwrap();
        fs::write(dirs.hosts.join("h.json"), host.to_string()).unwrap();
        let recorded = SnapshotLine {
            id: 1,
            ts_ns: 1,
            label: None,
            kind: "auto".into(),
            anchor_byte: 0,
            files: Some(snapshot("recorded")),
        };
        let needed = |pruned: &[PrunedBranch]| {
            let needed = NeededSnapshots::read(&dirs, pruned, std::slice::from_ref(&recorded));
            ["gone", "branched", "running", "recorded"].map(|session| needed.contains(&snapshot(session)))
        };
        assert_eq!(needed(&[]), [false, true, true, true]);
        let path = folder.display().to_string();
        let mut pruned = [PrunedBranch { path, ..PrunedBranch::default() }];
        assert_eq!(needed(&pruned), [false, true, true, true]);
        pruned[0].removed = true;
        assert_eq!(needed(&pruned), [false, false, true, true]);
        fs::write(dirs.hosts.join("damaged.json"), "{").unwrap();
        assert_eq!(needed(&[]), [true; 4], "any session may run");
        fs::remove_file(dirs.hosts.join("damaged.json")).unwrap();
        fs::remove_file(Note::sidecar_path(&folder)).unwrap();
        assert_eq!(needed(&[]), [true; 4], "the folder may come from any snapshot");
    }

    #[test]
    fn branch_of_branch_belongs_to_the_first_work_tree() {
        let folder = |path: &str, provider: &str, source: &str| {
            let files = FilesRef { provider: provider.into(), source: source.into(), ..snapshot("s") };
            let note = Note { recording: "r.ahr".into(), snapshot: None, files, branch: None, made_at_ns: 1 };
            Folder { path: path.into(), note: Some(note) }
        };
        let folders = [
            folder("/b/1", "git", "/repository"),
            folder("/b/2", "git", "/b/1"),
            folder("/b/3", "copy", "/snapshots"),
        ];
        let source = |provider: &str, source: &str| {
            let files = FilesRef { provider: provider.into(), source: source.into(), ..snapshot("s") };
            let kind = String::new();
            let line =
                SnapshotLine { id: 1, ts_ns: 1, label: None, kind, anchor_byte: 0, files: Some(files) };
            with_repository(line, &folders).map(|line| line.files.unwrap().source)
        };
        assert_eq!(source("git", "/b/2"), Some("/repository".into()));
        for other in ["/repository", "/b/3", "/b/1/inner"] {
            assert_eq!(source("git", other), Some(other.into()));
        }
        assert_eq!(source("copy", "/b/2"), None);
    }
}
