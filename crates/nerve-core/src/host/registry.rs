//! Entries of hosts: a file for each, written by the host, so that a new server, or a person, finds it again.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nerve_term::event::{ExitStatus, TsNs};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HostSpec, SNAPSHOT};

/// An entry is read up to here.
const ENTRY_LIMIT: u64 = 1 << 20;
/// What comes after a host's id in the name of the folder for what belongs to a session that is not recorded.
const UNRECORDED: &str = "unrecorded";
/// The name of the file that stands in it for a recording.
const STANDS_FOR: &str = "session.ahr";

/// What is known of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// Names the session in recordings and file snapshots.
    pub session_id: String,
    /// The host's process id.
    pub pid: u32,
    /// When it was started, in clock ticks since boot: tells it from a later process of the same id.
    pub start: u64,
    /// The program's process id.
    pub child: i32,
    /// When the program was started, as `start`.
    pub child_start: u64,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where it works.
    pub cwd: Option<PathBuf>,
    /// Size at the start.
    pub cols: u16,
    /// Size at the start.
    pub rows: u16,
    /// Its folder for sockets.
    pub runtime: PathBuf,
    /// Where snapshots are announced, if that is not in its folder: `tcp:HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots_at: Option<String>,
    /// Its recording.
    pub recording: Option<PathBuf>,
    /// Where what belongs to a session is kept while there is no recording for it to stand beside: named as a recording would be, and
    /// gone with this entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<PathBuf>,
    /// When it was started, nanoseconds since the epoch.
    pub started: u64,
    /// How the program ended, if it has: `{"code": n}` or `{"signal": n}` or `{}`.
    pub exit: Option<Exit>,
    /// What the one who started it wrote on it.
    pub label: Value,
    /// What the one who drives the terminal wants the next one to know.
    #[serde(default)]
    pub memory: Value,
}

/// An exit status, as kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// It returned this code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// This signal ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Exit {
        match status {
            ExitStatus::Code(code) => Exit { code: Some(code), signal: None },
            ExitStatus::Signal(signal) => Exit { code: None, signal: Some(signal) },
            ExitStatus::Unknown => Exit { code: None, signal: None },
        }
    }
}

impl From<Exit> for ExitStatus {
    fn from(exit: Exit) -> ExitStatus {
        match (exit.code, exit.signal) {
            (Some(code), _) => ExitStatus::Code(code),
            (None, Some(signal)) => ExitStatus::Signal(signal),
            (None, None) => ExitStatus::Unknown,
        }
    }
}

impl Entry {
    pub(super) fn new(spec: &HostSpec, child: i32, started: TsNs) -> Entry {
        let pid = std::process::id();
        Entry {
            id: spec.id.clone(),
            session_id: spec.session_id.clone(),
            pid,
            start: start_ticks(pid).unwrap_or(0),
            child,
            child_start: u32::try_from(child).ok().and_then(start_ticks).unwrap_or(0),
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

    /// The program and its arguments as they were asked for, without what was put into them for its hooks.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.label.get("argv").and_then(|argv| Vec::deserialize(argv).ok());
        asked.filter(|asked| !asked.is_empty()).unwrap_or_else(|| self.argv.clone())
    }

    /// Where snapshots are announced: a path, or `tcp:HOST:PORT`.
    pub fn snapshot_socket(&self) -> String {
        self.snapshots_at.clone().unwrap_or_else(|| self.runtime.join(SNAPSHOT).display().to_string())
    }

    /// What stands beside this file belongs to its session: the recording, or, without one, a file that is not there. `None` for a tool
    /// that is not recorded, and for hosts of older versions.
    pub fn session_file(&self) -> Option<&Path> {
        self.recording.as_deref().or(self.unrecorded.as_deref())
    }

    /// Its session is the one with that file, by whatever links it is reached.
    pub fn is_of(&self, session: &Path) -> bool {
        self.session_file().is_some_and(|own| own == session || real(own) == real(session))
    }

    /// The host is still there, and is this user's.
    pub fn is_alive(&self) -> bool {
        let uid = rustix::process::getuid().as_raw();
        let owned = fs::metadata(format!("/proc/{}", self.pid)).is_ok_and(|meta| meta.uid() == uid);
        owned && self.start != 0 && start_ticks(self.pid) == Some(self.start)
    }

    /// The program is still there, host or not.
    pub fn has_child(&self) -> bool {
        let child = u32::try_from(self.child).unwrap_or(0);
        self.child_start != 0 && start_ticks(child) == Some(self.child_start)
    }

    /// Signals the program's process group, if the program is still there.
    pub fn signal_child(&self, signal: Signal) {
        if let Some(child) = Pid::from_raw(self.child).filter(|_| self.has_child()) {
            // Gone already is what a signal is for.
            let _ = rustix::process::kill_process_group(child, signal);
        }
    }

    /// Sends a signal to the host, if it is still there.
    ///
    /// # Errors
    /// It is gone, or the system refuses.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "the host is gone");
        // The descriptor is taken before the check, so the check is about the very process that gets the signal.
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        if !self.is_alive() {
            return Err(gone());
        }
        Ok(rustix::process::pidfd_send_signal(handle, signal)?)
    }

