//! Tools for recordings, and for snapshots and branches of recorded sessions.

use nerve_api::reply::{
    BranchCreated, BranchInfo, BranchList, RecordingInfo, RecordingList, SnapshotFiles, SnapshotInfo,
    SnapshotList,
};
use nerve_api::request::{CreateBranch, ListSnapshots, RestoreSnapshot, TakeSnapshot};
use nerve_api::{ErrorKind, EventMessage, EventType};
use nerve_client::branch_step;

use super::args;
use super::nodes::seconds;
use crate::call::{Call, WaitOutcome};
use crate::tool_result::{Failure, MAX_TEXT, Success, lines, truncate};

/// Maximum number of listed snapshots.
const MAX_SNAPSHOTS: usize = 200;
/// Default number of listed recordings.
const DEFAULT_RECORDINGS: usize = 50;

pub(super) async fn list(call: Call, args: args::ListSnapshots) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let filter = ListSnapshots {
        node_id: args.node_id,
        recording: args.recording,
        session_id: args.session,
        last: Some(MAX_SNAPSHOTS),
        ..ListSnapshots::default()
    };
    let snapshots = client.snapshots(&filter).await?;
    let text = lines(&snapshots, line, "There are no snapshots. Take one with nerve_take_snapshot.");
    Ok(Success::new(&text, &SnapshotList { snapshots }))
}

fn line(snapshot: &SnapshotInfo) -> String {
    let SnapshotInfo { snapshot_id, recording_id, label, files, .. } = snapshot;
    let label = label.as_ref().map(|label| format!("  '{label}'")).unwrap_or_default();
    format!("{snapshot_id}  recording {recording_id}  {}{label}", files_text(files.as_ref()))
}

fn files_text(files: Option<&SnapshotFiles>) -> String {
    match files {
        None => "no files".to_string(),
        Some(SnapshotFiles { source: Some(source), .. }) => format!("files of {source}"),
        Some(SnapshotFiles { source: None, .. }) => "files".to_string(),
    }
}

pub(super) async fn take(call: Call, args: args::TakeSnapshot) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let request = TakeSnapshot {
        node_id: Some(args.node_id),
        session_id: args.session,
        label: args.label,
        dir: args.dir,
        no_files: args.no_files,
        ..TakeSnapshot::default()
    };
    let taken = client.take_snapshot(&request).await?;
    let text = format!("Snapshot {} was taken, {}.", taken.snapshot_id, files_text(taken.files.as_ref()));
    Ok(Success::new(&text, &taken).warn(client.take_warnings()))
}

pub(super) async fn restore(call: Call, args: args::RestoreSnapshot) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let request = RestoreSnapshot {
        snapshot_id: args.snapshot_id,
        to: args.to,
        node_id: args.node_id,
        recording: args.recording,
        session_id: args.session,
        dir: None,
    };
    let restored = client.restore_snapshot(&request).await?;
    let text = format!("The files of snapshot {} are in {}.", restored.snapshot_id, restored.to);
    Ok(Success::new(&text, &restored))
}

pub(super) async fn branch(call: Call, args: args::CreateBranch) -> Result<Success, Failure> {
    let describe = |event: &EventMessage| branch_step(event).map(str::to_string);
    let (client, progress) = call.start(&[EventType::BranchProgress], None, None, &describe).await?;
    let request = CreateBranch {
        source_id: args.source_id,
        recording: args.recording,
        at: args.at,
        target_id: args.target_id,
        session_id: args.session,
        timeout: seconds("timeout", args.timeout)?,
        ..CreateBranch::new(args.instruction)
    };
    let branch = match call.follow(client.create_branch(&request), progress).await? {
        WaitOutcome::Done(branch) => branch,
        WaitOutcome::Cancelled | WaitOutcome::Disconnected => {
            return Err(Failure::new(ErrorKind::Cancelled, "the call was cancelled; the branch continues"));
        }
    };
    let answer = branch.response.as_ref().map(|response| response.text.as_str()).unwrap_or_default();
    let text = format!(
        "Node '{}' works in {}; its conversation: {}.\n\n{answer}",
        branch.node_id, branch.cwd, branch.conversation.about
    );
    let answer = truncate(answer, MAX_TEXT).0;
    // Only the answer's text: the whole response repeats it.
    let branch = BranchCreated { response: None, ..branch };
    Ok(Success::new(&text, &branch).with("text", answer).warn(client.take_warnings()))
}

pub(super) async fn list_branches(call: Call, _: args::ListBranches) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let branches = client.branches().await?;
    let line = |branch: &BranchInfo| {
        let user = branch.used_by.as_deref().unwrap_or("no node");
        let changes = branch.changes.as_deref().unwrap_or("no changes");
        format!("{}  {user}  {changes}", branch.path)
    };
    let text = lines(&branches, line, "There are no branches. Create one with nerve_create_branch.");
    Ok(Success::new(&text, &BranchList { branches }).warn(client.take_warnings()))
}

pub(super) async fn list_recordings(call: Call, args: args::ListRecordings) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let recordings = client.recordings(Some(args.last.unwrap_or(DEFAULT_RECORDINGS))).await?;
    let line = |recording: &RecordingInfo| {
        let RecordingInfo { recording_id: id, command, snapshots, live, .. } = recording;
        let live = if *live { ", being recorded" } else { "" };
        format!("{id}  {}  {snapshots} snapshots{live}", command.join(" "))
    };
    let text = lines(&recordings, line, "There are no recordings.");
    Ok(Success::new(&text, &RecordingList { recordings, next: None }))
}
