//! A scrollable window on a document with the keys of `less`. The main window and each tool have one.

use std::ops::Range;

use crate::bookmarks::{Bookmarks, PendingBookmark};
use crate::document::Document;
use crate::effect::Source;
use crate::filter::LineFilter;
use crate::follow::FollowMode;
use crate::keys::{Code, Key, Operation};
use crate::search::Direction;
use crate::search::session::SearchSession;
use crate::search_prompt::{PatternHistory, PromptKind, SearchPrompt};
use crate::viewport::{Row, Viewport};

/// Largest count that can be typed before a key.
const MAX_NUMBER: u64 = 1_000_000_000_000;

/// A window on a document: scroll position, search, filter and prompt.
#[derive(Debug, Clone)]
pub struct Pager {
    pub(crate) viewport: Viewport,
    /// First visible column.
    pub(crate) left: u16,
    /// Width in columns.
    pub(crate) cols: u16,
    /// First line of the screen when it was last updated.
    pub(crate) screen_start: Option<u64>,
    /// Count typed before a key.
    pub(crate) number: Option<u64>,
    /// Lines of half a page and of a page, if set by a count.
    half_step: Option<i64>,
    page_step: Option<i64>,
    /// Columns of a horizontal step, if set by a count.
    column_step: Option<u16>,
    pub(crate) pending_bookmark: Option<PendingBookmark>,
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
    /// Other moments of the recording can be shown.
    pub(crate) has_moments: bool,
}

impl Default for Pager {
    fn default() -> Pager {
        Pager {
            viewport: Viewport::new(1),
            left: 0,
            cols: 1,
            screen_start: None,
            number: None,
            half_step: None,
            page_step: None,
            column_step: None,
            pending_bookmark: None,
            bookmarks: Bookmarks::default(),
            search: None,
            filter: None,
            follow_mode: None,
            prompt: None,
            history: PatternHistory::default(),
            message: None,
            has_moments: false,
        }
    }
}

impl Pager {
    /// Creates the window of a running program or a recording.
    pub(crate) fn new(source: Source) -> Pager {
        Pager { has_moments: source == Source::Recording, ..Pager::default() }
    }

    /// Returns the viewport.
    pub fn viewport(&self) -> &Viewport {
        &self.viewport
    }

    /// Returns the first visible column, 0-based.
    pub fn left(&self) -> u16 {
        self.left
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
        self.cols = cols.max(1);
        self.viewport.set_rows(rows);
    }

    pub(crate) fn update_document(&mut self, document: &Document<'_>) {
        self.viewport.set_lines(document.lines());
        self.screen_start = document.screen_start();
        let cursor = document.cursor().map(|(line, ..)| line);
        self.viewport.pin(document.screen_start().zip(cursor));
        self.update_filter(document);
        self.check_follow_pattern(document);
        self.left = self.left.min(self.max_left(document));
    }

    /// Scrolls horizontally until a visible cursor is in the window.
    pub(crate) fn follow_cursor(&mut self, document: &Document<'_>) {
        let Some((_, col, true)) = document.cursor() else { return };
        if col < self.cols && col < self.left {
            self.left = 0;
        } else if col < self.left {
            self.left = col;
        } else if col - self.left >= self.cols {
            self.left = (col - self.cols + 1).min(self.max_left(document));
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
        if let Some(pending_bookmark) = self.pending_bookmark.take() {
            self.finish_bookmark(pending_bookmark, key);
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
        let times = i64::try_from(number.unwrap_or(1)).unwrap_or(i64::MAX);
        let rows = i64::from(self.viewport.height());
        self.follow_mode = None;
        self.filter.iter_mut().for_each(|filter| filter.anchor = None);
        match operation {
            Operation::LineDown => self.viewport.scroll(times),
            Operation::LineUp => self.viewport.scroll(-times),
            Operation::HalfDown | Operation::HalfUp => {
                self.half_step = number.map(|_| times.max(1)).or(self.half_step);
                let half = self.half_step.unwrap_or((rows / 2).max(1));
                self.viewport.scroll(if operation == Operation::HalfDown { half } else { -half });
            }
            Operation::WindowDown | Operation::WindowUp => {
                self.page_step = number.map(|_| times.max(1)).or(self.page_step);
                let window = self.page_step.unwrap_or(rows);
                self.viewport.scroll(if operation == Operation::WindowDown { window } else { -window });
            }
            // As in `less`, a count is a number of lines.
            Operation::PageDown => {
                self.viewport.scroll(number.map_or(self.page_step.unwrap_or(rows), |_| times))
            }
            Operation::PageUp => {
                self.viewport.scroll(-number.map_or(self.page_step.unwrap_or(rows), |_| times))
            }
            Operation::Start | Operation::End | Operation::Percent => self.jump(operation, number),
            Operation::Follow => {
                self.jump(operation, number);
                self.follow_mode = Some(FollowMode::Always);
            }
            Operation::FollowUntil => self.follow_until(document),
            Operation::Right | Operation::Left => {
                let columns = number.map(|_| u16::try_from(times.max(1)).unwrap_or(u16::MAX));
                self.column_step = columns.or(self.column_step);
                let columns = self.column_step.unwrap_or((self.cols / 2).max(1));
                self.left = match operation {
                    Operation::Right => self.left.saturating_add(columns).min(self.max_left(document)),
                    _ => self.left.saturating_sub(columns),
                };
            }
            Operation::RightEnd => self.left = self.max_left(document),
            Operation::LeftEnd => self.left = 0,
            Operation::SearchDown => self.open_prompt(PromptKind::Search(Direction::Down), times),
            Operation::SearchUp => self.open_prompt(PromptKind::Search(Direction::Up), times),
            Operation::Filter => self.open_prompt(PromptKind::Filter, 1),
            Operation::Next => self.repeat_search(false, times, document),
            Operation::Previous => self.repeat_search(true, times, document),
            Operation::ToggleHighlight => self.toggle_highlight(true),
            Operation::ClearSearch => self.search = None,
            Operation::NextSnapshot => self.go_to_snapshot(Direction::Down, times, document),
            Operation::PreviousSnapshot => self.go_to_snapshot(Direction::Up, times, document),
            Operation::SetBookmark => self.pending_bookmark = Some(PendingBookmark::Set),
            Operation::SetBottomBookmark => self.pending_bookmark = Some(PendingBookmark::SetBottom),
            Operation::ClearBookmark => self.pending_bookmark = Some(PendingBookmark::Clear),
            Operation::GoToBookmark => self.pending_bookmark = Some(PendingBookmark::GoTo),
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
        document.width().saturating_sub(self.cols)
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
