//! Keys, and what they mean in the viewer: those of `less` and `more`, and the seed's own (agent-record §6).

use std::fmt;
use std::str::FromStr;

/// A key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Which one.
    pub code: Code,
    /// With Control.
    pub ctrl: bool,
    /// With Alt.
    pub alt: bool,
    /// With Shift, where the key itself does not say so: `A` is a character.
    pub shift: bool,
}

/// A key without modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// A character, as it was typed.
    Char(char),
    /// Return.
    Enter,
    /// Escape.
    Esc,
    /// Backspace.
    Backspace,
    /// Tab.
    Tab,
    /// Delete.
    Delete,
    /// Cursor up.
    Up,
    /// Cursor down.
    Down,
    /// Cursor left.
    Left,
    /// Cursor right.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
}

const NAMES: [(&str, Code); 13] = [
    ("enter", Code::Enter),
    ("esc", Code::Esc),
    ("backspace", Code::Backspace),
    ("tab", Code::Tab),
    ("delete", Code::Delete),
    ("up", Code::Up),
    ("down", Code::Down),
    ("left", Code::Left),
    ("right", Code::Right),
    ("home", Code::Home),
    ("end", Code::End),
    ("pageup", Code::PageUp),
    ("pagedown", Code::PageDown),
];

impl Key {
    /// A key alone.
    pub const fn plain(code: Code) -> Key {
        Key { code, ctrl: false, alt: false, shift: false }
    }

    /// A character alone.
    pub const fn char(char: char) -> Key {
        Key::plain(Code::Char(char))
    }

    /// A character with Control.
    pub const fn ctrl(char: char) -> Key {
        Key { ctrl: true, ..Key::char(char) }
    }
}

/// `ctrl+shift+up`, `g`, `G`, `space`, `pagedown`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (is_held, name) in [(self.ctrl, "ctrl+"), (self.alt, "alt+"), (self.shift, "shift+")] {
            if is_held {
                f.write_str(name)?;
            }
        }
        match self.code {
            Code::Char(' ') => f.write_str("space"),
            Code::Char(char) => write!(f, "{char}"),
            code => f.write_str(NAMES.iter().find(|(_, named)| *named == code).map_or("", |(name, _)| name)),
        }
    }
}

/// What is wrong with the name of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadKey(String);

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no key: write it like 'g', 'space', 'pagedown' or 'ctrl+shift+up'", self.0)
    }
}

impl std::error::Error for BadKey {}

impl FromStr for Key {
    type Err = BadKey;

    fn from_str(name: &str) -> Result<Key, BadKey> {
        let bad = || BadKey(name.chars().take(40).collect());
        let mut key = Key::char(' ');
        let mut rest = name;
        loop {
            let (held, after) = match rest.split_once('+') {
                // A plus itself is a key.
                Some((held, after)) if !held.is_empty() && !after.is_empty() => (held, after),
                _ => break,
            };
            match held.to_ascii_lowercase().as_str() {
                "ctrl" => key.ctrl = true,
                "alt" => key.alt = true,
                "shift" => key.shift = true,
                _ => return Err(bad()),
            }
            rest = after;
        }
        let named = NAMES.iter().find(|(known, _)| rest.eq_ignore_ascii_case(known));
        key.code = match (named, rest.chars().collect::<Vec<_>>().as_slice()) {
            (Some((_, code)), _) => *code,
            (None, [char]) if !char.is_control() => Code::Char(*char),
            (None, _) if rest.eq_ignore_ascii_case("space") => Code::Char(' '),
            _ => return Err(bad()),
        };
        Ok(key)
    }
}

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
