//! The task entry: a text box for the agent's next task, opened at a snapshot.

pub(crate) mod render;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;
use ratatui_textarea::{CursorMove, Input as AreaInput, Key as AreaKey, TextArea, WrapMode};

use crate::view::keys::{Code, Key};

/// Maximum length of the text in bytes.
pub(crate) const MAX_TEXT: usize = 32 * 1024;
/// Rows and columns taken by the border.
const BORDER: u16 = 2;
/// Minimum height: one row of text and the border.
const MIN_HEIGHT: u16 = 3;

/// Position of the task entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Below a snapshot's line.
    Snapshot {
        /// Snapshot id.
        id: u64,
        /// Line number.
        line: u64,
    },
    /// Below the screen as of a snapshot, while the recording shows that moment.
    Moment {
        /// Snapshot id.
        id: u64,
    },
    /// Below the last line.
    End,
}

/// A box of full width between two lines, with wrapped text in a border.
#[derive(Debug, Clone)]
pub struct TaskEntry {
    area: TextArea<'static>,
    /// `None` while closed; the text is kept.
    pub(crate) target: Option<Target>,
    /// The first document with lines opens it.
    pub(crate) opens_initially: bool,
    /// The task was submitted and is being delivered.
    pub(crate) is_sent: bool,
    /// Size of the text area within the border.
    cols: u16,
    rows: u16,
    /// Rows of the wrapped text; `None` after a change.
    wrapped: Option<u16>,
}

impl Default for TaskEntry {
    fn default() -> TaskEntry {
        TaskEntry {
            area: area(),
            target: None,
            opens_initially: false,
            is_sent: false,
            cols: 1,
            rows: 1,
            wrapped: None,
        }
    }
}

fn area() -> TextArea<'static> {
    let mut area = TextArea::default();
    area.set_wrap_mode(WrapMode::WordOrGlyph);
    area.set_cursor_line_style(Style::new());
    area
}

impl TaskEntry {
    /// Creates an entry that the first document with lines opens.
    pub(crate) fn opened_initially() -> TaskEntry {
        TaskEntry { opens_initially: true, ..TaskEntry::default() }
    }

    /// Returns the position; `None` while closed.
    pub fn target(&self) -> Option<Target> {
        self.target
    }

