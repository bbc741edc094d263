//! Branch folders: their origin, users and changes, and which can be removed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nerve_api::reply::{BranchInfo, PrunedBranch};
use nerve_api::request::CommandLine;
use nerve_graph::session::entry::EndCause;
use nerve_graph::session::store::{NodeRecord, SessionStore};
use nerve_host::registry::{self, canonical_path};
use nerve_node::error::EngineError;
use nerve_record::branches::{self, CONVERSATIONS, Changes, Folder};
use nerve_record::files::FileStore;
use nerve_record::meta::Meta;
use nerve_record::store::{Store, id_of};
use nerve_types::TsNs;
use nerve_types::os::current_dir;
use serde_json::Value;

use crate::data_dirs::DataDirs;

/// Minimum age for removal: a younger folder may belong to a node that is being created.
const MIN_AGE: Duration = Duration::from_secs(3600);

/// Options for removing branch folders.
#[derive(Debug, Clone, Copy, Default)]
pub struct PruneOptions {
    /// Also removes folders whose recordings are left.
    pub all: bool,
    /// Also removes folders with unsaved changes.
    pub force: bool,
    /// Reports what would be removed, and removes nothing.
    pub dry_run: bool,
}

/// The branch folders, and the hosts, nodes and recordings that may need them.
#[derive(Debug)]
pub struct BranchFolders {
    dirs: DataDirs,
    store: FileStore,
    folders: Vec<Folder>,
    /// Working directories and their users (`node 'x'`).
    users: Vec<(PathBuf, String)>,
    recordings: Vec<RecordingUse>,
    /// Command words of nodes that can be restarted.
    commands: Vec<String>,
    /// Reason why the sessions file, and so the restartable nodes, could not be read.
    sessions_error: Option<String>,
    /// Reason why the users of folders are not all known.
    users_error: Option<String>,
}

/// The part of a recording's metadata that says whether it needs a folder.
#[derive(Debug)]
struct RecordingUse {
    path: PathBuf,
    cwd: Option<PathBuf>,
    command: Vec<String>,
    /// Reason why the metadata, and so `cwd` and `command`, could not be read.
    meta_error: Option<String>,
}

/// Returns true for a node that a client stopped. It gives up its folder.
fn is_stopped_by_request(node: &NodeRecord) -> bool {
    let end = node.last.as_ref().and_then(|last| last.end.as_ref());
    end.is_some_and(|end| end.cause == EndCause::Requested)
}

impl BranchFolders {
    /// Reads the folders, and the hosts, nodes and recordings that may need them. Blocks.
    pub fn scan(dirs: &DataDirs) -> BranchFolders {
        let mut users: Vec<(PathBuf, String)> = Vec::new();
        let hosts = registry::list(&dirs.hosts);
        for entry in hosts.entries.iter().filter(|entry| entry.is_alive()) {
            let node = entry.label.get("node").and_then(Value::as_str);
            let who = node.map_or_else(|| format!("host {}", entry.id), |node| format!("node '{node}'"));
            let dir = current_dir(entry.child.cast_unsigned());
            users.extend(entry.cwd.iter().chain(&dir).map(|cwd| (canonical_path(cwd), who.clone())));
        }
        // Nodes that ran when their server went down are restored in their directories.
        let mut commands = Vec::new();
        let sessions_error = match load_sessions(&dirs.sessions_file) {
            Ok(sessions) => {
                let nodes = sessions.list().into_iter().flat_map(|session| &session.nodes);
                for NodeRecord { spec, .. } in nodes.filter(|node| !is_stopped_by_request(node)) {
                    users.extend(
                        spec.cwd.iter().map(|cwd| (canonical_path(cwd), format!("node '{}'", spec.node_id))),
                    );
                    match &spec.command {
                        Some(CommandLine::Text(text)) => commands.push(text.clone()),
                        Some(CommandLine::Argv(words)) => commands.extend(words.iter().cloned()),
                        None => {}
                    }
                }
                None
            }
            Err(error) => Some(error.to_string()),
        };
        // The agent of a damaged entry may run in any folder.
        let users_error = sessions_error.clone().or_else(|| hosts.damaged.first().map(ToString::to_string));
        let recordings = Store::new(&dirs.recordings).all();
        let recordings = recordings.into_iter().map(|path| {
            let (meta, meta_error) = match Meta::load(&path) {
                Ok(meta) => (meta.unwrap_or_default(), None),
                Err(error) => (Meta::default(), Some(error.to_string())),
            };
            RecordingUse { cwd: meta.cwd.as_deref().map(canonical_path), command: meta.cmd, path, meta_error }
        });
        BranchFolders {
            store: FileStore::new(&dirs.snapshots),
            folders: branches::list(&canonical_path(&dirs.branches)),
            users,
            recordings: recordings.collect(),
            commands,
            sessions_error,
            users_error,
            dirs: dirs.clone(),
        }
    }

    /// Returns the reason why the nodes that can be restarted are unknown, if they are.
    pub fn sessions_error(&self) -> Option<&str> {
        self.sessions_error.as_deref()
    }

