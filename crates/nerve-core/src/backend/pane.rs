//! Panes of terminal multiplexers that nodes drive: who drives which, and how a new server finds its own again.
//!
//! A pane outlives us. Its entry is a file, written when the node is made; its claim is a lock on another file, which goes with the
//! process that holds it, so that two servers of one user never type into one pane.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nerve_record::meta::{Host as MetaHost, Meta};
use nerve_record::store::Store;
use nerve_term::event::{ExitStatus, Size, TsNs};
use serde::{Deserialize, Serialize};

use super::Memory;
use crate::command::{PanePlace, TerminalKind};
use crate::host::manager::{Label, QUALITY};
use crate::recorder::Recorder;

/// An entry is read up to here.
const ENTRY_LIMIT: u64 = 1 << 20;

/// Where entries, claims and recordings of panes are.
#[derive(Debug, Clone)]
pub struct Panes {
    /// A private folder for entries; without one, nobody finds a pane again.
    pub registry: Option<PathBuf>,
    /// A private folder for claims: the same for all servers of a user.
    pub claims: PathBuf,
    /// Where recordings go; without it, nothing is recorded.
    pub recordings: Option<PathBuf>,
    /// The program `tmux`; the one in PATH, if `None`.
    pub tmux: Option<PathBuf>,
    /// The program `wezterm`; `$NERVE_WEZTERM`, or the one in PATH, if `None`.
    pub wezterm: Option<PathBuf>,
}

impl Default for Panes {
    /// Of a program that has no server.
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

/// What is known of a pane that a node drives.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PaneEntry {
    /// Its name in the registry.
    pub(crate) id: String,
    /// Names the session in recordings.
    pub(crate) session_id: String,
    /// Whose pane.
    pub(crate) terminal: TerminalKind,
    /// The multiplexer's server: a socket's path.
    pub(crate) socket: Option<String>,
    /// The multiplexer's process and when it was started, where known: another one gives the same numbers to other panes.
    #[serde(default)]
    pub(crate) server: Option<(u32, u64)>,
    /// The multiplexer's session that it was in, where it has such.
    #[serde(default)]
    pub(crate) session: Option<String>,
    /// The pane, as its multiplexer calls it.
    pub(crate) pane: String,
    /// The program's process id, where it is known.
    #[serde(default)]
    pub(crate) pid: Option<i32>,
    /// Where the program works.
    #[serde(default)]
    pub(crate) cwd: Option<PathBuf>,
    /// We made the pane: stopping the node closes it.
    pub(crate) ours: bool,
    /// What it takes to make the node again.
    pub(crate) label: Label,
    /// Its recording.
    #[serde(default)]
    pub(crate) recording: Option<PathBuf>,
    /// What the one who drives it wants the next one to know.
    #[serde(default)]
    pub(crate) memory: Memory,
}

/// What a node in a pane is made with.
pub(crate) struct PaneContext<'a> {
    pub(crate) panes: &'a Panes,
    pub(crate) place: &'a PanePlace,
    pub(crate) label: &'a Label,
    pub(crate) relay: Option<&'a Path>,
    pub(crate) record: bool,
    pub(crate) now: TsNs,
}

impl Panes {
    /// The entries of a server's nodes, whatever became of their panes.
    pub(crate) fn of_server(&self, server: &str) -> Vec<PaneEntry> {
        let files = self.registry.iter().flat_map(fs::read_dir).flatten().flatten();
        let mut entries: Vec<PaneEntry> = files
            .filter_map(|file| read(&file.path()))
            .filter(|entry| entry.label.server == server)
            .collect();
        // Their ids grow with time.
        entries.sort_by(|one, other| one.id.cmp(&other.id));
        entries
    }

    /// Writes an entry, whole or not at all; nothing without a registry.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn store(&self, entry: &PaneEntry) -> io::Result<()> {
        let Some(registry) = &self.registry else { return Ok(()) };
        create_private_dir(registry)?;
        let mut file = tempfile::NamedTempFile::new_in(registry)?;
        serde_json::to_writer(&mut file, entry)?;
        file.flush()?;
        file.persist(path_of(registry, &entry.id)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Removes an entry.
    pub(crate) fn forget(&self, entry: &PaneEntry) {
        if let Some(registry) = &self.registry {
            // Gone already is what it is to be.
            let _ = fs::remove_file(path_of(registry, &entry.id));
        }
        if let Some(folder) = self.hooks_dir(&entry.id) {
            let _ = fs::remove_dir_all(folder);
        }
    }

    /// A private folder for what an agent in a pane needs to tell of itself: it outlives us as the pane does. None without a registry.
    pub(crate) fn hooks_dir(&self, id: &str) -> Option<PathBuf> {
        self.registry.as_ref().map(|registry| registry.join(format!("{id}.hooks")))
    }

    /// A recording for a pane, beside what is known of it; where none is to be made, none. `screens`: it is of states of a screen, not of
    /// bytes.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn start_recording(
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
        meta.store(&path).map_err(|error| format!("no metadata is kept: {error}"))?;
        Ok(Some(recorder))
    }

