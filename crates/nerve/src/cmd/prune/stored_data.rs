//! The data that nerve has stored on this machine in addition to recordings, and the removal of what is old. Needs no server.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nerve_graph::journal::has_completed;
use nerve_host::snapshot_retention::{DiskUsage, trim_snapshots};
use nerve_server::paths::ServerPaths;
use nerve_types::files::Lock;

/// Maximum depth of the directories.
const MAX_DEPTH: usize = 8;
/// Maximum depth of directories whose size is counted, which users and their programs create.
const MAX_TREE_DEPTH: usize = 64;
/// Maximum wait for the lock of a workspace. Its writers hold it for milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// A kind of stored data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cmd) enum DataKind {
    /// Audit logs of nodes.
    Histories,
    /// Journals of graph runs.
    Runs,
    /// Request logs of nodes' proxies.
    ProxyLogs,
    /// Logs of servers.
    ServerLogs,
    /// Results of asynchronous executions. They expire by themselves.
    Results,
    /// Conversations with nodes. They are removed only by request.
    Conversations,
    /// Files of snapshots. The oldest are removed if they exceed a limit together.
    Snapshots,
    /// The search index, which is updated with the data that it indexes.
    SearchIndex,
}

/// Rules for the removal of stored data.
#[derive(Debug, Clone, Copy)]
pub(in crate::cmd) struct PruneRules {
    /// Files that were last written before this time are old.
    pub(super) not_before: SystemTime,
    /// Maximum bytes of the files of all snapshots.
    pub(super) snapshot_limit: u64,
    /// Removes old conversations, too.
    pub(super) conversations: bool,
    /// Reports what would be removed, and removes nothing.
    pub(super) dry_run: bool,
}

/// The stored files of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cmd) struct StoredData {
    /// The kind.
    pub(super) kind: DataKind,
    /// Files that were removed, or would be.
    pub(super) removed: FileTotal,
    /// Files that stay.
    pub(super) kept: FileTotal,
}

/// A number of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::cmd) struct FileTotal {
    /// The number.
    pub(in crate::cmd) files: u64,
    /// Their size in bytes.
    pub(in crate::cmd) bytes: u64,
}

impl DataKind {
    /// All kinds.
    const ALL: [DataKind; 8] = [
        DataKind::Histories,
        DataKind::Runs,
        DataKind::ProxyLogs,
        DataKind::ServerLogs,
        DataKind::Results,
        DataKind::Conversations,
        DataKind::Snapshots,
        DataKind::SearchIndex,
    ];

    /// Returns the name: `histories`, `runs`, `proxy logs` …
    pub(super) fn as_str(self) -> &'static str {
        match self {
            DataKind::Histories => "histories",
            DataKind::Runs => "runs",
            DataKind::ProxyLogs => "proxy logs",
            DataKind::ServerLogs => "server logs",
            DataKind::Results => "results",
            DataKind::Conversations => "conversations",
            DataKind::Snapshots => "snapshots",
            DataKind::SearchIndex => "search index",
        }
    }

    fn directory(self, paths: &ServerPaths) -> PathBuf {
        match self {
            DataKind::Histories => paths.data.history.clone(),
            DataKind::Runs => paths.runs(),
            DataKind::ProxyLogs => paths.data.proxies.join("log"),
            DataKind::ServerLogs => paths.state.join("logs"),
            DataKind::Results => paths.results(),
            DataKind::Conversations => paths.conversations(),
            DataKind::Snapshots => paths.data.snapshots.clone(),
            DataKind::SearchIndex => paths.data.search.clone(),
        }
    }

    /// Returns true if a file that was written long ago is no longer needed.
    fn is_removable(self, path: &Path, paths: &ServerPaths, rules: PruneRules) -> bool {
        match self {
            // A node that runs holds the lock of its history.
            DataKind::Histories => !is_locked(path),
            // Other runs can be resumed.
            DataKind::Runs => has_completed(path),
            DataKind::ProxyLogs => !is_server_running(&server_of_proxy_log(path, paths), paths),
            DataKind::ServerLogs => path
                .file_name()
                .and_then(|name| name.to_str()?.split('.').next())
                .is_some_and(|server| !is_server_running(server, paths)),
            // The other files are locks.
            DataKind::Conversations => {
                rules.conversations && path.extension().is_some_and(|extension| extension == "json")
            }
            // Snapshots are removed by their total size.
            DataKind::Results | DataKind::Snapshots | DataKind::SearchIndex => false,
        }
    }
}

