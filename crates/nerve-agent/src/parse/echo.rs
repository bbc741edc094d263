//! Finds the echo of the prompt; the answer starts below it.

use super::rows::{compact, indent, is_blank};

/// Characters without blanks that identify a long prompt by its beginning if its echo is truncated.
const PREFIX: usize = 64;

/// Placeholders that agents show for a long paste.
const CHIPS: [&str; 2] = ["[Pastedtext", "[PastedText"];

/// Style of an agent's echoes.
pub(super) struct EchoStyle<'a> {
    /// Returns the text of the echo that starts in this row.
    pub(super) head: &'a (dyn for<'r> Fn(&[&'r str], usize) -> Option<&'r str> + Sync),
    /// Indentation of an echo's further rows, in columns.
    pub(super) indent: usize,
}

/// Returns the first row after the echo of `prompt`.
///
/// Prefers the last echo that shows the prompt. For an unknown or differently drawn prompt, takes the last echo of all.
/// Returns `None` if every echo has scrolled away.
pub(super) fn end_of_last_echo(rows: &[&str], prompt: &str, style: &EchoStyle<'_>) -> Option<usize> {
    end_of_own_echo(rows, prompt, style).or_else(|| {
        let last = (0..rows.len()).rfind(|&row| (style.head)(rows, row).is_some())?;
        Some(end_of_paragraph(rows, last + 1, style.indent))
    })
}

/// Returns the first row after the last echo that shows `prompt`; `None` for an unknown prompt.
pub(super) fn end_of_own_echo(rows: &[&str], prompt: &str, style: &EchoStyle<'_>) -> Option<usize> {
    let prompt = Some(compact(prompt)).filter(|prompt| !prompt.is_empty())?;
    let mut heads = (0..rows.len()).rev();
    heads.find_map(|row| match_echo(rows, row, (style.head)(rows, row)?, &prompt, style.indent))
}

/// Returns the first row of the answer, and true if rows above it are missing: they have scrolled away, or the program has erased its
/// scrollback in the middle of the answer. `is_marker` returns true for rows that start an item.
pub(super) fn answer_start(
    rows: &[&str],
    prompt: &str,
    style: &EchoStyle<'_>,
    is_marker: impl Fn(&str) -> bool,
) -> (usize, bool) {
    if let Some(end) = end_of_last_echo(rows, prompt, style) {
        return (end, false);
    }
    let tail = tail_of_echo(rows, prompt, is_marker);
    (tail, tail == 0 && !prompt.is_empty())
}

/// Returns how many rows at the top belong to an echo whose beginning has scrolled away. `is_marker` returns true for
/// rows that start an item.
pub(super) fn tail_of_echo(rows: &[&str], prompt: &str, is_marker: impl Fn(&str) -> bool) -> usize {
    let end = rows.iter().position(|row| is_marker(row)).unwrap_or(rows.len());
    let tail: String = rows[..end].iter().map(|row| compact(row)).collect();
    if !tail.is_empty() && compact(prompt).ends_with(&tail) { end } else { 0 }
}

/// Matches one echo row by row, ignoring whitespace, because wrapping and indentation vary.
fn match_echo(rows: &[&str], first: usize, head: &str, prompt: &str, indented: usize) -> Option<usize> {
    let mut rest = prompt;
    let mut row = first;
    let mut row_text = compact(head);
    loop {
        if let Some(remaining) = rest.strip_prefix(row_text.as_str()) {
            rest = remaining;
            row += 1;
            if rest.is_empty() {
                return Some(row);
            }
        } else if chip_after_prefix(&row_text, rest) || prompt.len() - rest.len() >= PREFIX {
            return Some(end_of_paragraph(rows, row + 1, indented));
        } else {
            return None;
        }
        match rows.get(row) {
            Some(line) if is_blank(line) || indent(line) >= indented => row_text = compact(line),
            // A row that the terminal wrapped is not indented.
            Some(line) if rest.starts_with(&compact(line)) => row_text = compact(line),
            _ => return (prompt.len() - rest.len() >= PREFIX).then_some(row),
        }
    }
}

/// Returns true if the text before a paste chip matches; the chip stands for text of unknown length.
fn chip_after_prefix(row_text: &str, rest: &str) -> bool {
    CHIPS.iter().any(|chip| row_text.find(chip).is_some_and(|at| rest.starts_with(&row_text[..at])))
}

fn end_of_paragraph(rows: &[&str], from: usize, indented: usize) -> usize {
    let more =
        rows[from.min(rows.len())..].iter().take_while(|row| !is_blank(row) && indent(row) >= indented);
    from + more.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(lines: &[&str], prompt: &str) -> Option<usize> {
        let style = EchoStyle { head: &|rows, row| rows[row].strip_prefix("> "), indent: 2 };
        end_of_last_echo(lines, prompt, &style)
    }

    #[test]
    fn last_echo_of_prompt_wins() {
        assert_eq!(end(&["> a", "", "x", "> b", "> a", "", "y"], "a"), Some(5));
    }

    #[test]
    fn wrapped_and_blank_rows_belong_to_echo() {
        assert_eq!(
            end(&["> one two", "  three", "", "  four", "", "  not it"], "one  two three\n\nfour"),
            Some(4)
        );
    }

    #[test]
    fn wrapped_rows_need_no_indentation() {
        assert_eq!(end(&["> one two", "three", "four", "", "x"], "one two three four"), Some(3));
    }

    #[test]
    fn longer_echo_is_another_prompt() {
        assert_eq!(end(&["> hello", "", "x", "> hello there", "y"], "hello"), Some(1));
    }

    #[test]
    fn chip_represents_paste() {
        assert_eq!(end(&["> see [Pasted text #1 +29 lines]", "", "x"], "see row 1\nrow 2"), Some(1));
    }

    #[test]
    fn unknown_prompt_takes_last_echo() {
        assert_eq!(end(&["> a", "> b", "  c", "x"], ""), Some(3));
        assert_eq!(end(&["x", "y"], "a"), None);
    }
}
