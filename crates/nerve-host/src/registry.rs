//! The registry of hosts: one file per host, written by the host, through which servers and people find it.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nerve_types::files::replace_unsynced;
use nerve_types::os::{ProcessHandle, is_own_process, start_time};
use nerve_types::regular_file::{Links, open_regular};
use nerve_types::{ExitStatus, TsNs};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{HostSpec, SNAPSHOT};

/// Maximum bytes of an entry; a larger one is not written. The system limits a command and its variables to less than a tenth.
const ENTRY_LIMIT: u64 = 32 << 20;
/// Suffix of the directory for data of a session that is not recorded; the host's id precedes it.
const UNRECORDED: &str = "unrecorded";
/// Name of the stand-in for a recording in that directory.
const STANDS_FOR: &str = "session.ahr";

/// The entry of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Id of the host.
    pub id: String,
    /// Id of the session in recordings and file snapshots.
    pub session_id: String,
    /// Process id of the host.
    pub pid: u32,
    /// Start time of the host; distinguishes it from a later process with the same id.
    pub start: u64,
    /// Process id of the program.
    pub child: i32,
    /// Start time of the program.
    pub child_start: u64,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: Option<PathBuf>,
    /// Columns at the start.
    pub cols: u16,
    /// Rows at the start.
    pub rows: u16,
    /// Directory for the host's sockets.
    pub runtime: PathBuf,
    /// Address for snapshot requests (`tcp:HOST:PORT`), unless it is a socket in `runtime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots_at: Option<String>,
    /// Path of the recording.
    pub recording: Option<PathBuf>,
    /// Stand-in for the recording of a session that is not recorded. The path itself does not exist: data of the session is
    /// stored next to it. That data is removed with the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<PathBuf>,
    /// Start of the host, in nanoseconds since the Unix epoch.
    pub started: u64,
    /// Exit status.
    pub exit: Option<ExitStatus>,
    /// Data of the starter, see [`HostSpec::label`].
    pub label: Value,
    /// State for the next driver of the terminal.
    #[serde(default)]
    pub memory: Value,
}

impl Entry {
    /// Creates the entry of this process, without the program.
    pub(super) fn new(spec: &HostSpec, started: TsNs) -> Entry {
        let pid = std::process::id();
        Entry {
            id: spec.id.clone(),
            session_id: spec.session_id.clone(),
            pid,
            start: start_time(pid).unwrap_or(0),
            child: 0,
            child_start: 0,
            argv: spec.argv.clone(),
            cwd: spec.cwd.clone(),
            cols: spec.cols,
            rows: spec.rows,
            runtime: spec.runtime.clone(),
            snapshots_at: None,
            recording: spec.recording.clone(),
            unrecorded: None,
            started: started.0,
            exit: None,
            label: spec.label.clone(),
            memory: Value::Null,
        }
    }

    /// Sets the program.
    pub(super) fn set_child(&mut self, child: i32) {
        self.child = child;
        self.child_start = start_time(child).unwrap_or(0);
    }

    /// Returns the command as requested, without arguments added for hooks.
    pub fn requested_argv(&self) -> Vec<String> {
        let argv = self.label.get("argv").and_then(|argv| Vec::deserialize(argv).ok());
        argv.filter(|argv| !argv.is_empty()).unwrap_or_else(|| self.argv.clone())
    }

    /// Returns the address for snapshot requests: a path, or `tcp:HOST:PORT`.
    pub fn snapshot_socket(&self) -> String {
        self.snapshots_at.clone().unwrap_or_else(|| self.runtime.join(SNAPSHOT).display().to_string())
    }

    /// Returns the path next to which data of the session is stored: the recording or its stand-in. `None` for a tool that is
    /// not recorded, and for hosts of older versions.
    pub fn session_file(&self) -> Option<&Path> {
        self.recording.as_deref().or(self.unrecorded.as_deref())
    }

    /// Returns true if `session` is this host's session file, also through symbolic links.
    pub fn belongs_to(&self, session: &Path) -> bool {
        self.session_file()
            .is_some_and(|own| own == session || canonical_path(own) == canonical_path(session))
    }

