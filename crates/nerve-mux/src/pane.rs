//! Panes of terminal multiplexers that someone else created and nodes drive: their registry entries, claims and recordings.
//!
//! A pane outlives the server. Its entry is a file through which a new server finds it. Its claim is a file lock that ends with
//! the process, so that two servers of one user never type into the same pane.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nerve_record::meta::{Host as MetaHost, Meta};
use nerve_record::store::Store;
use nerve_types::files::{private_folder, read_json, replace_unsynced};
use nerve_types::{ExitStatus, Multiplexer, Size, TsNs};
use serde::{Deserialize, Serialize};

use nerve_host::HostSpec;
use nerve_host::backend::{Memory, SpawnError};
use nerve_host::manager::{Label, QUALITY};
use nerve_host::recorder::Recorder;

/// Maximum size of an entry; a larger one is not read.
const ENTRY_LIMIT: u64 = 1 << 20;

/// The place of a node's window in a terminal multiplexer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PanePlace {
    /// Pane to split: `%3` or `session:window.pane` in tmux, a number in WezTerm [default: a window of its own].
    pub split: Option<String>,
    /// tmux session, created if missing [default: `nerve`].
    pub session: Option<String>,
    /// The multiplexer's server: path of a socket, or a name as for `tmux -L` [default: that of its command line].
    pub socket: Option<String>,
}

/// Directories and programs for panes.
#[derive(Debug, Clone)]
pub struct Panes {
    /// Private directory for entries. Without it, panes cannot be found again.
    pub registry: Option<PathBuf>,
    /// Private directory for claims, shared by all servers of a user.
    pub claims: PathBuf,
    /// Directory for recordings; without it, nothing is recorded.
    pub recordings: Option<PathBuf>,
    /// The `tmux` program [default: the one in PATH].
    pub tmux: Option<PathBuf>,
    /// The `wezterm` program [default: `$NERVE_WEZTERM`, or the one in PATH].
    pub wezterm: Option<PathBuf>,
}

impl Default for Panes {
    /// Returns the settings of a process that is not a server.
    fn default() -> Panes {
        let uid = rustix::process::getuid().as_raw();
        Panes {
            registry: None,
            claims: std::env::temp_dir().join(format!("nerve-{uid}")).join("panes"),
            recordings: None,
            tmux: None,
            wezterm: None,
        }
    }
}

/// The registry entry of a pane that a node drives.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PaneEntry {
    /// Id of the entry.
    pub id: String,
    /// Id of the session in recordings.
    pub session_id: String,
    /// The multiplexer.
    #[serde(rename = "terminal")]
    pub multiplexer: Multiplexer,
    /// Socket of the multiplexer's server.
    pub socket: Option<String>,
    /// Process id and start time of the multiplexer's server, if known: another server reuses pane ids.
    #[serde(default)]
    pub server: Option<(u32, u64)>,
    /// Session of the multiplexer, if it has sessions.
    #[serde(default)]
    pub session: Option<String>,
    /// Id of the pane in the multiplexer.
    pub pane: String,
    /// Process id of the program, if known.
    #[serde(default)]
    pub pid: Option<i32>,
    /// Its start time in clock ticks since boot, if known: multiplexers reuse the ids of panes, and the system those of processes.
    #[serde(default)]
    pub started: Option<u64>,
    /// Working directory of the program.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// Data needed to recreate the node.
    pub label: Label,
    /// Path of the recording.
    #[serde(default)]
    pub recording: Option<PathBuf>,
    /// State for the next driver of the pane.
    #[serde(default)]
    pub memory: Memory,
}

/// An existing pane and the settings with which a node drives it.
pub struct PaneContext<'a> {
    /// Registry of the server's panes.
    pub panes: &'a Panes,
    /// The pane: `%3` or `session:window.pane` in tmux, a number in WezTerm.
    pub pane: &'a str,
    /// The multiplexer's server, see [`PanePlace::socket`].
    pub socket: Option<&'a str>,
    /// Label that marks the pane as the node's.
    pub label: &'a Label,
    /// Working directory of the program, if known.
    pub cwd: Option<PathBuf>,
    /// The program draws its own screen.
    pub full_screen: bool,
    /// Id of the agent's conversation.
    pub conversation_id: Option<String>,
    /// Records the pane's output.
    pub record: bool,
    /// Current time.
    pub now: TsNs,
}