    /// Notes beside a recording how its program ended.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn finish_recording(
        &self,
        entry: &PaneEntry,
        exit: ExitStatus,
        ended: TsNs,
    ) -> io::Result<()> {
        let Some(path) = &entry.recording else { return Ok(()) };
        let Ok(Some(meta)) = Meta::load(path) else { return Ok(()) };
        let Memory { agent_session, transcript, .. } = entry.memory.clone();
        let home = entry.label.env_home.as_ref().map(PathBuf::from);
        Meta { ended_at: Some(ended), exit: Some(exit), agent_session, transcript, home, ..meta }.store(path)
    }

    /// Makes a pane this process's own, for as long as the claim lives. `holder` says who we are, for those who come second.
    ///
    /// # Errors
    /// Somebody else has it: who, in words. Or the system refuses.
    pub(crate) fn claim(
        &self,
        terminal: TerminalKind,
        socket: &str,
        pane: &str,
        holder: &str,
    ) -> io::Result<Claim> {
        create_private_dir(&self.claims)?;
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = format!("{terminal:?}-{socket}-{pane}").chars().map(word).collect();
        // The end of a long path tells it from others.
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
                // Who it is only helps.
                let _ = (&mut file).take(1000).read_to_string(&mut holder);
                let holder = if holder.is_empty() { "another nerve".to_string() } else { holder };
                Err(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    format!("pane {pane} is driven by {holder} already"),
                ))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// A pane that is ours to drive.
#[derive(Debug)]
pub(crate) struct Claim {
    _file: File,
}

fn create_private_dir(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn path_of(registry: &Path, id: &str) -> PathBuf {
    registry.join(format!("{id}.json"))
}

fn read(path: &Path) -> Option<PaneEntry> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(ENTRY_LIMIT).read_to_end(&mut bytes).ok()?;
    let entry: PaneEntry = serde_json::from_slice(&bytes).ok()?;
    path.file_stem().is_some_and(|stem| stem == entry.id.as_str()).then_some(entry)
}

/// A pane as its multiplexer tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PaneInfo {
    /// `%3` of tmux, a number of WezTerm.
    pub pane: String,
    /// tmux's session, WezTerm's workspace.
    pub session: String,
    /// Its window.
    pub window: String,
    /// Its title.
    pub title: String,
    /// The program that runs in it, where that is told.
    pub command: Option<String>,
    /// Where it works, where that is told.
    pub cwd: Option<PathBuf>,
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// Cursor: column and row of the screen, both from 0.
    pub cursor: (u16, u16),
    /// Process id of the program, where that is told.
    pub pid: Option<i32>,
    /// The terminal's device, where that is told.
    pub tty: Option<PathBuf>,
    /// The one that a person who looks at its window types into.
    pub active: bool,
}

/// A pane to be made.
#[derive(Debug, Clone, Default)]
pub struct NewPane {
    /// What to run; the user's shell if empty.
    pub argv: Vec<String>,
    /// Where; the user's home if `None`.
    pub cwd: Option<PathBuf>,
    /// Variables of its environment.
    pub env: std::collections::BTreeMap<String, String>,
    /// Its size, where that can be chosen.
    pub size: nerve_term::event::Size,
    /// tmux's session (made if it is not there), WezTerm's workspace.
    pub session: Option<String>,
    /// Name of its window.
    pub name: Option<String>,
}

/// Why a multiplexer did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum PaneError {
    /// Its command line is not on this machine.
    #[error("no program '{0}' in PATH")]
    NotInstalled(&'static str),
    /// There is no server of it.
    #[error("no {0} server is running")]
    NoServer(&'static str),
    /// It is too old: what was found, and what is needed.
    #[error("{found} is too old: {needed} or newer is needed")]
    TooOld {
        /// Name and version.
        found: String,
        /// The version that has what we use.
        needed: &'static str,
    },
    /// There is no such pane.
    #[error("no such pane: {0}")]
    NoPane(String),
    /// It did not answer in time; what was asked may still come to pass.
    #[error("{0} timed out after {1:?}; the command may still take effect")]
    NoAnswer(&'static str, std::time::Duration),
    /// It refused, in its words.
    #[error("{0}")]
    Refused(String),
    /// The system refused.
    #[error("cannot {what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        error: io::Error,
    },
}
