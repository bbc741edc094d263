//! What the agent runs: executions of its tools that can be looked at, and the modal that shows them.

use std::collections::{BTreeSet, HashMap};

use crate::pager::Pager;

/// Ids that may be kept of executions that are not listed any more, before they are looked through.
const SPARE: usize = 256;

/// An execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Its id: the same while it runs and in a replay.
    pub id: String,
    /// What the agent ran, as it wrote it.
    pub command: String,
    /// How it is.
    pub state: ToolState,
}

/// How an execution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolState {
    /// It runs.
    Running,
    /// It has ended, with this exit code where that is known.
    Ended(Option<i32>),
}

impl Tool {
    /// It runs.
    pub fn is_running(&self) -> bool {
        self.state == ToolState::Running
    }
}

/// Who reads what is typed into an execution that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InputReader {
    /// The tool itself.
    #[default]
    Tool,
    /// The tool, where it asks on its terminal: its standard input is `/dev/null`.
    AsksOnly,
    /// The same: its standard input is something else than its terminal.
    HasInput,
    /// The agent: the tool has no terminal of its own.
    Agent,
}

impl InputReader {
    /// What somebody has to know before he types.
    pub(crate) fn hint(self) -> Option<&'static str> {
        match self {
            InputReader::Tool => None,
            InputReader::AsksOnly => Some("its input is /dev/null: keys reach only what asks on /dev/tty"),
            InputReader::HasInput => {
                Some("its input is a file or a pipe: keys reach only what asks on /dev/tty")
            }
            InputReader::Agent => Some("it has no terminal of its own: keys go to the agent's"),
        }
    }
}

/// What is told of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUpdate {
    /// It counts in the order in which executions began to be known, and is always the same of one.
    pub number: u64,
    /// How it is now.
    pub tool: Tool,
    /// Who reads what is typed into it.
    pub reader: InputReader,
}

/// What is new of the executions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolUpdates {
    /// None of what was told before holds.
    pub reset: bool,
    /// Those with smaller numbers are not listed any more: they are too many.
    pub first: u64,
    /// What is new.
    pub updates: Vec<ToolUpdate>,
}

/// The executions, as they are listed: those that run first, of both the newest first. Ended ones stay until they are dismissed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tools {
    /// The other way round: what is new comes to the end, and moves little.
    tools: Vec<Tool>,
    /// Of each its number and who reads what is typed into it.
    metadata: Vec<(u64, InputReader)>,
    /// So many of them run: the last ones.
    running: usize,
    numbers: HashMap<String, u64>,
    dismissed: BTreeSet<String>,
    /// Executions that are not listed because there are too many newer ones.
    older: u64,
    /// Why nothing may be listed.
    pub(crate) empty_reason: Option<String>,
}

impl Tools {
    /// All there are now, oldest first.
    pub(crate) fn set(&mut self, tools: Vec<Tool>) {
        let mut dismissed = std::mem::take(&mut self.dismissed);
        // An id that is not told any more need not be kept.
        dismissed.retain(|id| tools.iter().any(|tool| tool.id == *id));
        *self = Tools { dismissed, empty_reason: self.empty_reason.take(), ..Tools::default() };
        let told =
            (0..).zip(tools).map(|(number, tool)| ToolUpdate { number, tool, reader: InputReader::Tool });
        let told = told.collect();
        self.change(ToolUpdates { reset: false, first: 0, updates: told });
    }

    /// Takes what is new; what it costs is a matter of that, and of moving in memory what is newer.
    pub(crate) fn change(&mut self, changes: ToolUpdates) {
        if changes.reset {
            *self = Tools { empty_reason: self.empty_reason.take(), ..Tools::default() };
        }
        for ToolUpdate { number, tool, reader } in changes.updates {
            self.remove(number);
            self.numbers.insert(tool.id.clone(), number);
            if tool.is_running() || !self.dismissed.contains(&tool.id) {
                self.insert(number, tool, reader);
            }
        }
        if changes.first > self.older {
            self.forget_before(changes.first);
        }
    }

    /// Where those that run begin.
    fn split(&self) -> usize {
        self.tools.len() - self.running
    }

    /// Where the one with that number is, or would be, among those that run or the others.
    fn place(&self, number: u64, runs: bool) -> Result<usize, usize> {
        let split = self.split();
        let (part, from) = match runs {
            true => (&self.metadata[split..], split),
            false => (&self.metadata[..split], 0),
        };
        let found = part.binary_search_by_key(&number, |(other, _)| *other);
        found.map(|at| from + at).map_err(|at| from + at)
    }