impl Panes {
    /// Returns the entries of a server's nodes, whether or not the panes still exist.
    pub fn of_server(&self, server: &str) -> Vec<PaneEntry> {
        let files = self.registry.iter().flat_map(fs::read_dir).flatten().flatten();
        let mut entries: Vec<PaneEntry> = files
            .filter_map(|file| read(&file.path()))
            .filter(|entry| entry.label.server == server)
            .collect();
        // Ids increase with time.
        entries.sort_by(|one, other| one.id.cmp(&other.id));
        entries
    }

    /// Writes an entry atomically. Does nothing without a registry.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn store(&self, entry: &PaneEntry) -> io::Result<()> {
        let Some(registry) = &self.registry else { return Ok(()) };
        private_folder(registry)?;
        replace_unsynced(&path_of(registry, &entry.id), &serde_json::to_vec(entry)?)
    }

    /// Removes an entry. Does nothing without a registry.
    pub(crate) fn forget(&self, entry: &PaneEntry) {
        if let Some(registry) = &self.registry {
            // The file may be gone already.
            let _ = fs::remove_file(path_of(registry, &entry.id));
        }
    }

    /// Creates the recording of a pane; `None` if recording is off. `screens`: the recording consists of screen
    /// states, not of the program's bytes.
    ///
    /// # Errors
    /// The recording or its metadata cannot be written; the message.
    fn start_recording(
        &self,
        entry: &PaneEntry,
        size: Size,
        now: TsNs,
        screens: bool,
    ) -> Result<Option<Recorder>, String> {
        let Some(folder) = &self.recordings else { return Ok(None) };
        let failed = |error: &dyn std::fmt::Display| format!("nothing is recorded: {error}");
        let path = Store::new(folder).prepare(&entry.session_id, now).map_err(|error| failed(&error))?;
        let recorder = Recorder::create(&path, QUALITY).map_err(|error| failed(&error))?;
        let label = &entry.label;
        let meta = Meta {
            started_at: now,
            cmd: label.argv.clone(),
            cols: size.cols,
            rows: size.rows,
            brotli_q: QUALITY,
            host: MetaHost::this(),
            id: Some(entry.session_id.clone()),
            cwd: entry.cwd.clone(),
            node: Some(label.node.clone()),
            session: label.session.clone(),
            server: Some(label.server.clone()),
            profile: Some(label.profile.clone()),
            screens,
            ..Meta::default()
        };
        meta.store(&path).map_err(|error| format!("cannot write the metadata: {error}"))?;
        Ok(Some(recorder))
    }

    /// Adds the program's exit to the recording's metadata.
    ///
    /// # Errors
    /// The metadata cannot be written.
    pub(crate) fn finish_recording(
        &self,
        entry: &PaneEntry,
        exit: ExitStatus,
        ended: TsNs,
    ) -> io::Result<()> {
        let Some(path) = &entry.recording else { return Ok(()) };
        let Ok(Some(meta)) = Meta::load(path) else { return Ok(()) };
        let Memory { conversation_id, transcript, .. } = entry.memory.clone();
        let home = entry.label.env_home.as_ref().map(PathBuf::from);
        Meta { ended_at: Some(ended), exit: Some(exit), conversation_id, transcript, home, ..meta }
            .store(path)
    }

    /// Claims a pane for the node with this label until the claim is dropped. The error of a second claimant names the node.
    ///
    /// # Errors
    /// [`SpawnError::Multiplexer`]: another process has the claim, or the lock file cannot be used.
    pub(crate) fn claim(
        &self,
        multiplexer: Multiplexer,
        socket: Option<&str>,
        pane: &str,
        label: &Label,
    ) -> Result<Claim, SpawnError> {
        let (node, server, pid) = (&label.node, &label.server, std::process::id());
        let holder = format!("node '{node}' of nerve server '{server}' (pid {pid})");
        let claim = self.lock(multiplexer, socket.unwrap_or_default(), pane, &holder);
        claim.map_err(|error| SpawnError::Multiplexer(error.to_string()))
    }

    fn lock(&self, multiplexer: Multiplexer, socket: &str, pane: &str, holder: &str) -> io::Result<Claim> {
        private_folder(&self.claims)?;
        let to_word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        // The inode identifies the socket, which may have several paths.
        let server = match fs::metadata(socket) {
            Ok(file) => format!("{}-{}", file.dev(), file.ino()),
            Err(_) => socket.to_string(),
        };
        let name: String = format!("{multiplexer:?}-{server}-{pane}").chars().map(to_word).collect();
        // Keeps the end, where long paths differ.
        let name: String = name.chars().skip(name.chars().count().saturating_sub(200)).collect();
        let path = self.claims.join(name);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                file.write_all(holder.as_bytes())?;
                Ok(Claim { _file: file })
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.rewind()?;
                // The name of the holder only improves the message.
                let _ = (&mut file).take(1000).read_to_string(&mut holder);
                let holder = if holder.is_empty() { "another nerve process".to_string() } else { holder };
                Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("pane {pane} is driven by {holder}")))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl PaneEntry {
    /// Returns the fixed part of the pane's location for the node's info, as names and values.
    pub fn place(&self) -> Vec<(&'static str, String)> {
        if self.multiplexer == Multiplexer::Wezterm {
            // The backend reports it with each poll.
            return Vec::new();
        }
        let mut place = vec![("pane_id", self.pane.clone()), ("owned", false.to_string())];
        place.extend(self.session.clone().map(|session| ("tmux_session", session)));
        place.extend(self.socket.clone().map(|socket| ("tmux_socket", socket)));
        place
    }
}

