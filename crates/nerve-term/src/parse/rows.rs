//! What all parsers ask of one row of text.

/// Nothing but blanks.
pub(super) fn is_blank(row: &str) -> bool {
    row.trim().is_empty()
}

/// Leading spaces. A no-break space is not one: agents put it after their prompt marker.
pub(super) fn indent(row: &str) -> usize {
    row.bytes().take_while(|&b| b == b' ').count()
}

/// The row without its first `n` spaces, or without all it has when they are fewer.
pub(super) fn dedent(row: &str, n: usize) -> &str {
    &row[indent(row).min(n)..]
}

/// Starts at column 0 with a horizontal line of `ch`. A label may interrupt the line later on (Claude writes the session's name
/// there), so only the first cells count.
pub(super) fn is_rule(row: &str, ch: char) -> bool {
    row.chars().take(8).filter(|&c| c == ch).count() == 8
}

/// What follows a marker at column 0: the marker has to be followed by a blank or the end of the row.
pub(super) fn after_marker<'a>(row: &'a str, markers: &[char]) -> Option<&'a str> {
    let rest = row.strip_prefix(markers)?;
    match rest.chars().next() {
        None => Some(""),
        Some(c) if c == ' ' || c == '\u{a0}' => Some(&rest[c.len_utf8()..]),
        Some(_) => None,
    }
}

/// A status that sits at the right edge, such as `  …  ? for shortcuts`: no answer starts half a screen in.
pub(super) fn is_right_aligned(row: &str) -> bool {
    !is_blank(row) && indent(row) >= 40
}

/// Rows joined by newlines, trailing blanks of each and blank rows at both ends removed.
pub(super) fn join(rows: &[&str]) -> String {
    let Some(first) = rows.iter().position(|row| !is_blank(row)) else { return String::new() };
    let last = rows.iter().rposition(|row| !is_blank(row)).unwrap_or(first);
    let rows: Vec<&str> = rows[first..=last].iter().map(|row| row.trim_end()).collect();
    rows.join("\n")
}

/// Text reduced to what survives wrapping: no whitespace, no control characters.
pub(super) fn compact(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect()
}

/// The number before the word `tokens` in a status row, and the arrow before it if there is one: `↓ 83 tokens`, `92,673 tokens`,
/// `38.7k tokens`.
pub(super) fn token_count(row: &str) -> Option<(Option<char>, u64)> {
    let before = row[..row.find(" tokens")?].trim_end();
    let start = before
        .rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == ','))
        .map_or(0, |i| i + before[i..].chars().next().map_or(1, char::len_utf8));
    let count = scaled_number(&before[start..])?;
    let arrow = before[..start].trim_end().chars().next_back().filter(|c| matches!(c, '↓' | '↑'));
    Some((arrow, count))
}

/// `83`, `92,673`, `38.7k`, `1.2M`.
fn scaled_number(text: &str) -> Option<u64> {
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

/// `0s`, `1m 12s`, `2h 3m 4s`, `<1s`: how long something took, as the agents write it.
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
    fn token_counts_as_agents_write_them() {
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
    fn durations_as_agents_write_them() {
        for good in ["0s", "<1s", "1m 12s", "2h 3m 4s", "1.5s", "78ms"] {
            assert!(is_duration(good), "{good}");
        }
        for bad in ["", "s", "soon", "1m  2s", "12", "3s ago"] {
            assert!(!is_duration(bad), "{bad}");
        }
    }
}
