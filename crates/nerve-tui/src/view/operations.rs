//! The table of operations: name in settings, help text and default keys.

use crate::view::keys::{Context, Operation};

/// An operation in its contexts, with its name, help text and default keys.
#[derive(Debug)]
pub struct OperationInfo {
    /// The operation.
    pub operation: Operation,
    /// Name in settings.
    pub name: &'static str,
    /// Text of the help sheet.
    pub help: &'static str,
    /// Contexts in which it can be bound.
    pub contexts: &'static [Context],
    /// Default keys, by name.
    pub keys: &'static [&'static str],
}

const fn entry(
    contexts: &'static [Context],
    operation: Operation,
    name: &'static str,
    help: &'static str,
    keys: &'static [&'static str],
) -> OperationInfo {
    OperationInfo { operation, name, help, contexts, keys }
}

const LIVE: &[Context] = &[Context::Live];
const SCROLL: &[Context] = &[Context::Scroll];
const ENTRY: &[Context] = &[Context::Entry];
const LIST: &[Context] = &[Context::List];
const MODAL: &[Context] = &[Context::Modal];
const PREFIX: &[Context] = &[Context::Prefix];
/// All contexts in which keys are not text of a prompt.
const ALL: &[Context] = &[Context::Live, Context::Scroll, Context::Entry, Context::List, Context::Modal];

