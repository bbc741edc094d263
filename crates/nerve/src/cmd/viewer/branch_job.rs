//! Creates branches that are requested in the viewer, one at a time, in the background.

use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_engine::branches::{
    BranchOptions, BranchPoint, Instruction, Origin, Wait, create_branch, missing_note, plan_branch,
};
use nerve_server::paths::ServerPaths;
use nerve_tui::live_viewer::NOTHING_KEPT;
use nerve_tui::view::viewer::Submission;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::attach_target::AttachTarget;
use super::background_job::BackgroundJob;
use crate::cmd::server::{self, LocalServer};
use crate::exit::{self, Failure, USAGE};
use crate::{out, trace};

/// Progress of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BranchEvent {
    /// The current step.
    Progress(String),
    /// The branch was created.
    Created(CreatedBranch),
    /// The branch failed, for this reason.
    Failed(String),
}

/// A branch that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CreatedBranch {
    /// Differences from the snapshot, to be appended to the message.
    notes: String,
    /// The new node.
    target: AttachTarget,
    /// Content of the conversation, if it differs from that at the snapshot.
    conversation: Option<String>,
}

impl CreatedBranch {
    /// Returns the message, with the keys or the command that lead to the branch.
    pub(crate) fn message(&self, keys: Option<&str>) -> String {
        // The keys come first because the rest may be truncated.
        let command = format!("'{}'", self.target.command());
        format!(
            "branched to node '{}' ({} shows it){}",
            self.target.target,
            keys.unwrap_or(&command),
            self.notes
        )
    }
}

/// The running job and the branches created so far.
#[derive(Default)]
pub(crate) struct BranchJob {
    /// Recording of the session, or the stand-in file of an unrecorded session.
    file: Option<PathBuf>,
    /// Origin of an unrecorded session, saved while it was running.
    saved_origin: Option<Origin>,
    running: Option<(BackgroundJob<BranchEvent>, JoinHandle<()>)>,
    created: Vec<CreatedBranch>,
}

impl BranchJob {
    /// Creates the job for a session. `file` is its recording, or its stand-in file.
    pub(crate) fn new(file: Option<&Path>) -> BranchJob {
        BranchJob { file: file.map(Path::to_path_buf), ..BranchJob::default() }
    }

    /// Saves the origin of an unrecorded session, which may end while a task is being typed.
    pub(crate) fn keep_origin(&mut self) {
        if let Some(origin) = self.file.as_deref().and_then(|file| Origin::read(file).ok()) {
            self.saved_origin = Some(origin);
        }
    }

    /// Starts to create a branch. Must be called on a runtime.
    ///
    /// # Errors
    /// Returns why no branch can be created now.
    pub(crate) fn begin(&mut self, submission: Submission) -> Result<(), String> {
        let Some(file) = self.file.clone() else { return Err(NOTHING_KEPT.into()) };
        if self.running.is_some() {
            return Err("another branch is being created: wait for it".into());
        }
        let (progress, events) = mpsc::unbounded_channel();
        let saved_origin = self.saved_origin.clone();
        let task = tokio::spawn(async move {
            let steps = progress.clone();
            let event = match create(file, saved_origin, submission, &mut |step| {
                drop(steps.send(BranchEvent::Progress(step.into())))
            })
            .await
            {
                Ok(created) => created,
                Err(error) => BranchEvent::Failed(one_line(exit::failure(&error))),
            };
            // The receiver is gone if the viewer was killed.
            let _ = progress.send(event);
        });
        let on_panic = || BranchEvent::Failed("the branch failed unexpectedly".into());
        let notice = "the branch is still being created; Ctrl+C cancels it";
        self.running = Some((BackgroundJob::new(events, on_panic, notice), task));
        Ok(())
    }

