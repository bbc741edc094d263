//! Branch folders: their origin, users and changes, and which can be removed.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use nerve_core::command::CommandLine;
use nerve_core::session::store::SessionStore;
use nerve_host::registry::{canonical_path, entries};
use nerve_record::branches::{self, CONVERSATIONS, Changes, Folder};
use nerve_record::files::FileStore;
use nerve_record::meta::Meta;
use nerve_record::store::{Store, id_of};
use nerve_server::paths::ServerPaths;
use serde_json::{Value, json};

use super::format;
use crate::cli::recording::BranchesArgs;
use crate::out;

/// Minimum age for removal: a younger folder may belong to a node that is being created.
const MIN_AGE: Duration = Duration::from_secs(3600);

/// The branch folders and everything that may need them.
pub(super) struct BranchFolders {
    paths: ServerPaths,
    store: FileStore,
    folders: Vec<Folder>,
    /// Working directories and their users (`node 'x'`).
    users: Vec<(PathBuf, String)>,
    recordings: Vec<RecordingInfo>,
    /// Command words of nodes that can be restarted.
    commands: Vec<String>,
    /// Reason why the restartable nodes are unknown.
    unknown: Option<String>,
}

struct RecordingInfo {
    path: PathBuf,
    cwd: Option<PathBuf>,
    command: Vec<String>,
    /// Reason why `cwd` and `command` are unknown.
    unknown: Option<String>,
}

/// The result, or with a dry run the expected result, of pruning one folder.
pub(super) struct PruneOutcome {
    folder: PathBuf,
    pub(super) removed: bool,
    /// Reason why the folder was kept, or a note on its removal.
    pub(super) why: Option<String>,
    /// The folder is unneeded but was kept.
    pub(super) is_orphaned: bool,
    /// The folder is listed although it was kept.
    is_reported: bool,
}

impl BranchFolders {
    pub(super) fn scan() -> BranchFolders {
        let paths = ServerPaths::from_env();
        let mut users: Vec<(PathBuf, String)> = Vec::new();
        for entry in entries(&paths.hosts()).iter().filter(|entry| entry.is_alive()) {
            let node = entry.label.get("node").and_then(Value::as_str);
            let who = node.map_or_else(|| format!("host {}", entry.id), |node| format!("node '{node}'"));
            let moved = std::fs::read_link(format!("/proc/{}/cwd", entry.child)).ok();
            users.extend(entry.cwd.iter().chain(&moved).map(|cwd| (canonical_path(cwd), who.clone())));
        }
        // Defined nodes can be restarted in their directories.
        let mut commands = Vec::new();
        let unknown = match sessions(&paths.sessions_file()) {
            Ok(sessions) => {
                for node in sessions.list().iter().flat_map(|session| &session.nodes) {
                    users.extend(
                        node.cwd.iter().map(|cwd| (canonical_path(cwd), format!("node '{}'", node.name))),
                    );
                    match &node.command {
                        Some(CommandLine::Text(text)) => commands.push(text.clone()),
                        Some(CommandLine::Argv(words)) => commands.extend(words.iter().cloned()),
                        None => {}
                    }
                }
                None
            }
            Err(error) => Some(format!("{error:#}")),
        };
        let recordings = Store::new(paths.recordings()).all();
        let recordings = recordings.into_iter().map(|path| {
            let (meta, unknown) = match Meta::load(&path) {
                Ok(meta) => (meta.unwrap_or_default(), None),
                Err(error) => (Meta::default(), Some(error.to_string())),
            };
            RecordingInfo { cwd: meta.cwd.as_deref().map(canonical_path), command: meta.cmd, path, unknown }
        });
        BranchFolders {
            store: FileStore::new(paths.snapshots()),
            folders: branches::list(&canonical_path(&paths.branches())),
            users,
            recordings: recordings.collect(),
            commands,
            unknown,
            paths,
        }
    }

    fn user_of(&self, folder: &Folder) -> Option<&str> {
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
        let belongs_to_folder = move |recorded: &&RecordingInfo| {
            Some(recorded.path.as_path()) == source
                || recorded.cwd.as_ref().is_some_and(|cwd| cwd.starts_with(&folder.path))
        };
        let stored = self.recordings.iter().filter(belongs_to_folder).map(|recorded| recorded.path.as_path());
        outside.into_iter().chain(stored).filter(|path| !removed.contains(*path))
    }

    /// Removes the folders that no node uses and whose recordings are all in `removed` (`all`: even if recordings are
    /// left). Keeps folders with unsaved changes unless `force` is set.
    pub(super) fn prune(
        &self,
        removed: &BTreeSet<PathBuf>,
        all: bool,
        force: bool,
        dry_run: bool,
    ) -> Vec<PruneOutcome> {
        let outcomes =
            self.folders.iter().map(|folder| self.outcome(folder, removed, (all, force, dry_run))).collect();
        if !dry_run {
            self.remove_unused_conversations(removed);
        }
        outcomes
    }

