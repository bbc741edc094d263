//! The viewer's modes, and the effects it requests from its caller.

use std::time::Duration;

use crate::view::keys::Input;
pub use crate::view::search_prompt::{PromptKind, PromptView};

/// Source of a viewer's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A running program, which gets the keys.
    Live,
    /// A recording.
    Recording,
}

/// A task for a new branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The snapshot to branch from; `None` for a recording's end without a snapshot.
    pub snapshot: Option<u64>,
    /// The line at which the entry is shown.
    pub line: u64,
    /// The task for the agent.
    pub text: String,
}

/// An effect that the caller has to perform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Leave the viewer.
    Quit,
    /// Leave the program running.
    Detach,
    /// End the program.
    EndProgram,
    /// Send input to the program.
    Input(Input),
    /// Send input to the shown tool.
    ToolInput(Input),
    /// Open the tool with this id.
    ShowTool(String),
    /// The tool with this id was removed from the list.
    DismissTool(String),
    /// Copy a text to the clipboard.
    Copy(String),
    /// Create a branch.
    Branch(Submission),
    /// Take a snapshot of the running program.
    TakeSnapshot,
    /// Switch to the branch made last.
    SwitchToBranch,
    /// Seek to this time of the recording.
    Seek(Duration),
    /// Seek to the snapshot with this id and pause, or to the recording's end.
    SeekSnapshot(Option<u64>),
    /// Start or pause playback.
    TogglePlay,
    /// Seek by this many seconds; backwards if negative.
    Skip(i64),
    /// Double or halve the playback speed.
    Speed {
        /// True to double it.
        faster: bool,
    },
    /// Redraw everything: other output may be on the screen.
    Redraw,
}

/// A mode of the viewer, which decides the meaning of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Keys go to the program.
    Live,
    /// Scroll mode: keys run operations.
    Scrolling,
    /// A search or filter pattern is being typed.
    Prompt(PromptView),
    /// Keys edit the task.
    Entry,
    /// The help sheet is open, scrolled to this row.
    Help(u16),
    /// Keys select from the tool list.
    Tools,
    /// Keys go to the shown tool.
    Tool,
    /// Keys scroll the shown tool's output.
    ToolScrolling,
    /// Confirmation before the program is ended: `y`, or any other key.
    Confirm,
}