/// All operations, in the order of the help sheet. They apply to running programs and recordings.
pub const OPERATIONS: &[OperationInfo] = {
    use Operation as Op;
    &[
        entry(ALL, Op::Prefix, "prefix", "prefix for the viewer's keys", &["ctrl+]"]),
        entry(
            &[Context::Live, Context::Scroll, Context::Entry],
            Op::EntryUp,
            "entry-up",
            "new task at the latest snapshot; again: at the previous one",
            &["ctrl+shift+up"],
        ),
        entry(ALL, Op::Tools, "tools", "list the agent's tools", &["ctrl+shift+t"]),
        entry(ALL, Op::Snapshot, "snapshot", "take a snapshot", &[]),
        entry(LIVE, Op::Scroll, "scroll", "scroll back", &["shift+pageup"]),
        entry(
            LIVE,
            Op::ScrollInline,
            "scroll-inline",
            "scroll back, unless a full-screen program runs",
            &["pageup"],
        ),
        entry(LIVE, Op::Detach, "detach", "detach; the program keeps running", &[]),
        entry(LIVE, Op::EndSession, "end-session", "end the session", &[]),
        entry(PREFIX, Op::Detach, "prefix-detach", "detach; the program keeps running", &["d"]),
        entry(PREFIX, Op::Scroll, "prefix-scroll", "scroll back", &["[", "pageup"]),
        entry(PREFIX, Op::EntryUp, "prefix-entry-up", "new task at the latest snapshot", &["up", "i"]),
        entry(PREFIX, Op::EntryDown, "prefix-entry-down", "new task at the next snapshot", &["down"]),
        entry(PREFIX, Op::Snapshot, "prefix-snapshot", "take a snapshot", &["s"]),
        entry(PREFIX, Op::Tools, "prefix-tools", "list the agent's tools", &["t"]),
        entry(PREFIX, Op::SwitchToBranch, "prefix-go-to-branch", "switch to the branch made last", &["b"]),
        entry(PREFIX, Op::Copy, "prefix-copy", "copy the visible text", &["y"]),
        entry(PREFIX, Op::Dismiss, "prefix-dismiss", "dismiss the shown tool", &["x"]),
        entry(PREFIX, Op::Help, "prefix-help", "this sheet", &["?", "h"]),
        entry(PREFIX, Op::EndSession, "prefix-end", "end the session (asks first)", &["q"]),
        entry(
            SCROLL,
            Op::LineDown,
            "line-down",
            "a line down",
            &["j", "e", "down", "enter", "s", "J", "ctrl+n", "ctrl+e", "ctrl+j", "ctrl+m"],
        ),
        entry(
            SCROLL,
            Op::LineUp,
            "line-up",
            "a line up",
            &["k", "y", "up", "K", "ctrl+p", "ctrl+y", "ctrl+k"],
        ),
        entry(
            SCROLL,
            Op::PageDown,
            "page-down",
            "a window down",
            &["f", "space", "pagedown", "ctrl+f", "ctrl+v", "alt+space"],
        ),
        entry(
            SCROLL,
            Op::PageUp,
            "page-up",
            "a window up",
            &["b", "pageup", "shift+pageup", "ctrl+b", "alt+v"],
        ),
        entry(SCROLL, Op::WindowDown, "window-down", "a window down; a number: so many lines", &["z"]),
        entry(SCROLL, Op::WindowUp, "window-up", "a window up; a number: so many lines", &["w"]),
        entry(SCROLL, Op::HalfDown, "half-down", "half a window down", &["d", "ctrl+d"]),
        entry(SCROLL, Op::HalfUp, "half-up", "half a window up", &["u", "ctrl+u"]),
        entry(
            SCROLL,
            Op::Start,
            "start",
            "to the start, or to the line typed before",
            &["g", "<", "home", "ctrl+home", "alt+<"],
        ),
        entry(
            SCROLL,
            Op::End,
            "end",
            "to the end, or to the line typed before",
            &["G", ">", "end", "ctrl+end", "alt+>"],
        ),
        entry(SCROLL, Op::Percent, "percent", "go to the percentage typed before", &["%"]),
        entry(SCROLL, Op::Follow, "follow", "follow the end until ctrl+c", &["F"]),
        entry(SCROLL, Op::FollowUntil, "follow-until", "follow until a line matches the search", &["alt+F"]),
        entry(
            SCROLL,
            Op::Right,
            "right",
            "half a window to the right; a number: so many columns",
            &["right", "alt+)"],
        ),
        entry(SCROLL, Op::Left, "left", "half a window to the left, or so many columns", &["left", "alt+("]),
        entry(SCROLL, Op::RightEnd, "right-end", "to the last column", &["ctrl+right", "alt+}"]),
        entry(SCROLL, Op::LeftEnd, "left-end", "to the first column", &["ctrl+left", "alt+{"]),
        entry(SCROLL, Op::SearchDown, "search-down", "search", &["/"]),
        entry(SCROLL, Op::SearchUp, "search-up", "search upwards", &["?"]),
        entry(SCROLL, Op::Next, "next", "the next match", &["n", "alt+n"]),
        entry(SCROLL, Op::Previous, "previous", "the previous match", &["N", "alt+N"]),
        entry(SCROLL, Op::Filter, "filter", "show only matching lines; empty: all", &["&"]),
        entry(SCROLL, Op::ToggleHighlight, "unlight", "toggle match highlighting", &["alt+u"]),
        entry(SCROLL, Op::ClearSearch, "forget", "clear the search", &["alt+U"]),
        entry(SCROLL, Op::NextSnapshot, "next-snapshot", "the next snapshot", &["]"]),
        entry(SCROLL, Op::PreviousSnapshot, "previous-snapshot", "the previous snapshot", &["["]),
        entry(SCROLL, Op::SetBookmark, "mark", "set a bookmark (letter)", &["m"]),
        entry(SCROLL, Op::SetBottomBookmark, "mark-bottom", "set a bookmark at the bottom line", &["M"]),
        entry(SCROLL, Op::ClearBookmark, "unmark", "remove a bookmark", &["alt+M", "alt+m"]),
        entry(SCROLL, Op::GoToBookmark, "to-mark", "go to a bookmark; twice: back", &["'", "ctrl+x"]),
        entry(SCROLL, Op::CloseBrace, "close-brace", "from { in the first line to its }", &["{"]),
        entry(SCROLL, Op::CloseParenthesis, "close-parenthesis", "from ( in the first line to its )", &["("]),
        entry(SCROLL, Op::OpenBrace, "open-brace", "from } in the last line back to its {", &["}"]),
        entry(
            SCROLL,
            Op::OpenParenthesis,
            "open-parenthesis",
            "from ) in the last line back to its (",
            &[")"],
        ),
        entry(SCROLL, Op::Position, "position", "current line", &["=", "ctrl+g"]),
        entry(SCROLL, Op::Redraw, "redraw", "redraw", &["r", "R", "ctrl+l", "ctrl+r"]),
        entry(SCROLL, Op::InsertEntry, "insert-entry", "new task at the current snapshot", &["i"]),
        entry(SCROLL, Op::SwitchToBranch, "go-to-branch", "switch to the branch made last", &["B"]),
        entry(SCROLL, Op::Tools, "show-tools", "list the agent's tools", &["t"]),
        entry(SCROLL, Op::Copy, "copy", "copy the visible text", &["Y"]),
        entry(SCROLL, Op::TogglePlay, "play", "play or pause", &["p"]),
        entry(SCROLL, Op::Rewind, "back", "5 s back in time", &[","]),
        entry(SCROLL, Op::Forward, "on", "5 s on in time", &["."]),
        entry(SCROLL, Op::Faster, "faster", "twice as fast", &["+"]),
        entry(SCROLL, Op::Slower, "slower", "half as fast", &["-"]),
        entry(SCROLL, Op::Help, "help", "this sheet", &["h", "H", "f1"]),
        entry(SCROLL, Op::Colon, "colon", "then q: leave, f: current line", &[":"]),
        entry(SCROLL, Op::Leave, "leave", "twice: leave, or return to the program", &["esc"]),
        entry(SCROLL, Op::Quit, "quit", "leave, or return to the program", &["q", "Q", "Z", "ctrl+c"]),
        entry(ENTRY, Op::Submit, "submit", "send what was typed", &["enter", "ctrl+m"]),
        entry(ENTRY, Op::NewLine, "new-line", "a new line", &["alt+enter", "shift+enter", "ctrl+j"]),
        entry(ENTRY, Op::EntryDown, "entry-down", "to the next snapshot", &["ctrl+shift+down"]),
        entry(ENTRY, Op::PageUp, "entry-page-up", "a window up", &["pageup", "shift+pageup"]),
        entry(ENTRY, Op::PageDown, "entry-page-down", "a window down", &["pagedown", "shift+pagedown"]),
        entry(ENTRY, Op::Start, "entry-start", "to the start", &["ctrl+home"]),
        entry(ENTRY, Op::End, "entry-end", "to the end", &["ctrl+end"]),
        entry(ENTRY, Op::Help, "entry-help", "this sheet", &["f1"]),
        entry(ENTRY, Op::CloseEntry, "entry-close", "close it; twice: leave", &["esc", "ctrl+c"]),
        entry(LIST, Op::ListUp, "list-up", "the tool above", &["up", "k", "ctrl+p"]),
        entry(LIST, Op::ListDown, "list-down", "the tool below", &["down", "j", "ctrl+n"]),
        entry(LIST, Op::ListOpen, "list-open", "show it", &["enter", "space", "right"]),
        entry(LIST, Op::Dismiss, "list-dismiss", "dismiss a finished tool", &["x", "delete"]),
        entry(LIST, Op::Help, "list-help", "this sheet", &["h", "?", "f1"]),
        entry(LIST, Op::ListClose, "list-close", "leave the list", &["esc", "q", "left", "ctrl+c"]),
        entry(MODAL, Op::Scroll, "tool-scroll", "scroll the tool's output", &["shift+pageup"]),
        entry(
            MODAL,
            Op::ScrollInline,
            "tool-scroll-inline",
            "scroll back, unless a full-screen program runs",
            &["pageup"],
        ),
    ]
};
