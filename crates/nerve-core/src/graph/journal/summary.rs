//! A run at a glance, for lists: read in one pass, without the values.

use std::collections::HashMap;
use std::path::Path;

use nerve_term::event::TsNs;
use serde::Deserialize;

use super::error::JournalError;
use super::directory;
use super::key::Fnv;
use super::scanner::{Refusal, scan};
use super::replay::Ending;
use super::codec::{self, PassedOver, Question, RunLine, StepFact, StepLine, Stored};

/// A run at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The run's id.
    pub run: String,
    /// The graph's id.
    pub graph: String,
    /// The session it uses; `None` is the default one.
    pub session: Option<String>,
    /// When it began.
    pub started: TsNs,
    /// When the last known fact happened.
    pub last: TsNs,
    /// How it ended; `None`: it runs, or its server ended.
    pub ending: Option<Ending>,
    /// Steps of the graph itself.
    pub total: usize,
    /// How many of them have results and nothing of them that runs or has failed.
    pub done: usize,
    /// All steps, items and rounds, by what happened to them last.
    pub steps: StepCounts,
    /// Tokens its steps used, where they are known.
    pub tokens: u64,
    /// Gates that wait for an answer, in the order in which they asked.
    pub open_gates: Vec<Question>,
    /// How often it was resumed.
    pub resumed: u64,
    /// Bytes at the end of the file that are no whole fact: a fact that is just being written, or one that a crash cut.
    pub cut: Option<u64>,
}

/// How many steps are in which state. A nested graph counts as a step, and its steps do too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Started, and not ended.
    pub running: u64,
    /// They have results.
    pub finished: u64,
    /// They failed.
    pub failed: u64,
    /// They did not run, or their failure was passed over.
    pub skipped: u64,
}

impl Summary {
    /// Reads a journal, also of a run that is being driven.
    ///
    /// # Errors
    /// The file cannot be read, is damaged before its last line, or is of a newer major version.
    pub fn read(path: &Path) -> Result<Summary, JournalError> {
        let file = directory::open(path, false)?;
        let mut tally = None;
        let extent = scan(&file, path, |_, line| {
            match &mut tally {
                None => tally = Some(Tally::begin(codec::first(line, path)?)),
                Some(tally) => tally.take(codec::next(line)?),
            }
            Ok::<(), Refusal>(())
        })?;
        let tally = tally.ok_or_else(|| JournalError::NeverBegun { path: path.into() })?;
        Ok(tally.finish((extent.cut > 0).then_some(extent.cut)))
    }

    /// `completed`, `failed`, `cancelled`; `running` for a run that did not end, whether or not a server still drives it.
    pub fn status(&self) -> &str {
        self.ending.as_ref().map_or("running", |ending| &ending.status)
    }
}

/// A summary while the file is read.
struct Tally {
    summary: Summary,
    /// By digests of their paths: lists show numbers, and a path may be long.
    steps: HashMap<u64, (StepFact, u64)>,
}

/// A graph's definition, as far as its size goes.
#[derive(Deserialize)]
struct Size {
    #[serde(default)]
    steps: Vec<PassedOver>,
}

impl Tally {
    fn begin(line: RunLine<PassedOver, Size>) -> Tally {
        let at = TsNs(line.at);
        let summary = Summary {
            run: line.run,
            graph: line.graph,
            session: line.session,
            started: at,
            last: at,
            ending: None,
            total: line.definition.steps.len(),
            done: 0,
            steps: StepCounts::default(),
            tokens: 0,
            open_gates: Vec::new(),
            resumed: 0,
            cut: None,
        };
        Tally { summary, steps: HashMap::new() }
    }

    fn take(&mut self, line: Stored<'_, PassedOver>) {
        let summary = &mut self.summary;
        let at = match line {
            Stored::Step(fact, line) => {
                let at = line.at;
                self.take_step(fact, line);
                at
            }
            Stored::Resumed(line) => {
                summary.ending = None;
                summary.resumed += 1;
                line.at
            }
            Stored::Ended(line) => {
                summary.ending = Some(Ending { at: TsNs(line.at), status: line.status, error: line.error });
                line.at
            }
            Stored::Unknown => return,
        };
        self.summary.last = self.summary.last.max(TsNs(at));
    }

    fn take_step(&mut self, fact: StepFact, line: StepLine<'_, PassedOver>) {
        let summary = &mut self.summary;
        summary.tokens = summary.tokens.saturating_add(line.tokens.unwrap_or(0));
        if fact != StepFact::Started && !summary.open_gates.is_empty() {
            summary.open_gates.retain(|gate| gate.step != line.step);
        }
        match fact {
            StepFact::Asked => summary.open_gates.push(line.into_question()),
            StepFact::Answered => {}
            _ => {
                // Of a nested graph, an item, a round: the step of the graph itself.
                let own = line.step.split(['/', '[', '#']).next().unwrap_or_default();
                self.steps.insert(Fnv::of(line.step.as_bytes()), (fact, Fnv::of(own.as_bytes())));
            }
        }
    }

    fn finish(mut self, cut: Option<u64>) -> Summary {
        let counts = &mut self.summary.steps;
        let mut own: HashMap<u64, bool> = HashMap::new();
        for (fact, step) in self.steps.values() {
            *own.entry(*step).or_insert(true) &= matches!(fact, StepFact::Finished | StepFact::Skipped);
            match fact {
                StepFact::Finished => counts.finished += 1,
                StepFact::Failed => counts.failed += 1,
                StepFact::Skipped => counts.skipped += 1,
                StepFact::Started | StepFact::Asked | StepFact::Answered => counts.running += 1,
            }
        }
        self.summary.done = own.values().filter(|done| **done).count();
        if self.summary.ending.is_some() {
            // Nobody can answer any more, unless the run is resumed.
            self.summary.open_gates.clear();
        }
        self.summary.cut = cut;
        self.summary
    }
}
