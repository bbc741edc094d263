//! Background work of a viewer: the list of tools, the branch job and the snapshot job.

use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_host::registry::{Entry, canonical_path};
use nerve_tui::live_viewer::tool_list_path;
use nerve_tui::view::viewer::Viewer;
use nerve_tui::viewer_session::{Request, ViewerSession};

use super::attach_target::AttachTarget;
use super::branch_job::{BranchEvent, BranchJob};
use super::snapshot_job::{SnapshotJob, SnapshotResult};
use super::tools::{self, ToolFeed, ToolFeedEvent};

/// The tools, branches and snapshots of one session.
pub(crate) struct Background {
    /// The session whose tools are listed.
    tools_session: Option<PathBuf>,
    tool_feed: Option<ToolFeed>,
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
    Tools(Result<ToolFeedEvent>),
    Snapshot(SnapshotResult),
}

/// The end of a viewer's event loop: the user leaves, or switches to another program. `ViewerOutcome` is the result of the whole
/// viewer, after its terminal and its jobs were taken care of.
pub(crate) enum ViewerExit<Reason> {
    /// The viewer was closed for this reason.
    Left(Reason),
    /// The user switches to another program.
    SwitchTo(AttachTarget),
}

impl Background {
    /// Creates the background work of a recorded session.
    pub(crate) fn for_recording(recording: &Path) -> Background {
        Background::new(Some(recording), Some(recording))
    }

    /// Creates the background work of a host's session.
    pub(crate) fn for_host(entry: &Entry) -> Background {
        Background::new(entry.session_file(), tool_list_path(entry).ok())
    }

    /// `file` is the session to branch from, `tools_session` the one whose tools are listed.
    fn new(file: Option<&Path>, tools_session: Option<&Path>) -> Background {
        let tools_session = tools_session.map(canonical_path);
        Background {
            tool_feed: tools_session.as_deref().map(ToolFeed::new),
            tools_session,
            branch_job: BranchJob::new(file),
            snapshot_job: SnapshotJob::default(),
        }
    }

    /// Returns the next event. Cancel-safe. The order is random, so that a busy source does not starve the others.
    pub(crate) async fn next(&mut self) -> BackgroundEvent {
        let tool_feed = &mut self.tool_feed;
        let tools = async {
            match tool_feed {
                Some(feed) => feed.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = self.branch_job.next() => BackgroundEvent::Branch(event),
            event = tools => BackgroundEvent::Tools(event),
            event = self.snapshot_job.next() => BackgroundEvent::Snapshot(event),
        }
    }

    /// Applies an event to the viewer.
    pub(crate) fn apply(&mut self, event: BackgroundEvent, viewer: &mut Viewer) {
        match event {
            BackgroundEvent::Branch(BranchEvent::Progress(step)) => {
                viewer.show_message(&format!("branching: {step} …"))
            }
            BackgroundEvent::Branch(BranchEvent::Created(created)) => {
                viewer.branch_created();
                let keys = viewer.keys_to_branch();
                viewer.show_message(&created.message(keys.as_deref()));
            }
            BackgroundEvent::Branch(BranchEvent::Failed(reason)) => viewer.branch_failed(&reason),
            BackgroundEvent::Tools(Ok(ToolFeedEvent::Changed(changes))) => viewer.update_tools(changes),
            BackgroundEvent::Tools(Ok(ToolFeedEvent::Full)) => {
                viewer.show_message("the tool list is full: new tools are not listed")
            }
            BackgroundEvent::Tools(Err(error)) => {
                self.tool_feed = None;
                let fault = format!("cannot follow the tool list: {error:#}");
                viewer.show_message(&fault);
                viewer.explain_no_tools(fault);
            }
            BackgroundEvent::Snapshot(Ok(message) | Err(message)) => viewer.show_message(&message),
        }
    }

    /// Performs a viewer's request. `host` is the host of the shown program. Returns a value if the user leaves.
    pub(crate) fn perform<Reason>(
        &mut self,
        request: Request<Reason>,
        session: &mut ViewerSession,
        host: Option<&Entry>,
    ) -> Option<ViewerExit<Reason>> {
        match request {
            Request::Leave(reason) => return Some(ViewerExit::Left(reason)),
            Request::SwitchToBranch => match self.branch_job.latest() {
                Ok(target) => return Some(ViewerExit::SwitchTo(target)),
                Err(reason) => session.viewer_mut().show_message(reason),
            },
            Request::Branch(submission) => {
                if let Err(reason) = self.branch_job.begin(submission) {
                    session.viewer_mut().branch_failed(&reason);
                }
            }
            // The caller waits for the next run from now on.
            Request::ShowNextRun => {}
            // The origin would be lost with the session.
            Request::KeepOrigin => self.branch_job.keep_origin(),
            Request::TakeSnapshot => {
                if let Some(host) = host {
                    let message = match self.snapshot_job.begin(host) {
                        Ok(()) => "taking a snapshot …".to_string(),
                        Err(reason) => reason,
                    };
                    session.viewer_mut().show_message(&message);
                }
            }
            Request::ShowTool(id) => {
                if let Some(recording) = self.tools_session.clone() {
                    let tool_id = id.clone();
                    let open =
                        move || tools::open(&recording, &tool_id).map_err(|error| format!("{error:#}"));
                    session.show_tool(id, tokio::task::spawn_blocking(open));
                }
            }
        }
        None
    }

    /// Returns the running jobs when the viewer is left.
    pub(crate) fn into_unfinished(self) -> UnfinishedJobs {
        UnfinishedJobs { branch_job: self.branch_job, snapshot_job: self.snapshot_job }
    }
}
