//! Splits the text of a pane into rows.

/// Bytes of styles that a row can begin with; older ones beyond that are dropped.
const STYLE_LIMIT: usize = 1024;

/// A row of a pane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Row {
    /// Text and styles for a terminal in the default style, which is restored at the end.
    pub(super) ansi: String,
    /// Text alone, without trailing blanks.
    pub(super) text: String,
    /// Upper bound of its columns, including trailing blanks. The exact width depends on the terminal.
    pub(super) columns: usize,
    /// The row wraps into the next one.
    pub(super) wraps: bool,
}

/// The current style, which continues across rows.
#[derive(Debug, Default)]
struct Style {
    /// SGR sequences since the last reset.
    sgr: String,
    /// The open hyperlink (OSC 8).
    link: String,
}

impl Style {
    fn begin(&self, row: &mut Row) {
        row.ansi.push_str(&self.link);
        row.ansi.push_str(&self.sgr);
    }

    fn end(&self, row: &mut Row) {
        if !self.sgr.is_empty() {
            row.ansi.push_str("\x1b[0m");
        }
        if !self.link.is_empty() {
            row.ansi.push_str("\x1b]8;;\x1b\\");
        }
    }

    /// Adds an SGR sequence (ECMA-48 §8.3.117).
    fn add_sgr(&mut self, params: &str, row: &mut Row) {
        let sequence = format!("\x1b[{params}m");
        row.ansi.push_str(&sequence);
        if params.is_empty() || params == "0" {
            self.sgr.clear();
            return;
        }
        if params.starts_with("0;") || self.sgr.len() + sequence.len() > STYLE_LIMIT {
            self.sgr.clear();
        }
        self.sgr.push_str(&sequence);
    }

    fn link(&mut self, of: &str, row: &mut Row) {
        let sequence = format!("\x1b]{of}\x1b\\");
        row.ansi.push_str(&sequence);
        self.link = if of.ends_with(';') { String::new() } else { sequence };
    }
}

/// Parses text with escape sequences. Everything but text and styles is dropped, so the result cannot move the cursor.
///
/// Rows of plain text end with LF. With escape sequences they end with CR LF; a last line with LF alone that only resets the
/// style is not a row.
pub(super) fn rows_of(text: &str) -> Vec<Row> {
    let (mut rows, mut style, mut row) = (Vec::new(), Style::default(), Row::default());
    let (mut has_crlf, mut ends_with_lf) = (false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\r' => has_crlf |= rest.starts_with('\n'),
            '\n' => {
                ends_with_lf = !text[..text.len() - rest.len() - 1].ends_with('\r');
                finish(&mut row, &style);
                rows.push(std::mem::take(&mut row));
                style.begin(&mut row);
            }
            '\x1b' => rest = escape(rest, &mut style, &mut row),
            c if c.is_control() => {}
            c => {
                row.ansi.push(c);
                row.text.push(c);
                row.columns += if c < '\u{300}' || ('\u{2010}'..'\u{2600}').contains(&c) { 1 } else { 2 };
            }
        }
    }
    // A remainder without text after the last line end is not a row.
    if !row.text.is_empty() || rows.is_empty() {
        finish(&mut row, &style);
        rows.push(row);
    } else if has_crlf && ends_with_lf && rows.last().is_some_and(|row| row.text.is_empty()) {
        rows.pop();
    }
    rows
}

fn finish(row: &mut Row, style: &Style) {
    style.end(row);
    row.text.truncate(row.text.trim_end().len());
    if row.text.is_empty() && !row.ansi.contains("\x1b[") {
        row.ansi.clear();
    }
}

/// Parses a sequence after its ESC and returns the rest.
fn escape<'a>(rest: &'a str, style: &mut Style, row: &mut Row) -> &'a str {
    let mut chars = rest.chars();
    match chars.next() {
        Some('[') => {
            let body = chars.as_str();
            let Some(end) = body.find(|c: char| ('\x40'..='\x7e').contains(&c)) else { return "" };
            let params = &body[..end];
            let plain = params.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':'));
            match body.as_bytes()[end] {
                b'm' if plain => style.add_sgr(params, row),
                // Fills the rest of the row with the background colour.
                b'K' if matches!(params, "" | "0") => row.ansi.push_str("\x1b[K"),
                _ => {}
            }
            &body[end + 1..]
        }
        Some(']') => {
            let body = chars.as_str();
            let Some(end) = body.find(['\x07', '\x1b']) else { return "" };
            let content = &body[..end];
            if content.starts_with("8;") && !content.contains(char::is_control) {
                style.link(content, row);
            }
            let rest = &body[end..];
            rest.strip_prefix("\x1b\\").unwrap_or_else(|| rest.strip_prefix('\x07').unwrap_or(rest))
        }
        // Sequences for character sets and the like have one more character.
        Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => {
            chars.next();
            chars.as_str()
        }
        Some(_) | None => chars.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        rows_of(text).into_iter().map(|row| row.text).collect()
    }

    #[test]
    fn rows_end_with_lf_or_crlf() {
        assert_eq!(texts("a  \nb\r\n\nd\n"), ["a", "b", "", "d"]);
        assert_eq!(texts("a\nb"), ["a", "b"]);
        assert_eq!(texts(""), [""]);
        assert_eq!(texts("a\n\x1b[0m"), ["a"], "a reset at the very end is no row");
        assert_eq!(texts("a\r\n\r\n\x1b[0m\n"), ["a", ""], "neither with an end of line of its own");
        assert_eq!(texts("a\r\n\r\n"), ["a", ""]);
        assert_eq!(texts("\r\n\n"), [""]);
    }

    #[test]
    fn style_continues_in_next_row() {
        let rows =
            rows_of("\x1b[1;31mred\nstill\n\x1b[0mplain \x1b]8;;http://x\x1b\\link\n!\x1b]8;;\x1b\\\n");
        assert_eq!(rows[0].ansi, "\x1b[1;31mred\x1b[0m");
        assert_eq!(rows[1].ansi, "\x1b[1;31mstill\x1b[0m");
        assert_eq!(rows[2].ansi, "\x1b[1;31m\x1b[0mplain \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\");
        assert_eq!(rows[3].ansi, "\x1b]8;;http://x\x1b\\!\x1b]8;;\x1b\\");
        assert_eq!(rows.len(), 4);
    }

    #[test]
    fn background_fills_rest_of_row() {
        assert_eq!(rows_of("\x1b[44ma\x1b[K\x1b[2K\r\n\x1b[0m\n")[0].ansi, "\x1b[44ma\x1b[K\x1b[0m");
    }

    #[test]
    fn drops_everything_but_text_and_style() {
        let rows = rows_of("a\x1b[2J\x1b[5;5Hb\x07\x1b(Bc\x1b]0;title\x07d\x1bMe\x1b[?25lf\x1b[31\n");
        assert_eq!((rows[0].text.as_str(), rows[0].ansi.as_str()), ("abcdef", "abcdef"));
    }

    #[test]
    fn incomplete_sequences_at_the_end_are_dropped() {
        for text in ["a\x1b", "a\x1b[", "a\x1b[31", "a\x1b]8;;x", "a\x1b("] {
            assert_eq!(texts(text), ["a"], "{text:?}");
        }
    }
}
