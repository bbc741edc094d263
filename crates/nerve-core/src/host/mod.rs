//! Hosts: small processes that own one terminal and its recording each, and outlive whoever started them (design section 4).
//!
//! A host has no terminal model and no parser. It reads the terminal, stamps and records the bytes ([`crate::pump`],
//! [`crate::recorder`]), and passes them to whoever is connected ([`protocol`]). It keeps an entry in the [`registry`], so that it is
//! found again. [`launch`] starts one; [`crate::backend::HostedBackend`] drives one.

pub mod connection;
pub mod launch;
pub mod manager;
pub mod observer;
pub mod process;
pub mod protocol;
pub mod registry;

mod backlog;
mod blocking;
mod clients;
pub mod end_snapshot;
mod exit_ack;
mod lifecycle;
mod metadata;
mod reader;
mod session;
mod size_policy;
mod snapshots;
mod sockets;
mod writer;

use std::collections::BTreeMap;
use std::path::PathBuf;

use nerve_record::meta::{Host as MetaHost, Meta};
use nerve_term::event::{Size, TsNs};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backend::Program;

/// What a host is started with. It goes over a pipe, not over the command line: variables can be secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostSpec {
    /// Its id: 12 of `0-9a-f`.
    pub id: String,
    /// Names the session in recordings and file snapshots.
    pub session_id: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where it works; the host's own folder if `None`.
    pub cwd: Option<PathBuf>,
    /// Variables set on top of the host's.
    pub env: BTreeMap<String, String>,
    /// Variables taken out.
    pub env_remove: Vec<String>,
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// Where to record; nothing is recorded if `None`.
    pub recording: Option<PathBuf>,
    /// A recording that cannot be made is an error, not a fault that the session outlives.
    #[serde(default)]
    pub must_record: bool,
    /// Brotli's, 0–11.
    pub quality: u8,
    /// A folder for this host alone: sockets, and what its program's hooks need. Goes with the host.
    pub runtime: PathBuf,
    /// Where entries of hosts are kept.
    pub registry: PathBuf,
    /// Where snapshots are announced; a socket in `runtime` if `None`.
    pub snapshots_at: Option<std::net::SocketAddr>,
    /// What the one who starts it wants to find on it later.
    pub label: Value,
    /// The snapshot that is taken when the program has ended; none if `None`, or if nothing is recorded.
    #[serde(default)]
    pub end: Option<EndSnapshot>,
    /// A viewer is on its way: a program that ends sooner than that one comes is to be seen all the same.
    #[serde(default)]
    pub viewed: bool,
}

/// The last snapshot of a session, where it can be gone on from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EndSnapshot {
    /// Where the files of the program's folder are kept with it; without, it is only a mark in the recording.
    pub files: Option<PathBuf>,
}

/// In the label of a host: the id of the execution that it is the terminal of.
pub const EXECUTION: &str = "execution";
/// In the label of a host: the recording of the session that it is a part of.
pub const OF: &str = "of";
/// The variable of a program whose session is not recorded: the file that stands for its recording ([`registry::Entry::unrecorded`]).
pub const UNRECORDED: &str = "NERVE_UNRECORDED";
/// The socket for those who drive the terminal, in a host's runtime folder.
pub const CONTROL: &str = "control";
/// The socket where snapshots are announced.
pub const SNAPSHOT: &str = "snapshot";

impl HostSpec {
    /// An id that no other host has, and the session id it is a part of (a UUID, version 7).
    pub fn new_ids() -> (String, String) {
        let session = uuid::Uuid::now_v7().to_string();
        let id = session.rsplit('-').next().unwrap_or(&session).to_string();
        (id, session)
    }

    /// Where it listens.
    pub fn control(&self) -> PathBuf {
        self.runtime.join(CONTROL)
    }

    pub(crate) fn size(&self) -> Size {
        Size::new(self.cols, self.rows)
    }

    fn program(&self) -> Program {
        Program {
            argv: self.argv.clone(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            env_remove: self.env_remove.clone(),
        }
    }

    /// What stands beside the recording.
    fn meta(&self, started: TsNs) -> Meta {
        let text = |key: &str| self.label.get(key).and_then(serde_json::Value::as_str).map(str::to_string);
        let list = |key: &str| -> Option<Vec<String>> { Vec::deserialize(self.label.get(key)?).ok() };
        let asked = list("argv");
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
            asked: asked.filter(|asked| *asked != self.argv).unwrap_or_default(),
            home: text("env_home").map(PathBuf::from),
            env: list("env").unwrap_or_default(),
            proxy: text("proxy_kind"),
            ..Meta::default()
        }
    }
}
