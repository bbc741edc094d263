//! The task entry: a text for the agent, and the snapshot that it is typed at (seed agent-record §6).

mod navigate;
pub(crate) mod render;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;
use ratatui_textarea::{CursorMove, Input as AreaInput, Key as AreaKey, TextArea, WrapMode};

use crate::keys::{Code, Key};

/// The longest text, in bytes: what is longer belongs into a file that the agent can read.
pub const MAX_TEXT: usize = 32 * 1024;
/// Rows and columns of the box that are not text: its border.
const BORDER: u16 = 2;
/// The lowest box: a row of text in its border.
const MIN_HEIGHT: u16 = 3;

/// Where the task entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Below the line of a snapshot.
    Snapshot {
        /// Its id.
        id: u64,
        /// Its line.
        line: u64,
    },
    /// Below the screen as it was when a snapshot was taken, of a recording of which that moment is shown.
    Moment {
        /// The snapshot's id.
        id: u64,
    },
    /// Below everything.
    End,
}

/// The task entry: a box of full width between two lines. Its border takes a row and a column on each side; what is within is the text, wrapped.
#[derive(Debug, Clone)]
pub struct TaskEntry {
    area: TextArea<'static>,
    /// `None` while it is not shown; its text is kept.
    pub(crate) target: Option<Target>,
    /// What was typed is on its way to the agent.
    pub(crate) is_sent: bool,
    /// Columns and rows of the text within the border.
    cols: u16,
    rows: u16,
    /// Rows that the wrapped text would have; `None` since it was changed.
    wrapped: Option<u16>,
}

impl Default for TaskEntry {
    fn default() -> TaskEntry {
        TaskEntry { area: area(), target: None, is_sent: false, cols: 1, rows: 1, wrapped: None }
    }
}

fn area() -> TextArea<'static> {
    let mut area = TextArea::default();
    area.set_wrap_mode(WrapMode::WordOrGlyph);
    area.set_cursor_line_style(Style::new());
    area
}

impl TaskEntry {
    /// Where it stands; `None` while it is not shown.
    pub fn target(&self) -> Option<Target> {
        self.target
    }

    /// What was typed is on its way to the agent.
    pub fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// The text area, to be drawn into the box less its border: it scrolls along with its cursor.
    pub fn text_area(&self) -> &TextArea<'static> {
        &self.area
    }

    /// What was typed.
    pub fn text(&self) -> String {
        self.area.lines().join("\n")
    }

    /// Rows of the box in a window of so many columns and rows: as high as the text and its border, up to a third of the window, at
    /// least three if the window has them.
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

    /// Wraps the text at so many columns and says how many rows it has then.
    fn wrap(&mut self, cols: u16) -> u16 {
        if let Some(rows) = self.wrapped.filter(|_| cols == self.cols) {
            return rows;
        }
        if cols != self.cols {
            self.cols = cols;
            self.reset_scroll();
        }
        // The area wraps when it is drawn.
        let rect = Rect::new(0, 0, cols, self.rows);
        Widget::render(&self.area, rect, &mut Buffer::empty(rect));
        let rows = u16::try_from(self.last_row() + 1).unwrap_or(u16::MAX);
        self.wrapped = Some(rows);
        rows
    }

    /// The last row of the wrapped text, 0-based.
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

    /// Another size: what it had scrolled by is nothing any more.
    fn reset_scroll(&mut self) {
        let cursor = self.area.cursor();
        self.area.scroll((-i16::MAX, -i16::MAX));
        self.jump(cursor.0, cursor.1);
    }

    /// The text cursor cannot go further up.
    pub(crate) fn is_at_top(&self) -> bool {
        self.area.screen_cursor().row == 0
    }

    /// The text cursor cannot go further down.
    pub(crate) fn is_at_bottom(&mut self) -> bool {
        self.area.screen_cursor().row == self.last_row()
    }

    /// Takes a key of the text; false if there is no room for it.
    pub(crate) fn key(&mut self, key: Key) -> bool {
        let is_edit = |char| key.ctrl && !key.alt && key.code == Code::Char(char);
        let more = match key.code {
            // What was cut before is put back.
            Code::Char('y') if key.ctrl => self.area.yank_text().len(),
            Code::Char(_) | Code::Tab => 4,
            _ => 0,
        };
        if more > 0 && self.len() + more > MAX_TEXT {
            return false;
        }
        self.wrapped = None;
        // As in shells, not as in Emacs.
        if is_edit('u') {
            self.area.delete_line_by_head();
        } else if is_edit('z') {
            self.area.undo();
        } else if let Some(input) = input(key) {
            self.area.input(input);
        }
        true
    }

    /// A new line at the text cursor.
    pub(crate) fn new_line(&mut self) -> bool {
        let has_room = self.len() < MAX_TEXT;
        if has_room {
            self.wrapped = None;
            self.area.insert_newline();
        }
        has_room
    }

    /// Takes a pasted text whole; false if there is no room for it.
    pub(crate) fn paste(&mut self, text: &str) -> bool {
        // Terminals paste ends of lines as carriage returns; what else controls them is no text.
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

    /// A click on a row and a column of the text as it is drawn, 0-based.
    pub(crate) fn click(&mut self, row: u16, col: u16) {
        let (top, left) = self.area.scroll_offset();
        let at = self
            .area
            .screen_to_data(usize::from(top) + usize::from(row), usize::from(left) + usize::from(col));
        self.area.cancel_selection();
        self.jump(at.0, at.1);
    }

    /// Empty again.
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
