//! Addresses of links, and character references in texts.

/// Beginnings of addresses that a click may open.
const PREFIXES: [&str; 3] = ["http://", "https://", "mailto:"];
/// Maximum length of an address in bytes.
const MAX_ADDRESS: usize = 4096;
/// Maximum depth of parentheses in an address.
const MAX_PARENTHESES: usize = 32;
/// Character references that are common in prose.
const REFERENCES: [(&str, char); 6] =
    [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("apos", '\''), ("nbsp", '\u{a0}')];

/// Returns true for an address that a click may open.
pub(crate) fn is_safe(address: &str) -> bool {
    let has_prefix = |prefix: &str| {
        address.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
            && address.len() > prefix.len()
    };
    address.len() <= MAX_ADDRESS
        && PREFIXES.into_iter().any(has_prefix)
        && !address.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// Reads the target of a link, `(ADDRESS "TITLE")`. Returns the address and the length of the target in bytes.
pub(crate) fn read_target(text: &str) -> Option<(String, usize)> {
    let inner = text.strip_prefix('(')?.trim_start();
    let (address, rest) = match inner.strip_prefix('<') {
        Some(inner) => inner.split_once('>').filter(|(address, _)| !address.contains(['\n', '<']))?,
        None => inner.split_at(address_len(inner)?),
    };
    let spaced = rest.trim_start();
    let is_separate = spaced.len() < rest.len();
    let rest = match spaced.chars().next()? {
        quote @ ('"' | '\'') if is_separate => after_title(spaced, quote)?,
        '(' if is_separate => after_title(spaced, ')')?,
        _ => spaced,
    };
    let rest = rest.trim_start().strip_prefix(')')?;
    Some((unescape(address), text.len() - rest.len()))
}

/// Returns the length of an address without angle brackets; `None` if its parentheses are not balanced.
fn address_len(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut is_escaped = false;
    for (at, c) in text.char_indices().take_while(|(at, _)| *at <= MAX_ADDRESS) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' if depth == MAX_PARENTHESES => return None,
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            c if c.is_whitespace() || c.is_control() => return (depth == 0).then_some(at),
            _ => {}
        }
    }
    None
}

/// Returns what follows a title that ends with `quote`.
fn after_title(text: &str, quote: char) -> Option<&str> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1).take_while(|(at, _)| *at <= MAX_ADDRESS) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return Some(&text[at + 1..]),
            _ => {}
        }
    }
    None
}

/// Replaces escapes and character references in an address.
fn unescape(address: &str) -> String {
    let mut text = String::new();
    let mut rest = address;
    while let Some(c) = rest.chars().next() {
        let (decoded, len) = match c {
            '\\' => match rest[1..].chars().next().filter(char::is_ascii_punctuation) {
                Some(escaped) => (escaped, 2),
                None => (c, 1),
            },
            '&' => read_reference(rest).unwrap_or((c, 1)),
            c => (c, c.len_utf8()),
        };
        text.push(decoded);
        rest = &rest[len..];
    }
    text
}

/// Reads a character reference such as `&lt;` or `&#x2713;`. Returns the character and the length of the reference in bytes.
pub(crate) fn read_reference(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(10).position(|byte| byte == b';')?;
    let name = text.get(1..end)?;
    let number = |digits: &str, radix| {
        let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
        is_number.then(|| u32::from_str_radix(digits, radix).ok()).flatten()
    };
    let c = match name.strip_prefix('#') {
        Some(digits) => {
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(digits) => number(digits, 16),
                None => number(digits, 10),
            };
            code.and_then(char::from_u32).filter(|c| *c != '\0')?
        }
        None => REFERENCES.into_iter().find(|(known, _)| *known == name)?.1,
    };
    Some((c, end + 1))
}

/// Returns the length of an address in running text that begins with `http://` or `https://`; `None` if there is none.
pub(crate) fn bare_address_len(text: &str) -> Option<usize> {
    let is_end = |c: char| {
        c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | '`' | '|' | ']' | '\\')
    };
    let end = text.find(is_end).unwrap_or(text.len());
    let mut address = &text[..end];
    let mut parentheses =
        address.matches('(').count().cast_signed() - address.matches(')').count().cast_signed();
    while let Some(last) = address.chars().next_back() {
        let is_unbalanced = last == ')' && parentheses < 0;
        if !is_unbalanced && !matches!(last, '?' | '!' | '.' | ',' | ':' | ';' | '*' | '_' | '~' | '\'') {
            break;
        }
        parentheses += isize::from(is_unbalanced);
        address = &address[..address.len() - last.len_utf8()];
    }
    (is_safe(address) && !address.starts_with("mailto:")).then_some(address.len())
}