    /// Returns the next event of the running job; pending without one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> BranchEvent {
        let Some((job, _)) = &mut self.running else { return std::future::pending().await };
        let event = job.next().await;
        self.record(event)
    }

    fn record(&mut self, event: BranchEvent) -> BranchEvent {
        match &event {
            BranchEvent::Progress(_) => {}
            BranchEvent::Created(created) => {
                self.created.push(created.clone());
                self.running = None;
            }
            BranchEvent::Failed(_) => self.running = None,
        }
        event
    }

    /// Returns the node of the last branch, or why there is none.
    pub(crate) fn latest(&self) -> Result<AttachTarget, &'static str> {
        match (self.created.last(), &self.running) {
            (Some(created), _) => Ok(created.target.clone()),
            (None, Some(_)) => Err("the branch is still being created: wait for it"),
            (None, None) => Err("no branch yet: submit a task at a snapshot to create one"),
        }
    }

    /// Waits for the running job after the viewer has closed, and prints the results. A signal cancels the job.
    pub(crate) async fn finish(mut self) {
        while let Some((job, task)) = &mut self.running {
            let Some(event) = job.next_unless_stopped().await else {
                task.abort();
                out::warning(
                    "creating the branch was cancelled; if its node had started, 'nerve ls' shows it",
                );
                break;
            };
            if let BranchEvent::Failed(reason) = self.record(event) {
                out::warning(format_args!("cannot create the branch: {reason}"));
            }
        }
        for CreatedBranch { target, conversation, .. } in &self.created {
            let conversation = conversation.as_ref().map(|text| format!("; its conversation is {text}"));
            let (command, node) = (target.command(), &target.target);
            out::note(format_args!(
                "branched: '{command}' shows node '{node}'{}",
                conversation.unwrap_or_default()
            ));
        }
    }
}

/// Creates a branch of the session in `file`; of `saved_origin` if the session is gone.
async fn create(
    file: PathBuf,
    saved_origin: Option<Origin>,
    submission: Submission,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<BranchEvent> {
    let at = submission.snapshot.map_or(BranchPoint::End, BranchPoint::Snapshot);
    let server = std::env::var("NERVE_SERVER").unwrap_or_default();
    if server::is_remote(&server) {
        let message =
            format!("cannot branch on {server}: branches are created on the machine of the recording");
        return Err(Failure::new(USAGE, message).hint("select a local server with --server").into());
    }
    progress("reading the session to branch from");
    let plan_task = tokio::task::spawn_blocking(move || {
        let origin = Origin::read(&file).or_else(|error| saved_origin.ok_or(error))?;
        let options = BranchOptions { server, ..BranchOptions::default() };
        plan_branch(&origin, at, options, &ServerPaths::from_env().data)
    });
    let plan = plan_task.await??;
    let instruction = Instruction {
        traceparent: trace::parent(),
        tracestate: trace::state(),
        ..Instruction::new(&submission.text, Wait::Delivered)?
    };
    let server = LocalServer::connect_or_start(&plan.server, progress).await?;
    let created = create_branch(&server, plan, &instruction, progress).await?;
    let conversation = created.plan.conversation_difference();
    let mut notes = String::new();
    if let Some(first) = created.left_out.first() {
        notes.push_str(&format!(" ({} files are missing: {first})", created.left_out.len()));
    }
    if let Some(missing) = missing_note(&created.inherited.missing) {
        notes.push_str(&format!("; it runs {missing}"));
    }
    if let Some(conversation) = &conversation {
        notes.push_str(&format!("; its conversation is {conversation}"));
    }
    let (server, session) = (created.plan.server, created.plan.session);
    let target = AttachTarget { target: created.node, server, session };
    Ok(BranchEvent::Created(CreatedBranch { notes, target, conversation }))
}

/// Joins message and hint in one line.
pub(super) fn one_line(failure: Failure) -> String {
    let text = match failure.hint {
        Some(hint) => format!("{}; {hint}", failure.message),
        None => failure.message,
    };
    nerve_types::text::one_line(&text)
}
