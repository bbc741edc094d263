//! The in-memory list of a session's executions, built from the lines of its file.

use std::collections::{HashMap, VecDeque};

use super::{ExecutionLine, MAX_EXECUTIONS, truncate};
use crate::store::check_id;

/// Maximum bytes of a command in an overview.
const BRIEF: usize = 1 << 10;

/// The executions of a session, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Executions {
    known: VecDeque<ExecutionLine>,
    /// Number of the first remembered execution; `places` has the number of each id.
    first: u64,
    places: HashMap<String, u64>,
    is_brief: bool,
}

impl Executions {
    /// Creates a list for an overview: without outputs and with commands cut at 1 KiB, so at most some tens of
    /// megabytes.
    pub fn brief() -> Executions {
        Executions { is_brief: true, ..Executions::default() }
    }

    /// Adds a line of the file and returns the number of its execution. Executions are numbered from 0 in the order of
    /// their first lines. Returns `None` for an invalid line or id.
    pub fn line(&mut self, line: &[u8]) -> Option<u64> {
        let line = serde_json::from_slice::<ExecutionLine>(line).ok()?;
        check_id(&line.id).ok()?;
        Some(self.add(line))
    }

    pub(super) fn add(&mut self, mut line: ExecutionLine) -> u64 {
        if self.is_brief {
            line.output = None;
            line.command = line.command.map(|command| truncate(command, BRIEF));
        }
        let existing = self.places.get(&line.id).and_then(|number| Some((*number, self.place(*number)?)));
        let number = match existing {
            Some((number, place)) => {
                self.known[place].amend(line);
                number
            }
            None => {
                let next = self.numbers().end;
                self.places.insert(line.id.clone(), next);
                self.known.push_back(line);
                next
            }
        };
        if self.known.len() > MAX_EXECUTIONS
            && let Some(oldest) = self.known.pop_front()
        {
            self.places.remove(&oldest.id);
            self.first += 1;
        }
        number
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// Iterates over all executions, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ExecutionLine> {
        self.known.iter()
    }

    /// Returns the execution with this id.
    pub fn get(&self, id: &str) -> Option<&ExecutionLine> {
        self.numbered(*self.places.get(id)?)
    }

    /// Returns the execution with this number, if it is still remembered.
    pub fn numbered(&self, number: u64) -> Option<&ExecutionLine> {
        self.known.get(self.place(number)?)
    }

    /// Returns the range of remembered numbers. Smaller numbers were dropped.
    pub fn numbers(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.known.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str) -> ExecutionLine {
        ExecutionLine { id: id.into(), ..ExecutionLine::default() }
    }

    #[test]
    fn newest_are_remembered_and_numbers_are_stable() {
        let mut executions = Executions::default();
        let most = MAX_EXECUTIONS as u64;
        for at in 0..most + 10 {
            assert_eq!(executions.add(line(&at.to_string())), at);
        }
        assert_eq!(executions.iter().count(), MAX_EXECUTIONS);
        assert_eq!(executions.numbers(), 10..most + 10);
        assert!(executions.get("9").is_none() && executions.numbered(9).is_none());
        assert_eq!(executions.get("10").unwrap().id, "10");
        assert_eq!(executions.add(ExecutionLine { exit_code: Some(1), ..line("20") }), 20);
        assert_eq!(executions.numbered(20).unwrap().exit_code, Some(1));
        // A dropped execution gets a new number.
        assert_eq!(executions.line(br#"{"id":"9"}"#), Some(most + 10));
        assert_eq!(executions.line(br#"{"id":"../9"}"#), None);
    }

    #[test]
    fn overview_truncates_commands_and_drops_output() {
        let long =
            ExecutionLine { command: Some("\u{e4}".repeat(BRIEF)), output: Some("o".into()), ..line("a") };
        let mut executions = Executions::brief();
        executions.add(long.clone());
        let brief = executions.get("a").unwrap();
        assert!(brief.output.is_none() && brief.command.as_ref().unwrap().len() < BRIEF + 4);
        let mut executions = Executions::default();
        executions.add(long.clone());
        assert_eq!(executions.get("a"), Some(&long));
    }
}