    fn outcome(
        &self,
        folder: &Folder,
        removed: &BTreeSet<PathBuf>,
        (all, force, dry_run): (bool, bool, bool),
    ) -> PruneOutcome {
        let kept = |why: String, is_orphaned: bool| PruneOutcome {
            folder: folder.path.clone(),
            removed: false,
            why: Some(why),
            is_orphaned,
            is_reported: is_orphaned,
        };
        let reported = |why: String| PruneOutcome { is_reported: true, ..kept(why, false) };
        if let Some(why) = &self.unknown {
            return reported(format!("its users are unknown: {why}"));
        }
        if let Some(who) = self.user_of(folder) {
            return PruneOutcome { is_reported: all, ..kept(format!("used by {who}"), false) };
        }
        // A new branch has its folder before its node.
        if is_recent(folder.last_modified()) {
            return reported("it was created or changed less than an hour ago".to_string());
        }
        let left = self.recordings(folder, removed).next().map(display_name);
        if let Some(id) = left.filter(|_| !all) {
            return kept(format!("needed by recording {id}"), false);
        }
        let unknown = self.recordings.iter().filter(|recorded| !removed.contains(&recorded.path));
        if let Some(why) =
            unknown.filter_map(|recorded| recorded.unknown.as_ref()).next().filter(|_| !all && !force)
        {
            return kept(format!("its recordings are unknown: {why}"), true);
        }
        if !force {
            match folder.changes(&self.store) {
                Changes::None => {}
                Changes::Some(what) => return kept(what, true),
                Changes::Unknown(why) => {
                    return kept(format!("its changes are unknown: {why}"), true);
                }
            }
        }
        let branch = folder.note.as_ref().and_then(|note| note.branch.as_deref());
        let branch_note = |commits: u64| {
            let branch = branch.filter(|_| commits > 0)?;
            Some(format!("branch '{branch}' kept: {commits} of its commits are on no other branch"))
        };
        match if dry_run { Ok(0) } else { folder.remove(&self.store) } {
            Ok(commits) => PruneOutcome {
                folder: folder.path.clone(),
                removed: true,
                why: branch_note(commits),
                is_orphaned: false,
                is_reported: true,
            },
            Err(error) => kept(error.to_string(), true),
        }
    }

    /// Removes copied conversations that no command refers to.
    fn remove_unused_conversations(&self, removed: &BTreeSet<PathBuf>) {
        let kept: Vec<&RecordingInfo> =
            self.recordings.iter().filter(|recorded| !removed.contains(&recorded.path)).collect();
        if self.unknown.is_some() || kept.iter().any(|recorded| recorded.unknown.is_some()) {
            return;
        }
        let named: BTreeSet<&str> =
            kept.iter().flat_map(|recorded| &recorded.command).map(String::as_str).collect();
        let copies = std::fs::read_dir(self.paths.branches().join(CONVERSATIONS)).into_iter().flatten();
        for copy in copies.flatten().map(|copy| copy.path()) {
            let name = copy.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_live = || {
                let hosts = entries(&self.paths.hosts());
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

impl PruneOutcome {
    pub(super) fn json(&self) -> Value {
        json!({ "path": self.folder, "removed": self.removed, "why": self.why })
    }

    /// Returns a line for the output; `None` for folders that are needed.
    pub(super) fn line(&self, dry_run: bool) -> Option<String> {
        let folder = self.folder.display();
        match (self.removed, &self.why) {
            (true, None) if dry_run => Some(format!("branch {folder}  would be removed")),
            (true, None) => Some(format!("branch {folder}  removed")),
            (true, Some(why)) => Some(format!("branch {folder}  removed; {why}")),
            (false, Some(why)) if self.is_reported => Some(format!("branch {folder}  kept: {why}")),
            (false, _) => None,
        }
    }
}

/// Loads sessions from a copy of the file, because loading moves a damaged file away.
fn sessions(file: &Path) -> Result<SessionStore> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("sessions.json");
    match std::fs::copy(file, &copy) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        done => {
            done.with_context(|| format!("cannot read {}", file.display()))?;
        }
    }
    let (sessions, report) = SessionStore::load(&copy)?;
    ensure!(report.problem.is_none(), "{} is damaged or of another version", file.display());
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

/// Lists the branch folders.
pub(super) fn list(args: &BranchesArgs) -> Result<()> {
    let folders = BranchFolders::scan();
    if let Some(why) = &folders.unknown {
        out::warning(format_args!("restartable nodes are unknown: {why}"));
    }
    let none = BTreeSet::new();
    let rows = folders.folders.iter().map(|folder| {
        let recordings: Vec<String> = folders.recordings(folder, &none).map(display_name).collect();
        (folder, folders.user_of(folder), recordings, folder.changes(&folders.store))
    });
    if args.json {
        let all = rows.map(|(folder, user, recordings, changes)| {
            let note = folder.note.as_ref();
            let (changed, about) = match changes {
                Changes::None => (Some(false), None),
                Changes::Some(what) => (Some(true), Some(what)),
                Changes::Unknown(why) => (None, Some(why)),
            };
            json!({
                "path": folder.path, "made_ts_ns": note.map(|note| note.made_at_ns),
                "recording": note.map(|note| &note.recording), "snapshot": note.and_then(|note| note.snapshot),
                "source": note.map(|note| &note.files.source), "git_branch": note.and_then(|note| note.branch.as_ref()),
                "used_by": user, "recordings": recordings, "changed": changed, "changes": about,
            })
        });
        return out::json(&all.collect());
    }
    let rows: Vec<Vec<String>> = rows
        .map(|(folder, user, recordings, changes)| {
            let note = folder.note.as_ref();
            vec![
                folder.path.display().to_string(),
                note.map(|note| format::time(note.made_at())).unwrap_or_default(),
                note.map(|note| note.files.source.display().to_string()).unwrap_or_default(),
                user.unwrap_or("no node").to_string(),
                recordings.len().to_string(),
                match changes {
                    Changes::None => "none".to_string(),
                    Changes::Some(what) => what,
                    Changes::Unknown(_) => "unknown".to_string(),
                },
            ]
        })
        .collect();
    if rows.is_empty() {
        out::note(format_args!("no branches in {}", folders.paths.branches().display()));
    }
    out::table(&["folder", "created", "source", "used by", "recordings", "changes"], &rows)
}
