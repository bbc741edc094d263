//! Places in a window on a document that are kept under letters, and gone to.

use std::collections::BTreeMap;

use crate::keys::{Code, Key, Operation};
use crate::pager::Pager;

/// What the key after this one is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The letter of a place to keep: the line at the window's top.
    Mark,
    /// The same for the line at its bottom.
    MarkBottom,
    /// The letter of a place that is not to be kept any more.
    Unmark,
    /// The letter of a place to go to.
    ToMark,
}

/// A line, and where in the window it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kept {
    line: u64,
    at_bottom: bool,
}

/// Places that were kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    letters: BTreeMap<char, Kept>,
    /// The line at the window's top before it went far.
    before: u64,
}

impl Marks {
    /// Lines have other numbers.
    pub(crate) fn renumber(&mut self, by: i64) {
        let lines = self.letters.values_mut().map(|kept| &mut kept.line).chain([&mut self.before]);
        lines.for_each(|line| *line = line.saturating_add_signed(by));
    }
}

impl Pager {
    /// Keeps where the window stands, before it goes far.
    pub(crate) fn going(&mut self) {
        self.marks.before = self.viewport.top_line();
    }

    /// Takes the letter of a place.
    pub(crate) fn marked(&mut self, awaited: Awaited, key: Key) {
        let letter = match key.code {
            Code::Esc => return,
            // `^X^X` is `'`.
            _ if awaited == Awaited::ToMark && key == Key::ctrl('x') => return self.awaited = Some(awaited),
            Code::Char(letter) if !key.ctrl && !key.alt => Some(letter),
            _ => None,
        };
        match awaited {
            Awaited::Mark | Awaited::MarkBottom => self.keep(letter, awaited == Awaited::MarkBottom),
            Awaited::Unmark => {
                let kept = letter.and_then(|letter| self.marks.letters.remove(&letter));
                self.tell(kept.map_or("no place is kept under that letter", |_| "not kept any more"));
            }
            Awaited::ToMark => self.go_to_kept(letter),
        }
    }

    fn keep(&mut self, letter: Option<char>, at_bottom: bool) {
        let Some(letter) = letter.filter(char::is_ascii_alphabetic) else {
            return self.tell("a place is kept under a letter");
        };
        let top = self.viewport.top_line();
        let line = if at_bottom { self.last_line().unwrap_or(top) } else { top };
        self.marks.letters.insert(letter, Kept { line, at_bottom });
    }

    fn go_to_kept(&mut self, letter: Option<char>) {
        let lines = self.viewport.lines();
        match letter {
            Some('\'') => self.go_to(self.marks.before.clamp(lines.start, lines.end)),
            Some('^') => self.go_far(Operation::Start, None),
            Some('$') => self.go_far(Operation::End, None),
            _ => match letter.and_then(|letter| self.marks.letters.get(&letter).copied()) {
                Some(Kept { line, at_bottom }) => {
                    let line = line.clamp(lines.start, lines.end);
                    self.go_to(line);
                    if at_bottom {
                        self.viewport.go_to_bottom(line);
                    }
                }
                None => self.tell("no place is kept under that letter"),
            },
        }
    }
}
