//! The tools that the agent runs, and the state of the modal that shows them.

use std::collections::{BTreeSet, HashMap};

use crate::view::pager::Pager;

/// Number of unlisted ids that may accumulate before they are removed.
const SPARE: usize = 256;

/// An execution of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Id, the same while running and in a recording.
    pub id: String,
    /// The command as the agent wrote it.
    pub command: String,
    /// State of the execution.
    pub state: ToolState,
}

/// State of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolState {
    /// The tool is running.
    Running,
    /// The tool has ended, with this exit code if known.
    Ended(Option<i32>),
}

impl Tool {
    /// Returns true while the tool is running.
    pub(crate) fn is_running(&self) -> bool {
        self.state == ToolState::Running
    }
}

/// Receiver of the input typed into a running tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InputReader {
    /// The tool reads its terminal.
    #[default]
    Tool,
    /// The tool's stdin is `/dev/null`; only `/dev/tty` is its terminal.
    NullInput,
    /// The tool's stdin is a file or pipe; only `/dev/tty` is its terminal.
    RedirectedInput,
    /// The agent: the tool has no terminal.
    Agent,
}

impl InputReader {
    /// Returns the hint to show before the user types.
    pub(crate) fn hint(self) -> Option<&'static str> {
        match self {
            InputReader::Tool => None,
            InputReader::NullInput => Some("stdin is /dev/null: keys reach only prompts on /dev/tty"),
            InputReader::RedirectedInput => {
                Some("stdin is a file or pipe: keys reach only prompts on /dev/tty")
            }
            InputReader::Agent => Some("no own terminal: keys go to the agent"),
        }
    }
}

/// The current state of one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUpdate {
    /// Stable number that increases in the order of discovery.
    pub number: u64,
    /// The execution.
    pub tool: Tool,
    /// Receiver of typed input.
    pub reader: InputReader,
}

impl ToolUpdate {
    /// Returns the key by which executions are sorted: running ones last, then by number.
    fn key(&self) -> (bool, u64) {
        (self.tool.is_running(), self.number)
    }
}

/// Changes to the list of executions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolUpdates {
    /// Discard all earlier updates.
    pub reset: bool,
    /// Executions with smaller numbers are no longer listed, because there are too many.
    pub first: u64,
    /// New and changed executions.
    pub updates: Vec<ToolUpdate>,
}

/// The executions in list order: running ones first, newest first within each group. Finished ones stay until
/// dismissed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tools {
    /// Sorted by [`ToolUpdate::key`]. This is the reverse list order, so that new entries are appended.
    tools: Vec<ToolUpdate>,
    numbers: HashMap<String, u64>,
    dismissed: BTreeSet<String>,
    /// Number of older executions that are not listed.
    older: u64,
    /// Reason why the list is empty.
    pub(crate) empty_reason: Option<String>,
}

impl Tools {
    /// Replaces all executions, oldest first.
    pub(crate) fn set(&mut self, tools: Vec<Tool>) {
        let mut dismissed = std::mem::take(&mut self.dismissed);
        // Ids that are no longer reported can be forgotten.
        dismissed.retain(|id| tools.iter().any(|tool| tool.id == *id));
        *self = Tools { dismissed, empty_reason: self.empty_reason.take(), ..Tools::default() };
        let updates =
            (0..).zip(tools).map(|(number, tool)| ToolUpdate { number, tool, reader: InputReader::Tool });
        let updates = updates.collect();
        self.change(ToolUpdates { reset: false, first: 0, updates });
    }

    /// Applies changes. The cost depends on the changes and on moving newer entries.
    pub(crate) fn change(&mut self, changes: ToolUpdates) {
        if changes.reset {
            *self = Tools { empty_reason: self.empty_reason.take(), ..Tools::default() };
        }
        for update in changes.updates {
            self.remove(update.number);
            self.numbers.insert(update.tool.id.clone(), update.number);
            if (update.tool.is_running() || !self.dismissed.contains(&update.tool.id))
                && let Err(at) = self.position(update.key())
            {
                self.tools.insert(at, update);
            }
        }
        if changes.first > self.older {
            self.forget_before(changes.first);
        }
    }

