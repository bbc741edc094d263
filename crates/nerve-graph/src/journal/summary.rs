//! Summarizes a run for lists, in one pass over the journal and without its values.

use std::collections::HashMap;
use std::path::Path;

use nerve_types::TsNs;
use serde::Deserialize;

use super::decoder::{
    self, IgnoredValue, JournalLine, RecordedQuestion, RunLine, RunOutcome, StepLine, StepRecordKind,
};
use super::directory;
use super::error::JournalError;
use super::key::Fnv;
use super::scanner::{LineError, scan};

/// A summary of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The run's id.
    pub run: String,
    /// The graph's id.
    pub graph: String,
    /// The session the run uses; `None` for the default session.
    pub session: Option<String>,
    /// Start of the run.
    pub started: TsNs,
    /// Time of the last known record.
    pub last: TsNs,
    /// End of the run; `None` if it is running or its server ended.
    pub outcome: Option<RunOutcome>,
    /// Number of steps of the graph itself.
    pub total: usize,
    /// Number of these steps that have a result and no running or failed item or round.
    pub done: usize,
    /// Counts of all steps, items and rounds by their last record.
    pub steps: StepCounts,
    /// Tokens used, where known.
    pub tokens: u64,
    /// Unanswered gates, in the order of their questions.
    pub open_gates: Vec<RecordedQuestion>,
    /// Number of resumes.
    pub resumed: u64,
    /// Bytes of an incomplete record at the end of the file: one being written, or cut by a crash.
    pub cut: Option<u64>,
}

/// Number of steps in each state. A nested graph counts as one step, in addition to its own steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Started and not ended.
    pub running: u64,
    /// Completed with a result.
    pub finished: u64,
    /// Failed.
    pub failed: u64,
    /// Steps that did not run, or whose failure was ignored.
    pub skipped: u64,
}

impl Summary {
    /// Reads a journal, also of a run in progress.
    ///
    /// # Errors
    /// The file cannot be read, is damaged before its last line, or has a newer major version.
    pub fn read(path: &Path) -> Result<Summary, JournalError> {
        let file = directory::open(path, false)?;
        let mut builder = None;
        let extent = scan(&file, path, |_, line| {
            match &mut builder {
                None => builder = Some(SummaryBuilder::begin(decoder::first(line, path)?)),
                Some(builder) => builder.apply(decoder::next(line)?),
            }
            Ok::<(), LineError>(())
        })?;
        let builder = builder.ok_or_else(|| JournalError::NeverBegun { path: path.into() })?;
        Ok(builder.finish((extent.cut > 0).then_some(extent.cut)))
    }
}

/// Builds a summary while the file is read.
struct SummaryBuilder {
    summary: Summary,
    /// Last record and top-level step by digest of the step's path; digests save memory for long paths.
    steps: HashMap<u64, (StepRecordKind, u64)>,
}

/// The part of a graph's definition that counts its steps.
#[derive(Deserialize)]
struct DefinitionSteps {
    #[serde(default)]
    steps: Vec<IgnoredValue>,
}

impl SummaryBuilder {
    fn begin(line: RunLine<IgnoredValue, DefinitionSteps>) -> SummaryBuilder {
        let at = line.at;
        let summary = Summary {
            run: line.run,
            graph: line.graph,
            session: line.session,
            started: at,
            last: at,
            outcome: None,
            total: line.definition.steps.len(),
            done: 0,
            steps: StepCounts::default(),
            tokens: 0,
            open_gates: Vec::new(),
            resumed: 0,
            cut: None,
        };
        SummaryBuilder { summary, steps: HashMap::new() }
    }

    fn apply(&mut self, line: JournalLine<'_, IgnoredValue>) {
        let summary = &mut self.summary;
        let at = match line {
            JournalLine::Step(kind, line) => {
                let at = line.at;
                self.apply_step(kind, line);
                at
            }
            JournalLine::Resumed(line) => {
                summary.outcome = None;
                summary.resumed += 1;
                line.at
            }
            JournalLine::Items(line) => line.at,
            JournalLine::Paused(line) => line.at,
            JournalLine::Ended(outcome) => {
                let at = outcome.at;
                summary.outcome = Some(outcome);
                at
            }
            JournalLine::Unknown => return,
        };
        self.summary.last = self.summary.last.max(at);
    }

    fn apply_step(&mut self, kind: StepRecordKind, line: StepLine<'_, IgnoredValue>) {
        let summary = &mut self.summary;
        summary.tokens = summary.tokens.saturating_add(line.tokens.unwrap_or(0));
        if kind != StepRecordKind::Started && !summary.open_gates.is_empty() {
            summary.open_gates.retain(|open| open.gate.step_id != line.step);
        }
        match kind {
            StepRecordKind::Asked => summary.open_gates.push(line.into_question()),
            StepRecordKind::Answered | StepRecordKind::Called => {}
            _ => {
                // The top-level step of a nested step, an item or a round.
                let top_level = line.step.split(['/', '[', '#']).next().unwrap_or_default();
                let (step, top_level) = (Fnv::hash(line.step.as_bytes()), Fnv::hash(top_level.as_bytes()));
                if kind == StepRecordKind::Started && step != top_level {
                    // A part starts again, so the earlier end of the whole no longer counts.
                    self.steps.remove(&top_level);
                }
                self.steps.insert(step, (kind, top_level));
            }
        }
    }

    fn finish(mut self, cut: Option<u64>) -> Summary {
        let counts = &mut self.summary.steps;
        let mut is_done: HashMap<u64, bool> = HashMap::new();
        for (kind, step) in self.steps.values() {
            // A nested graph that failed may have been skipped.
            let last = self.steps.get(step).map_or(*kind, |(last, _)| *last);
            *is_done.entry(*step).or_insert(true) &=
                matches!(last, StepRecordKind::Finished | StepRecordKind::Skipped);
            match kind {
                StepRecordKind::Finished => counts.finished += 1,
                StepRecordKind::Failed => counts.failed += 1,
                StepRecordKind::Skipped => counts.skipped += 1,
                StepRecordKind::Started
                | StepRecordKind::Called
                | StepRecordKind::Asked
                | StepRecordKind::Answered => counts.running += 1,
            }
        }
        self.summary.done = is_done.values().filter(|done| **done).count();
        if self.summary.outcome.is_some() {
            // No answer is possible until the run is resumed.
            self.summary.open_gates.clear();
        }
        self.summary.cut = cut;
        self.summary
    }
}
