//! What goes on beside the terminal that is shown: tools that are followed, branches that are made, snapshots that are taken.

use std::path::Path;

use nerve_core::host::registry::Entry;
use nerve_term::keys::Input;
use nerve_term::terminal::TerminalState;
use nerve_view::viewer::{Submission, Viewer};

use super::branch_job::{BranchEvent, BranchJob};
use super::snapshot_job::{SnapshotJob, SnapshotResult};
use super::target::AttachTarget;
use super::tool_list::tool_list_path;
use super::tool_streams::{SendResult, ToolEvent, ToolStreams};

/// The agent's tools, the branches and the snapshots of one session.
pub(crate) struct Background {
    tool_streams: ToolStreams,
    branch_job: BranchJob,
    snapshot_job: SnapshotJob,
}

/// What is not done yet when the viewer is left.
pub(crate) struct Unfinished {
    branch_job: BranchJob,
    snapshot_job: SnapshotJob,
}

impl Unfinished {
    /// Waits for it, until this process is told to end, and tells what has become of it.
    pub(crate) async fn finish(self) {
        self.snapshot_job.finish().await;
        self.branch_job.finish().await;
    }
}

/// Something has happened there.
pub(crate) enum BackgroundEvent {
    Branch(BranchEvent),
    Tool(ToolEvent),
    Snapshot(SnapshotResult),
}

impl Background {
    /// Of the session with this recording.
    pub(crate) fn for_recording(recording: Option<&Path>) -> Background {
        Background::new(recording, recording)
    }

    /// Of the session of this host.
    pub(crate) fn for_host(entry: &Entry) -> Background {
        Background::new(entry.session_file(), tool_list_path(entry).ok())
    }

    /// `file`: of the session that can be gone on from; `listed`: the one beside which its tools are listed.
    fn new(file: Option<&Path>, listed: Option<&Path>) -> Background {
        Background {
            tool_streams: ToolStreams::new(listed),
            branch_job: BranchJob::new(file),
            snapshot_job: SnapshotJob::default(),
        }
    }

    /// What happens next. May be dropped and called again. Who has much to say lets the other speak: whose turn it is among those who could is
    /// a matter of chance.
    pub(crate) async fn next(&mut self) -> BackgroundEvent {
        tokio::select! {
            event = self.branch_job.next() => BackgroundEvent::Branch(event),
            event = self.tool_streams.next() => BackgroundEvent::Tool(event),
            event = self.snapshot_job.next() => BackgroundEvent::Snapshot(event),
        }
    }

    /// Tells the viewer.
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

    /// Begins to make one.
    pub(crate) fn branch(&mut self, submission: Submission, viewer: &mut Viewer) {
        if let Err(why) = self.branch_job.begin(submission) {
            viewer.branch_failed(&why);
        }
    }

    /// A task is being written, at a session that is not recorded: what is known of it must not go with it.
    pub(crate) fn keep_origin(&mut self) {
        self.branch_job.keep_origin();
    }

    /// The node of the one that was made last; or why there is none, in words.
    pub(crate) fn latest(&self) -> Result<AttachTarget, &'static str> {
        self.branch_job.latest()
    }

    // ---- Snapshots ----

    /// Begins to take one of what runs in that host.
    pub(crate) fn snapshot(&mut self, host: &Entry, viewer: &mut Viewer) {
        match self.snapshot_job.begin(host) {
            Ok(()) => viewer.show_message("taking a snapshot …"),
            Err(why) => viewer.show_message(&why),
        }
    }

    /// What is still being done, when the viewer is left.
    pub(crate) fn into_unfinished(self) -> Unfinished {
        Unfinished { branch_job: self.branch_job, snapshot_job: self.snapshot_job }
    }

    // ---- Tools ----

    /// Shows another one.
    pub(crate) fn show(&mut self, id: String) {
        self.tool_streams.show(id);
    }

    /// Only the one that the viewer shows goes on to be followed.
    pub(crate) fn retain_shown(&mut self, viewer: &Viewer) {
        self.tool_streams.retain(viewer.shown_tool());
    }

    /// The terminal of the one that is shown; `agent` where that is its own.
    pub(crate) fn terminal<'a>(&'a self, agent: &'a TerminalState) -> Option<&'a TerminalState> {
        self.tool_streams.terminal(agent)
    }

    /// Types into the one that is shown.
    pub(crate) fn send(&mut self, input: &Input) -> SendResult {
        self.tool_streams.send(input)
    }
}