    /// Returns the index of a key, or where it would be inserted.
    fn position(&self, key: (bool, u64)) -> Result<usize, usize> {
        self.tools.binary_search_by_key(&key, ToolUpdate::key)
    }

    fn index(&self, number: u64) -> Option<usize> {
        self.position((true, number)).or_else(|_| self.position((false, number))).ok()
    }

    fn remove(&mut self, number: u64) {
        if let Some(at) = self.index(number) {
            self.tools.remove(at);
        }
    }

    fn forget_before(&mut self, first: u64) {
        self.older = first;
        let numbers = &self.numbers;
        self.dismissed.retain(|id| numbers.get(id).is_some_and(|number| *number >= first));
        self.tools.retain(|update| update.number >= first);
        if self.numbers.len() > 2 * self.tools.len() + SPARE {
            self.numbers.retain(|_, number| *number >= first);
        }
    }

    /// Returns all executions in list order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Tool> + Clone {
        self.tools.iter().rev().map(|update| &update.tool)
    }

    pub(crate) fn len(&self) -> usize {
        self.tools.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns the number of running executions, which are first in the list.
    pub(crate) fn running(&self) -> usize {
        self.tools.len() - self.position((true, 0)).unwrap_or_else(|at| at)
    }

    /// Returns the number of older executions that are not listed.
    pub(crate) fn older(&self) -> u64 {
        self.older
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Tool> {
        self.find(id).map(|update| &update.tool)
    }

    /// Returns an execution's row in the list.
    pub(crate) fn row(&self, id: &str) -> Option<usize> {
        let at = self.index(*self.numbers.get(id)?)?;
        Some(self.tools.len() - 1 - at)
    }

    /// Returns the receiver of an execution's input.
    pub(crate) fn reader(&self, id: &str) -> InputReader {
        self.find(id).map(|update| update.reader).unwrap_or_default()
    }

    fn find(&self, id: &str) -> Option<&ToolUpdate> {
        self.tools.get(self.index(*self.numbers.get(id)?)?)
    }

    /// Removes a finished execution. Returns false if it is running or unknown.
    pub(crate) fn dismiss(&mut self, id: &str) -> bool {
        let number = self.numbers.get(id).copied();
        let Some(number) = number.filter(|number| self.position((false, *number)).is_ok()) else {
            return false;
        };
        self.remove(number);
        self.dismissed.insert(id.to_string());
        true
    }
}

/// The tools modal: the list, or one tool.
#[derive(Debug, Clone, Default)]
pub struct Modal {
    /// Selected row.
    pub(crate) row: usize,
    pub(crate) shown: Option<ShownTool>,
}

/// The tool shown in the modal.
#[derive(Debug, Clone)]
pub struct ShownTool {
    pub(crate) id: String,
    pub(crate) pager: Pager,
    /// Keys scroll its output instead of being sent to it.
    pub(crate) scrolls: bool,
    /// The user has typed into it.
    pub(crate) is_typed_into: bool,
    /// True if the tool ended while the user was typing: further text is discarded.
    pub(crate) swallows: bool,
}

impl Modal {
    /// Returns the selected row, 0-based.
    pub fn row(&self) -> usize {
        self.row
    }

    /// Returns the shown tool.
    pub fn shown(&self) -> Option<&ShownTool> {
        self.shown.as_ref()
    }

    /// Returns the first visible row of the list; the selected row is visible.
    pub(crate) fn first_row(&self, rows: u16) -> usize {
        (self.row + 1).saturating_sub(usize::from(rows.max(1)))
    }
}

impl ShownTool {
    pub(crate) fn new(id: &str) -> ShownTool {
        let (id, pager) = (id.to_string(), Pager::default());
        ShownTool { id, pager, scrolls: false, is_typed_into: false, swallows: false }
    }

    /// Returns the tool's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the window on its output.
    pub fn pager(&self) -> &Pager {
        &self.pager
    }
}

#[cfg(test)]
mod tests;
