//! The folders of branches: what each is of, who needs it, and which can go.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use nerve_core::command::CommandLine;
use nerve_core::host::registry::entries;
use nerve_core::session::store::SessionStore;
use nerve_record::branches::{self, CONVERSATIONS, Changes, Folder};
use nerve_record::files::FileStore;
use nerve_record::meta::Meta;
use nerve_record::store::{Store, id_of};
use nerve_server::paths::Places;
use serde_json::{Value, json};

use super::format;
use crate::cli::recording::BranchesArgs;
use crate::out;

/// What is younger may be of a node that is being made.
const MIN_AGE: Duration = Duration::from_secs(3600);

/// Branches' folders, and what they could be needed by.
pub(super) struct BranchFolders {
    places: Places,
    store: FileStore,
    folders: Vec<Folder>,
    /// Who works where, in words.
    workers: Vec<(PathBuf, String)>,
    recordings: Vec<RecordingInfo>,
    /// Words of the commands of nodes that can be started again.
    commands: Vec<String>,
    /// Why it is not known which nodes can be.
    unknown: Option<String>,
}

struct RecordingInfo {
    path: PathBuf,
    cwd: Option<PathBuf>,
    command: Vec<String>,
    /// Why the two are not known.
    unknown: Option<String>,
}

/// What becomes of a folder, or would.
pub(super) struct PruneOutcome {
    folder: PathBuf,
    pub(super) removed: bool,
    /// Why it stays, or what is to be known of its end.
    pub(super) why: Option<String>,
    /// It is one of those that nothing needs any more, and stays all the same.
    pub(super) is_orphaned: bool,
    /// It is told, though nothing removes it now.
    is_reported: bool,
}

