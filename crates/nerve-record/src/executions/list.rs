//! What is known of a session's executions, folded from the lines of their list.

use std::collections::{HashMap, VecDeque};

use super::{ExecutionLine, MAX_EXECUTIONS, cut};
use crate::store::check_id;

/// The most bytes of a command where only an overview is wanted.
const BRIEF: usize = 1 << 10;

/// The executions of a session, folded from the lines of its list; oldest first.
#[derive(Debug, Clone, Default)]
pub struct Executions {
    known: VecDeque<ExecutionLine>,
    /// Number of the execution at the front, and of each id.
    first: u64,
    places: HashMap<String, u64>,
    is_brief: bool,
}

impl Executions {
    /// For an overview: outputs are left out and commands cut at 1 KiB, so that all of it is some tens of megabytes at worst.
    pub fn brief() -> Executions {
        Executions { is_brief: true, ..Executions::default() }
    }

    /// Takes a line of the list; gives the number of its execution, which counts from 0 in the order in which they were listed first.
    /// `None` for a line that is none, or whose id cannot be one: it is passed over.
    pub fn line(&mut self, line: &[u8]) -> Option<u64> {
        let line = serde_json::from_slice::<ExecutionLine>(line).ok()?;
        check_id(&line.id).ok()?;
        Some(self.add(line))
    }

    pub(super) fn add(&mut self, mut line: ExecutionLine) -> u64 {
        if self.is_brief {
            line.output = None;
            line.command = line.command.map(|command| cut(command, BRIEF));
        }
        let known = self.places.get(&line.id).and_then(|number| Some((*number, self.place(*number)?)));
        let number = match known {
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

    /// All, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ExecutionLine> {
        self.known.iter()
    }

    /// The one of that id.
    pub fn get(&self, id: &str) -> Option<&ExecutionLine> {
        self.numbered(*self.places.get(id)?)
    }

    /// The one with that number, if it is still remembered.
    pub fn numbered(&self, number: u64) -> Option<&ExecutionLine> {
        self.known.get(self.place(number)?)
    }

    /// The numbers that are remembered. As many as the first says are older than these, and forgotten.
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
    fn the_newest_are_remembered_and_every_one_keeps_its_number() {
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
        // One that was forgotten is a new one.
        assert_eq!(executions.line(br#"{"id":"9"}"#), Some(most + 10));
        assert_eq!(executions.line(br#"{"id":"../9"}"#), None);
    }

    #[test]
    fn an_overview_has_the_begin_of_a_command_and_no_output() {
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
