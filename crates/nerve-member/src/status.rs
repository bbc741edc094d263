//! The status of this machine's membership, in a file that its server keeps.

use std::fs;
use std::io;

use jiff::Timestamp;
use nerve_cluster::{Instance, MachineId};
use nerve_types::files;
use serde::{Deserialize, Serialize};

use crate::config::ClusterConfig;
use crate::identity::Identity;
use crate::member_list::MemberList;
use crate::paths::MemberPaths;

/// Maximum size of the file, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// State of a membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    /// The machine has not had its lease since the start: the broker is away, or an earlier process of the machine has the lease.
    Joining,
    /// The machine has its lease.
    Member,
    /// The machine could not renew its lease for two thirds of its time.
    Suspended,
    /// Another process uses the id of this machine: its state directory was copied.
    IdentityConflict,
}

/// The status of a membership.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// The cluster.
    pub cluster_name: String,
    /// Name of this machine.
    pub machine_name: String,
    /// Id of this machine.
    pub machine_id: MachineId,
    /// Number of starts of its member.
    pub boot: u64,
    /// The state.
    pub state: MemberState,
    /// Time of the last change of the state, by this machine's clock.
    pub since: String,
    /// The current problem with the broker.
    pub problem: Option<String>,
    /// The members at the last reading that differed from the one before.
    #[serde(flatten)]
    pub list: MemberList,
}

impl MemberStatus {
    /// Reads the status; `None` if no server is a member.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(paths: &MemberPaths) -> io::Result<Option<MemberStatus>> {
        if !Identity::is_in_use(paths) {
            return Ok(None);
        }
        match files::read_json(&paths.status(), MAX_FILE) {
            Ok(status) => Ok(Some(status)),
            // The process has just started.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The status that this process keeps in the file. Removed when the membership ends.
#[derive(Debug)]
pub(crate) struct StatusFile {
    paths: MemberPaths,
    status: MemberStatus,
}

impl StatusFile {
    /// Writes the status of a process that begins to join.
    pub(crate) fn create(paths: MemberPaths, config: &ClusterConfig, instance: Instance) -> StatusFile {
        let status = MemberStatus {
            cluster_name: config.cluster.to_string(),
            machine_name: config.machine.clone(),
            machine_id: instance.machine,
            boot: instance.boot,
            state: MemberState::Joining,
            since: Timestamp::now().to_string(),
            problem: None,
            list: MemberList::default(),
        };
        let file = StatusFile { paths, status };
        file.write();
        file
    }

    /// Updates state and problem, and logs a change.
    pub(crate) fn set_state(&mut self, state: MemberState, problem: Option<String>) {
        let status = &mut self.status;
        if (status.state, &status.problem) == (state, &problem) {
            return;
        }
        if status.state != state {
            status.since = Timestamp::now().to_string();
        }
        (status.state, status.problem) = (state, problem);
        let (cluster, problem) = (&status.cluster_name, status.problem.as_deref());
        match (state, problem) {
            (MemberState::Member, None) => tracing::info!(cluster, "this machine is a member"),
            (MemberState::Joining, None) => tracing::info!(cluster, "this machine is joining"),
            _ => tracing::warn!(cluster, ?state, problem, "this machine's membership has a problem"),
        }
        self.write();
    }

    /// Updates the members, and logs those that came and went.
    pub(crate) fn set_members(&mut self, list: MemberList) {
        if self.status.list.has_same_members(&list) {
            return;
        }
        let (before, after) = (self.status.list.processes(), list.processes());
        for (name, id, boot) in after.iter().filter(|member| !before.contains(member)) {
            tracing::info!(machine = name, %id, boot, "a machine is a member");
        }
        for (name, id, boot) in before.iter().filter(|member| !after.contains(member)) {
            tracing::info!(machine = name, %id, boot, "a machine is no longer a member");
        }
        self.status.list = list;
        self.write();
    }

    fn write(&self) {
        let written = serde_json::to_vec(&self.status).map_err(io::Error::from);
        let written = written.and_then(|bytes| files::replace_unsynced(&self.paths.status(), &bytes));
        if let Err(error) = written {
            tracing::warn!(%error, "the status of the membership cannot be written");
        }
    }
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        // The file may be missing, because writing it failed.
        let _ = fs::remove_file(self.paths.status());
    }
}
