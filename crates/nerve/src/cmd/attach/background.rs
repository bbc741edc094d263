//! Background work of a viewer: tool streams, the branch job and the snapshot job.

use std::path::Path;

use nerve_host::registry::Entry;
use nerve_tui::view::viewer::{Submission, Viewer};
use nerve_vt::keys::Input;
use nerve_vt::terminal::TerminalState;

use super::branch_job::{BranchEvent, BranchJob};
use super::snapshot_job::{SnapshotJob, SnapshotResult};
use super::target::AttachTarget;
use super::tool_list::tool_list_path;
use super::tool_streams::{SendResult, ToolEvent, ToolStreams};

/// The tools, branches and snapshots of one session.
pub(crate) struct Background {
    tool_streams: ToolStreams,
    branch_job: BranchJob,
    snapshot_job: SnapshotJob,
}

/// Jobs that are still running when the viewer is left.
pub(crate) struct UnfinishedJobs {
    branch_job: BranchJob,
    snapshot_job: SnapshotJob,
}

impl UnfinishedJobs {
    /// Waits for the jobs until this process is signalled, and prints their results.
    pub(crate) async fn finish(self) {
        self.snapshot_job.finish().await;
        self.branch_job.finish().await;
    }
}

/// Progress of background work.
pub(crate) enum BackgroundEvent {
    Branch(BranchEvent),
    Tool(ToolEvent),
    Snapshot(SnapshotResult),
}

impl Background {
    /// Creates the background work of a recorded session.
    pub(crate) fn for_recording(recording: Option<&Path>) -> Background {
        Background::new(recording, recording)
    }

    /// Creates the background work of a host's session.
    pub(crate) fn for_host(entry: &Entry) -> Background {
        Background::new(entry.session_file(), tool_list_path(entry).ok())
    }

    /// `file` is the session to branch from, `listed` the one whose tools are listed.
    fn new(file: Option<&Path>, listed: Option<&Path>) -> Background {
        Background {
            tool_streams: ToolStreams::new(listed),
            branch_job: BranchJob::new(file),
            snapshot_job: SnapshotJob::default(),
        }
    }

    /// Returns the next event. Cancel-safe. The order is random, so that a busy source does not starve the others.
    pub(crate) async fn next(&mut self) -> BackgroundEvent {
        tokio::select! {
            event = self.branch_job.next() => BackgroundEvent::Branch(event),
            event = self.tool_streams.next() => BackgroundEvent::Tool(event),
            event = self.snapshot_job.next() => BackgroundEvent::Snapshot(event),
        }
    }

    /// Applies an event to the viewer.
    pub(crate) fn apply(&mut self, event: BackgroundEvent, viewer: &mut Viewer) {
        match event {
            BackgroundEvent::Branch(BranchEvent::Progress(words)) => {
                viewer.show_message(&format!("branching: {words} …"))
            }
            BackgroundEvent::Branch(BranchEvent::Created(created)) => {
                viewer.branch_created();
                let keys = viewer.keys_to_branch();
                viewer.show_message(&created.message(keys.as_deref()));
            }
            BackgroundEvent::Branch(BranchEvent::Failed(why)) => viewer.branch_failed(&why),
            BackgroundEvent::Tool(ToolEvent::Tools(changes)) => viewer.update_tools(changes),
            BackgroundEvent::Tool(ToolEvent::Changed) => {}
            BackgroundEvent::Tool(ToolEvent::Loaded(by)) => viewer.renumber_tool(by),
            BackgroundEvent::Tool(ToolEvent::Fault(fault)) => viewer.show_message(&fault),
            BackgroundEvent::Tool(ToolEvent::ListFailed(fault)) => {
                viewer.show_message(&fault);
                viewer.explain_no_tools(fault);
            }
            BackgroundEvent::Snapshot(Ok(message) | Err(message)) => viewer.show_message(&message),
        }
    }

    // ---- Branches ----

    /// Starts a branch job.
    pub(crate) fn branch(&mut self, submission: Submission, viewer: &mut Viewer) {
        if let Err(why) = self.branch_job.begin(submission) {
            viewer.branch_failed(&why);
        }
    }

    /// Saves the origin of an unrecorded session while a task is being typed: it would be lost with the session.
    pub(crate) fn keep_origin(&mut self) {
        self.branch_job.keep_origin();
    }

    /// Returns the node of the branch made last, or why there is none.
    pub(crate) fn latest(&self) -> Result<AttachTarget, &'static str> {
        self.branch_job.latest()
    }

    // ---- Snapshots ----

    /// Starts a snapshot of the program in a host.
    pub(crate) fn snapshot(&mut self, host: &Entry, viewer: &mut Viewer) {
        match self.snapshot_job.begin(host) {
            Ok(()) => viewer.show_message("taking a snapshot …"),
            Err(why) => viewer.show_message(&why),
        }
    }

    /// Returns the running jobs when the viewer is left.
    pub(crate) fn into_unfinished(self) -> UnfinishedJobs {
        UnfinishedJobs { branch_job: self.branch_job, snapshot_job: self.snapshot_job }
    }

    // ---- Tools ----

    /// Opens a tool.
    pub(crate) fn show(&mut self, id: String) {
        self.tool_streams.show(id);
    }

    /// Closes the tool unless the viewer still shows it.
    pub(crate) fn retain_shown(&mut self, viewer: &Viewer) {
        self.tool_streams.retain(viewer.shown_tool());
    }

    /// Returns the shown tool's terminal; `agent` if it shares the agent's.
    pub(crate) fn terminal<'a>(&'a self, agent: &'a TerminalState) -> Option<&'a TerminalState> {
        self.tool_streams.terminal(agent)
    }

    /// Sends input to the shown tool.
    pub(crate) fn send(&mut self, input: &Input) -> SendResult {
        self.tool_streams.send(input)
    }
}
