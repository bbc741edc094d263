//! How an engine gives its nodes hosts, and finds them again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_record::store::Store;
use nerve_term::event::TsNs;
use serde::{Deserialize, Serialize};

use super::launch::launch;
use super::registry::{self, Entry};
use super::{EndSnapshot, HostSpec};
use crate::backend::{Hosted, SpawnError};
use crate::command::{BackendKind, NodeRef};
use crate::node::hooks::HookSocket;
use crate::node::terminal::{TerminalLocation, TerminalNode, TerminalSpec};

/// The folder for an agent's hooks, in its host's runtime folder.
pub(super) const HOOKS: &str = "hooks";
/// Brotli's quality of recordings where nobody says another: fast, and small enough (seed agent-record §3).
pub const QUALITY: u8 = 4;

/// Where hosts and their recordings are.
#[derive(Debug, Clone)]
pub struct Hosting {
    /// The program that is a host when run as `PROGRAM host run`.
    pub program: PathBuf,
    /// A private folder for the sockets of hosts.
    pub runtime: PathBuf,
    /// A private folder for the entries of hosts.
    pub registry: PathBuf,
    /// Where recordings go.
    pub recordings: PathBuf,
    /// Where the files of snapshots go.
    pub snapshots: PathBuf,
}

/// What a server writes on its hosts, to make the same node of it again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Label {
    /// Kind of the node, as on the wire.
    #[serde(default = "pty")]
    pub(crate) kind: String,
    pub(crate) server: String,
    pub(crate) session: Option<String>,
    pub(crate) node: String,
    /// As it was asked for, without what we added.
    pub(crate) argv: Vec<String>,
    pub(crate) env_home: Option<String>,
    pub(crate) profile: String,
    pub(crate) parser: String,
    pub(crate) ready_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) history: bool,
    /// Names of the variables that it was given, without their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) env: Vec<String>,
    /// Kind of its proxy, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proxy_kind: Option<String>,
    /// Id of what is kept of its proxy, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proxy: Option<String>,
}

/// The kind of nodes whose label does not say it.
fn pty() -> String {
    BackendKind::Pty.as_str().to_string()
}

impl Label {
    pub(crate) fn at(&self) -> NodeRef {
        NodeRef { session: self.session.clone(), node: self.node.clone() }
    }
}

impl Hosting {
    /// Starts a node in a host of its own.
    ///
    /// # Errors
    /// [`SpawnError`]: nothing was started.
    pub(crate) async fn start(
        &self,
        spec: TerminalSpec,
        label: &Label,
        relay: Option<&Path>,
        record: bool,
        now: TsNs,
    ) -> Result<TerminalNode, SpawnError> {
        let (id, session_id) = HostSpec::new_ids();
        let runtime = self.runtime.join(&id);
        let store = Store::new(self.recordings.clone());
        // An id of our own making is always one that can be in a path.
        let recording = record.then(|| store.path_for(&session_id, now)).and_then(Result::ok);
        let mut argv = spec.program.argv.clone();
        let hooks = HookSocket::attach_if_able(&spec, relay, &mut argv, Some(&runtime.join(HOOKS)));
        let host = HostSpec {
            id,
            session_id,
            argv,
            // Ours is not the host's for ever: it may be another server's host one day.
            cwd: spec.program.cwd.clone().or_else(|| std::env::current_dir().ok()),
            env: spec.program.env.clone(),
            env_remove: spec.program.env_remove.clone(),
            cols: spec.size.cols,
            rows: spec.size.rows,
            recording,
            must_record: false,
            quality: QUALITY,
            runtime: runtime.clone(),
            registry: self.registry.clone(),
            snapshots_at: None,
            label: serde_json::to_value(label).unwrap_or_default(),
            end: Some(EndSnapshot::of(&spec.profile, &self.snapshots)),
            viewed: false,
        };
        let started = launch(&self.program, &host).await.inspect_err(|_| {
            // The host has removed it if it came so far.
            let _ = std::fs::remove_dir_all(&runtime);
        });
        let entry = started?;
        let backend = Hosted::fresh(entry.clone(), self.registry.clone());
        Ok(TerminalNode::with_backend(spec, backend, hooks, TerminalLocation::of_host(&entry)))
    }

    /// Hosts that this server's nodes run in, or ran in when nobody was there to see their end; oldest first.
    pub(crate) fn of_server(&self, server: &str) -> Vec<(Entry, Label)> {
        let mut entries = registry::entries(&self.registry);
        // What lives has a better claim to a name than what has ended under it.
        entries.sort_by_key(|entry| !entry.is_alive());
        entries
            .into_iter()
            .filter_map(|entry| {
                let label: Label = serde_json::from_value(entry.label.clone()).ok()?;
                (label.server == server).then_some((entry, label))
            })
            .collect()
    }

    /// Takes a host over.
    pub(crate) fn adopt(&self, spec: TerminalSpec, entry: Entry) -> TerminalNode {
        let hooks = HookSocket::resume(&entry.runtime.join(HOOKS)).ok();
        let backend = Hosted::adopt(entry.clone(), self.registry.clone());
        TerminalNode::with_backend(spec, backend, hooks, TerminalLocation::of_host(&entry))
    }
}
