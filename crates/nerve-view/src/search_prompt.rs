//! A pattern while it is typed: for a search, or for a filter.

mod keys;

use crate::keys::{Code, Key};
use crate::line_edit::TypedLine;
use crate::search::session::Search;
use crate::search::{Direction, How, Pattern};
use crate::viewport::Place;

/// Patterns that are remembered.
const REMEMBERED: usize = 100;

/// What a pattern is typed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// To go to lines with it.
    Search(Direction),
    /// To see only these.
    Filter,
}

/// A pattern as it is typed, to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// What for.
    pub what: Asking,
    /// What stands before it: how it is meant, and its sign.
    pub sign: String,
    /// What was typed so far.
    pub text: String,
    /// Bytes of it before the cursor.
    pub cursor: usize,
    /// Why it is no regular expression.
    pub fault: Option<String>,
}

/// The same with where one was before.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub(crate) what: Asking,
    pub(crate) line: TypedLine,
    pub(crate) how: How,
    /// From the first line on, or from the last one upwards.
    pub(crate) from_far: bool,
    /// Matches are lit, and the window stays.
    pub(crate) keeps: bool,
    /// Which match is to be gone to, 1-based.
    pub(crate) times: i64,
    /// Where the window stood before.
    pub(crate) origin: Place,
    /// What was looked for before.
    pub(crate) last: Option<Search>,
    /// What was typed before patterns were recalled, and which of those that begin with it is shown: 0 is the newest.
    recalled: Option<(String, usize)>,
}

/// What a key did to a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Did {
    /// It may be another one.
    Edited,
    /// It is to be used.
    Entered,
    /// It is not wanted any more.
    GaveUp,
    /// Nothing.
    Nothing,
}

/// Patterns that were used, oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct History(Vec<String>);

impl History {
    pub(crate) fn add(&mut self, text: &str) {
        self.0.retain(|known| known != text);
        self.0.push(text.to_string());
        self.0.drain(..self.0.len().saturating_sub(REMEMBERED));
    }

    /// Those that begin so, newest first.
    fn with<'a>(&'a self, begin: &'a str) -> impl Iterator<Item = &'a String> {
        self.0.iter().rev().filter(move |known| known.starts_with(begin))
    }
}

impl Prompt {
    pub(crate) fn new(what: Asking, times: i64, origin: Place, last: Option<Search>) -> Prompt {
        let (line, how) = (TypedLine::default(), How::default());
        Prompt { what, line, how, from_far: false, keeps: false, times, origin, last, recalled: None }
    }

    /// Lines have other numbers.
    pub(crate) fn renumber(&mut self, by: i64) {
        self.origin.renumber(by);
        self.last.iter_mut().for_each(|last| last.renumber(by));
    }

    /// The pattern so far; `None` while there is none.
    pub(crate) fn pattern(&self) -> Option<Pattern> {
        Pattern::with(self.line.text(), self.how)
    }

    /// As it is shown.
    pub(crate) fn shown(&self) -> Typed {
        let words = [
            (self.how.inverse, "not "),
            (self.how.literal, "as it stands "),
            (self.from_far, "from the end "),
            (self.keeps, "here "),
        ];
        let mut sign: String = words.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| *word).collect();
        if self.what == Asking::Search(Direction::Down) {
            sign = sign.replace("from the end", "from the start");
        }
        sign.push(match self.what {
            Asking::Search(Direction::Down) => '/',
            Asking::Search(Direction::Up) => '?',
            Asking::Filter => '&',
        });
        let fault = self.pattern().and_then(|pattern| pattern.fault().map(str::to_string));
        let (text, cursor) = (self.line.text().to_string(), self.line.cursor());
        Typed { what: self.what, sign, text, cursor, fault }
    }

    /// Takes a key, as `less` has them.
    pub(crate) fn key(&mut self, key: Key, history: &History) -> Did {
        let is_empty = self.line.text().is_empty();
        let is_search = matches!(self.what, Asking::Search(_));
        let ctrl = |char| key == Key::ctrl(char);
        match key.code {
            Code::Esc => return Did::GaveUp,
            Code::Enter => return Did::Entered,
            _ if ctrl('c') || ctrl('g') => return Did::GaveUp,
            _ if ctrl('m') || ctrl('j') => return Did::Entered,
            Code::Backspace if is_empty => return self.take_back(),
            _ if ctrl('h') && is_empty => return self.take_back(),
            Code::Up => return self.recall(history, true),
            Code::Down => return self.recall(history, false),
            _ if key == Key::alt('k') || ctrl('p') => return self.recall(history, true),
            _ if key == Key::alt('j') => return self.recall(history, false),
            Code::Char('!') if is_empty => self.how.inverse ^= true,
            _ if ctrl('n') => self.how.inverse ^= true,
            _ if ctrl('r') => self.how.literal ^= true,
            Code::Char('@') if is_empty && is_search => self.from_far ^= true,
            _ if ctrl('f') && is_search => self.from_far ^= true,
            _ if ctrl('k') && is_search => self.keeps ^= true,
            _ if self.line.key(key) => self.recalled = None,
            _ => return Did::Nothing,
        }
        Did::Edited
    }

    /// Nothing is typed: what was said of it is taken back, else all of it is given up.
    fn take_back(&mut self) -> Did {
        let plain = (How::default(), false, false);
        if (self.how, self.from_far, self.keeps) == plain {
            return Did::GaveUp;
        }
        (self.how, self.from_far, self.keeps) = plain;
        Did::Edited
    }

    /// The pattern before the one shown, or the one after it, of those that begin with what was typed.
    fn recall(&mut self, history: &History, is_before: bool) -> Did {
        let (begin, shown) = match &self.recalled {
            Some((begin, at)) => (begin.clone(), Some(*at)),
            None => (self.line.text().to_string(), None),
        };
        let wanted = match (shown, is_before) {
            (None, true) => Some(0),
            (Some(at), true) => Some(at + 1),
            (Some(at), false) => at.checked_sub(1),
            (None, false) => return Did::Nothing,
        };
        let Some(at) = wanted else {
            self.line.set(&begin);
            self.recalled = None;
            return Did::Edited;
        };
        let Some(text) = history.with(&begin).nth(at) else { return Did::Nothing };
        self.line.set(text);
        self.recalled = Some((begin, at));
        Did::Edited
    }
}
