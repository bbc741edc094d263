//! What a run did before its server ended: which steps need not run again.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use nerve_term::event::TsNs;
use serde_json::Value;

use super::error::JournalError;
use super::record::Head;
use super::directory;
use super::key::Fnv;
use super::scanner::{Extent, Refusal, scan};
use super::codec::{self, EndedLine, Question, RunLine, StepFact, StepLine, Stored};

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// When.
    pub at: TsNs,
    /// `completed`, `failed` or `cancelled`.
    pub status: String,
    /// Why it failed.
    pub error: Option<String>,
}

/// A journal, read. Of several facts about one step and key the last one counts.
#[derive(Debug)]
pub struct Past {
    head: Head,
    definition: Option<Value>,
    ending: Option<Ending>,
    marks: HashMap<u64, Vec<Mark>>,
    last: TsNs,
    cut: Option<u64>,
}

/// Somebody's answer to a gate.
#[derive(Debug)]
struct Answer {
    choice: String,
    by: String,
}

/// What is known of a step and what it was given.
#[derive(Debug)]
struct Mark {
    step: Box<str>,
    key: u64,
    running: bool,
    result: Option<Value>,
    question: Option<Box<Question>>,
    answer: Option<Box<Answer>>,
}

impl Past {
    /// Reads a journal, also of a run that is being driven. A cut last line is passed over and stays in the file.
    ///
    /// # Errors
    /// The file cannot be read, is damaged before its last line, or is of a newer major version.
    pub fn read(path: &Path) -> Result<Past, JournalError> {
        let file = directory::open(path, false)?;
        Past::of(&file, path).map(|(past, _)| past)
    }

    pub(super) fn of(file: &File, path: &Path) -> Result<(Past, Extent), JournalError> {
        let mut past = None;
        let extent = scan(file, path, |_, line| {
            match &mut past {
                None => past = Some(Past::begin(codec::first(line, path)?)),
                Some(past) => past.take(codec::next(line)?),
            }
            Ok::<(), Refusal>(())
        })?;
        let Some(mut past) = past else {
            return Err(JournalError::NeverBegun { path: path.into() });
        };
        past.cut = (extent.cut > 0).then_some(extent.cut);
        Ok((past, extent))
    }

    /// Which run this is.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The graph as the run last knew it: a resumed run may have been given an edited one.
    pub fn definition(&self) -> &Value {
        self.definition.as_ref().unwrap_or(&self.head.definition)
    }

    /// How the run was asked to run.
    pub fn options(&self) -> &Value {
        &self.head.options
    }

    /// `completed`, `failed`, `cancelled`; `running` for a run that did not end, whether or not a server still drives it.
    pub fn status(&self) -> &str {
        self.ending.as_ref().map_or("running", |ending| &ending.status)
    }

    /// How the run ended; `None` also after it was resumed.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// When the last known fact happened.
    pub fn last_time(&self) -> TsNs {
        self.last
    }

    /// Bytes at the end of the file that were no whole fact: what a crash cut off.
    pub fn cut(&self) -> Option<u64> {
        self.cut
    }

    /// The result of a step that finished, or was skipped with a value, with this key, and was not started again since.
    pub fn result(&self, step: &str, key: u64) -> Option<&Value> {
        self.mark(step, key)?.result.as_ref()
    }

    /// Was the step running when the server ended?
    pub fn was_running(&self, step: &str, key: u64) -> bool {
        self.mark(step, key).is_some_and(|mark| mark.running)
    }

    /// Until when a gate waits that asked: `Some(None)` is for ever, `None`: it did not ask.
    pub fn asked(&self, step: &str, key: u64) -> Option<Option<TsNs>> {
        self.question(step, key).map(|question| question.deadline)
    }

    /// What a gate asked last.
    pub fn question(&self, step: &str, key: u64) -> Option<&Question> {
        self.mark(step, key)?.question.as_deref()
    }

    /// The answer to what a gate asked last.
    pub fn answer(&self, step: &str, key: u64) -> Option<&str> {
        Some(&self.mark(step, key)?.answer.as_ref()?.choice)
    }

    /// Who gave that answer: `person` or `default`.
    pub fn answered_by(&self, step: &str, key: u64) -> Option<&str> {
        Some(&self.mark(step, key)?.answer.as_ref()?.by)
    }

    /// Results that can be used again.
    pub fn result_count(&self) -> usize {
        self.marks.values().flatten().filter(|mark| mark.result.is_some()).count()
    }

    fn begin(line: RunLine<Value>) -> Past {
        let at = TsNs(line.at);
        Past {
            head: Head {
                at,
                run: line.run,
                graph: line.graph,
                session: line.session,
                definition: line.definition,
                input: line.input,
                options: line.options,
            },
            definition: None,
            ending: None,
            marks: HashMap::new(),
            last: at,
            cut: None,
        }
    }

    fn take(&mut self, line: Stored<'_, Value>) {
        let at = match line {
            Stored::Step(fact, line) => {
                let at = line.at;
                self.mark_mut(&line.step, line.key).take(fact, line);
                at
            }
            Stored::Resumed(line) => {
                self.ending = None;
                if line.definition.is_some() {
                    self.definition = line.definition;
                }
                line.at
            }
            Stored::Ended(EndedLine { at, status, error }) => {
                self.ending = Some(Ending { at: TsNs(at), status, error });
                at
            }
            Stored::Unknown => return,
        };
        self.last = self.last.max(TsNs(at));
    }

    fn mark(&self, step: &str, key: u64) -> Option<&Mark> {
        self.marks.get(&place(step, key))?.iter().find(|mark| mark.is(step, key))
    }

    fn mark_mut(&mut self, step: &str, key: u64) -> &mut Mark {
        let marks = self.marks.entry(place(step, key)).or_default();
        let index = marks.iter().position(|mark| mark.is(step, key)).unwrap_or_else(|| {
            marks.push(Mark {
                step: step.into(),
                key,
                running: false,
                result: None,
                question: None,
                answer: None,
            });
            marks.len() - 1
        });
        &mut marks[index]
    }
}

/// Where a step's mark stands. Steps that meet there are told apart by name.
fn place(step: &str, key: u64) -> u64 {
    Fnv::of(step.as_bytes()) ^ key
}

impl Mark {
    fn is(&self, step: &str, key: u64) -> bool {
        self.key == key && *self.step == *step
    }

    fn take(&mut self, fact: StepFact, line: StepLine<'_, Value>) {
        match fact {
            StepFact::Started => {
                self.running = true;
                self.result = None;
            }
            StepFact::Finished | StepFact::Skipped => {
                self.running = false;
                self.result = line.value;
            }
            StepFact::Failed => {
                self.running = false;
                self.result = None;
            }
            StepFact::Asked => {
                self.question = Some(Box::new(line.into_question()));
                self.answer = None;
            }
            StepFact::Answered => {
                let (choice, by) = (line.choice.unwrap_or_default(), line.by.unwrap_or_default());
                self.answer = Some(Box::new(Answer { choice, by }));
            }
        }
    }
}
