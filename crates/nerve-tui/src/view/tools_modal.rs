//! Draws the tools modal: its box and the list.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr;

use crate::view::cells::border;
use crate::view::cells::{clear, put};
use crate::view::status::ID;
use crate::view::tools::{Tool, ToolState};
use crate::view::truncate::cut;

/// Width of the state column.
const STATE: usize = 12;

/// Draws an empty box with the title in its upper and the status in its lower border.
pub(crate) fn frame(area: Rect, title: &str, status: &str, buffer: &mut Buffer) {
    clear(area, buffer);
    if area.width < 3 || area.height < 3 {
        return;
    }
    let style = Style::new().fg(Color::Cyan);
    border(area, style, buffer);
    let room = usize::from(area.width.saturating_sub(6));
    if room > 2 && !title.is_empty() {
        let text = format!(" {} ", cut(title, room));
        buffer.set_string(area.x + 2, area.y, text, style.add_modifier(Modifier::BOLD));
    }
    if room > 2 && !status.is_empty() {
        let text = format!(" {} ", cut(status, room));
        let x = area.right().saturating_sub(2 + u16::try_from(text.width()).unwrap_or(0)).max(area.x + 2);
        buffer.set_string(x, area.bottom() - 1, text, style);
    }
}

/// Draws one tool per row from `first` on, with the selection highlighted.
pub(crate) fn list<'a>(
    area: Rect,
    tools: impl ExactSizeIterator<Item = &'a Tool> + Clone,
    first: usize,
    chosen: usize,
    buffer: &mut Buffer,
) {
    // Only visible rows are measured: the list may be long.
    let rows = || tools.clone().enumerate().skip(first).zip(area.top()..area.bottom());
    let wide = rows().map(|((_, tool), _)| cut(&one_line(&tool.id), ID).width()).max().unwrap_or(0);
    for ((at, tool), y) in rows() {
        let lit = if at == chosen { Modifier::REVERSED } else { Modifier::empty() };
        let style = Style::new().add_modifier(lit);
        for x in area.left()..area.right() {
            put(buffer, x, y, " ", style);
        }
        let (words, color) = state(tool.state);
        let room = usize::from(area.width);
        buffer.set_stringn(area.x, y, cut(&words, room), room, style.fg(color));
        if room > STATE + 2 {
            let x = area.x + u16::try_from(STATE).unwrap_or(0);
            let id = cut(&one_line(&tool.id), ID);
            let text = format!("{id}{}  {}", " ".repeat(wide - id.width()), one_line(&tool.command));
            buffer.set_stringn(x, y, cut(&text, room - STATE), room - STATE, style);
        }
    }
    if tools.len() == 0 && !area.is_empty() {
        let words = cut("no tools yet", area.width.into());
        buffer.set_stringn(
            area.x,
            area.y,
            words,
            area.width.into(),
            Style::new().add_modifier(Modifier::DIM),
        );
    }
}

/// Returns the label and colour of a state.
pub(crate) fn state(state: ToolState) -> (String, Color) {
    match state {
        ToolState::Running => ("running".to_string(), Color::Cyan),
        ToolState::Ended(Some(0)) => ("done".to_string(), Color::Green),
        ToolState::Ended(Some(code)) => (format!("failed {code}"), Color::Red),
        ToolState::Ended(None) => ("ended".to_string(), Color::Reset),
    }
}

/// Joins the lines of a command.
pub(crate) fn one_line(command: &str) -> String {
    command.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use nerve_types::{Size, TsNs};
    use nerve_vt::terminal::TerminalState;

    use super::*;
    use crate::view::tools::Tool;

    fn text(buffer: &Buffer) -> Vec<String> {
        let rows = buffer.content.chunks(buffer.area.width.into());
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect()
    }

    fn tool(id: &str, command: &str, state: ToolState) -> Tool {
        Tool { id: id.into(), command: command.into(), state }
    }

    #[test]
    fn box_covers_content_below() {
        let mut buffer = Buffer::filled(Rect::new(0, 0, 24, 4), ratatui::buffer::Cell::new("x"));
        frame(Rect::new(1, 0, 22, 3), "cargo test", "running", &mut buffer);
        assert_eq!(
            text(&buffer),
            [
                "x┌─ cargo test ───────┐x",
                "x│                    │x",
                "x└────────── running ─┘x",
                "xxxxxxxxxxxxxxxxxxxxxxxx"
            ]
        );
        for (width, height) in (0..12).flat_map(|width| (0..4).map(move |height| (width, height))) {
            frame(Rect::new(0, 0, width, height), "a long command", "failed 127", &mut buffer);
        }
    }

    #[test]
    fn wide_character_does_not_overlap_box() {
        let area = Rect::new(0, 0, 12, 3);
        let mut buffer = Buffer::empty(area);
        let red = Style::new().bg(Color::Red);
        (0..3).for_each(|y| buffer.set_string(0, y, "a日b日c日d", red));
        frame(Rect::new(2, 0, 6, 3), "", "", &mut buffer);
        let mut bytes = Vec::new();
        let decorations = crate::view::decorations::Decorations::default();
        crate::view::ansi_writer::write(
            Buffer::empty(area).diff_iter(&buffer),
            &decorations,
            true,
            &mut bytes,
        );
        let mut terminal = TerminalState::new(Size::new(12, 3));
        terminal.process_data(TsNs(0), &bytes);
        assert_eq!(terminal.screen().text(), "a ┌────┐ d\na │    │ d\na └────┘ d");
        assert_eq!(buffer[(1, 1)].bg, Color::Red, "half of it is as it was");
    }

    #[test]
    fn one_row_per_tool_with_state() {
        let tools = [
            tool("t2", "cargo test --workspace", ToolState::Ended(Some(101))),
            tool("1", "sudo\nmake  install", ToolState::Running),
        ];
        let mut buffer = Buffer::empty(Rect::new(0, 0, 26, 2));
        list(buffer.area, tools.iter().rev(), 0, 1, &mut buffer);
        assert_eq!(text(&buffer), ["running     1   sudo make…", "failed 101  t2  cargo tes…"]);
        assert_eq!(buffer[(0, 1)].modifier, Modifier::REVERSED);
        for width in 1..26 {
            let mut buffer = Buffer::empty(Rect::new(0, 0, width, 3));
            list(buffer.area, tools.iter().rev(), 1, 1, &mut buffer);
            list(buffer.area, [].iter().rev(), 0, 0, &mut buffer);
        }
    }
}