    /// Describes the folders. Blocks: looks for changed files.
    pub fn list(&self) -> Vec<BranchInfo> {
        let none = BTreeSet::new();
        let info = |folder: &Folder| {
            let note = folder.note.as_ref();
            let (changed, changes) = match folder.changes(&self.store) {
                Changes::None => (Some(false), None),
                Changes::Some(what) => (Some(true), Some(what)),
                Changes::Unknown(why) => (None, Some(why)),
            };
            BranchInfo {
                path: folder.path.display().to_string(),
                created_at: note.map(|note| TsNs(note.made_at_ns).into()),
                recording_id: note.and_then(|note| id_of(&note.recording)).map(str::to_string),
                snapshot_id: note.and_then(|note| note.snapshot),
                source: note.map(|note| note.files.source.display().to_string()),
                git_branch: note.and_then(|note| note.branch.clone()),
                used_by: self.find_user(folder).map(str::to_string),
                recordings: self.recordings(folder, &none).map(display_name).collect(),
                changed,
                changes,
            }
        };
        self.folders.iter().map(info).collect()
    }

    /// Removes one folder by its name or path, unless a node uses it. Keeps a folder with unsaved changes unless `force`
    /// is set. Returns its path, and a note on its removal. Blocks.
    ///
    /// # Errors
    /// NotFound; Busy (a node uses it, or it is new); Process (unsaved changes).
    pub fn remove(&self, name: &str, force: bool) -> Result<(String, Option<String>), EngineError> {
        let is_named = |folder: &&Folder| {
            folder.path == Path::new(name) || folder.path.file_name() == Some(OsStr::new(name))
        };
        let folder = self.folders.iter().find(is_named).ok_or_else(|| {
            let message = format!("no branch {name:?} in {}", self.dirs.branches.display());
            EngineError::not_found(message).hint("list them: `LIST_BRANCHES`")
        })?;
        let options = PruneOptions { all: true, force, dry_run: false };
        let outcome = self.remove_folder(folder, &BTreeSet::new(), options);
        if outcome.removed {
            return Ok((outcome.path, outcome.reason));
        }
        let message = format!("branch {} kept: {}", outcome.path, outcome.reason.unwrap_or_default());
        Err(match outcome.orphaned {
            true => EngineError::process(message).hint("remove it with its changes: `force`"),
            false => EngineError::busy(message),
        })
    }

    fn find_user(&self, folder: &Folder) -> Option<&str> {
        self.users.iter().find(|(cwd, _)| cwd.starts_with(&folder.path)).map(|(_, who)| who.as_str())
    }