/// Reads an address in angle brackets, `<https://…>` or `<name@host>`. Returns the text, the address and the length with the brackets.
pub(crate) fn read_bracketed(text: &str) -> Option<(&str, String, usize)> {
    let is_end = |byte| matches!(byte, b'<' | b'>' | b' ' | b'\n');
    let end = 1 + text.bytes().skip(1).take(MAX_ADDRESS).position(is_end)?;
    let inner = text.get(1..end).filter(|_| text.as_bytes()[end] == b'>')?;
    let is_mail = inner.split_once('@').is_some_and(|(name, host)| {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
        !name.is_empty() && !host.is_empty() && name.chars().chain(host.chars()).all(is_valid)
    });
    let address = if is_mail { format!("mailto:{inner}") } else { inner.to_string() };
    is_safe(&address).then_some((inner, address, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_and_mail_addresses_are_safe() {
        for address in ["https://example.com", "HTTP://x", "mailto:a@b.example"] {
            assert!(is_safe(address), "{address}");
        }
        for address in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "data:text/html,x",
            "vbscript:run",
            "file:///etc/passwd",
            "https://",
            "//example.com",
            "java\tscript:alert(1)",
            " https://example.com",
            "https://a b",
            "https://a\u{1b}",
            "httpsx://a",
            "é://a",
            "",
        ] {
            assert!(!is_safe(address), "{address}");
        }
        assert!(!is_safe(&format!("https://{}", "x".repeat(MAX_ADDRESS))));
    }

    #[test]
    fn targets_end_at_their_parenthesis() {
        for (text, address, rest) in [
            ("(https://a) b", "https://a", " b"),
            ("( <a b> )c", "a b", "c"),
            ("(a(b)c)d", "a(b)c", "d"),
            ("(a \"t)\")e", "a", "e"),
            ("(a 't' )", "a", ""),
            ("(a (t))", "a", ""),
            (r"(a\))b", "a)", "b"),
            ("(a?b&amp;c)", "a?b&c", ""),
            ("()", "", ""),
        ] {
            let (found, len) = read_target(text).unwrap();
            assert_eq!((found.as_str(), &text[len..]), (address, rest), "{text}");
        }
        for text in ["(a", "(a b)", "((a)", "(a \"t)", "x", "(<a\n>)"] {
            assert_eq!(read_target(text), None, "{text}");
        }
    }

    #[test]
    fn references_are_characters() {
        for (text, expected) in [
            ("&amp;x", Some(('&', 5))),
            ("&#9;", Some(('\t', 4))),
            ("&#x2713;", Some(('✓', 8))),
            ("&#X41;", Some(('A', 6))),
            ("&#0;", None),
            ("&#xd800;", None),
            ("&#x+1;", None),
            ("&unknown;", None),
            ("&amp", None),
            ("&é;", None),
        ] {
            assert_eq!(read_reference(text), expected, "{text}");
        }
    }

    #[test]
    fn sentences_end_addresses() {
        for (text, address) in [
            ("https://a.example/b.", "https://a.example/b"),
            ("https://a.example/b), and", "https://a.example/b"),
            ("https://a.example/b_(c)", "https://a.example/b_(c)"),
            ("https://a.example**", "https://a.example"),
            ("http://a|b", "http://a"),
        ] {
            assert_eq!(bare_address_len(text).map(|len| &text[..len]), Some(address), "{text}");
        }
        assert_eq!((bare_address_len("https://"), bare_address_len("help")), (None, None));
    }

    #[test]
    fn brackets_hold_addresses() {
        let address = |text| read_bracketed(text).map(|(_, address, _)| address);
        assert_eq!(address("<https://a> b").as_deref(), Some("https://a"));
        assert_eq!(address("<me@a.example>").as_deref(), Some("mailto:me@a.example"));
        for text in ["<javascript:alert(1)>", "<div>", "<https://a b>", "<", "<@>", "<a@b c>"] {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