    /// Writes the entry, whole or not at all.
    ///
    /// # Errors
    /// What the system says.
    pub fn store(&self, registry: &Path) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(registry)?;
        serde_json::to_writer(&mut file, self)?;
        file.flush()?;
        file.persist(path_of(registry, &self.id)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Removes the entry, what was kept with it, and what is left of the host's runtime folder. For hosts that are gone.
    pub fn forget(&self, registry: &Path) {
        let _ = fs::remove_file(path_of(registry, &self.id));
        if is_plain(&self.id) && self.unrecorded.is_some() {
            let _ = fs::remove_dir_all(folder_of(registry, &self.id));
        }
        let ours = self.runtime.file_name().is_some_and(|name| name == self.id.as_str());
        if ours {
            let _ = fs::remove_dir_all(&self.runtime);
        }
    }
}

/// All entries, oldest first. What cannot be read is passed over.
pub fn entries(registry: &Path) -> Vec<Entry> {
    let Ok(files) = fs::read_dir(registry) else { return Vec::new() };
    let mut entries: Vec<Entry> = files.flatten().filter_map(|file| read(&file.path())).collect();
    entries.sort_by_key(|entry| entry.started);
    entries
}

/// One entry by its id.
pub fn entry(registry: &Path, id: &str) -> Option<Entry> {
    is_plain(id).then(|| read(&path_of(registry, id))).flatten()
}

/// The same file without links on the way to it. It need not be there.
pub fn real(path: &Path) -> PathBuf {
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

/// Makes the folder for what belongs to a session that is not recorded; gives the file that stands in it for a recording.
pub(super) fn make_unrecorded(registry: &Path, id: &str) -> io::Result<PathBuf> {
    let folder = folder_of(registry, id);
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder.join(STANDS_FOR))
}

fn folder_of(registry: &Path, id: &str) -> PathBuf {
    registry.join(format!("{id}.{UNRECORDED}"))
}

/// The id of the host whose session has this file, if that is one that stands for a recording.
pub fn host_of_unrecorded(session: &Path) -> Option<&str> {
    let folder = session.parent()?.file_name()?.to_str()?;
    let id = folder.strip_suffix(UNRECORDED)?.strip_suffix('.')?;
    (session.file_name()? == STANDS_FOR && is_plain(id)).then_some(id)
}

fn read(path: &Path) -> Option<Entry> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return None;
    }
    let mut bytes = Vec::new();
    // Not a link to somewhere else, and not a pipe that waits for a writer.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    let meta = file.metadata().ok()?;
    // Whoever can write here is this user; somebody else's file is none of our hosts.
    if !meta.is_file() || meta.uid() != rustix::process::getuid().as_raw() {
        return None;
    }
    file.take(ENTRY_LIMIT).read_to_end(&mut bytes).ok()?;
    let entry: Entry = serde_json::from_slice(&bytes).ok()?;
    path.file_stem().is_some_and(|stem| stem == entry.id.as_str()).then_some(entry)
}

fn path_of(registry: &Path, id: &str) -> PathBuf {
    registry.join(format!("{id}.json"))
}

/// When a living process was started, in clock ticks since boot (proc_pid_stat(5), field 22). One that is dead and was not yet
/// reaped is not there.
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name stands in parentheses and may hold blanks and parentheses itself: count from its end.
    let after_name = stat.get(stat.rfind(')')? + 1..)?;
    if matches!(after_name.trim_start().chars().next(), Some('Z' | 'X')) {
        return None;
    }
    after_name.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_a_recording_names_its_host() {
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
