//! The viewer's operations and contexts. The keys are those of `less` and `more`, plus a few of its own.
//!
//! Differences from `less`: `p` plays (`%` jumps to a percentage), `-` and `+` change the speed, `.` and `,` seek,
//! `[` and `]` go to snapshots, `t` lists tools, `i` and a click open the task entry. Commands about other files,
//! editors and shells (`:n`, `:e`, `v`, `!`, `|`, `s` to save) are not supported.

pub use nerve_vt::keys::{Button, Code, Input, Key, KeyError, Mouse, MouseAction, Wheel};

/// An operation that a key can be bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Scrolls a line down.
    LineDown,
    /// Scrolls a line up.
    LineUp,
    /// Scrolls half a window down. A count becomes the new step, in lines.
    HalfDown,
    /// Scrolls half a window up. A count becomes the new step, in lines.
    HalfUp,
    /// Scrolls a window down.
    PageDown,
    /// Scrolls a window up.
    PageUp,
    /// Scrolls a window down. A count becomes the new window step, in lines.
    WindowDown,
    /// Scrolls a window up. A count becomes the new window step, in lines.
    WindowUp,
    /// Goes to the first line, or to the line given by the count.
    Start,
    /// Goes to the last line, or to the line given by the count.
    End,
    /// Goes to the given percentage of the lines.
    Percent,
    /// Goes to the end and follows new output.
    Follow,
    /// Follows new output until a line matches the search.
    FollowUntil,
    /// Scrolls half a window to the right.
    Right,
    /// Scrolls half a window to the left.
    Left,
    /// Scrolls to the last column.
    RightEnd,
    /// Scrolls to the first column.
    LeftEnd,
    /// Searches downwards.
    SearchDown,
    /// Searches upwards.
    SearchUp,
    /// Goes to the next match.
    Next,
    /// Goes to the next match in the other direction.
    Previous,
    /// Shows only matching lines.
    Filter,
    /// Turns match highlighting off or on.
    ToggleHighlight,
    /// Clears the search.
    ClearSearch,
    /// Goes to the next snapshot.
    NextSnapshot,
    /// Goes to the previous snapshot.
    PreviousSnapshot,
    /// Bookmarks the top line.
    SetBookmark,
    /// Bookmarks the bottom line.
    SetBottomBookmark,
    /// Removes a bookmark.
    ClearBookmark,
    /// Goes to a bookmark.
    GoToBookmark,
    /// Goes to the brace that closes the one in the top line.
    CloseBrace,
    /// Goes to the parenthesis that closes the one in the top line.
    CloseParenthesis,
    /// Goes to the brace that opens the one in the bottom line.
    OpenBrace,
    /// Goes to the parenthesis that opens the one in the bottom line.
    OpenParenthesis,
    /// Shows the current line number.
    Position,
    /// Redraws the window.
    Redraw,
    /// Begins a `:` command of `less`.
    Colon,
    /// Starts or pauses playback.
    TogglePlay,
    /// Seeks five seconds back.
    Rewind,
    /// Seeks five seconds forward.
    Forward,
    /// Doubles the playback speed.
    Faster,
    /// Halves the playback speed.
    Slower,
    /// Opens the task entry at the current position's snapshot.
    InsertEntry,
    /// Opens the task entry at the latest snapshot, or moves it to the previous one.
    EntryUp,
    /// Moves the task entry to the next snapshot.
    EntryDown,
    /// Takes a snapshot.
    Snapshot,
    /// Switches to the branch made last.
    SwitchToBranch,
    /// Submits the task.
    Submit,
    /// Inserts a line break into the task.
    NewLine,
    /// Closes the task entry.
    CloseEntry,
    /// Opens or closes the list of tools.
    Tools,
    /// Selects the previous tool.
    ListUp,
    /// Selects the next tool.
    ListDown,
    /// Shows the selected tool.
    ListOpen,
    /// Closes the list.
    ListClose,
    /// Removes a finished tool from the list.
    Dismiss,
    /// Copies the visible text.
    Copy,
    /// Enters scroll mode from a running program.
    Scroll,
    /// Like `Scroll`, for keys that full-screen programs use themselves.
    ScrollInline,
    /// Makes the next key the viewer's.
    Prefix,
    /// Leaves the program running.
    Detach,
    /// Ends the program's session.
    EndSession,
    /// Shows the help sheet.
    Help,
    /// Leaves when pressed twice, or returns to a running program.
    Leave,
    /// Leaves, or returns to a running program.
    Quit,
}

/// The context in which a key is pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Context {
    /// A running program gets all unbound keys.
    Live,
    /// Scroll mode.
    Scroll,
    /// The task entry gets all unbound keys as text.
    Entry,
    /// The list of tools.
    List,
    /// A running tool gets all unbound keys.
    Modal,
    /// The key after the prefix.
    Prefix,
}

impl Context {
    /// Returns the context as part of a sentence: "… in scroll mode".
    pub fn words(self) -> &'static str {
        match self {
            Context::Live => "in live mode",
            Context::Scroll => "in scroll mode",
            Context::Entry => "in the task entry",
            Context::List => "in the tool list",
            Context::Modal => "in a tool",
            Context::Prefix => "after the prefix",
        }
    }

    /// Returns true if unbound keys are input for something else.
    pub(crate) fn is_typed_into(self) -> bool {
        matches!(self, Context::Live | Context::Entry | Context::Modal)
    }
}
