//! Replays a journal to determine which steps of an interrupted run need not run again.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use nerve_types::TsNs;
use serde_json::Value;

use super::codec::{self, EndedLine, JournalLine, Question, RunLine, StepLine, StepRecordKind};
use super::directory;
use super::error::JournalError;
use super::key::Fnv;
use super::record::Header;
use super::scanner::{Extent, LineError, scan};

/// End of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// Time of the end.
    pub at: TsNs,
    /// `completed`, `failed` or `cancelled`.
    pub status: String,
    /// Error of a failed run.
    pub error: Option<String>,
    /// Kind of the error; absent in journals of earlier versions.
    pub error_type: Option<String>,
    /// Hint of the error; in journals of earlier versions it is part of the error.
    pub hint: Option<String>,
}

/// The state of a run, replayed from its journal. The last record of a step and key counts.
#[derive(Debug)]
pub struct ReplayState {
    head: Header,
    definition: Option<Value>,
    ending: Option<RunOutcome>,
    steps: HashMap<u64, Vec<StepState>>,
    cut: Option<u64>,
    crashed_again: bool,
}

/// An answer to a gate.
#[derive(Debug)]
struct Answer {
    choice: String,
    by: String,
}

/// The state of a step and key.
#[derive(Debug)]
struct StepState {
    step: Box<str>,
    key: u64,
    running: bool,
    result: Option<Value>,
    /// Number and cost of the calls to a model's API.
    calls: (u64, f64),
    question: Option<Box<Question>>,
    answer: Option<Box<Answer>>,
}

impl ReplayState {
    /// Reads a journal, also of a run in progress. An incomplete last line is ignored and stays in the file.
    ///
    /// # Errors
    /// The file cannot be read, is damaged before its last line, or has a newer major version.
    pub fn read(path: &Path) -> Result<ReplayState, JournalError> {
        let file = directory::open(path, false)?;
        ReplayState::from_file(&file, path).map(|(replay, _)| replay)
    }

    pub(super) fn from_file(file: &File, path: &Path) -> Result<(ReplayState, Extent), JournalError> {
        let mut replay = None;
        let extent = scan(file, path, |_, line| {
            match &mut replay {
                None => replay = Some(ReplayState::begin(codec::first(line, path)?)),
                Some(replay) => replay.apply(codec::next(line)?),
            }
            Ok::<(), LineError>(())
        })?;
        let Some(mut replay) = replay else {
            return Err(JournalError::NeverBegun { path: path.into() });
        };
        replay.cut = (extent.cut > 0).then_some(extent.cut);
        Ok((replay, extent))
    }

    /// Returns the header of the run.
    pub fn head(&self) -> &Header {
        &self.head
    }

    /// Returns the latest definition of the graph: a resumed run may have an edited one.
    pub fn definition(&self) -> &Value {
        self.definition.as_ref().unwrap_or(&self.head.definition)
    }

    /// Returns the options of the run.
    pub fn options(&self) -> &Value {
        &self.head.options
    }

    /// Returns `completed`, `failed` or `cancelled`, or `running` for a run without an end, with or without a server.
    pub fn status(&self) -> &str {
        self.ending.as_ref().map_or("running", |ending| &ending.status)
    }

    /// Returns how the run ended; `None` also if it was resumed afterwards.
    pub fn ending(&self) -> Option<&RunOutcome> {
        self.ending.as_ref()
    }

    /// Returns the number of bytes of the incomplete record at the end of the file, if any.
    pub fn cut(&self) -> Option<u64> {
        self.cut
    }

    /// Returns true if the server ended without a shutdown after the run was resumed and before a step was finished: the run
    /// probably ends its server.
    pub fn crashed_again(&self) -> bool {
        self.crashed_again
    }

    /// Returns the result of a step with this key, unless the step was started again afterwards.
    pub fn result(&self, step: &str, key: u64) -> Option<&Value> {
        self.step(step, key)?.result.as_ref()
    }

    /// Returns number and cost, in US dollars, of a step's calls to a model's API that its result does not report.
    pub(crate) fn calls(&self, step: &str, key: u64) -> (u64, f64) {
        self.step(step, key).map_or((0, 0.0), |state| state.calls)
    }

