//! Text as the content of HTML elements and attributes.

/// Escapes a text for HTML. Control characters and marks that change the direction of text become visible: `^[`, `⟨U+202E⟩`. With such a
/// mark, a command could look like another one.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push(c),
            '\0'..='\u{1f}' | '\u{7f}' => escaped.extend(['^', char::from(c as u8 ^ 0x40)]),
            '\u{80}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => escaped.push_str(&format!("⟨U+{:04X}⟩", u32::from(c))),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped_and_hidden_characters_are_visible() {
        assert_eq!(escape("<a href=\"x\">&amp;"), "&lt;a href=&quot;x&quot;&gt;&amp;amp;");
        assert_eq!(
            escape("rm \u{202e}txt.exe \u{1b}[31m\u{7f}\u{9b}"),
            "rm ⟨U+202E⟩txt.exe ^[[31m^?⟨U+009B⟩"
        );
        assert_eq!(escape("é 日本 🙂\ta\r\n"), "é 日本 🙂\ta\r\n");
    }
}