/// Counts the stored files, and removes those that are old and no longer needed.
///
/// Files of running nodes and servers and of runs that can be resumed stay. Files of snapshots are removed if they are the oldest of more
/// than their limit. Passes a warning for each file that cannot be removed.
pub(in crate::cmd) fn prune(
    paths: &ServerPaths,
    rules: PruneRules,
    warn: &mut dyn FnMut(String),
) -> Vec<StoredData> {
    let prune = |kind: DataKind| {
        if kind == DataKind::Snapshots {
            return prune_snapshots(paths, rules, warn);
        }
        let mut data = StoredData { kind, removed: FileTotal::default(), kept: FileTotal::default() };
        let directory = kind.directory(paths);
        visit_files(&directory, MAX_DEPTH, &mut |path, metadata| {
            let remove_old = || match kind {
                DataKind::Conversations => remove_conversation(path, &directory, rules.not_before),
                _ => remove(path, &directory).map(|()| true),
            };
            let is_removed = is_written_before(metadata, rules.not_before)
                && kind.is_removable(path, paths, rules)
                && (rules.dry_run || remove_old().map_err(&mut *warn) == Ok(true));
            let total = if is_removed { &mut data.removed } else { &mut data.kept };
            total.files += 1;
            total.bytes += metadata.len();
        });
        data
    };
    DataKind::ALL.map(prune).into()
}

/// Removes the oldest snapshots that exceed the limit, unless something needs them.
fn prune_snapshots(paths: &ServerPaths, rules: PruneRules, warn: &mut dyn FnMut(String)) -> StoredData {
    let PruneRules { snapshot_limit: limit, dry_run, .. } = rules;
    let data = &paths.data;
    let trimmed = trim_snapshots(&data.snapshots, &data.hosts, &data.branches, limit, dry_run);
    for (snapshot, error) in &trimmed.failed {
        warn(format!("cannot remove the files of snapshot {snapshot}: {error}"));
    }
    let total = |size: DiskUsage| FileTotal { files: size.files, bytes: size.bytes };
    StoredData { kind: DataKind::Snapshots, removed: total(trimmed.freed), kept: total(trimmed.kept) }
}

/// Returns the size of the regular files in a directory and those below it.
pub(in crate::cmd) fn directory_size(directory: &Path) -> u64 {
    let mut bytes: u64 = 0;
    visit_files(directory, MAX_TREE_DEPTH, &mut |_, metadata| bytes = bytes.saturating_add(metadata.len()));
    bytes
}

/// Calls `visit` with each regular file. Does not follow symbolic links.
fn visit_files(directory: &Path, depth: usize, visit: &mut dyn FnMut(&Path, &fs::Metadata)) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() && depth > 0 => visit_files(&path, depth - 1, visit),
            Ok(metadata) if metadata.is_file() => visit(&path, &metadata),
            _ => {}
        }
    }
}

fn is_written_before(metadata: &fs::Metadata, time: SystemTime) -> bool {
    metadata.modified().is_ok_and(|written| written < time)
}

/// Removes a conversation, unless a turn was added after `not_before`; returns false then.
fn remove_conversation(path: &Path, root: &Path, not_before: SystemTime) -> Result<bool, String> {
    // Writers read and replace the file under this lock.
    let lock = Lock::take(&path.with_file_name(".lock"), LOCK_TIMEOUT);
    let _lock = lock.map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
    let is_old = path.symlink_metadata().is_ok_and(|metadata| is_written_before(&metadata, not_before));
    if is_old {
        remove(path, root)?;
    }
    Ok(is_old)
}

/// Removes a file, and its directories below `root` that are empty then.
fn remove(path: &Path, root: &Path) -> Result<(), String> {
    fs::remove_file(path).map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
    let directories = path.ancestors().skip(1).take_while(|directory| *directory != root);
    directories.take_while(|directory| fs::remove_dir(directory).is_ok()).for_each(drop);
    Ok(())
}

