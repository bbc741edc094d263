//! Branches that somebody asks for in the viewer: made beside it, one at a time.

use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_view::viewer::Submission;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::cmd::branch::{At, Wait, Wishes, plan_as, run, unlike_then};
use crate::exit::Failure;
use crate::out;

/// What comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// This is being done.
    Doing(String),
    /// It was made: what to tell, the node's name, and what it knows where that is not what was known then.
    Made { message: String, node: String, conversation: Option<String> },
    /// It was not, and why.
    Refused(String),
}

/// The branch that is being made, and those that were.
#[derive(Default)]
pub(crate) struct Branching {
    under_way: Option<(mpsc::UnboundedReceiver<Step>, JoinHandle<()>)>,
    /// Their nodes, and what is not as one would expect of their conversations.
    made: Vec<(String, Option<String>)>,
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
        let made = tokio::spawn(async move {
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
        self.under_way = Some((steps, made));
        Ok(())
    }

    /// The next step of the one that is being made; never if there is none. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Step {
        let Some((steps, _)) = &mut self.under_way else { return std::future::pending().await };
        let step = steps.recv().await.unwrap_or(Step::Refused("the branch failed unexpectedly".into()));
        match &step {
            Step::Doing(_) => {}
            Step::Made { node, conversation, .. } => {
                self.made.push((node.clone(), conversation.clone()));
                self.under_way = None;
            }
            Step::Refused(_) => self.under_way = None,
        }
        step
    }

    /// After the viewer: waits for the one that is being made, until Ctrl+C, and tells what there is now.
    pub(crate) async fn finish(mut self) {
        if self.under_way.is_some() {
            out::note("the branch is still being made; Ctrl+C gives it up");
        }
        while self.under_way.is_some() {
            tokio::select! {
                biased;
                _ = tokio::signal::ctrl_c() => {
                    if let Some((_, made)) = self.under_way.take() {
                        made.abort();
                    }
                }
                step = self.next() => if let Step::Refused(why) = step {
                    out::warning(format_args!("there is no branch: {why}"));
                }
            }
        }
        for (node, conversation) in &self.made {
            let knows = conversation.as_ref().map(|knows| format!("; its conversation is {knows}"));
            let knows = knows.unwrap_or_default();
            out::note(format_args!("branched: 'nerve attach {node}' shows node '{node}'{knows}"));
        }
    }
}

async fn make(recording: PathBuf, asked: Submission, told: &mut (dyn FnMut(&str) + Send)) -> Result<Step> {
    let at = asked.snapshot.map_or(At::End, At::Snapshot);
    let server = std::env::var("NERVE_SERVER").unwrap_or_default();
    told("looking at what there is to branch from");
    let planned =
        tokio::task::spawn_blocking(move || plan_as(&recording, at, Wishes { server, ..Wishes::default() }));
    let made = run(planned.await??, &asked.text, Wait::Delivered, told).await?;
    let conversation = unlike_then(&made.plan);
    let node = made.node;
    let missing = match made.left_out.len() {
        0 => String::new(),
        count => format!(" ({count} files are missing: {})", made.left_out[0]),
    };
    let knows = conversation.as_ref().map(|knows| format!("; its conversation is {knows}"));
    let sign = if knows.is_some() { ";" } else { ":" };
    let knows = knows.unwrap_or_default();
    let message = format!("node '{node}' has it now{missing}{knows}{sign} 'nerve attach {node}' shows it");
    Ok(Step::Made { message, node, conversation })
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