    /// Returns true if the step was running when the server ended.
    pub(crate) fn was_running(&self, step: &str, key: u64) -> bool {
        self.step(step, key).is_some_and(|state| state.running)
    }

    /// Returns the deadline of a gate's question: `Some(None)` without a deadline, `None` if the gate did not ask.
    pub fn question_deadline(&self, step: &str, key: u64) -> Option<Option<TsNs>> {
        self.question(step, key).map(|question| question.deadline)
    }

    /// Returns the latest question of a gate.
    pub fn question(&self, step: &str, key: u64) -> Option<&Question> {
        self.step(step, key)?.question.as_deref()
    }

    /// Returns the answer to the latest question of a gate.
    pub fn answer(&self, step: &str, key: u64) -> Option<&str> {
        Some(&self.step(step, key)?.answer.as_ref()?.choice)
    }

    /// Returns who answered: `person` or `default`.
    pub(crate) fn answered_by(&self, step: &str, key: u64) -> Option<&str> {
        Some(&self.step(step, key)?.answer.as_ref()?.by)
    }

    /// Returns the number of reusable results.
    pub fn result_count(&self) -> usize {
        self.steps.values().flatten().filter(|state| state.result.is_some()).count()
    }

    fn begin(line: RunLine<Value>) -> ReplayState {
        ReplayState {
            head: Header {
                at: line.at,
                run: line.run,
                graph: line.graph,
                session: line.session,
                definition: line.definition,
                input: line.input,
                options: line.options,
            },
            definition: None,
            ending: None,
            steps: HashMap::new(),
            cut: None,
            crashed_again: false,
        }
    }

    fn apply(&mut self, line: JournalLine<'_, Value>) {
        match line {
            JournalLine::Step(kind, line) => {
                self.crashed_again &= kind != StepRecordKind::Finished;
                self.step_mut(&line.step, line.key).apply(kind, line);
            }
            JournalLine::Paused(_) => self.crashed_again = false,
            JournalLine::Resumed(line) => {
                self.crashed_again = true;
                self.ending = None;
                if line.definition.is_some() {
                    self.definition = line.definition;
                }
            }
            JournalLine::Ended(EndedLine { at, status, error, error_type, hint }) => {
                self.ending = Some(RunOutcome { at, status, error, error_type, hint });
            }
            JournalLine::Items(_) | JournalLine::Unknown => {}
        }
    }

    fn step(&self, step: &str, key: u64) -> Option<&StepState> {
        self.steps.get(&bucket(step, key))?.iter().find(|state| state.is(step, key))
    }

    fn step_mut(&mut self, step: &str, key: u64) -> &mut StepState {
        let steps = self.steps.entry(bucket(step, key)).or_default();
        let index = steps.iter().position(|state| state.is(step, key)).unwrap_or_else(|| {
            steps.push(StepState {
                step: step.into(),
                key,
                running: false,
                result: None,
                calls: (0, 0.0),
                question: None,
                answer: None,
            });
            steps.len() - 1
        });
        &mut steps[index]
    }
}

/// Returns the map key of a step. Collisions are resolved by comparing names.
fn bucket(step: &str, key: u64) -> u64 {
    Fnv::hash(step.as_bytes()) ^ key
}

impl StepState {
    fn is(&self, step: &str, key: u64) -> bool {
        self.key == key && *self.step == *step
    }

    fn apply(&mut self, kind: StepRecordKind, line: StepLine<'_, Value>) {
        match kind {
            StepRecordKind::Started => {
                self.running = true;
                self.result = None;
            }
            StepRecordKind::Called => self.calls = (line.calls, line.cost_usd),
            StepRecordKind::Finished | StepRecordKind::Skipped => {
                self.running = false;
                self.result = line.value;
            }
            StepRecordKind::Failed => {
                self.running = false;
                self.result = None;
            }
            StepRecordKind::Asked => {
                self.question = Some(Box::new(line.into_question()));
                self.answer = None;
            }
            StepRecordKind::Answered => {
                let (choice, by) = (line.choice.unwrap_or_default(), line.by.unwrap_or_default());
                self.answer = Some(Box::new(Answer { choice, by }));
            }
        }
    }
}
