//! Starts hosts for the nodes of an engine and finds them again.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_record::store::Store;
use nerve_types::{Size, TsNs};
use serde::{Deserialize, Serialize};

use crate::backend::{HostedBackend, Program, SpawnError};
use crate::launch::launch;
use crate::registry::{self, DamagedEntry, Entry};
use crate::{CONTROL, EndSnapshot, HostSpec};

/// Directory for an agent's hooks, within the runtime directory of its host.
pub const HOOKS: &str = "hooks";
/// Default Brotli quality of recordings: fast, with small files.
pub const QUALITY: u8 = 4;

/// Starts hosts; holds the directories they use.
#[derive(Debug, Clone)]
pub struct HostManager {
    /// The program that runs a host when called as `PROGRAM host run`.
    pub program: PathBuf,
    /// Private directory for the sockets of hosts.
    pub runtime: PathBuf,
    /// Private directory for the entries of hosts.
    pub registry: PathBuf,
    /// Directory for recordings.
    pub recordings: PathBuf,
    /// Directory for the files of snapshots.
    pub snapshots: PathBuf,
}

/// The settings of a node, stored with its host so that a later server can recreate the node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Label {
    /// Kind of the node, as on the wire.
    #[serde(default = "pty")]
    pub kind: String,
    /// Name of the server.
    pub server: String,
    /// Session of the node.
    pub session: Option<String>,
    /// Id of the node.
    pub node: String,
    /// The command as requested, without arguments added by nerve.
    pub argv: Vec<String>,
    /// Value of `HOME` set for the node.
    pub env_home: Option<String>,
    /// Name of the agent's profile.
    pub profile: String,
    /// Name of the parser.
    pub parser: String,
    /// Version of the agent at its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// Time limit of the start.
    pub ready_timeout: Duration,
    /// Time limit of a turn without one of its own.
    pub response_timeout: Duration,
    /// True if a history is written.
    pub history: bool,
    /// Names of the variables set for the node, without their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Kind of the node's proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_kind: Option<String>,
    /// Id under which the state of the proxy is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
}

/// The kind of nodes whose label has none.
fn pty() -> String {
    "pty".to_string()
}

/// The settings of a host for a node.
pub struct HostContext<'a> {
    /// The program as requested.
    pub program: &'a Program,
    /// Initial size of the terminal.
    pub size: Size,
    /// The snapshot at the program's end.
    pub end: EndSnapshot,
    /// Settings of the node, stored with the host.
    pub label: &'a Label,
    /// True to record.
    pub record: bool,
    /// Start time.
    pub now: TsNs,
}

impl HostManager {
    /// Starts a program in a host of its own. `add_hooks` may add arguments for the program's hooks; it gets the directory for
    /// them.
    ///
    /// # Errors
    /// [`SpawnError`]: nothing was started.
    pub async fn start(
        &self,
        context: HostContext<'_>,
        add_hooks: impl FnOnce(&mut Vec<String>, &Path),
    ) -> Result<(HostedBackend, Entry), SpawnError> {
        let HostContext { program, size, end, label, record, now } = context;
        let (id, session_id) = HostSpec::new_ids();
        let runtime = self.runtime.join(&id);
        let store = Store::new(self.recordings.clone());
        // Ids created by nerve are always valid in a path.
        let recording = record.then(|| store.path_for(&session_id, now)).and_then(Result::ok);
        let mut argv = program.argv.clone();
        add_hooks(&mut argv, &runtime.join(HOOKS));
        let host = HostSpec {
            id,
            session_id,
            argv,
            // A later server that takes the host over may have another directory.
            cwd: program.cwd.clone().or_else(|| std::env::current_dir().ok()),
            env: program.env.clone(),
            env_remove: program.env_remove.clone(),
            cols: size.cols,
            rows: size.rows,
            recording,
            must_record: false,
            quality: QUALITY,
            runtime: runtime.clone(),
            registry: self.registry.clone(),
            snapshots_at: None,
            label: serde_json::to_value(label).unwrap_or_default(),
            end: Some(end),
            viewed: false,
        };
        let started = launch(&self.program, &host).await.inspect_err(|_| {
            // The host removes it itself if it got that far.
            let _ = std::fs::remove_dir_all(&runtime);
        });
        let entry = started?;
        let backend = HostedBackend::drive(entry.clone(), self.registry.clone());
        Ok((backend, entry))
    }

    /// Returns the files of the registry that cannot be read. A host of this server may be among them.
    pub fn damaged_entries(&self) -> Vec<DamagedEntry> {
        registry::list(&self.registry).damaged
    }

    /// Returns the files of the registry that cannot be read, and whose hosts may run. A host that ended, or ran before the
    /// machine started anew, does not listen on its socket. If the registry's directory cannot be read, any host may run.
    pub fn damaged_entries_in_use(&self) -> Vec<DamagedEntry> {
        let may_run = |entry: &DamagedEntry| {
            if entry.path == self.registry {
                return true;
            }
            let folder = self.runtime.join(entry.path.file_stem().unwrap_or_default());
            let connected = UnixStream::connect(folder.join(CONTROL));
            // The socket of a running host may have been deleted.
            connected.map_or_else(
                |error| error.kind() != io::ErrorKind::ConnectionRefused && folder.exists(),
                |_| true,
            )
        };
        self.damaged_entries().into_iter().filter(may_run).collect()
    }

    /// Returns the hosts of this server's nodes, including ended ones whose exit was not acknowledged. Oldest first, living
    /// ones before ended ones.
    pub fn of_server(&self, server: &str) -> Vec<(Entry, Label)> {
        let mut entries = registry::entries(&self.registry);
        // A living host has precedence over an ended one of the same name.
        entries.sort_by_key(|entry| !entry.is_alive());
        entries
            .into_iter()
            .filter_map(|entry| {
                let label: Label = serde_json::from_value(entry.label.clone()).ok()?;
                (label.server == server).then_some((entry, label))
            })
            .collect()
    }
}
