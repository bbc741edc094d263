//! Snapshots and branches of recorded sessions on the server's machine.

use nerve_api::reply::{
    BranchCreated, BranchDeleted, BranchInfo, SnapshotInfo, SnapshotRestored, SnapshotTaken,
};
use nerve_api::request::{
    CreateBranch, DeleteBranch, ListBranches, ListSnapshots, RestoreSnapshot, TakeSnapshot,
};

use crate::client::NerveClient;
use crate::error::ClientError;

impl NerveClient {
    /// Lists the snapshots of a recorded session.
    ///
    /// # Errors
    /// See [`NerveClient::request`].
    pub async fn snapshots(&self, filter: &ListSnapshots) -> Result<Vec<SnapshotInfo>, ClientError> {
        Ok(self.request(filter).await?.snapshots)
    }

    /// Takes a snapshot of a running recorded session.
    ///
    /// # Errors
    /// See [`NerveClient::request`]; `invalid_request_error` if the node is not recorded.
    pub async fn take_snapshot(&self, request: &TakeSnapshot) -> Result<SnapshotTaken, ClientError> {
        self.request(request).await
    }

    /// Restores the files of a snapshot to a directory on the server's machine.
    ///
    /// # Errors
    /// See [`NerveClient::request`].
    pub async fn restore_snapshot(&self, request: &RestoreSnapshot) -> Result<SnapshotRestored, ClientError> {
        self.request(request).await
    }

    /// Lists the folders of branches.
    ///
    /// # Errors
    /// See [`NerveClient::request`].
    pub async fn branches(&self) -> Result<Vec<BranchInfo>, ClientError> {
        Ok(self.request(&ListBranches {}).await?.branches)
    }

    /// Creates a node that continues a recorded session from a snapshot, and sends it an instruction.
    ///
    /// # Errors
    /// See [`NerveClient::request`].
    pub async fn create_branch(&self, request: &CreateBranch) -> Result<BranchCreated, ClientError> {
        self.request(request).await
    }

    /// Removes the folder of a branch, given by its name or path. `force`: even if its files have changed.
    ///
    /// # Errors
    /// See [`NerveClient::request`]; `busy` if a node uses the folder.
    pub async fn delete_branch(&self, name: &str, force: bool) -> Result<BranchDeleted, ClientError> {
        self.request(&DeleteBranch { name: name.to_string(), force }).await
    }
}