    fn index(&self, number: u64) -> Option<usize> {
        self.place(number, true).or_else(|_| self.place(number, false)).ok()
    }

    fn remove(&mut self, number: u64) {
        if let Some(at) = self.index(number) {
            self.running -= usize::from(at >= self.split());
            self.tools.remove(at);
            self.metadata.remove(at);
        }
    }

    fn insert(&mut self, number: u64, tool: Tool, reader: InputReader) {
        let runs = tool.is_running();
        let (Ok(at) | Err(at)) = self.place(number, runs);
        self.tools.insert(at, tool);
        self.metadata.insert(at, (number, reader));
        self.running += usize::from(runs);
    }

    fn forget_before(&mut self, first: u64) {
        self.older = first;
        let numbers = &self.numbers;
        self.dismissed.retain(|id| numbers.get(id).is_some_and(|number| *number >= first));
        // They are the first ones of both parts.
        let split = self.split();
        let running = self.metadata[split..].partition_point(|(number, _)| *number < first);
        let ended = self.metadata[..split].partition_point(|(number, _)| *number < first);
        for range in [split..split + running, 0..ended] {
            self.tools.drain(range.clone());
            self.metadata.drain(range);
        }
        self.running -= running;
        if self.numbers.len() > 2 * self.tools.len() + SPARE {
            self.numbers.retain(|_, number| *number >= first);
        }
    }

    /// All, in the order of the list.
    pub(crate) fn listed(&self) -> Listed<'_> {
        self.tools.iter().rev()
    }

    pub(crate) fn len(&self) -> usize {
        self.tools.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// How many of them run: the first ones of the list.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Executions that are not listed because there are too many newer ones.
    pub(crate) fn older(&self) -> u64 {
        self.older
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Tool> {
        self.tools.get(self.index(*self.numbers.get(id)?)?)
    }

    /// The row of the list that has it.
    pub(crate) fn row(&self, id: &str) -> Option<usize> {
        let at = self.index(*self.numbers.get(id)?)?;
        Some(self.tools.len() - 1 - at)
    }

    /// Who reads what is typed into it.
    pub(crate) fn reader(&self, id: &str) -> InputReader {
        let at = self.numbers.get(id).and_then(|number| self.index(*number));
        at.and_then(|at| self.metadata.get(at)).map(|(_, reader)| *reader).unwrap_or_default()
    }

    /// Takes one that has ended out of the list; false if it runs or is not there.
    pub(crate) fn dismiss(&mut self, id: &str) -> bool {
        let number = self.numbers.get(id).copied();
        let Some(number) = number.filter(|number| self.place(*number, false).is_ok()) else { return false };
        self.remove(number);
        self.dismissed.insert(id.to_string());
        true
    }
}

/// The executions in the order of their list: those that run first, of both the newest first.
pub type Listed<'a> = std::iter::Rev<std::slice::Iter<'a, Tool>>;

/// The tools' modal: their list, or one of them.
#[derive(Debug, Clone, Default)]
pub struct Modal {
    /// The row of the list that is chosen.
    pub(crate) row: usize,
    pub(crate) shown: Option<ShownTool>,
}

/// The tool that is shown.
#[derive(Debug, Clone)]
pub struct ShownTool {
    pub(crate) id: String,
    pub(crate) pager: Pager,
    /// Keys are not the tool's but go through what it wrote.
    pub(crate) scrolls: bool,
    /// Somebody typed into it.
    pub(crate) is_typed_into: bool,
    /// It has ended while somebody typed into it: text that is still typed for it is for nothing else.
    pub(crate) swallows: bool,
}

impl Modal {
    /// The row of the list that is chosen, 0-based.
    pub fn row(&self) -> usize {
        self.row
    }

    /// The tool that is shown in place of the list.
    pub fn shown(&self) -> Option<&ShownTool> {
        self.shown.as_ref()
    }

    /// The first row of the list in a window of so many rows: the chosen one is in it.
    pub fn first_row(&self, rows: u16) -> usize {
        (self.row + 1).saturating_sub(usize::from(rows.max(1)))
    }
}

impl ShownTool {
    pub(crate) fn new(id: &str) -> ShownTool {
        let (id, pager) = (id.to_string(), Pager::default());
        ShownTool { id, pager, scrolls: false, is_typed_into: false, swallows: false }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Which of its lines are shown, and what is looked for in them.
    pub fn pager(&self) -> &Pager {
        &self.pager
    }

    /// Keys are not the tool's but go through what it wrote.
    pub fn scrolls(&self) -> bool {
        self.scrolls
    }
}

#[cfg(test)]
mod tests;
