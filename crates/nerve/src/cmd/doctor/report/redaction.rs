//! Removes secrets and texts from a report.

/// Beginnings of access keys of well-known services.
const KEY_PREFIXES: [&str; 10] =
    ["sk-", "sk_", "ghp_", "gho_", "ghs_", "github_pat_", "xox", "AKIA", "AIza", "eyJ"];
/// Parts of the names of variables, options and fields with secrets.
const SECRET_NAMES: [&str; 6] = ["key", "token", "secret", "password", "passwd", "credential"];
/// Minimum length of a value of the environment that is removed.
const MIN_SECRET: usize = 8;
const REDACTED: &str = "[redacted]";

/// Removes the home folder, the values of secret variables, and what looks like an access key.
#[derive(Debug)]
pub(super) struct Redaction {
    home: Option<String>,
    /// Secret values, longest first: one may contain another.
    secrets: Vec<String>,
}

impl Redaction {
    /// Creates the redaction of an environment.
    pub(super) fn new(environment: impl Iterator<Item = (String, String)>) -> Redaction {
        let (mut home, mut secrets) = (None, Vec::new());
        for (name, value) in environment {
            if name == "HOME" && value.len() > 1 {
                home = Some(value);
            } else if is_secret_name(&name) && value.len() >= MIN_SECRET {
                secrets.push(value);
            }
        }
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Redaction { home, secrets }
    }

    /// Returns the text without secrets.
    pub(super) fn apply(&self, text: &str) -> String {
        let mut text =
            self.secrets.iter().fold(text.to_string(), |text, secret| text.replace(secret, REDACTED));
        if let Some(home) = &self.home {
            text = text.replace(home, "~");
        }
        let mut redacted = String::with_capacity(text.len());
        let mut is_value = false;
        for piece in text.split_inclusive(|c: char| c.is_whitespace() || "\"'`,;=:()[]{}<>".contains(c)) {
            let end =
                piece.trim_end_matches(|c: char| c.is_whitespace() || "\"'`,;=:()[]{}<>".contains(c)).len();
            let (word, after) = piece.split_at(end);
            let is_key = word.len() >= 16 && KEY_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
            redacted.push_str(if is_key || (is_value && !word.is_empty()) { REDACTED } else { word });
            redacted.push_str(after);
            // The value of `NAME=value`, `"name": "value"` or `--name=value`; quotes and blanks may precede it.
            is_value = match word.is_empty() {
                true => is_value && !after.contains([',', ';', '\n']),
                false => is_secret_name(word) && after.contains(['=', ':', '"']),
            };
        }
        redacted
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.ends_with(secret) || name.ends_with(&format!("{secret}s")))
}

/// Replaces letters and digits by others of the same kind and width, but not those of escape sequences.
pub(super) fn mask(text: &str) -> String {
    let mut state = Escape::None;
    text.chars()
        .map(|c| {
            let (next, is_text) = state.advance(c);
            state = next;
            match is_text {
                true => mask_letter(c),
                false => c,
            }
        })
        .collect()
}

fn mask_letter(c: char) -> char {
    match c {
        _ if c.is_ascii_digit() => '0',
        _ if c.is_ascii_uppercase() => 'X',
        _ if c.is_ascii_lowercase() => 'x',
        // Box drawing, arrows and other signs are the shape. Han, Hangul and kana are wide, other letters narrow.
        _ if !c.is_alphanumeric() => c,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{20000}'..='\u{3fffd}' => '\u{4e00}',
        _ => 'x',
    }
}

/// Position in an escape sequence (ECMA-48).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    /// After ESC.
    Start,
    /// In the parameters of a control sequence.
    Control,
    /// In the number at the beginning of a control string, such as OSC 0.
    StringNumber,
    /// In a control string, whose letters are a title or another text.
    String,
    /// After ESC in a control string.
    StringEnd,
}

impl Escape {
    /// Returns the position after a character, and whether the character is text.
    fn advance(self, c: char) -> (Escape, bool) {
        match (self, c) {
            (Escape::String | Escape::StringNumber, '\x1b') => (Escape::StringEnd, false),
            (_, '\x1b') => (Escape::Start, false),
            (Escape::None, _) => (Escape::None, true),
            (Escape::Start, '[') => (Escape::Control, false),
            (Escape::Start, ']' | 'P' | '_' | '^' | 'X') => (Escape::StringNumber, false),
            (Escape::Start, ' '..='/') => (Escape::Start, false),
            (Escape::Start | Escape::StringEnd, _) => (Escape::None, false),
            (Escape::Control, ' '..='?') => (Escape::Control, false),
            (Escape::Control, '@'..='~') => (Escape::None, false),
            (Escape::Control, _) => (Escape::None, true),
            (Escape::String | Escape::StringNumber, '\x07' | '\u{9c}') => (Escape::None, false),
            (Escape::StringNumber, '0'..='9') => (Escape::StringNumber, false),
            (Escape::StringNumber | Escape::String, _) => (Escape::String, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redact(text: &str) -> String {
        let environment = [("HOME", "/home/me"), ("MY_API_KEY", "hunter2hunter2"), ("LANG", "C.UTF-8-long")];
        Redaction::new(environment.iter().map(|(name, value)| (name.to_string(), value.to_string())))
            .apply(text)
    }

    #[test]
    fn secrets_and_home_are_removed() {
        for (text, expected) in [
            ("in /home/me/project", "in ~/project"),
            ("say hunter2hunter2!", "say [redacted]!"),
            ("--api-key=abc --model=m", "--api-key=[redacted] --model=m"),
            (r#"{"token": "abc", "model": "m"}"#, r#"{"token": "[redacted]", "model": "m"}"#),
            ("OPENAI_API_KEY=abc codex", "OPENAI_API_KEY=[redacted] codex"),
            ("key sk-ant-0123456789abcdef end", "key [redacted] end"),
            ("LANG=C.UTF-8-long and 92,673 tokens", "LANG=C.UTF-8-long and 92,673 tokens"),
        ] {
            assert_eq!(redact(text), expected);
        }
    }

    #[test]
    fn masked_text_keeps_its_shape() {
        assert_eq!(mask("● Fix 12 bugs in\r\n│ ä 漢字 │"), "● Xxx 00 xxxx xx\r\n│ x \u{4e00}\u{4e00} │");
    }

    #[test]
    fn masked_text_keeps_escape_sequences() {
        for (text, expected) in [
            ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mxxx\x1b[0m"),
            ("\x1b]0;My title\x07a", "\x1b]0;Xx xxxxx\x07x"),
            ("\x1b]8;;http://host\x1b\\link", "\x1b]8;;xxxx://xxxx\x1b\\xxxx"),
            ("\x1b(B\x1b7a", "\x1b(B\x1b7x"),
            ("\x1b[?2004hb", "\x1b[?2004hx"),
        ] {
            assert_eq!(mask(text), expected, "{text:?}");
        }
    }
}