    /// Returns true while the submitted task is being delivered.
    pub fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// Returns the text area to draw within the border. It scrolls with its cursor.
    pub(crate) fn text_area(&self) -> &TextArea<'static> {
        &self.area
    }

    /// Returns the text.
    pub fn text(&self) -> String {
        self.area.lines().join("\n")
    }

    /// Returns the box's height in a window of this size: text and border, at least three rows, at most a third of
    /// the window.
    pub(crate) fn fit(&mut self, cols: u16, rows: u16) -> u16 {
        let most = (rows / 3).max(MIN_HEIGHT);
        let text = self.wrap(cols.saturating_sub(BORDER).max(1));
        let height = text.saturating_add(BORDER).clamp(MIN_HEIGHT, most).min(rows.max(1));
        let inner = height.saturating_sub(BORDER).max(1);
        if inner != self.rows {
            self.rows = inner;
            self.reset_scroll();
        }
        height
    }

    /// Wraps the text to a width and returns its rows.
    fn wrap(&mut self, cols: u16) -> u16 {
        if let Some(rows) = self.wrapped.filter(|_| cols == self.cols) {
            return rows;
        }
        if cols != self.cols {
            self.cols = cols;
            self.reset_scroll();
        }
        // The text area wraps when it is drawn.
        let rect = Rect::new(0, 0, cols, self.rows);
        Widget::render(&self.area, rect, &mut Buffer::empty(rect));
        let rows = u16::try_from(self.last_row() + 1).unwrap_or(u16::MAX);
        self.wrapped = Some(rows);
        rows
    }

    /// Returns the last row of the wrapped text, 0-based.
    fn last_row(&mut self) -> usize {
        let cursor = self.area.cursor();
        self.area.move_cursor(CursorMove::Bottom);
        self.area.move_cursor(CursorMove::End);
        let last = self.area.screen_cursor().row;
        self.jump(cursor.0, cursor.1);
        last
    }

    fn jump(&mut self, row: usize, col: usize) {
        let index = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
        self.area.move_cursor(CursorMove::Jump(index(row), index(col)));
    }

    /// Resets the scroll offset after a resize.
    fn reset_scroll(&mut self) {
        let cursor = self.area.cursor();
        self.area.scroll((-i16::MAX, -i16::MAX));
        self.jump(cursor.0, cursor.1);
    }

    /// Returns true if the cursor is in the first row.
    pub(crate) fn is_at_top(&self) -> bool {
        self.area.screen_cursor().row == 0
    }

    /// Returns true if the cursor is in the last row.
    pub(crate) fn is_at_bottom(&mut self) -> bool {
        self.area.screen_cursor().row == self.last_row()
    }

    /// Handles an editing key. Returns false if the text would become too long.
    pub(crate) fn key(&mut self, key: Key) -> bool {
        let is_edit = |char| key.ctrl && !key.alt && key.code == Code::Char(char);
        let added_len = match key.code {
            // Ctrl+Y inserts the text cut before.
            Code::Char('y') if key.ctrl => self.area.yank_text().len(),
            Code::Char(_) | Code::Tab => 4,
            _ => 0,
        };
        if added_len > 0 && self.len() + added_len > MAX_TEXT {
            return false;
        }
        self.wrapped = None;
        // The keys are those of shells, not of Emacs.
        if is_edit('u') {
            self.area.delete_line_by_head();
        } else if is_edit('z') {
            self.area.undo();
        } else if let Some(input) = input(key) {
            self.area.input(input);
        }
        true
    }

    /// Inserts a line break. Returns false without room.
    pub(crate) fn new_line(&mut self) -> bool {
        let has_room = self.len() < MAX_TEXT;
        if has_room {
            self.wrapped = None;
            self.area.insert_newline();
        }
        has_room
    }

    /// Inserts a pasted text. Returns false if it does not fit.
    pub(crate) fn paste(&mut self, text: &str) -> bool {
        // Terminals paste line ends as carriage returns. Other control characters are removed.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text: String =
            text.chars().filter(|char| !char.is_control() || matches!(char, '\n' | '\t')).collect();
        let has_room = self.len() + text.len() <= MAX_TEXT;
        if has_room {
            self.wrapped = None;
            self.area.insert_str(text);
        }
        has_room
    }

    /// Moves the cursor to a row and column of the drawn text, 0-based.
    pub(crate) fn click(&mut self, row: u16, col: u16) {
        let (top, left) = self.area.scroll_offset();
        let at = self
            .area
            .screen_to_data(usize::from(top) + usize::from(row), usize::from(left) + usize::from(col));
        self.area.cancel_selection();
        self.jump(at.0, at.1);
    }

    /// Clears the text.
    pub(crate) fn clear(&mut self) {
        self.area = area();
        (self.cols, self.wrapped) = (0, None);
    }

    fn len(&self) -> usize {
        self.area.lines().iter().map(|line| line.len() + 1).sum()
    }
}

fn input(key: Key) -> Option<AreaInput> {
    let code = match key.code {
        Code::Char(char) => AreaKey::Char(char),
        Code::Tab => AreaKey::Tab,
        Code::Backspace => AreaKey::Backspace,
        Code::Delete => AreaKey::Delete,
        Code::Up => AreaKey::Up,
        Code::Down => AreaKey::Down,
        Code::Left => AreaKey::Left,
        Code::Right => AreaKey::Right,
        Code::Home => AreaKey::Home,
        Code::End => AreaKey::End,
        _ => return None,
    };
    Some(AreaInput { key: code, ctrl: key.ctrl, alt: key.alt, shift: key.shift })
}
