//! Recordings, snapshots and branches on the server's machine.

use nerve_api::reply::{
    BranchCreated, BranchDeleted, BranchInfo, RecordedOutput, RecordingFile, RecordingInfo,
    RecordingTimeline, RecordingsPruned, SnapshotInfo, SnapshotRestored, SnapshotTaken,
};
use nerve_api::request::{
    CreateBranch, DeleteBranch, GetRecordingFile, GetTimeline, ListBranches, ListRecordings, ListSnapshots,
    PruneRecordings, ReadRecording, RestoreSnapshot, TakeSnapshot,
};

use nerve_api::{EventMessage, EventType};
use serde_json::Value;

use crate::client::NerveClient;
use crate::error::ClientError;

impl NerveClient {
    /// Lists the recordings, last written first; at most `last`.
    pub async fn recordings(&self, last: Option<usize>) -> Result<Vec<RecordingInfo>, ClientError> {
        Ok(self.request(&ListRecordings { last, ..ListRecordings::default() }).await?.recordings)
    }

    /// Removes old recordings and unneeded folders of branches.
    ///
    /// # Errors
    /// See [`NerveClient::request`]; `invalid_request_error` without a rule.
    pub async fn prune_recordings(&self, request: &PruneRecordings) -> Result<RecordingsPruned, ClientError> {
        self.request(request).await
    }

    /// Returns an overview of a recording. For a long recording, it is complete only after several requests.
    pub async fn timeline(&self, request: &GetTimeline) -> Result<RecordingTimeline, ClientError> {
        self.request(request).await
    }

    /// Returns the terminal of a recording at a position, and the output that follows.
    pub async fn read_recording(&self, request: &ReadRecording) -> Result<RecordedOutput, ClientError> {
        self.request(request).await
    }

    /// Returns a range of a recording's file.
    pub async fn recording_file(&self, request: &GetRecordingFile) -> Result<RecordingFile, ClientError> {
        self.request(request).await
    }

    /// Lists the snapshots of a recorded session.
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
    pub async fn restore_snapshot(&self, request: &RestoreSnapshot) -> Result<SnapshotRestored, ClientError> {
        self.request(request).await
    }

    /// Lists the folders of branches.
    pub async fn branches(&self) -> Result<Vec<BranchInfo>, ClientError> {
        Ok(self.request(&ListBranches {}).await?.branches)
    }

    /// Creates a node that continues a recorded session from a snapshot, and sends it an instruction.
    pub async fn create_branch(&self, request: &CreateBranch) -> Result<BranchCreated, ClientError> {
        self.request(request).await
    }

    /// Creates a branch like [`create_branch`](NerveClient::create_branch), and calls `on_step` when a step begins. There are no
    /// calls if the client has [subscribed](NerveClient::subscribe) to other events only. If one client creates several branches
    /// at once, each call receives the steps of all of them.
    pub async fn create_branch_with_progress(
        &self,
        request: &CreateBranch,
        mut on_step: impl FnMut(&str),
    ) -> Result<BranchCreated, ClientError> {
        let mut events = self.events();
        let creation = self.create_branch(request);
        tokio::pin!(creation);
        loop {
            tokio::select! {
                // The events of a request arrive before its reply.
                biased;
                event = events.next() => match event {
                    Some(event) => branch_step(&event).into_iter().for_each(&mut on_step),
                    None => return creation.await,
                },
                reply = &mut creation => return reply,
            }
        }
    }

    /// Removes the folder of a branch, given by its name or path. `force`: even if its files have changed.
    ///
    /// # Errors
    /// See [`NerveClient::request`]; `busy` if a node uses the folder.
    pub async fn delete_branch(&self, name: &str, force: bool) -> Result<BranchDeleted, ClientError> {
        self.request(&DeleteBranch { name: name.to_string(), force }).await
    }
}

/// Returns the step in a BRANCH_PROGRESS event of a request of this client: only the client's own events have the
/// request's id.
pub fn branch_step(event: &EventMessage) -> Option<&str> {
    let text = |name: &str| event.data.get(name).and_then(Value::as_str);
    let is_own = event.event_type == EventType::BranchProgress.as_str() && text("request_id").is_some();
    text("step").filter(|_| is_own)
}
