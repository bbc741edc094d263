//! What the agent runs: executions of its tools that can be looked at, and the modal that shows them.

use std::collections::BTreeSet;

use crate::pager::Pager;

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

/// The executions, as they are listed: those that run first, of both the newest first. Ended ones stay until they are dismissed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tools {
    listed: Vec<Tool>,
    dismissed: BTreeSet<String>,
}

impl Tools {
    /// All there are now, oldest first.
    pub(crate) fn set(&mut self, mut tools: Vec<Tool>) {
        // An id that is not told any more need not be kept.
        self.dismissed.retain(|id| tools.iter().any(|tool| tool.id == *id));
        tools.retain(|tool| tool.is_running() || !self.dismissed.contains(&tool.id));
        tools.reverse();
        tools.sort_by_key(|tool| !tool.is_running());
        self.listed = tools;
    }

    pub(crate) fn listed(&self) -> &[Tool] {
        &self.listed
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Tool> {
        self.listed.iter().find(|tool| tool.id == id)
    }

    /// Takes one that has ended out of the list; false if it runs or is not there.
    pub(crate) fn dismiss(&mut self, id: &str) -> bool {
        let has_ended = self.get(id).is_some_and(|tool| !tool.is_running());
        if has_ended {
            self.listed.retain(|tool| tool.id != id);
            self.dismissed.insert(id.to_string());
        }
        has_ended
    }
}

/// The tools' modal: their list, or one of them.
#[derive(Debug, Clone, Default)]
pub struct Modal {
    /// The row of the list that is chosen.
    pub(crate) row: usize,
    pub(crate) shown: Option<Shown>,
}

/// The tool that is shown.
#[derive(Debug, Clone)]
pub struct Shown {
    pub(crate) id: String,
    pub(crate) pager: Pager,
    /// Keys are not the tool's but go through what it wrote.
    pub(crate) scrolls: bool,
    /// It has ended while somebody typed into it: text that is still typed for it is for nothing else.
    pub(crate) swallows: bool,
}

impl Modal {
    /// The row of the list that is chosen, 0-based.
    pub fn row(&self) -> usize {
        self.row
    }

    /// The tool that is shown in place of the list.
    pub fn shown(&self) -> Option<&Shown> {
        self.shown.as_ref()
    }

    /// The first row of the list in a window of so many rows: the chosen one is in it.
    pub fn first_row(&self, rows: u16) -> usize {
        (self.row + 1).saturating_sub(usize::from(rows.max(1)))
    }
}

impl Shown {
    pub(crate) fn new(id: &str) -> Shown {
        Shown { id: id.to_string(), pager: Pager::default(), scrolls: false, swallows: false }
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
