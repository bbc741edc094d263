//! The prompt for a search or filter pattern.

use crate::view::keys::{Code, Key};
use crate::view::line_edit::LineEdit;
use crate::view::search::session::SearchSession;
use crate::view::search::{Direction, Pattern, PatternOptions};
use crate::view::viewport::ScrollPosition;

/// Maximum number of remembered patterns.
const MAX_HISTORY: usize = 100;

/// Purpose of the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptKind {
    /// Search in this direction.
    Search(Direction),
    /// Show only matching lines.
    Filter,
}

/// The prompt as shown in the status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptView {
    /// Purpose of the pattern.
    pub kind: PromptKind,
    /// Options and sign in front of the text.
    pub sign: String,
    /// The text typed so far.
    pub text: String,
    /// Cursor position in bytes.
    pub cursor: usize,
    /// Reason why the text is not a valid regular expression.
    pub fault: Option<String>,
}

/// Options that keys of the prompt turn on and off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PromptOptions {
    pub(crate) pattern: PatternOptions,
    /// Searches from the first line, or upwards from the last.
    pub(crate) from_end: bool,
    /// Highlights matches without moving the window.
    pub(crate) stays: bool,
}

/// The state of an open prompt.
#[derive(Debug, Clone)]
pub(crate) struct SearchPrompt {
    pub(crate) kind: PromptKind,
    pub(crate) line: LineEdit,
    pub(crate) options: PromptOptions,
    /// Number of the match to go to, from 1.
    pub(crate) times: i64,
    /// Scroll position to return to.
    pub(crate) origin: ScrollPosition,
    /// The previous search.
    pub(crate) last: Option<SearchSession>,
    recalled: Option<RecalledPattern>,
}

/// The pattern of the history that the prompt shows.
#[derive(Debug, Clone)]
struct RecalledPattern {
    /// The text typed before, with which the pattern begins.
    prefix: String,
    /// Index among the patterns with this prefix; 0 is the newest.
    index: usize,
}

/// Effect of a key on the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptOutcome {
    /// The pattern may have changed.
    Edited,
    /// The pattern is complete.
    Submitted,
    /// The prompt was cancelled.
    Cancelled,
    /// No effect.
    Ignored,
}

/// Direction of recalling patterns from the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recall {
    Older,
    Newer,
}

/// Typed patterns, oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct PatternHistory(Vec<String>);

impl PatternHistory {
    pub(crate) fn add(&mut self, text: &str) {
        self.0.retain(|entry| entry != text);
        self.0.push(text.to_string());
        self.0.drain(..self.0.len().saturating_sub(MAX_HISTORY));
    }

    /// Returns the patterns with this prefix, newest first.
    fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a String> {
        self.0.iter().rev().filter(move |entry| entry.starts_with(prefix))
    }
}

impl SearchPrompt {
    pub(crate) fn new(
        kind: PromptKind,
        times: i64,
        origin: ScrollPosition,
        last: Option<SearchSession>,
    ) -> SearchPrompt {
        let (line, options) = (LineEdit::default(), PromptOptions::default());
        SearchPrompt { kind, line, options, times, origin, last, recalled: None }
    }

    /// Shifts all line numbers.
    pub(crate) fn renumber(&mut self, by: i64) {
        self.origin.renumber(by);
        self.last.iter_mut().for_each(|last| last.renumber(by));
    }

    /// Returns the pattern, unless the text is empty.
    pub(crate) fn pattern(&self) -> Option<Pattern> {
        Pattern::with(self.line.text(), self.options.pattern)
    }

    /// Returns the prompt for display.
    pub(crate) fn shown(&self) -> PromptView {
        let (from_end, letter) = match self.kind {
            PromptKind::Search(Direction::Down) => ("from the start ", '/'),
            PromptKind::Search(Direction::Up) => ("from the end ", '?'),
            PromptKind::Filter => ("", '&'),
        };
        let words = [
            (self.options.pattern.inverse, "not "),
            (self.options.pattern.literal, "literal "),
            (self.options.from_end, from_end),
            (self.options.stays, "here "),
        ];
        let mut sign: String = words.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| *word).collect();
        sign.push(letter);
        let fault = self.pattern().and_then(|pattern| pattern.fault().map(str::to_string));
        let (text, cursor) = (self.line.text().to_string(), self.line.cursor());
        PromptView { kind: self.kind, sign, text, cursor, fault }
    }

    /// Handles a key as `less` does.
    pub(crate) fn key(&mut self, key: Key, history: &PatternHistory) -> PromptOutcome {
        let is_empty = self.line.text().is_empty();
        let is_search = matches!(self.kind, PromptKind::Search(_));
        let ctrl = |char| key == Key::ctrl(char);
        match key.code {
            Code::Esc => return PromptOutcome::Cancelled,
            Code::Enter => return PromptOutcome::Submitted,
            _ if ctrl('c') || ctrl('g') => return PromptOutcome::Cancelled,
            _ if ctrl('m') || ctrl('j') => return PromptOutcome::Submitted,
            Code::Backspace if is_empty => return self.clear_options(),
            _ if ctrl('h') && is_empty => return self.clear_options(),
            Code::Up => return self.recall(history, Recall::Older),
            Code::Down => return self.recall(history, Recall::Newer),
            _ if key == Key::alt('k') || ctrl('p') => return self.recall(history, Recall::Older),
            _ if key == Key::alt('j') => return self.recall(history, Recall::Newer),
            Code::Char('!') if is_empty => self.options.pattern.inverse ^= true,
            _ if ctrl('n') => self.options.pattern.inverse ^= true,
            _ if ctrl('r') => self.options.pattern.literal ^= true,
            Code::Char('@') if is_empty && is_search => self.options.from_end ^= true,
            _ if ctrl('f') && is_search => self.options.from_end ^= true,
            _ if ctrl('k') && is_search => self.options.stays ^= true,
            _ if self.line.key(key) => self.recalled = None,
            _ => return PromptOutcome::Ignored,
        }
        PromptOutcome::Edited
    }

    /// Resets the options; without options, cancels the prompt.
    fn clear_options(&mut self) -> PromptOutcome {
        match std::mem::take(&mut self.options) == PromptOptions::default() {
            true => PromptOutcome::Cancelled,
            false => PromptOutcome::Edited,
        }
    }

    /// Recalls an older or a newer pattern with the typed prefix.
    fn recall(&mut self, history: &PatternHistory, recall: Recall) -> PromptOutcome {
        let (prefix, current) = match &self.recalled {
            Some(recalled) => (recalled.prefix.clone(), Some(recalled.index)),
            None => (self.line.text().to_string(), None),
        };
        let next = match (current, recall) {
            (None, Recall::Older) => Some(0),
            (Some(index), Recall::Older) => Some(index + 1),
            (Some(index), Recall::Newer) => index.checked_sub(1),
            (None, Recall::Newer) => return PromptOutcome::Ignored,
        };
        let Some(index) = next else {
            self.line.set(&prefix);
            self.recalled = None;
            return PromptOutcome::Edited;
        };
        let Some(text) = history.with_prefix(&prefix).nth(index) else { return PromptOutcome::Ignored };
        self.line.set(text);
        self.recalled = Some(RecalledPattern { prefix, index });
        PromptOutcome::Edited
    }
}
