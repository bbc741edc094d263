//! Branches that somebody asks for in the viewer: made beside it, one at a time.

use std::path::{Path, PathBuf};
use std::pin::Pin;

use anyhow::Result;
use nerve_view::viewer::Submission;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::place::Place;
use crate::cmd::branch::{At, Wait, Wishes, plan_as, run, unlike_then};
use crate::exit::Failure;
use crate::out;

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
    /// Begins to make a branch of a recording. Must be called on a runtime.
    ///
    /// # Errors
    /// Why none can be made now, in words.
    pub(crate) fn begin(&mut self, recording: Option<&Path>, asked: Submission) -> Result<(), String> {
        let Some(recording) = recording else {
            return Err(
                "nothing is recorded that could be branched from: see --out-file of 'nerve record'".into()
            );
        };
        if self.under_way.is_some() {
            return Err("another branch is being made: wait for it".into());
        }
        let (told, steps) = mpsc::unbounded_channel();
        let recording = recording.to_path_buf();
        let making = tokio::spawn(async move {
            let doing = told.clone();
            let step = match make(recording, asked, &mut |words| drop(doing.send(Step::Doing(words.into()))))
                .await
            {
                Ok(made) => made,
                Err(error) => Step::Refused(in_words(&error)),
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

async fn make(recording: PathBuf, asked: Submission, told: &mut (dyn FnMut(&str) + Send)) -> Result<Step> {
    let at = asked.snapshot.map_or(At::End, At::Snapshot);
    let server = std::env::var("NERVE_SERVER").unwrap_or_default();
    told("looking at what there is to branch from");
    let planned =
        tokio::task::spawn_blocking(move || plan_as(&recording, at, Wishes { server, ..Wishes::default() }));
    let made = run(planned.await??, &asked.text, Wait::Delivered, told).await?;
    let conversation = unlike_then(&made.plan);
    let lacks = made.inherited.lacks().map(|lacks| format!("; it is {lacks}"));
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
fn in_words(error: &anyhow::Error) -> String {
    let failure = Failure::from_error(error);
    let all = match failure.hint {
        Some(hint) => format!("{}; {hint}", failure.message),
        None => failure.message,
    };
    all.split_whitespace().collect::<Vec<_>>().join(" ")
}
