//! A scrollable window on a document with the keys of `less`. The main window and each tool have one.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::view::document::Document;
use crate::view::keys::{Code, Key, Operation};
use crate::view::search::Direction;
use crate::view::search::line_filter::LineFilter;
use crate::view::search::session::{Repeat, SearchSession};
use crate::view::search_prompt::{PatternHistory, PromptKind, SearchPrompt};
use crate::view::viewport::{Row, Viewport};

/// Largest count that can be typed before a key.
const MAX_NUMBER: u64 = 1_000_000_000_000;

/// The visible columns of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns {
    /// First visible column.
    pub(crate) left: u16,
    /// Number of visible columns.
    pub(crate) width: u16,
    /// Columns of a horizontal step, if set by a count.
    step: Option<u16>,
}

/// Lines of the vertical steps, if set by a count.
#[derive(Debug, Clone, Copy, Default)]
struct ScrollSteps {
    half_page: Option<i64>,
    page: Option<i64>,
}

/// End condition of follow mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowMode {
    /// Until the next operation.
    Always,
    /// Until a line from this one on matches.
    Until(u64),
}

impl FollowMode {
    /// Shifts the line number.
    pub(crate) fn renumber(&mut self, by: i64) {
        if let FollowMode::Until(line) = self {
            *line = line.saturating_add_signed(by);
        }
    }
}

/// Action for the letter typed next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingBookmark {
    /// Sets a bookmark at the top line of the window.
    Set,
    /// Sets a bookmark at the bottom line.
    SetBottom,
    /// Removes a bookmark.
    Clear,
    /// Goes to a bookmark.
    GoTo,
}

/// A line and its position in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bookmark {
    pub(crate) line: u64,
    pub(crate) at_bottom: bool,
}

/// The bookmarks of a window.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bookmarks {
    pub(crate) letters: BTreeMap<char, Bookmark>,
    /// Top line of the window before the last jump.
    pub(crate) previous_top: u64,
    /// Use of the next key as a letter.
    pub(crate) pending: Option<PendingBookmark>,
}

impl Bookmarks {
    /// Shifts all line numbers.
    pub(crate) fn renumber(&mut self, by: i64) {
        let lines =
            self.letters.values_mut().map(|bookmark| &mut bookmark.line).chain([&mut self.previous_top]);
        lines.for_each(|line| *line = line.saturating_add_signed(by));
    }
}

/// A window on a document: scroll position, search, filter and prompt.
#[derive(Debug, Clone)]
pub struct Pager {
    pub(crate) viewport: Viewport,
    pub(crate) columns: Columns,
    steps: ScrollSteps,
    /// First line of the screen when it was last updated.
    pub(crate) screen_start: Option<u64>,
    /// Count typed before a key.
    pub(crate) number: Option<u64>,
    pub(crate) bookmarks: Bookmarks,
    pub(crate) search: Option<SearchSession>,
    /// Hides lines that do not match.
    pub(crate) filter: Option<LineFilter>,
    pub(crate) follow_mode: Option<FollowMode>,
    /// The open prompt.
    pub(crate) prompt: Option<SearchPrompt>,
    /// Patterns typed before.
    pub(crate) history: PatternHistory,
    /// Message for the status line.
    pub(crate) message: Option<String>,
}

impl Default for Pager {
    fn default() -> Pager {
        Pager {
            viewport: Viewport::new(1),
            columns: Columns { left: 0, width: 1, step: None },
            steps: ScrollSteps::default(),
            screen_start: None,
            number: None,
            bookmarks: Bookmarks::default(),
            search: None,
            filter: None,
            follow_mode: None,
            prompt: None,
            history: PatternHistory::default(),
            message: None,
        }
    }
}

impl Columns {
    /// Moves by the least number of columns that makes one visible; a column that fits at the left edge moves back
    /// there. `max_left` limits the first column.
    fn show(&mut self, col: u16, max_left: u16) {
        if col < self.width && col < self.left {
            self.left = 0;
        } else if col < self.left {
            self.left = col;
        } else if col - self.left >= self.width {
            self.left = (col - self.width + 1).min(max_left);
        }
    }

    /// Moves by a step, which a count sets.
    fn scroll(&mut self, operation: Operation, count: Option<i64>, max_left: u16) {
        let columns = count.map(|count| u16::try_from(count.max(1)).unwrap_or(u16::MAX));
        self.step = columns.or(self.step);
        let columns = self.step.unwrap_or((self.width / 2).max(1));
        self.left = match operation {
            Operation::Right => self.left.saturating_add(columns).min(max_left),
            _ => self.left.saturating_sub(columns),
        };
    }
}