impl PaneContext<'_> {
    /// Returns an entry with new ids, before the pane's program is known.
    pub(crate) fn new_entry(&self, multiplexer: Multiplexer) -> PaneEntry {
        let (id, session_id) = HostSpec::new_ids();
        PaneEntry {
            id,
            session_id,
            multiplexer,
            socket: self.socket.map(str::to_string),
            server: None,
            session: None,
            pane: self.pane.to_string(),
            pid: None,
            started: None,
            cwd: self.cwd.clone(),
            label: self.label.clone(),
            recording: None,
            memory: Memory { conversation_id: self.conversation_id.clone(), ..Memory::default() },
        }
    }

    /// Starts the recording, if there is one, and writes the entry. Also returns failures: the node works without both.
    pub(crate) fn register(
        &self,
        entry: &mut PaneEntry,
        size: Size,
        screens: bool,
    ) -> (Option<Recorder>, Vec<String>) {
        let mut faults = Vec::new();
        let recorder = match self.record {
            true => self.panes.start_recording(entry, size, self.now, screens).unwrap_or_else(|error| {
                faults.push(error);
                None
            }),
            false => None,
        };
        entry.recording = recorder.as_ref().map(|recorder| recorder.flusher().path().to_path_buf());
        if let Err(error) = self.panes.store(entry) {
            faults.push(format!("cannot write the pane's entry, so a new server will not find it: {error}"));
        }
        (recorder, faults)
    }
}

/// The exclusive right to drive a pane.
#[derive(Debug)]
pub struct Claim {
    _file: File,
}

fn path_of(registry: &Path, id: &str) -> PathBuf {
    registry.join(format!("{id}.json"))
}

fn read(path: &Path) -> Option<PaneEntry> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return None;
    }
    let entry: PaneEntry = read_json(path, ENTRY_LIMIT).ok()?;
    path.file_stem().is_some_and(|stem| stem == entry.id.as_str()).then_some(entry)
}

/// The settings of a new pane.
#[derive(Debug, Clone, Default)]
pub struct NewPane {
    /// Command [default: the user's shell].
    pub argv: Vec<String>,
    /// Working directory [default: the user's home].
    pub cwd: Option<PathBuf>,
    /// Variables added to its environment.
    pub env: std::collections::BTreeMap<String, String>,
    /// Size, where it can be chosen.
    pub size: nerve_types::Size,
    /// tmux session (created if missing) or WezTerm workspace.
    pub session: Option<String>,
    /// Pane to split: the new one appears to its right, in the same window.
    pub split: Option<String>,
    /// Name of the window.
    pub name: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pane_is_claimed_once_through_all_paths_of_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let panes = Panes { claims: folder.path().join("claims"), ..Panes::default() };
        let paths = ["socket", "link"].map(|name| folder.path().join(name).display().to_string());
        fs::write(&paths[0], "").unwrap();
        std::os::unix::fs::symlink(&paths[0], &paths[1]).unwrap();
        let lock = |path: &str, pane: &str| panes.lock(Multiplexer::Tmux, path, pane, "one");
        let claim = lock(&paths[0], "%1").unwrap();
        let error = lock(&paths[1], "%1").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        lock(&paths[1], "%2").unwrap();
        drop(claim);
        lock(&paths[1], "%1").unwrap();
    }
}