    /// Returns true if the host process is alive and belongs to this user.
    pub fn is_alive(&self) -> bool {
        is_own_process(self.pid, self.start)
    }

    /// Returns true if the program is alive, with or without its host.
    pub fn has_child(&self) -> bool {
        self.child_start != 0 && start_time(self.child) == Some(self.child_start)
    }

    /// Signals the program's process group if the program is alive.
    pub fn signal_child(&self, signal: Signal) {
        if let Some(child) = Pid::from_raw(self.child).filter(|_| self.has_child()) {
            // The program may have ended already.
            let _ = rustix::process::kill_process_group(child, signal);
        }
    }

    /// Signals the host.
    ///
    /// # Errors
    /// The host is gone, or the system refuses.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        // Opened before the check, so that the checked process is the one that gets the signal.
        let process = ProcessHandle::open(self.pid)?;
        if !self.is_alive() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host is gone"));
        }
        process.signal(signal)
    }

    /// Writes the entry atomically.
    ///
    /// # Errors
    /// The file cannot be written, or could not be read again.
    pub fn store(&self, registry: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(self)?;
        if bytes.len() as u64 > ENTRY_LIMIT {
            let message =
                format!("it has {} bytes, more than {ENTRY_LIMIT}: shorten the command", bytes.len());
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        replace_unsynced(&path_of(registry, &self.id), &bytes)
    }

    /// Removes the entry, its stand-in directory and the runtime directory. For hosts that are gone.
    pub fn forget(&self, registry: &Path) {
        let _ = fs::remove_file(path_of(registry, &self.id));
        if is_plain(&self.id) && self.unrecorded.is_some() {
            let _ = fs::remove_dir_all(folder_of(registry, &self.id));
        }
        let is_own_folder = self.runtime.file_name().is_some_and(|name| name == self.id.as_str());
        if is_own_folder {
            let _ = fs::remove_dir_all(&self.runtime);
        }
    }
}

/// The content of a registry.
#[derive(Debug, Default)]
pub struct Listing {
    /// All readable entries, oldest first.
    pub entries: Vec<Entry>,
    /// Files whose entries cannot be read, sorted by path.
    pub damaged: Vec<DamagedEntry>,
}

/// A file that should have an entry but cannot be read. Its host may be running, but nothing finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamagedEntry {
    /// Path of the file.
    pub path: PathBuf,
    /// Reason why it cannot be read.
    pub reason: String,
}

impl std::fmt::Display for DamagedEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot read the host entry {}: {}", self.path.display(), self.reason)
    }
}