impl ScrollSteps {
    /// Returns the lines of half a window of `rows` rows, which a count sets.
    fn half_page(&mut self, count: Option<i64>, rows: i64) -> i64 {
        self.half_page = count.map(|count| count.max(1)).or(self.half_page);
        self.half_page.unwrap_or((rows / 2).max(1))
    }

    /// Returns the lines of a window of `rows` rows, which a count sets.
    fn page(&mut self, count: Option<i64>, rows: i64) -> i64 {
        self.page = count.map(|count| count.max(1)).or(self.page);
        self.page.unwrap_or(rows)
    }
}

impl Pager {
    /// Returns the viewport.
    pub fn viewport(&self) -> &Viewport {
        &self.viewport
    }

    /// Returns the first visible column, 0-based.
    pub(crate) fn left(&self) -> u16 {
        self.columns.left
    }

    /// Shifts all line numbers.
    pub(crate) fn renumber(&mut self, by: i64) {
        self.viewport.renumber(by);
        self.screen_start = self.screen_start.map(|line| line.saturating_add_signed(by));
        self.prompt.iter_mut().for_each(|prompt| prompt.renumber(by));
        self.search.iter_mut().for_each(|search| search.renumber(by));
        self.filter.iter_mut().for_each(|filter| filter.renumber(by));
        self.follow_mode.iter_mut().for_each(|follow_mode| follow_mode.renumber(by));
        self.bookmarks.renumber(by);
    }

    pub(crate) fn resize(&mut self, cols: u16, rows: u16) {
        self.columns.width = cols.max(1);
        self.viewport.set_rows(rows);
    }

    pub(crate) fn update_document(&mut self, document: &Document<'_>) {
        self.viewport.set_lines(document.lines());
        self.screen_start = document.screen_start();
        let cursor = document.cursor().map(|cursor| cursor.line);
        self.viewport.pin(document.screen_start().zip(cursor));
        self.update_filter(document);
        self.check_follow_pattern(document);
        self.columns.left = self.columns.left.min(self.max_left(document));
    }

    /// Scrolls horizontally until a visible cursor is in the window.
    pub(crate) fn follow_cursor(&mut self, document: &Document<'_>) {
        if let Some(cursor) = document.cursor().filter(|cursor| cursor.is_visible) {
            self.columns.show(cursor.col, self.max_left(document));
        }
    }

    /// Returns the text of the visible lines, trimmed at the end.
    pub(crate) fn visible_text(&self, document: &Document<'_>) -> String {
        let lines = self.viewport.rows().filter_map(|row| match row {
            Row::Line { number, .. } => Some(document.text(number).unwrap_or_default()),
            Row::Entry(_) | Row::Blank => None,
        });
        lines.collect::<Vec<_>>().join("\n").trim_end().to_string()
    }

    /// Returns the last visible line, or the document's last line if none is visible.
    pub(crate) fn last_line(&self) -> Option<u64> {
        let shown = self.viewport.rows().filter_map(|row| match row {
            Row::Line { number, .. } => Some(number),
            Row::Entry(_) | Row::Blank => None,
        });
        shown.last().or_else(|| self.viewport.lines().last())
    }

    /// Handles a digit, or the key after a bookmark key. Returns false for any other key.
    pub(crate) fn take_prefix_key(&mut self, key: Key) -> bool {
        if let Some(pending) = self.bookmarks.pending.take() {
            self.finish_bookmark(pending, key);
            return true;
        }
        if let Code::Char(digit @ '0'..='9') = key.code
            && !key.ctrl
            && !key.alt
        {
            let digit = u64::from(digit) - u64::from('0');
            self.number = Some((self.number.unwrap_or(0) * 10 + digit).min(MAX_NUMBER));
            return true;
        }
        false
    }

