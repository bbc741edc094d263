//! What a viewer is on, what its keys mean, and what it asks of others.

use std::time::Duration;

use crate::keys::Input;
pub use crate::search_prompt::{PromptKind, PromptView};

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A program that runs: keys are for it.
    Live,
    /// A recording.
    Recording,
}

/// An instruction for a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The snapshot to branch from; `None` for the end of a recording that has none there.
    pub snapshot: Option<u64>,
    /// The line it is shown at.
    pub line: u64,
    /// What to tell the agent.
    pub text: String,
}

/// What somebody wants that the viewer itself cannot do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Leave a program that goes on.
    Detach,
    /// End the program.
    EndProgram,
    /// Something for the program.
    Input(Input),
    /// Something for the tool that is shown.
    ToolInput(Input),
    /// Show this tool.
    ShowTool(String),
    /// This one is not to be listed any more.
    DismissTool(String),
    /// A text for the clipboard.
    Copy(String),
    /// Branch.
    Branch(Submission),
    /// Take a snapshot of what runs.
    TakeSnapshot,
    /// Leave for the branch that was made last.
    SwitchToBranch,
    /// To this moment of the recording.
    Seek(Duration),
    /// To the moment at which the snapshot with this id was taken, and stand there; to the recording's end, if `None`.
    SeekSnapshot(Option<u64>),
    /// Play on, or stop.
    TogglePlay,
    /// So many seconds on in time; back, if negative.
    Skip(i64),
    /// Twice as fast, or half as fast.
    Speed {
        /// Which of both.
        faster: bool,
    },
    /// Draw everything anew: the terminal may show something else.
    Redraw,
}

/// What keys mean at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// They are the program's.
    Live,
    /// What their bindings say.
    Scrolling,
    /// A pattern is being typed.
    Prompt(PromptView),
    /// They are text for the task entry.
    Entry,
    /// The help sheet is shown, from this row of it on.
    Help(u16),
    /// They choose from the list of tools.
    Tools,
    /// They are the tool's that is shown.
    Tool,
    /// They go through what the tool that is shown wrote.
    ToolScrolling,
    /// Shall the program be ended? `y`, or anything else.
    Confirm,
}
