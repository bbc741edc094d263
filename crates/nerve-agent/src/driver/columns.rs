//! Columns of a text on the screen.

use unicode_width::UnicodeWidthChar;

/// Returns the characters that begin in these columns; wide characters take two.
pub(super) fn columns(text: &str, from: u16, to: u16) -> &str {
    let offset_of = |limit: u16| {
        let mut col = 0;
        let mut places = text.char_indices();
        let character = places.find(|(_, c)| {
            let start_col = col;
            col += c.width().unwrap_or(0);
            // A zero-width character belongs to the one before it.
            start_col >= usize::from(limit) && c.width() != Some(0)
        });
        character.map_or(text.len(), |(at, _)| at)
    };
    let start = offset_of(from);
    &text[start..offset_of(to).max(start)]
}

/// Returns the columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().filter_map(UnicodeWidthChar::width).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_with_wide_and_narrow_characters() {
        assert_eq!(columns("日本$ half", 6, 8), "ha");
        assert_eq!(columns("日本$ half", 0, 5), "日本$");
        assert_eq!(columns("e\u{301}x", 1, 9), "x");
        assert_eq!((columns("ab", 2, 9), columns("ab", 5, 1), columns("", 0, 0)), ("", "", ""));
    }
}
