//! Handles bookmarks: lines of a document saved under letters.

use crate::view::keys::{Code, Key, Operation};
use crate::view::pager::{Bookmark, Pager, PendingBookmark};

impl Pager {
    /// Saves the position before a jump.
    pub(crate) fn remember_position(&mut self) {
        self.bookmarks.previous_top = self.viewport.top_line();
    }

    /// Handles the letter after a bookmark key.
    pub(crate) fn finish_bookmark(&mut self, pending_bookmark: PendingBookmark, key: Key) {
        let letter = match key.code {
            Code::Esc => return,
            // As in `less`, `^X^X` is `''`.
            _ if pending_bookmark == PendingBookmark::GoTo && key == Key::ctrl('x') => {
                return self.bookmarks.pending = Some(pending_bookmark);
            }
            Code::Char(letter) if !key.ctrl && !key.alt => Some(letter),
            _ => None,
        };
        match pending_bookmark {
            PendingBookmark::Set | PendingBookmark::SetBottom => {
                self.set_bookmark(letter, pending_bookmark == PendingBookmark::SetBottom)
            }
            PendingBookmark::Clear => {
                let bookmark = letter.and_then(|letter| self.bookmarks.letters.remove(&letter));
                self.show_message(bookmark.map_or("no such bookmark", |_| "bookmark removed"));
            }
            PendingBookmark::GoTo => self.go_to_bookmark(letter),
        }
    }

    fn set_bookmark(&mut self, letter: Option<char>, at_bottom: bool) {
        let Some(letter) = letter.filter(char::is_ascii_alphabetic) else {
            return self.show_message("a bookmark is a letter");
        };
        let top = self.viewport.top_line();
        let line = if at_bottom { self.last_line().unwrap_or(top) } else { top };
        self.bookmarks.letters.insert(letter, Bookmark { line, at_bottom });
    }

    fn go_to_bookmark(&mut self, letter: Option<char>) {
        let lines = self.viewport.lines();
        match letter {
            Some('\'') => self.go_to(self.bookmarks.previous_top.clamp(lines.start, lines.end)),
            Some('^') => self.jump(Operation::Start, None),
            Some('$') => self.jump(Operation::End, None),
            _ => match letter.and_then(|letter| self.bookmarks.letters.get(&letter).copied()) {
                Some(Bookmark { line, at_bottom }) => {
                    let line = line.clamp(lines.start, lines.end);
                    self.go_to(line);
                    if at_bottom {
                        self.viewport.go_to_bottom(line);
                    }
                }
                None => self.show_message("no such bookmark"),
            },
        }
    }
}
