//! What the agent runs: executions of its tools that can be looked at.

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