impl BranchFolders {
    pub(super) fn scan() -> BranchFolders {
        let places = Places::from_env();
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let mut workers: Vec<(PathBuf, String)> = Vec::new();
        for entry in entries(&places.hosts()).iter().filter(|entry| entry.is_alive()) {
            let node = entry.label.get("node").and_then(Value::as_str);
            let who = node.map_or_else(|| format!("host {}", entry.id), |node| format!("node '{node}'"));
            let moved = std::fs::read_link(format!("/proc/{}/cwd", entry.child)).ok();
            workers.extend(entry.cwd.iter().chain(&moved).map(|cwd| (real(cwd), who.clone())));
        }
        // A node that was made there can be started there again.
        let mut commands = Vec::new();
        let unknown = match sessions(&places.sessions_file()) {
            Ok(sessions) => {
                for node in sessions.list().iter().flat_map(|session| &session.nodes) {
                    workers.extend(node.cwd.iter().map(|cwd| (real(cwd), format!("node '{}'", node.name))));
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
        let recordings = Store::new(places.recordings()).all();
        let recordings = recordings.into_iter().map(|path| {
            let (meta, unknown) = match Meta::load(&path) {
                Ok(meta) => (meta.unwrap_or_default(), None),
                Err(error) => (Meta::default(), Some(error.to_string())),
            };
            RecordingInfo { cwd: meta.cwd.as_deref().map(real), command: meta.cmd, path, unknown }
        });
        BranchFolders {
            store: FileStore::new(places.snapshots()),
            folders: branches::list(&real(&places.branches())),
            workers,
            recordings: recordings.collect(),
            commands,
            unknown,
            places,
        }
    }

    fn worker(&self, folder: &Folder) -> Option<&str> {
        self.workers.iter().find(|(cwd, _)| cwd.starts_with(&folder.path)).map(|(_, who)| who.as_str())
    }

    /// The recordings it goes on from or that were made in it, of those that are not `gone`.
    fn recordings<'a>(
        &'a self,
        folder: &'a Folder,
        gone: &'a BTreeSet<PathBuf>,
    ) -> impl Iterator<Item = &'a Path> {
        let source = folder.note.as_ref().map(|note| note.recording.as_path());
        // A recording outside of the store is known only by the note.
        let outside = source.filter(|path| {
            path.try_exists().unwrap_or(true)
                && !self.recordings.iter().any(|recorded| recorded.path == *path)
        });
        let is_its = move |recorded: &&RecordingInfo| {
            Some(recorded.path.as_path()) == source
                || recorded.cwd.as_ref().is_some_and(|cwd| cwd.starts_with(&folder.path))
        };
        let stored = self.recordings.iter().filter(is_its).map(|recorded| recorded.path.as_path());
        outside.into_iter().chain(stored).filter(|path| !gone.contains(*path))
    }

    /// Removes the folders that nothing needs: no node works there, and no recording is left that it goes on from or that was made in it
    /// (`all`: whether or not one is left). What is nowhere else stays, unless it is forced. `gone`: recordings that count no more.
    pub(super) fn prune(
        &self,
        gone: &BTreeSet<PathBuf>,
        all: bool,
        force: bool,
        dry_run: bool,
    ) -> Vec<PruneOutcome> {
        let outcomes =
            self.folders.iter().map(|folder| self.outcome(folder, gone, (all, force, dry_run))).collect();
        if !dry_run {
            self.remove_unused_conversations(gone);
        }
        outcomes
    }

    fn outcome(
        &self,
        folder: &Folder,
        gone: &BTreeSet<PathBuf>,
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
            return reported(format!("nobody can tell who works in it: {why}"));
        }
        if let Some(who) = self.worker(folder) {
            return PruneOutcome { is_reported: all, ..kept(format!("{who} works in it"), false) };
        }
        // A branch has its folder before it has its node.
        if is_recent(folder.touched()) {
            return reported("it was made or changed just now, less than an hour ago".to_string());
        }
        let left = self.recordings(folder, gone).next().map(display_name);
        if let Some(id) = left.filter(|_| !all) {
            return kept(format!("recording {id} is there"), false);
        }
        let unknown = self.recordings.iter().filter(|recorded| !gone.contains(&recorded.path));
        if let Some(why) =
            unknown.filter_map(|recorded| recorded.unknown.as_ref()).next().filter(|_| !all && !force)
        {
            return kept(format!("nobody can tell whether a recording was made in it: {why}"), true);
        }
        if !force {
            match folder.changes(&self.store) {
                Changes::None => {}
                Changes::Some(what) => return kept(what, true),
                Changes::Unknown(why) => {
                    return kept(format!("nobody can tell whether it was changed: {why}"), true);
                }
            }
        }
        let branch = folder.note.as_ref().and_then(|note| note.branch.as_deref());
        let branch_note = |commits: u64| {
            let branch = branch.filter(|_| commits > 0)?;
            Some(format!("branch '{branch}' stays: {commits} of its commits are on no other"))
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

    /// Removes the copies of conversations that no command names any more.
    fn remove_unused_conversations(&self, gone: &BTreeSet<PathBuf>) {
        let kept: Vec<&RecordingInfo> =
            self.recordings.iter().filter(|recorded| !gone.contains(&recorded.path)).collect();
        if self.unknown.is_some() || kept.iter().any(|recorded| recorded.unknown.is_some()) {
            return;
        }
        let named: BTreeSet<&str> =
            kept.iter().flat_map(|recorded| &recorded.command).map(String::as_str).collect();
        let copies = std::fs::read_dir(self.places.branches().join(CONVERSATIONS)).into_iter().flatten();
        for copy in copies.flatten().map(|copy| copy.path()) {
            let name = copy.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_live = || {
                let hosts = entries(&self.places.hosts());
                hosts
                    .iter()
                    .filter(|host| host.is_alive())
                    .any(|host| host.argv.iter().any(|word| word.ends_with(name)))
            };
            let written = copy.metadata().and_then(|meta| meta.modified()).ok();
            let is_named = named.iter().any(|word| word.ends_with(name))
                || self.commands.iter().any(|text| text.contains(name));
            if !is_recent(written) && !is_named && !is_live() {
                // What cannot be removed is only left over.
                let _ = std::fs::remove_file(copy);
            }
        }
    }
}

impl PruneOutcome {
    pub(super) fn json(&self) -> Value {
        json!({ "path": self.folder, "removed": self.removed, "why": self.why })
    }

    /// A line on it; none for what is needed.
    pub(super) fn line(&self, dry_run: bool) -> Option<String> {
        let folder = self.folder.display();
        match (self.removed, &self.why) {
            (true, None) if dry_run => Some(format!("branch {folder}  would be removed")),
            (true, None) => Some(format!("branch {folder}  removed")),
            (true, Some(why)) => Some(format!("branch {folder}  removed; {why}")),
            (false, Some(why)) if self.is_reported => Some(format!("branch {folder}  stays: {why}")),
            (false, _) => None,
        }
    }
}

/// The sessions of a file, which stays as it is: loading moves a damaged one aside, so that a copy is loaded.
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
    ensure!(report.problem.is_none(), "{} is damaged, or of another version", file.display());
    Ok(sessions)
}

fn is_recent(written: Option<SystemTime>) -> bool {
    // A time that is not known, or to come, is no proof of age.
    written.and_then(|at| at.elapsed().ok()).is_none_or(|age| age < MIN_AGE)
}

/// A recording's id; of one with another name, its path.
fn display_name(recording: &Path) -> String {
    id_of(recording).map_or_else(|| recording.display().to_string(), str::to_string)
}

/// Lists the folders of branches.
pub(super) fn list(args: &BranchesArgs) -> Result<()> {
    let folders = BranchFolders::scan();
    if let Some(why) = &folders.unknown {
        out::warning(format_args!("nobody can tell which nodes can be started again: {why}"));
    }
    let none = BTreeSet::new();
    let rows = folders.folders.iter().map(|folder| {
        let recordings: Vec<String> = folders.recordings(folder, &none).map(display_name).collect();
        (folder, folders.worker(folder), recordings, folder.changes(&folders.store))
    });
    if args.json {
        let all = rows.map(|(folder, worker, recordings, changes)| {
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
                "used_by": worker, "recordings": recordings, "changed": changed, "changes": about,
            })
        });
        return out::json(&all.collect());
    }
    let rows: Vec<Vec<String>> = rows
        .map(|(folder, worker, recordings, changes)| {
            let note = folder.note.as_ref();
            vec![
                folder.path.display().to_string(),
                note.map(|note| format::time(note.made_at())).unwrap_or_default(),
                note.map(|note| note.files.source.display().to_string()).unwrap_or_default(),
                worker.unwrap_or("nobody").to_string(),
                recordings.len().to_string(),
                match changes {
                    Changes::None => "none".to_string(),
                    Changes::Some(what) => what,
                    Changes::Unknown(_) => "not known".to_string(),
                },
            ]
        })
        .collect();
    if rows.is_empty() {
        out::note(format_args!("no branches in {}", folders.places.branches().display()));
    }
    out::table(&["folder", "made", "of", "used by", "recordings", "changes"], &rows)
}
