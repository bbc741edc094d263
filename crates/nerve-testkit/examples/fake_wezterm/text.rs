//! The output of `get-text`.

use nerve_vt::terminal::{LineIndex, TerminalState};

/// Scrollback lines of a pane.
pub(super) const SCROLLBACK: u64 = 3500;

/// The end is before the start, which makes the original server panic.
#[derive(Debug)]
pub(super) struct Panic;

/// Returns rows `start` to `end` inclusive: 0 is the first row of the screen, negative rows are above it.
pub(super) fn text(
    terminal: &TerminalState,
    start: Option<i64>,
    end: Option<i64>,
    escapes: bool,
) -> Result<String, Panic> {
    let screen = terminal.screen();
    let rows = i64::from(screen.size.rows);
    let scrollback = screen.first_line - terminal.first_kept_line().0.min(screen.first_line);
    // The alternate screen has no scrollback.
    let above = if screen.modes.alternate { 0 } else { scrollback.min(SCROLLBACK).cast_signed() };
    // Observed with the default range: two extra rows, if there is scrollback.
    let extra = if start.is_none() { above.min(2) } else { 0 };
    let start = start.unwrap_or(-extra).max(-above);
    let end = end.unwrap_or(rows - 1).max(-above);
    if end < start {
        return Err(Panic);
    }
    let mut text = String::new();
    // A style continues over the end of a row; its reset comes with the next row.
    let mut reset = "";
    for row in start..=end.min(rows - 1) {
        let content = match usize::try_from(row) {
            Ok(row) => screen.rows.get(row).map(|row| (row.text.clone(), row.to_ansi(screen.size.cols))),
            Err(_) => {
                let line = LineIndex(screen.first_line - row.unsigned_abs());
                terminal.line_text(line).zip(terminal.line_content(line))
            }
        };
        let (plain, styled) = content.unwrap_or_default();
        if !escapes {
            text.push_str(&plain);
            text.push('\n');
            continue;
        }
        text.push_str(reset);
        match styled.strip_suffix(RESET) {
            Some(styled) => {
                text.push_str(styled);
                reset = RESET;
            }
            None => {
                text.push_str(&styled);
                reset = "";
            }
        }
        text.push_str("\r\n");
    }
    if escapes {
        text.push_str(RESET);
        text.push('\n');
    }
    Ok(text)
}

const RESET: &str = "\x1b[0m";

#[cfg(test)]
mod tests {
    use nerve_types::{Size, TsNs};

    use super::*;

    fn terminal(bytes: &str) -> TerminalState {
        let mut terminal = TerminalState::new(Size::new(10, 3));
        terminal.process_data(TsNs(1), bytes.as_bytes());
        terminal
    }

    #[test]
    fn ranges_are_as_observed() {
        let terminal = terminal("1\r\n2\r\n3\r\n4\r\n5");
        let get = |start, end| text(&terminal, start, end, false).unwrap();
        assert_eq!(get(Some(0), Some(2)), "3\n4\n5\n");
        assert_eq!(get(None, None), "1\n2\n3\n4\n5\n", "two rows too many");
        assert_eq!(get(Some(-1), None), "2\n3\n4\n5\n");
        assert_eq!(get(Some(-99), Some(0)), "1\n2\n3\n", "too far back");
        assert!(text(&terminal, Some(2), Some(1), false).is_err());
        assert!(text(&terminal, Some(0), Some(-99), false).is_err());
    }

    #[test]
    fn blank_rows_are_kept_and_long_ones_are_several() {
        assert_eq!(text(&terminal("abcdefghijkl"), Some(0), Some(2), false).unwrap(), "abcdefghij\nkl\n\n");
    }

    #[test]
    fn styles_continue_across_rows() {
        let shown = text(&terminal("\x1b[1mab\r\ncd"), Some(0), Some(2), true).unwrap();
        assert_eq!(shown, "\x1b[0;1mab\r\n\x1b[0m\x1b[0;1mcd\r\n\x1b[0m\r\n\x1b[0m\n");
    }
}