/// Returns the server in `<proxies>/log/<server>/<session>/<node>.jsonl`.
fn server_of_proxy_log(path: &Path, paths: &ServerPaths) -> String {
    let below = path.strip_prefix(paths.data.proxies.join("log")).ok().and_then(|below| below.iter().next());
    below.unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns true if a server of this name runs, or if that cannot be determined.
fn is_server_running(server: &str, paths: &ServerPaths) -> bool {
    let Ok(lock) = paths.lock(server) else { return true };
    // Jobs of cron have no XDG_RUNTIME_DIR, but the server that they look for may have one.
    let uid = rustix::process::getuid().as_raw();
    let of_login = lock.file_name().map(|name| PathBuf::from(format!("/run/user/{uid}/nerve")).join(name));
    is_locked(&lock) || of_login.is_some_and(|lock| is_locked(&lock))
}

/// Returns true if another process holds the lock of a file, or if that cannot be determined.
fn is_locked(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => match file.try_lock_shared() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(error)) => error.kind() != io::ErrorKind::Unsupported,
        },
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(100_000);

    fn file(path: PathBuf, text: &str, is_old: bool) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        if is_old {
            File::options()
                .append(true)
                .open(&path)
                .unwrap()
                .set_modified(SystemTime::now() - 2 * AGE)
                .unwrap();
        }
        path
    }

    fn rules(dry_run: bool) -> PruneRules {
        let not_before = SystemTime::now() - AGE;
        PruneRules { not_before, snapshot_limit: 0, conversations: false, dry_run }
    }

    fn pruned(paths: &ServerPaths, rules: PruneRules) -> Vec<StoredData> {
        prune(paths, rules, &mut |warning| panic!("{warning}"))
    }

    #[test]
    fn only_old_files_that_are_not_in_use_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ServerPaths::under(dir.path());
        let gone = file(paths.data.history.join("s/review/gone.jsonl"), "1234", true);
        let running = file(paths.data.history.join("s/running.jsonl"), "12", true);
        let new = file(paths.data.history.join("s/new.jsonl"), "1", false);
        let lock = File::open(&running).unwrap();
        lock.lock().unwrap();
        let ended =
            file(paths.runs().join("s/a.jsonl"), "{\"fact\":\"ended\",\"status\":\"completed\"}\n", true);
        let resumable =
            file(paths.runs().join("s/b.jsonl"), "{\"fact\":\"ended\",\"status\":\"failed\"}\n", true);
        let conversation = file(paths.conversations().join("w/c.json"), "{}", true);
        let log = file(paths.state.join("logs/s.log"), "x", true);
        let snapshot = file(paths.data.snapshots.join("s-1/1/a"), "12345", false);

        let of = |all: &[StoredData], kind| *all.iter().find(|data| data.kind == kind).unwrap();
        let planned = pruned(&paths, rules(true));
        let histories = of(&planned, DataKind::Histories);
        assert_eq!((histories.removed.files, histories.removed.bytes), (1, 4));
        assert_eq!((histories.kept.files, histories.kept.bytes), (2, 3));
        assert_eq!(of(&planned, DataKind::Snapshots).removed, FileTotal { files: 1, bytes: 5 });
        assert!(gone.exists() && ended.exists() && log.exists(), "a dry run removes nothing");
        assert!(snapshot.exists());

        assert_eq!(pruned(&paths, rules(false)), planned);
        assert!(!gone.exists() && !gone.parent().unwrap().exists() && !ended.exists() && !log.exists());
        assert!(!snapshot.exists());
        assert!(running.exists() && new.exists() && resumable.exists() && conversation.exists());
        drop(lock);
    }

    #[test]
    fn old_conversations_are_removed_by_request() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ServerPaths::under(dir.path());
        let old = file(paths.conversations().join("w/old.json"), "[]", true);
        let new = file(paths.conversations().join("w/new.json"), "[]", false);
        pruned(&paths, rules(false));
        assert!(old.exists());
        pruned(&paths, PruneRules { conversations: true, ..rules(false) });
        assert!(!old.exists() && new.exists());
    }

    #[test]
    fn conversation_with_a_writer_stays() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ServerPaths::under(dir.path());
        let conversation = paths.conversations().join("w/c.json");
        file(conversation.clone(), "[]", true);
        let rules = PruneRules { conversations: true, ..rules(false) };
        let writer = Lock::take(&conversation.with_file_name(".lock"), Duration::ZERO).unwrap();
        let mut warnings = 0;
        prune(&paths, rules, &mut |_| warnings += 1);
        assert!(conversation.exists() && warnings == 1);

        // The writer has added a turn since the file was found.
        file(conversation.clone(), "[1]", false);
        drop(writer);
        let remove = || remove_conversation(&conversation, &paths.conversations(), rules.not_before);
        assert_eq!(remove(), Ok(false));
        assert!(conversation.exists());
        file(conversation.clone(), "[1]", true);
        assert_eq!(remove(), Ok(true));
        assert!(!conversation.exists());
    }

    #[test]
    fn logs_of_running_server_stay() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ServerPaths::under(dir.path());
        let log = file(paths.state.join("logs/s.log"), "x", true);
        let proxy_log = file(paths.data.proxies.join("log/s/default/me.jsonl"), "x", true);
        let lock = File::create(file(paths.lock("s").unwrap(), "", false)).unwrap();
        lock.lock().unwrap();
        pruned(&paths, rules(false));
        assert!(log.exists() && proxy_log.exists());
        drop(lock);
        pruned(&paths, rules(false));
        assert!(!log.exists() && !proxy_log.exists());
    }
}
