//! What keys mean in the viewer: those of `less` and `more`, and the seed's own (agent-record §6).
//!
//! What `less` has and its keys are otherwise taken here: `p` plays (`%` goes to a percentage), `-` and `+` are slower and faster (`less` has no
//! options here), `.` and `,` go in time, `[` and `]` go to snapshots (brackets of that kind are not matched), `t` shows tools, `i` and a click tell the agent
//! something. What is about other files, marks in them, editors and shells (`:n`, `:e`, `v`, `!`, `|`, `s` to save) has no meaning here.

pub use crate::operations::{Entry, OPERATIONS};
pub use nerve_term::keys::{Button, Code, Input, Key, KeyError, Mouse, MouseAct, Wheel};

/// What can be done with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A line down.
    LineDown,
    /// A line up.
    LineUp,
    /// Half a window down; with a number, so many lines from now on.
    HalfDown,
    /// Half a window up; with a number, so many lines from now on.
    HalfUp,
    /// A window down.
    PageDown,
    /// A window up.
    PageUp,
    /// A window down; with a number, a window has so many lines from now on.
    WindowDown,
    /// A window up; with a number, a window has so many lines from now on.
    WindowUp,
    /// To the first line, or to the one whose number was typed before.
    Start,
    /// To the last line, or to the one whose number was typed before.
    End,
    /// To so many percent of the lines.
    Percent,
    /// To the end, and along with it as it grows.
    Follow,
    /// The same until a line has what is looked for.
    FollowUntil,
    /// Half a window to the right.
    Right,
    /// Half a window to the left.
    Left,
    /// To the last column.
    RightEnd,
    /// To the first column.
    LeftEnd,
    /// Look for text, downwards.
    SearchDown,
    /// Look for text, upwards.
    SearchUp,
    /// The next match.
    Next,
    /// The next match the other way.
    Previous,
    /// Only lines with a text.
    Filter,
    /// Matches are not lit any more, or again.
    ToggleHighlight,
    /// Nothing is looked for any more.
    ClearSearch,
    /// The next snapshot.
    NextSnapshot,
    /// The snapshot before.
    PreviousSnapshot,
    /// Keeps the place under a letter.
    SetBookmark,
    /// The same for the line at the window's bottom.
    SetBottomBookmark,
    /// Keeps it no more.
    ClearBookmark,
    /// Goes to a place that was kept.
    GoToBookmark,
    /// To the brace that closes the one in the first line.
    CloseBrace,
    /// To the parenthesis that closes the one in the first line.
    CloseParenthesis,
    /// To the brace that opens the one in the last line.
    OpenBrace,
    /// To the parenthesis that opens the one in the last line.
    OpenParenthesis,
    /// Says which line of how many.
    Position,
    /// Draws all of it anew.
    Redraw,
    /// What follows is a command of `less`.
    Colon,
    /// Play on, or stop.
    TogglePlay,
    /// Five seconds back.
    Rewind,
    /// Five seconds on.
    Forward,
    /// Twice as fast.
    Faster,
    /// Half as fast.
    Slower,
    /// The task entry, at the snapshot of where one is.
    InsertEntry,
    /// The task entry at the latest snapshot; if it is shown, at the one before.
    EntryUp,
    /// The task entry at the next snapshot.
    EntryDown,
    /// Takes a snapshot of what runs.
    Snapshot,
    /// Leaves for the branch that was made last.
    SwitchToBranch,
    /// Sends what is in the task entry.
    Submit,
    /// A new line in the task entry.
    NewLine,
    /// Closes the task entry.
    CloseEntry,
    /// Shows the tools, or goes back from them.
    Tools,
    /// The tool before in the list.
    ListUp,
    /// The next tool in the list.
    ListDown,
    /// Shows the chosen tool.
    ListOpen,
    /// Leaves the list.
    ListClose,
    /// A tool that has ended is not to be listed any more.
    Dismiss,
    /// Copies the text that can be seen.
    Copy,
    /// From a program that runs to what it wrote before.
    Scroll,
    /// The same with keys that programs want which are not full-screen programs.
    ScrollInline,
    /// The next key is the viewer's.
    Prefix,
    /// Leave the program, which goes on.
    Detach,
    /// End the program's session.
    EndSession,
    /// The help sheet.
    Help,
    /// Leave when it is pressed twice; where a program runs, back to it.
    Leave,
    /// Leave; where a program runs, back to it.
    Quit,
}

/// Where a key means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Context {
    /// A program runs, and other keys are its.
    Live,
    /// Looking through lines.
    Scroll,
    /// In the task entry: other keys are text.
    Entry,
    /// In the list of tools.
    List,
    /// A tool that runs is shown, and other keys are its.
    Modal,
    /// After the prefix.
    Prefix,
}

impl Context {
    /// For sentences: "… while looking through lines".
    pub fn words(self) -> &'static str {
        match self {
            Context::Live => "in a program that runs",
            Context::Scroll => "while looking through lines",
            Context::Entry => "in the task entry",
            Context::List => "in the list of tools",
            Context::Modal => "in a tool that is shown",
            Context::Prefix => "after the prefix",
        }
    }

    /// Keys without a meaning are typed into something.
    pub fn is_typed_into(self) -> bool {
        matches!(self, Context::Live | Context::Entry | Context::Modal)
    }
}
