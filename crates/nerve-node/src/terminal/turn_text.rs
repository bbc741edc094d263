//! The text of a turn on the screen, without the echo of its prompt.

use std::borrow::Cow;

use nerve_agent::driver::Span;
use nerve_vt::terminal::{LineIndex, TerminalState};

/// Distance of tab stops in columns.
pub(super) const TAB_WIDTH: usize = 8;

/// Minimum number of bytes at a prompt's beginning, without blanks, that identify its echo at the end of a wrapped row.
const MIN_ECHO: usize = 4;

/// Returns the lines of a span with soft wraps joined. On the alternate screen, returns the visible rows.
pub(super) fn turn_lines(terminal: &TerminalState, span: &Span) -> Vec<String> {
    let screen = terminal.screen();
    if screen.modes.alternate {
        return screen.rows.into_iter().map(|row| row.text).collect();
    }
    let mut first = LineIndex(span.lines.start);
    // Skip the rest of a row that began before the turn: the echo of a prompt longer than a row.
    while first.0 > 0 && first.0 < span.lines.end && terminal.is_line_wrapped(LineIndex(first.0 - 1)) {
        first.0 += 1;
    }
    let end = LineIndex(span.lines.end.min(terminal.line_count()));
    let Some(col) = span.last_col else { return terminal.text(first..end) };
    // Of the last row, only the part before the next prompt belongs to the turn.
    let last = LineIndex(end.0.saturating_sub(1).max(first.0));
    let mut lines = terminal.text(first..last);
    let tail = terminal.line_text_to(last, col).unwrap_or_default();
    let continues = last > first && terminal.is_line_wrapped(LineIndex(last.0 - 1));
    match lines.last_mut() {
        Some(line) if continues => line.push_str(&tail),
        _ => lines.push(tail),
    }
    lines
}

/// Returns true if the row above line `start` contains the prompt's first line or, if that row is wrapped, ends with its beginning.
/// Otherwise the program of a polled pane has overwritten the prompt, and output above `start` may be missing.
pub(super) fn shows_prompt_above(terminal: &TerminalState, start: u64, prompt: &str) -> bool {
    let Some(line) = start.checked_sub(1).map(LineIndex) else { return false };
    let squeeze = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let typed = squeeze(prompt.trim_start().lines().next().unwrap_or_default());
    let row = squeeze(&terminal.line_text(line).unwrap_or_default());
    let begins = || {
        let mut ends = MIN_ECHO.min(typed.len())..=typed.len();
        ends.any(|end| typed.get(..end).is_some_and(|part| row.ends_with(part)))
    };
    row.contains(&typed) || terminal.is_line_wrapped(line) && begins()
}

/// Removes the echo of a prompt's second and later lines from the output of a line-based program. Each is echoed once, in order,
/// after a prompt of the program. A line discipline instead echoes all of them at once, before the program reads them.
pub(super) fn remove_echo(
    mut lines: Vec<String>,
    prompt: &str,
    is_prompt: impl Fn(&str) -> bool,
) -> Vec<String> {
    // A trailing line break followed by Enter makes one more, empty line.
    let last = prompt.ends_with('\n').then_some("");
    let echoes: Vec<&str> = prompt.lines().skip(1).map(str::trim_end).chain(last).collect();
    let is_echo = |line: &str, echo: &str| {
        // The width of a tab depends on the column where the echo begins.
        (0..TAB_WIDTH).any(|col| {
            let before = line.trim_end().strip_suffix(&*expand_tabs(echo, col));
            before.is_some_and(|before| before.chars().count() % TAB_WIDTH == col && is_prompt(before))
        })
    };
    let mut missing = echoes.iter().peekable();
    let is_kept: Vec<bool> =
        lines.iter().map(|line| missing.next_if(|echo| is_echo(line, echo)).is_none()).collect();
    let is_block = || {
        let shown = lines.iter().map(|line| line.trim_end());
        lines.len() >= echoes.len() && shown.zip(&echoes).all(|(line, echo)| line == expand_tabs(echo, 0))
    };
    if missing.peek().is_some() && is_block() {
        return lines.split_off(echoes.len());
    }
    lines.into_iter().zip(is_kept).filter_map(|(line, is_kept)| is_kept.then_some(line)).collect()
}

/// Replaces tabs by blanks up to the next tab stop in a text that begins at `col`.
fn expand_tabs(text: &str, col: usize) -> Cow<'_, str> {
    if !text.contains('\t') {
        return text.into();
    }
    let (mut expanded, mut width) = (String::new(), col);
    for c in text.chars() {
        let (cell, cells) = if c == '\t' { (' ', TAB_WIDTH - width % TAB_WIDTH) } else { (c, 1) };
        expanded.extend(std::iter::repeat_n(cell, cells));
        width += cells;
    }
    expanded.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_string).collect()
    }

    fn without_echo(shown: Vec<String>, prompt: &str) -> Vec<String> {
        remove_echo(shown, prompt, |before| [">>>", "..."].contains(&before.trim_end()))
    }

    #[test]
    fn output_equal_to_a_line_of_the_prompt_is_kept() {
        let prompt = "print('x')\nprint(1)\nprint(2)";
        let shown = lines("x\n  print(1)\nprint(2)\n>>> print(1)\n1\n>>> print(2)\n2");
        assert_eq!(without_echo(shown, prompt), lines("x\n  print(1)\nprint(2)\n1\n2"));
    }

    #[test]
    fn echoes_before_the_program_reads_are_removed() {
        let shown = lines("hello\nEOF\necho hello\n> > > hello\n$ hello");
        let is_prompt = |before: &str| before.trim_end().ends_with(['>', '$']);
        let kept = remove_echo(shown, "cat <<EOF\nhello\nEOF\necho hello", is_prompt);
        assert_eq!(kept, lines("> > > hello\n$ hello"));
    }

    #[test]
    fn echoes_with_tabs_are_removed() {
        let shown = lines("...     a\tb\n... x   y\n1".replace("a\tb", "a       b").as_str());
        assert_eq!(without_echo(shown, "if 1:\n\ta\tb\nx\ty"), lines("1"));
    }

    #[test]
    fn echoes_of_later_lines_are_removed() {
        let shown = lines("...     print(i)\n... \n0\n1\n2");
        assert_eq!(without_echo(shown, "for i in range(3):\n    print(i)\n\n"), lines("0\n1\n2"));
        let shown = lines(">>> time.sleep(1)\n>>> print(\"x\")\nx");
        assert_eq!(without_echo(shown, "import time\ntime.sleep(1)\nprint(\"x\")"), lines("x"));
        assert_eq!(
            without_echo(lines("...  print(i)\n...\n0\n1"), "for i in x:\n  print(i)\n"),
            lines("0\n1")
        );
        assert_eq!(without_echo(lines("a\nb"), "one line"), lines("a\nb"));
    }
}