/// Reads a registry. A missing one is empty, and files of other users are ignored.
pub fn list(registry: &Path) -> Listing {
    let mut listing = Listing::default();
    let mut add_damaged = |path: &Path, error: &io::Error| {
        listing.damaged.push(DamagedEntry { path: path.to_path_buf(), reason: error.to_string() });
    };
    match fs::read_dir(registry) {
        Ok(files) => {
            for path in files.flatten().map(|file| file.path()).filter(|path| is_entry_path(path)) {
                match read(&path) {
                    Ok(entry) => listing.entries.extend(entry),
                    // The host has just ended.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => add_damaged(&path, &error),
                }
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => add_damaged(registry, &error),
    }
    listing.entries.sort_by_key(|entry| entry.started);
    listing.damaged.sort_by(|one, other| one.path.cmp(&other.path));
    listing
}

/// Returns all readable entries, oldest first.
pub fn entries(registry: &Path) -> Vec<Entry> {
    list(registry).entries
}

/// Returns an entry by its id.
pub fn entry(registry: &Path, id: &str) -> Option<Entry> {
    is_plain(id).then(|| read(&path_of(registry, id)).ok().flatten()).flatten()
}

/// Resolves symbolic links. The file itself need not exist.
pub fn canonical_path(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    if let Ok(real) = fs::canonicalize(&path) {
        return real;
    }
    let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Creates the directory for data of a session that is not recorded. Returns the stand-in path for the recording.
pub(super) fn make_unrecorded(registry: &Path, id: &str) -> io::Result<PathBuf> {
    let folder = folder_of(registry, id);
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder.join(STANDS_FOR))
}

fn folder_of(registry: &Path, id: &str) -> PathBuf {
    registry.join(format!("{id}.{UNRECORDED}"))
}

/// Returns the id of the host that a stand-in path belongs to; `None` for other paths.
pub fn host_of_unrecorded(session: &Path) -> Option<&str> {
    let folder = session.parent()?.file_name()?.to_str()?;
    let id = folder.strip_suffix(UNRECORDED)?.strip_suffix('.')?;
    (session.file_name()? == STANDS_FOR && is_plain(id)).then_some(id)
}

/// Reads an entry; `None` if it belongs to another user.
fn read(path: &Path) -> io::Result<Option<Entry>> {
    let file = open_regular(path, fs::File::options().read(true), Links::Refuse)?;
    if file.metadata()?.uid() != rustix::process::getuid().as_raw() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(ENTRY_LIMIT).read_to_end(&mut bytes)?;
    let entry: Entry = serde_json::from_slice(&bytes)?;
    if path.file_stem().is_none_or(|stem| stem != entry.id.as_str()) {
        return Err(io::Error::other(format!("it is the entry of host '{}'", entry.id)));
    }
    Ok(Some(entry))
}

fn is_entry_path(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

fn path_of(registry: &Path, id: &str) -> PathBuf {
    registry.join(format!("{id}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an entry whose label has the command, too.
    fn entry_with(argv: &[String]) -> Entry {
        let spec: HostSpec = serde_json::from_value(serde_json::json!({
            "id": "aa11", "session_id": "s", "argv": argv, "cwd": null, "env": {}, "env_remove": [], "cols": 80, "rows": 24,
            "recording": null, "quality": 5, "runtime": "/r", "registry": "/r", "snapshots_at": null,
            "label": { "argv": argv },
        }))
        .unwrap();
        Entry::new(&spec, TsNs(0))
    }

    #[test]
    fn each_stored_entry_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        // As long as the system allows, with characters that JSON escapes.
        let longest = entry_with(&vec!["\u{1}".repeat(128 << 10); 16]);
        longest.store(folder.path()).unwrap();
        let listing = list(folder.path());
        assert_eq!((listing.entries, listing.damaged), (vec![longest], Vec::new()));
        fs::remove_file(path_of(folder.path(), "aa11")).unwrap();
        let too_long = entry_with(&vec!["x".repeat(1 << 20); 17]);
        assert_eq!(too_long.store(folder.path()).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(!path_of(folder.path(), "aa11").exists());
    }

    #[test]
    fn damaged_entries_are_reported_and_others_listed() {
        let folder = tempfile::tempdir().unwrap();
        let missing = list(&folder.path().join("none"));
        assert!(missing.entries.is_empty() && missing.damaged.is_empty());
        entry_with(&["sh".to_string()]).store(folder.path()).unwrap();
        fs::copy(folder.path().join("aa11.json"), folder.path().join("bb3.json")).unwrap();
        fs::write(folder.path().join("bb1.json"), "{").unwrap();
        fs::create_dir(folder.path().join("bb2.json")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("bb4.json")).unwrap();
        fs::write(folder.path().join(".tmp"), "{").unwrap();
        let listing = list(folder.path());
        assert_eq!(listing.entries.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["aa11"]);
        let damaged: Vec<_> = listing.damaged.iter().map(|file| file.path.file_name().unwrap()).collect();
        assert_eq!(damaged, ["bb1.json", "bb2.json", "bb3.json", "bb4.json"]);
        assert!(listing.damaged[1].to_string().ends_with("bb2.json: not a regular file"), "{listing:?}");
        assert!(listing.damaged[2].reason.contains("host 'aa11'"), "{listing:?}");
    }

    #[test]
    fn stand_in_path_contains_host_id() {
        let folder = tempfile::tempdir().unwrap();
        let file = make_unrecorded(folder.path(), "aa11").unwrap();
        assert_eq!(host_of_unrecorded(&file), Some("aa11"));
        let recordings = [
            "/r/aa11.ahr",
            "/r/aa11/session.ahr",
            "/r/a.a.unrecorded/session.ahr",
            "/r/.unrecorded/session.ahr",
        ];
        assert!(recordings.iter().all(|path| host_of_unrecorded(Path::new(path)).is_none()));
    }
}
