//! Replays a journal to determine which steps of an interrupted run need not run again.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use serde_json::Value;

use super::decoder::{self, JournalLine, RecordedQuestion, RunLine, RunOutcome, StepLine, StepRecordKind};
use super::directory;
use super::error::JournalError;
use super::key::Fnv;
use super::record::Header;
use super::scanner::{Extent, LineError, scan};

/// The state of a run, replayed from its journal. The last record of a step and key counts.
#[derive(Debug)]
pub struct ReplayState {
    head: Header,
    definition: Option<Value>,
    outcome: Option<RunOutcome>,
    steps: HashMap<u64, Vec<StepReplay>>,
    cut: Option<u64>,
    crashed_again: bool,
}

/// The state of a step and key.
#[derive(Debug)]
pub struct StepReplay {
    path: Box<str>,
    key: u64,
    /// True if the step was running when the server ended.
    pub is_running: bool,
    /// Result, unless the step was started again afterwards.
    pub result: Option<Value>,
    /// Calls to a model's API that the result does not report.
    pub calls: ApiCalls,
    /// Latest question of a gate.
    pub question: Option<Box<RecordedQuestion>>,
    /// Answer to the latest question.
    pub answer: Option<Box<Answer>>,
}

/// Calls to a model's API.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ApiCalls {
    /// Number of calls.
    pub count: u64,
    /// Cost in US dollars.
    pub cost_usd: f64,
}

/// An answer to a gate.
#[derive(Debug)]
pub struct Answer {
    /// The choice.
    pub choice: String,
    /// Source of the answer: `person` or `default`.
    pub by: String,
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
                None => replay = Some(ReplayState::begin(decoder::first(line, path)?)),
                Some(replay) => replay.apply(decoder::next(line)?),
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

    /// Returns `completed`, `failed` or `cancelled`, or `running` for a run without an end, with or without a server.
    pub fn status(&self) -> &str {
        self.outcome.as_ref().map_or("running", |outcome| &outcome.status)
    }

    /// Returns how the run ended; `None` also if it was resumed afterwards.
    pub fn outcome(&self) -> Option<&RunOutcome> {
        self.outcome.as_ref()
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

    /// Returns the state of a step with this path and key.
    pub fn step(&self, path: &str, key: u64) -> Option<&StepReplay> {
        self.steps.get(&bucket(path, key))?.iter().find(|step| step.is(path, key))
    }

    /// Returns the number of reusable results.
    pub fn result_count(&self) -> usize {
        self.steps.values().flatten().filter(|step| step.result.is_some()).count()
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
            outcome: None,
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
                self.outcome = None;
                if line.definition.is_some() {
                    self.definition = line.definition;
                }
            }
            JournalLine::Ended(outcome) => self.outcome = Some(outcome),
            JournalLine::Items(_) | JournalLine::Unknown => {}
        }
    }

    fn step_mut(&mut self, path: &str, key: u64) -> &mut StepReplay {
        let steps = self.steps.entry(bucket(path, key)).or_default();
        let index = steps.iter().position(|step| step.is(path, key)).unwrap_or_else(|| {
            steps.push(StepReplay {
                path: path.into(),
                key,
                is_running: false,
                result: None,
                calls: ApiCalls::default(),
                question: None,
                answer: None,
            });
            steps.len() - 1
        });
        &mut steps[index]
    }
}

/// Returns the map key of a step. Collisions are resolved by comparing names.
fn bucket(path: &str, key: u64) -> u64 {
    Fnv::hash(path.as_bytes()) ^ key
}

impl StepReplay {
    fn is(&self, path: &str, key: u64) -> bool {
        self.key == key && *self.path == *path
    }

    fn apply(&mut self, kind: StepRecordKind, line: StepLine<'_, Value>) {
        match kind {
            StepRecordKind::Started => {
                self.is_running = true;
                self.result = None;
            }
            StepRecordKind::Called => self.calls = ApiCalls { count: line.calls, cost_usd: line.cost_usd },
            StepRecordKind::Finished | StepRecordKind::Skipped => {
                self.is_running = false;
                self.result = line.value;
            }
            StepRecordKind::Failed => {
                self.is_running = false;
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
