//! The settings of a host.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nerve_record::meta::{Host as MetaHost, Meta};
use nerve_types::{Size, TsNs};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backend::Program;

/// The settings of a host. They are passed through a pipe, not on the command line, because variables may be secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostSpec {
    /// Id of the host: 12 hexadecimal digits.
    pub id: String,
    /// Id of the session in recordings and file snapshots.
    pub session_id: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Working directory of the program; the host's own if `None`.
    pub cwd: Option<PathBuf>,
    /// Variables added to the host's environment.
    pub env: BTreeMap<String, String>,
    /// Variables removed from the host's environment.
    pub env_remove: Vec<String>,
    /// Columns of the terminal.
    pub cols: u16,
    /// Rows of the terminal.
    pub rows: u16,
    /// Path of the recording; `None` disables it.
    pub recording: Option<PathBuf>,
    /// Fail the start if the recording cannot be created, instead of reporting a fault.
    #[serde(default)]
    pub must_record: bool,
    /// Brotli quality of the recording, 0–11.
    pub quality: u8,
    /// Directory for this host's sockets and its program's hooks. It is removed with the host.
    pub runtime: PathBuf,
    /// Directory for the entries of hosts.
    pub registry: PathBuf,
    /// Address for snapshot requests; a socket in `runtime` if `None`.
    pub snapshots_at: Option<std::net::SocketAddr>,
    /// Data of the starter, kept with the host's entry.
    pub label: Value,
    /// The snapshot taken after the program's end. `None`, or a session without a recording, takes none.
    #[serde(default)]
    pub end: Option<EndSnapshot>,
    /// A viewer will connect: the host waits for it even if the program ends first.
    #[serde(default)]
    pub viewed: bool,
}

/// The snapshot at the end of a session, from which it can be continued.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EndSnapshot {
    /// Directory in which the files of the working directory are stored; without it, the snapshot is only a mark in the
    /// recording.
    pub files: Option<PathBuf>,
}

/// Label key: id of the execution whose terminal the host is.
pub const EXECUTION: &str = "execution";
/// Label key: recording of the session that the host is a part of.
pub const OF: &str = "of";
/// Variable with the stand-in path of a session that is not recorded ([`crate::registry::Entry::unrecorded`]).
pub const UNRECORDED: &str = "NERVE_UNRECORDED";
/// Name of the control socket in a host's runtime directory.
pub const CONTROL: &str = "control";
/// Name of the socket for snapshot requests.
pub const SNAPSHOT: &str = "snapshot";

impl HostSpec {
    /// Creates a unique host id and the id of its session (a UUID, version 7).
    pub fn new_ids() -> (String, String) {
        let session = uuid::Uuid::now_v7().to_string();
        let id = session.rsplit('-').next().unwrap_or(&session).to_string();
        (id, session)
    }

    /// Returns the path of the control socket.
    pub fn control(&self) -> PathBuf {
        self.runtime.join(CONTROL)
    }

    pub(crate) fn size(&self) -> Size {
        Size::new(self.cols, self.rows)
    }

    pub(crate) fn program(&self) -> Program {
        Program {
            argv: self.argv.clone(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            env_remove: self.env_remove.clone(),
        }
    }

    /// Returns the metadata of the recording.
    pub(crate) fn meta(&self, started: TsNs) -> Meta {
        let text = |key: &str| self.label.get(key).and_then(serde_json::Value::as_str).map(str::to_string);
        let list = |key: &str| -> Option<Vec<String>> { Vec::deserialize(self.label.get(key)?).ok() };
        let requested = list("argv");
        Meta {
            started_at: started,
            cmd: self.argv.clone(),
            cols: self.cols,
            rows: self.rows,
            brotli_q: self.quality,
            host: MetaHost::this(),
            id: Some(self.session_id.clone()),
            cwd: self.cwd.clone(),
            server: text("server"),
            session: text("session"),
            node: text("node"),
            profile: text("profile"),
            requested_cmd: requested.filter(|argv| *argv != self.argv).unwrap_or_default(),
            home: text("env_home").map(PathBuf::from),
            env: list("env").unwrap_or_default(),
            proxy: text("proxy_kind"),
            ..Meta::default()
        }
    }
}
