//! What keys mean in the viewer: those of `less` and `more`, and the seed's own (agent-record §6).

pub use nerve_term::keys::{Code, Key, KeyError};

/// What a key can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A line down.
    LineDown,
    /// A line up.
    LineUp,
    /// Half a window down.
    HalfDown,
    /// Half a window up.
    HalfUp,
    /// A window down.
    PageDown,
    /// A window up.
    PageUp,
    /// To the first line, or to the one whose number was typed before.
    Start,
    /// To the last line, or to the one whose number was typed before.
    End,
    /// To the end, and along with it as it grows.
    Follow,
    /// Half a window to the right.
    Right,
    /// Half a window to the left.
    Left,
    /// Look for text, downwards.
    SearchDown,
    /// Look for text, upwards.
    SearchUp,
    /// The next match.
    Next,
    /// The next match the other way.
    Previous,
    /// The next snapshot.
    NextSnapshot,
    /// The snapshot before.
    PreviousSnapshot,
    /// Play on, or stop.
    Play,
    /// Five seconds back.
    Back,
    /// Five seconds on.
    On,
    /// Twice as fast.
    Faster,
    /// Half as fast.
    Slower,
    /// The help sheet.
    Help,
    /// Leave.
    Quit,
}

/// An operation: its name in settings, the help's words, the keys it usually has.
#[derive(Debug)]
pub struct Entry {
    /// What it is.
    pub operation: Operation,
    /// Its name in settings.
    pub name: &'static str,
    /// What it does, for the help sheet.
    pub help: &'static str,
    /// Its keys, by name.
    pub keys: &'static [&'static str],
}

const fn entry(
    operation: Operation,
    name: &'static str,
    help: &'static str,
    keys: &'static [&'static str],
) -> Entry {
    Entry { operation, name, help, keys }
}

/// All operations, in the order of the help sheet.
pub const OPERATIONS: [Entry; 24] = [
    entry(Operation::LineDown, "line-down", "a line down", &["j", "e", "down", "enter", "ctrl+n", "ctrl+e"]),
    entry(Operation::LineUp, "line-up", "a line up", &["k", "y", "up", "ctrl+p", "ctrl+y"]),
    entry(Operation::PageDown, "page-down", "a window down", &["f", "space", "pagedown", "ctrl+f", "ctrl+v"]),
    entry(Operation::PageUp, "page-up", "a window up", &["b", "pageup", "ctrl+b", "alt+v"]),
    entry(Operation::HalfDown, "half-down", "half a window down", &["d", "ctrl+d"]),
    entry(Operation::HalfUp, "half-up", "half a window up", &["u", "ctrl+u"]),
    entry(
        Operation::Start,
        "start",
        "to the start, or to the line typed before",
        &["g", "<", "home", "ctrl+home"],
    ),
    entry(Operation::End, "end", "to the end, or to the line typed before", &["G", ">", "end", "ctrl+end"]),
    entry(Operation::Follow, "follow", "to the end, and along as it grows", &["F"]),
    entry(Operation::Right, "right", "half a window to the right", &["right"]),
    entry(Operation::Left, "left", "half a window to the left", &["left"]),
    entry(Operation::SearchDown, "search-down", "look for text", &["/"]),
    entry(Operation::SearchUp, "search-up", "look for text upwards", &["?"]),
    entry(Operation::Next, "next", "the next match", &["n"]),
    entry(Operation::Previous, "previous", "the match before", &["N"]),
    entry(Operation::NextSnapshot, "next-snapshot", "the next snapshot", &["]"]),
    entry(Operation::PreviousSnapshot, "previous-snapshot", "the snapshot before", &["["]),
    entry(Operation::Play, "play", "play on, or stop", &["p"]),
    entry(Operation::Back, "back", "5 s back in time", &[","]),
    entry(Operation::On, "on", "5 s on in time", &["."]),
    entry(Operation::Faster, "faster", "twice as fast", &["+"]),
    entry(Operation::Slower, "slower", "half as fast", &["-"]),
    entry(Operation::Help, "help", "this sheet", &["h", "H"]),
    entry(Operation::Quit, "quit", "leave; Esc twice does too", &["q", "Q", "Z", "ctrl+c"]),
];
