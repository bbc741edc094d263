//! Short forms of texts, for messages and headings, and bytes as hexadecimal digits.

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

/// Returns the hexadecimal digits of bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
    fn hex_has_two_digits_per_byte() {
        assert_eq!(hex(&[0, 0xa, 0xff]), "000aff");
    }

    #[test]
    fn joins_words_of_all_lines() {
        assert_eq!(one_line(" a\n\tb  c "), "a b c");
    }
}
