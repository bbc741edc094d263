//! Branches that somebody asks for in the viewer: made beside it, one at a time.

use std::path::{Path, PathBuf};
use std::pin::Pin;

use anyhow::Result;
use nerve_view::viewer::Submission;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::place::Place;
use crate::cmd::branch::{At, BranchOptions, Origin, Wait, conversation_difference, plan_branch, run};
use crate::exit::Failure;
use crate::out;

/// Why nothing can go on from a program of which nothing is kept.
pub(super) const NOTHING_KEPT: &str =
    "nothing is kept of it that a branch could go on from: see --out-file of 'nerve record'";

/// What comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// This is being done.
    Doing(String),
    /// It was made.
    Made(Made),
    /// It was not, and why.
    Refused(String),
}

/// A branch that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    /// What became of it.
    message: String,
    /// Its node.
    place: Place,
    /// What it knows where that is not what was known then.
    conversation: Option<String>,
}

impl Made {
    /// What to tell: with the keys that lead there, or the command.
    pub(crate) fn told(&self, keys: Option<&str>) -> String {
        // First: what comes after it may be cut.
        let way = match keys {
            Some(keys) => format!("{keys} goes there"),
            None => format!("'{}' shows it", self.place.command()),
        };
        format!("node '{}' ({way}) {}", self.place.target, self.message)
    }
}

/// The branch that is being made, and those that were.
#[derive(Default)]
pub(crate) struct Branching {
    /// Of the session that is gone on from: its recording, or what stands for one.
    file: Option<PathBuf>,
    /// What was known of a session that is not recorded, while it ran.
    kept: Option<Origin>,
    under_way: Option<UnderWay>,
    made: Vec<Made>,
}

struct UnderWay {
    steps: mpsc::UnboundedReceiver<Step>,
    making: JoinHandle<()>,
    /// This process was told to end since it was begun.
    stop: Pin<Box<dyn Future<Output = ()>>>,
}

impl Branching {
    /// Of the session with this file: its recording, or what stands for one.
    pub(crate) fn of(file: Option<&Path>) -> Branching {
        Branching { file: file.map(Path::to_path_buf), ..Branching::default() }
    }

    /// Somebody may want to go on from a session that is not recorded: what is known of it goes with it, and it may end while they write.
    pub(crate) fn keep(&mut self) {
        if let Some(origin) = self.file.as_deref().and_then(|file| Origin::read(file).ok()) {
            self.kept = Some(origin);
        }
    }

    /// Begins to make a branch. Must be called on a runtime.
    ///
    /// # Errors
    /// Why none can be made now, in words.
    pub(crate) fn begin(&mut self, asked: Submission) -> Result<(), String> {
        let Some(file) = self.file.clone() else { return Err(NOTHING_KEPT.into()) };
        if self.under_way.is_some() {
            return Err("another branch is being made: wait for it".into());
        }
        let (told, steps) = mpsc::unbounded_channel();
        let kept = self.kept.clone();
        let making = tokio::spawn(async move {
            let doing = told.clone();
            let step =
                match make((file, kept), asked, &mut |words| drop(doing.send(Step::Doing(words.into()))))
                    .await
                {
                    Ok(made) => made,
                    Err(error) => Step::Refused(in_words(Failure::from_error(&error))),
                };
            // Nobody waits for it any more once the viewer was killed.
            let _ = told.send(step);
        });
        // What ends the viewer ends this too, whoever hears of it first.
        self.under_way = Some(UnderWay { steps, making, stop: Box::pin(nerve_server::stop_signal()) });
        Ok(())
    }

    /// The next step of the one that is being made; never if there is none. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Step {
        let Some(UnderWay { steps, .. }) = &mut self.under_way else { return std::future::pending().await };
        let step = next(steps).await;
        self.took(step)
    }

    fn took(&mut self, step: Step) -> Step {
        match &step {
            Step::Doing(_) => {}
            Step::Made(made) => {
                self.made.push(made.clone());
                self.under_way = None;
            }
            Step::Refused(_) => self.under_way = None,
        }
        step
    }

    /// The node of the one that was made last; or why there is none, in words.
    pub(crate) fn latest(&self) -> Result<Place, &'static str> {
        match (self.made.last(), &self.under_way) {
            (Some(made), _) => Ok(made.place.clone()),
            (None, Some(_)) => Err("the branch is still being made: wait for it"),
            (None, None) => Err("no branch was made here: what the agent is told at a snapshot becomes one"),
        }
    }

    /// After the viewer: waits for the one that is being made, until this process is told to end, and tells what there is now.
    pub(crate) async fn finish(mut self) {
        let mut is_told = false;
        while let Some(UnderWay { steps, making, stop }) = &mut self.under_way {
            tokio::select! {
                biased;
                () = stop => {
                    making.abort();
                    self.under_way = None;
                    out::warning(
                        "the branch that was being made is given up; if its node was started already, 'nerve server node list' has it",
                    );
                    break;
                }
                step = next(steps) => if let Step::Refused(why) = self.took(step) {
                    out::warning(format_args!("there is no branch: {why}"));
                },
                () = async {}, if !is_told => {
                    is_told = true;
                    out::note("the branch is still being made; Ctrl+C gives it up");
                }
            }
        }
        for Made { place, conversation, .. } in &self.made {
            let knows = conversation.as_ref().map(|knows| format!("; its conversation is {knows}"));
            let knows = knows.unwrap_or_default();
            let (command, node) = (place.command(), &place.target);
            out::note(format_args!("branched: '{command}' shows node '{node}'{knows}"));
        }
    }
}

async fn next(steps: &mut mpsc::UnboundedReceiver<Step>) -> Step {
    steps.recv().await.unwrap_or(Step::Refused("the branch failed unexpectedly".into()))
}

/// `kept`: what was known of the session before, should nothing be known of it any more.
async fn make(
    (file, kept): (PathBuf, Option<Origin>),
    asked: Submission,
    told: &mut (dyn FnMut(&str) + Send),
) -> Result<Step> {
    let at = asked.snapshot.map_or(At::End, At::Snapshot);
    let server = std::env::var("NERVE_SERVER").unwrap_or_default();
    told("looking at what there is to branch from");
    let planned = tokio::task::spawn_blocking(move || {
        let origin = Origin::read(&file).or_else(|error| kept.ok_or(error))?;
        plan_branch(&origin, at, BranchOptions { server, ..BranchOptions::default() })
    });
    let made = run(planned.await??, &asked.text, Wait::Delivered, told).await?;
    let conversation = conversation_difference(&made.plan);
    let lacks = made.inherited.missing_note().map(|lacks| format!("; it is {lacks}"));
    let (server, session) = (made.plan.server.clone(), made.plan.session.clone());
    let place = Place { target: made.node, server, session };
    let missing = match made.left_out.len() {
        0 => String::new(),
        count => format!(" ({count} files are missing: {})", made.left_out[0]),
    };
    let knows = conversation.as_ref().map(|knows| format!("; its conversation is {knows}"));
    let (lacks, knows) = (lacks.unwrap_or_default(), knows.unwrap_or_default());
    let message = format!("has it now{missing}{lacks}{knows}");
    Ok(Step::Made(Made { message, place, conversation }))
}

/// In one line.
pub(super) fn in_words(failure: Failure) -> String {
    let all = match failure.hint {
        Some(hint) => format!("{}; {hint}", failure.message),
        None => failure.message,
    };
    all.split_whitespace().collect::<Vec<_>>().join(" ")
}