    /// Runs an operation. Returns false if it is not one of a window.
    pub(crate) fn run(&mut self, operation: Operation, document: &Document<'_>) -> bool {
        let number = self.number.take();
        let count = number.map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        let times = count.unwrap_or(1);
        let rows = i64::from(self.viewport.height());
        self.follow_mode = None;
        self.filter.iter_mut().for_each(|filter| filter.anchor = None);
        match operation {
            Operation::LineDown => self.viewport.scroll(times),
            Operation::LineUp => self.viewport.scroll(-times),
            Operation::HalfDown => self.viewport.scroll(self.steps.half_page(count, rows)),
            Operation::HalfUp => self.viewport.scroll(-self.steps.half_page(count, rows)),
            Operation::WindowDown => self.viewport.scroll(self.steps.page(count, rows)),
            Operation::WindowUp => self.viewport.scroll(-self.steps.page(count, rows)),
            // As in `less`, a count is a number of lines.
            Operation::PageDown => self.viewport.scroll(count.unwrap_or_else(|| self.steps.page(None, rows))),
            Operation::PageUp => self.viewport.scroll(-count.unwrap_or_else(|| self.steps.page(None, rows))),
            Operation::Start | Operation::End | Operation::Percent => self.jump(operation, number),
            Operation::Follow => {
                self.jump(operation, number);
                self.follow_mode = Some(FollowMode::Always);
            }
            Operation::FollowUntil => self.follow_until(document),
            Operation::Right | Operation::Left => {
                self.columns.scroll(operation, count, self.max_left(document));
            }
            Operation::RightEnd => self.columns.left = self.max_left(document),
            Operation::LeftEnd => self.columns.left = 0,
            Operation::SearchDown => self.open_prompt(PromptKind::Search(Direction::Down), times),
            Operation::SearchUp => self.open_prompt(PromptKind::Search(Direction::Up), times),
            Operation::Filter => self.open_prompt(PromptKind::Filter, 1),
            Operation::Next => self.repeat_search(Repeat::SameDirection, times, document),
            Operation::Previous => self.repeat_search(Repeat::OtherDirection, times, document),
            Operation::ToggleHighlight => self.toggle_highlight(),
            Operation::ClearSearch => self.search = None,
            Operation::NextSnapshot => self.go_to_snapshot(Direction::Down, times, document),
            Operation::PreviousSnapshot => self.go_to_snapshot(Direction::Up, times, document),
            Operation::SetBookmark => self.bookmarks.pending = Some(PendingBookmark::Set),
            Operation::SetBottomBookmark => self.bookmarks.pending = Some(PendingBookmark::SetBottom),
            Operation::ClearBookmark => self.bookmarks.pending = Some(PendingBookmark::Clear),
            Operation::GoToBookmark => self.bookmarks.pending = Some(PendingBookmark::GoTo),
            Operation::CloseBrace
            | Operation::CloseParenthesis
            | Operation::OpenBrace
            | Operation::OpenParenthesis => self.go_to_bracket(operation, times, document),
            Operation::Position => self.message = Some(self.position()),
            _ => return false,
        }
        true
    }

    pub(crate) fn jump(&mut self, operation: Operation, number: Option<u64>) {
        self.remember_position();
        let lines = self.viewport.lines();
        match (operation, number) {
            (Operation::Percent, _) => {
                let percent = u128::from(number.unwrap_or(0).min(100));
                let skipped = u128::from(lines.end - lines.start) * percent / 100;
                self.viewport.go_to_line(lines.start + u64::try_from(skipped).unwrap_or(u64::MAX));
            }
            // Line numbers are 1-based.
            (Operation::Start | Operation::End, Some(number)) => {
                self.viewport.go_to_line(number.saturating_sub(1).clamp(lines.start, lines.end));
            }
            (Operation::Start, None) => self.viewport.go_to_start(),
            _ => self.viewport.go_to_end(),
        }
    }

    /// Returns the line where relative moves begin: the current match if it is visible, otherwise the top line.
    pub(crate) fn anchor_line(&self) -> u64 {
        let found = self.found().filter(|line| self.viewport.row_of(*line).is_some());
        found.unwrap_or_else(|| self.viewport.top_line())
    }

    pub(crate) fn go_to(&mut self, line: u64) {
        self.remember_position();
        self.viewport.go_to_line(line);
        if let Some(search) = &mut self.search {
            search.found = None;
        }
    }

    /// Returns the largest first column.
    pub(crate) fn max_left(&self, document: &Document<'_>) -> u16 {
        document.width().saturating_sub(self.columns.width)
    }

    pub(crate) fn show_message(&mut self, message: &str) {
        self.message = Some(message.to_string());
    }

    fn position(&self) -> String {
        let lines = self.viewport.lines();
        let first = self.viewport.top_line() + 1;
        let last = self.last_line().map_or(first, |line| line + 1).max(first);
        let percent = (last.saturating_sub(lines.start)) * 100 / (lines.end - lines.start).max(1);
        format!("lines {first}–{last} of {}, {} %", line_range(&lines), percent.min(100))
    }
}

/// Formats the 1-based line numbers of a document: the count, or a range if the first lines were dropped. Numbers
/// are stable, in exports too.
pub(crate) fn line_range(lines: &Range<u64>) -> String {
    match lines.start {
        start if start == 0 || lines.is_empty() => lines.end.to_string(),
        start => format!("{}–{}", start + 1, lines.end),
    }
}
