//! Row-level helpers of the parsers.

/// Returns true for a row without text.
pub(super) fn is_blank(row: &str) -> bool {
    row.trim().is_empty()
}

/// Returns true for the blanks that agents indent with: some draw no-break spaces.
fn is_indent(c: char) -> bool {
    matches!(c, ' ' | '\u{a0}')
}

/// Returns the number of leading spaces, with or without a break.
pub(super) fn indent(row: &str) -> usize {
    row.chars().take_while(|&c| is_indent(c)).count()
}

/// Returns the row without its first `n` spaces, or fewer if it has fewer.
pub(super) fn dedent(row: &str, n: usize) -> &str {
    let end = row.char_indices().take(n).take_while(|(_, c)| is_indent(*c)).last();
    &row[end.map_or(0, |(at, c)| at + c.len_utf8())..]
}

/// Returns true if the row starts with a horizontal line of `ch`. Only the first cells count, because a label may
/// interrupt the line (Claude writes the session's name there).
pub(super) fn is_rule(row: &str, ch: char) -> bool {
    row.chars().take(8).filter(|&c| c == ch).count() == 8
}

/// Returns the text behind a marker at column 0 that is followed by a blank or the end of the row.
pub(super) fn after_marker<'a>(row: &'a str, markers: &[char]) -> Option<&'a str> {
    let rest = row.strip_prefix(markers)?;
    match rest.chars().next() {
        None => Some(""),
        Some(c) if c == ' ' || c == '\u{a0}' => Some(&rest[c.len_utf8()..]),
        Some(_) => None,
    }
}

/// Returns true for a status at the right edge, such as `  …  ? for shortcuts`. No answer is indented that far.
pub(super) fn is_right_aligned(row: &str) -> bool {
    !is_blank(row) && indent(row) >= 40
}

/// Joins rows by newlines; removes trailing blanks, and blank rows at both ends.
pub(super) fn join(rows: &[&str]) -> String {
    let Some(first) = rows.iter().position(|row| !is_blank(row)) else { return String::new() };
    let last = rows.iter().rposition(|row| !is_blank(row)).unwrap_or(first);
    let rows: Vec<&str> = rows[first..=last].iter().map(|row| row.trim_end()).collect();
    rows.join("\n")
}

/// Joins the text in a composer: its first row, and the rows below it up to a blank one.
pub(super) fn join_draft(first: &str, below: &[&str]) -> String {
    let more = below.iter().take_while(|row| !is_blank(row)).map(|row| row.trim());
    std::iter::once(first).chain(more).collect::<Vec<_>>().join("\n")
}

/// Returns the text without whitespace and control characters, which change with wrapping.
pub(super) fn compact(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect()
}

/// Returns the number before the word `tokens` in a status row and an optional arrow before it: `↓ 83 tokens`, `92,673
/// tokens`, `38.7k tokens`.
pub(super) fn token_count(row: &str) -> Option<(Option<char>, u64)> {
    let before = row[..row.find(" tokens")?].trim_end();
    let start = before
        .rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == ','))
        .map_or(0, |i| i + before[i..].chars().next().map_or(1, char::len_utf8));
    let count = parse_scaled_number(&before[start..])?;
    let arrow = before[..start].trim_end().chars().next_back().filter(|c| matches!(c, '↓' | '↑'));
    Some((arrow, count))
}

/// Parses `83`, `92,673`, `38.7k` and `1.2M`.
fn parse_scaled_number(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M']);
    let scale: u64 = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        _ => return None,
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let digits = digits.replace(',', "");
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut value = whole.checked_mul(scale)?;
    let mut unit = scale;
    for digit in fraction.chars() {
        unit /= 10;
        value = value.checked_add(u64::from(digit.to_digit(10)?) * unit)?;
    }
    Some(value)
}

/// Returns true for a duration as agents write it: `0s`, `1m 12s`, `2h 3m 4s`, `<1s`.
pub(super) fn is_duration(text: &str) -> bool {
    let text = text.strip_prefix('<').unwrap_or(text);
    !text.is_empty()
        && text.split(' ').all(|part| {
            let number = part.trim_end_matches(['d', 'h', 'm', 's']);
            !number.is_empty()
                && (1..=2).contains(&(part.len() - number.len()))
                && number.starts_with(|c: char| c.is_ascii_digit())
                && number.chars().all(|c| c.is_ascii_digit() || c == '.')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_count_formats() {
        assert_eq!(token_count("* Hyperspacing… (2s · ↓ 83 tokens · thinking)"), Some((Some('↓'), 83)));
        assert_eq!(token_count("   12345 tokens"), Some((None, 12_345)));
        assert_eq!(token_count("92,673 tokens"), Some((None, 92_673)));
        assert_eq!(token_count("· ↑ 38.7k tokens"), Some((Some('↑'), 38_700)));
        assert_eq!(token_count("1.25M tokens"), Some((None, 1_250_000)));
        assert_eq!(token_count("no tokens"), None);
        assert_eq!(token_count("99999999999999999999999 tokens"), None);
        assert_eq!(token_count("é tokens"), None);
    }

    #[test]
    fn no_break_spaces_indent() {
        assert_eq!((indent("\u{a0} x"), indent("x"), indent(" ")), (2, 0, 1));
        assert_eq!((dedent("\u{a0}  x", 2), dedent(" x", 2), dedent("x", 2)), (" x", "x", "x"));
    }

    #[test]
    fn durations_are_recognized() {
        for good in ["0s", "<1s", "1m 12s", "2h 3m 4s", "1.5s", "78ms"] {
            assert!(is_duration(good), "{good}");
        }
        for bad in ["", "s", "soon", "1m  2s", "12", "3s ago"] {
            assert!(!is_duration(bad), "{bad}");
        }
    }
}
