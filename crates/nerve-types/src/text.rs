//! Short forms of texts, for messages and headings.

/// Returns the first `max` characters, and `…` if there are more.
pub fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// Returns the words of a text with single spaces between them.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortens_longer_texts_only() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöü!", 3), "äöü…");
    }

    #[test]
    fn joins_words_of_all_lines() {
        assert_eq!(one_line(" a\n\tb  c "), "a b c");
    }
}