    /// Returns the folder's source recording and the recordings made in it, except those in `removed`.
    fn recordings<'a>(
        &'a self,
        folder: &'a Folder,
        removed: &'a BTreeSet<PathBuf>,
    ) -> impl Iterator<Item = &'a Path> {
        let source = folder.note.as_ref().map(|note| note.recording.as_path());
        // A recording outside the store is known only from the note.
        let outside = source.filter(|path| {
            path.try_exists().unwrap_or(true)
                && !self.recordings.iter().any(|recorded| recorded.path == *path)
        });
        let belongs_to_folder = move |recorded: &&RecordingUse| {
            Some(recorded.path.as_path()) == source
                || recorded.cwd.as_ref().is_some_and(|cwd| cwd.starts_with(&folder.path))
        };
        let stored = self.recordings.iter().filter(belongs_to_folder).map(|recorded| recorded.path.as_path());
        outside.into_iter().chain(stored).filter(|path| !removed.contains(*path))
    }

    /// Removes the folders that no node uses and whose recordings are all in `removed`. Keeps folders with unsaved changes.
    pub fn prune(&self, removed: &BTreeSet<PathBuf>, options: PruneOptions) -> Vec<PrunedBranch> {
        let pruned = self.folders.iter().map(|folder| self.remove_folder(folder, removed, options)).collect();
        if !options.dry_run {
            self.remove_unused_conversations(removed);
        }
        pruned
    }

    /// Removes a folder, unless there is a reason to keep it.
    fn remove_folder(
        &self,
        folder: &Folder,
        removed: &BTreeSet<PathBuf>,
        options: PruneOptions,
    ) -> PrunedBranch {
        let path = folder.path.display().to_string();
        if let Some(kept) = self.reason_to_keep(folder, removed, options) {
            return PrunedBranch { path, ..kept };
        }
        let branch = folder.note.as_ref().and_then(|note| note.branch.as_deref());
        let branch_note = |commits: u64| {
            let branch = branch.filter(|_| commits > 0)?;
            Some(format!("branch '{branch}' kept: {commits} of its commits are on no other branch"))
        };
        match if options.dry_run { Ok(0) } else { folder.remove(&self.store) } {
            Ok(commits) => {
                PrunedBranch { path, removed: true, reason: branch_note(commits), ..PrunedBranch::default() }
            }
            Err(error) => PrunedBranch {
                path,
                reason: Some(error.to_string()),
                orphaned: true,
                ..PrunedBranch::default()
            },
        }
    }

    /// Returns why a folder must not be removed, without its path; `None` if nothing needs it.
    fn reason_to_keep(
        &self,
        folder: &Folder,
        removed: &BTreeSet<PathBuf>,
        PruneOptions { all, force, .. }: PruneOptions,
    ) -> Option<PrunedBranch> {
        let kept = |reason: String, orphaned: bool| {
            Some(PrunedBranch { reason: Some(reason), orphaned, ..PrunedBranch::default() })
        };
        let needed = |reason: String| {
            Some(PrunedBranch { reason: Some(reason), needed: true, ..PrunedBranch::default() })
        };
        if let Some(error) = &self.users_error {
            return kept(format!("its users are unknown: {error}"), false);
        }
        if let Some(user) = self.find_user(folder) {
            return needed(format!("used by {user}"));
        }
        // A new branch has its folder before its node.
        if is_recent(folder.last_modified()) {
            return kept("it was created or changed less than an hour ago".to_string(), false);
        }
        let left = self.recordings(folder, removed).next().map(display_name);
        if let Some(id) = left.filter(|_| !all) {
            return needed(format!("needed by recording {id}"));
        }
        let mut kept_recordings = self.recordings.iter().filter(|recorded| !removed.contains(&recorded.path));
        let meta_error = kept_recordings.find_map(|recorded| recorded.meta_error.as_ref());
        if let Some(error) = meta_error.filter(|_| !all && !force) {
            return kept(format!("its recordings are unknown: {error}"), true);
        }
        if force {
            return None;
        }
        match folder.changes(&self.store) {
            Changes::None => None,
            Changes::Some(changes) => kept(changes, true),
            Changes::Unknown(error) => kept(format!("its changes are unknown: {error}"), true),
        }
    }

    /// Removes copied conversations that no command refers to.
    fn remove_unused_conversations(&self, removed: &BTreeSet<PathBuf>) {
        let kept: Vec<&RecordingUse> =
            self.recordings.iter().filter(|recorded| !removed.contains(&recorded.path)).collect();
        if self.users_error.is_some() || kept.iter().any(|recorded| recorded.meta_error.is_some()) {
            return;
        }
        let named: BTreeSet<&str> =
            kept.iter().flat_map(|recorded| &recorded.command).map(String::as_str).collect();
        let copies = std::fs::read_dir(self.dirs.branches.join(CONVERSATIONS)).into_iter().flatten();
        for copy in copies.flatten().map(|copy| copy.path()) {
            let name = copy.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_live = || {
                let hosts = registry::entries(&self.dirs.hosts);
                hosts
                    .iter()
                    .filter(|host| host.is_alive())
                    .any(|host| host.argv.iter().any(|word| word.ends_with(name)))
            };
            let written = copy.metadata().and_then(|meta| meta.modified()).ok();
            let is_named = named.iter().any(|word| word.ends_with(name))
                || self.commands.iter().any(|text| text.contains(name));
            if !is_recent(written) && !is_named && !is_live() {
                // A copy that cannot be removed only wastes space.
                let _ = std::fs::remove_file(copy);
            }
        }
    }
}

/// Loads sessions from a copy of the file, because loading moves a damaged file away.
fn load_sessions(file: &Path) -> io::Result<SessionStore> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("sessions.json");
    match std::fs::copy(file, &copy) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io::Error::other(format!("cannot read {}: {error}", file.display()))),
        Ok(_) => {}
    }
    let (sessions, report) = SessionStore::load(&copy).map_err(io::Error::other)?;
    if report.problem.is_some() {
        let message = format!("{} is damaged or of another version", file.display());
        return Err(io::Error::other(message));
    }
    Ok(sessions)
}

fn is_recent(written: Option<SystemTime>) -> bool {
    // An unknown or future time is no proof of age.
    written.and_then(|at| at.elapsed().ok()).is_none_or(|age| age < MIN_AGE)
}

/// Returns a recording's id, or its path if the file name is no id.
fn display_name(recording: &Path) -> String {
    id_of(recording).map_or_else(|| recording.display().to_string(), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_kept_while_a_damaged_entry_may_be_its_user() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let dirs = DataDirs {
            recordings: at("recordings"),
            snapshots: at("snapshots"),
            branches: at("branches"),
            hosts: at("hosts"),
            sessions_file: at("sessions.json"),
            ..DataDirs::default()
        };
        std::fs::create_dir_all(at("branches/fix")).unwrap();
        std::fs::create_dir(at("hosts")).unwrap();
        let options = PruneOptions { all: true, force: true, dry_run: true };
        std::fs::File::open(at("branches/fix")).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let prune = || BranchFolders::scan(&dirs).prune(&BTreeSet::new(), options).pop().unwrap();
        assert!(prune().removed);
        std::fs::write(at("hosts/aa11.json"), "{").unwrap();
        let kept = prune();
        assert!(!kept.removed && kept.reason.is_some_and(|reason| reason.contains("aa11.json")));
    }
}
