//! A line of a history as read back. Files of older and newer versions are readable: any JSON object is an entry, and
//! unknown operations and fields are preserved.

use nerve_types::HistoryOp;
use serde_json::Value;

/// Largest valid sequence number. JSON readers would round larger ones.
const MAX_SEQ: u64 = (1 << 53) - 1;

/// One entry as stored in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEntry {
    /// Line number from 1, including blank and malformed lines; `None` if the file was read backwards.
    pub line_no: Option<u64>,
    /// File offset of the line.
    pub offset: u64,
    /// The line, a JSON object. Invalid UTF-8 and lone surrogates are replaced by U+FFFD.
    pub text: String,
    /// The parsed object.
    pub value: Value,
}

/// The result of parsing a line.
pub(super) enum ParsedLine {
    Blank,
    Malformed(String),
    Entry(StoredEntry),
}

impl StoredEntry {
    /// Returns the sequence number, if valid.
    pub fn seq(&self) -> Option<u64> {
        self.value.get("seq")?.as_u64().filter(|&seq| seq <= MAX_SEQ)
    }

    /// Returns the operation; empty if missing.
    pub fn op(&self) -> &str {
        self.value.get("op").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns true for an operation that sends input to the node.
    pub fn is_input(&self) -> bool {
        self.op().parse().is_ok_and(HistoryOp::is_input)
    }

    /// Parses a line. Accepts CRLF and a byte order mark at the start of the file.
    pub(super) fn read(bytes: &[u8], offset: u64) -> ParsedLine {
        let bytes = if offset == 0 { bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes) } else { bytes };
        let bytes = bytes.trim_ascii();
        if bytes.is_empty() {
            return ParsedLine::Blank;
        }
        if bytes[0] != b'{' {
            return ParsedLine::Malformed("not a JSON object".to_string());
        }
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        let parsed = serde_json::from_str(&text).or_else(|error| match mend_surrogates(&text) {
            Some(mended) => {
                text = mended;
                serde_json::from_str(&text)
            }
            None => Err(error),
        });
        match parsed {
            Ok(value) => ParsedLine::Entry(StoredEntry { line_no: None, offset, text, value }),
            Err(error) => ParsedLine::Malformed(error.to_string()),
        }
    }
}

/// Replaces lone surrogate escapes (`\ud800`–`\udfff`) by `\ufffd`; `None` if there are none. Python writes them for
/// invalid UTF-8, and JSON parsers reject them.
fn mend_surrogates(text: &str) -> Option<String> {
    let mut mended = String::with_capacity(text.len());
    let mut changed = false;
    let mut rest = text;
    while let Some(backslash) = rest.find('\\') {
        mended.push_str(&rest[..backslash]);
        rest = &rest[backslash..];
        let len = match unit(rest) {
            Some(0xd800..=0xdbff) if matches!(rest.get(6..).and_then(unit), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                changed = true;
                mended.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            Some(_) => 6,
            // An escape such as `\n` or `\\`, or the end of a truncated line.
            None => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        mended.push_str(&rest[..len]);
        rest = &rest[len..];
    }
    mended.push_str(rest);
    changed.then_some(mended)
}

/// Parses the UTF-16 unit of a leading `\uXXXX`.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{ParsedLine, StoredEntry, mend_surrogates};

    #[test]
    fn only_lone_surrogates_are_replaced() {
        let cases = [
            (r#"{"a": "\ud800"}"#, Some(r#"{"a": "\ufffd"}"#)),
            (r#"{"a": "x\udcffy\uD83D\uDE00"}"#, Some(r#"{"a": "x\ufffdy\uD83D\uDE00"}"#)),
            (r#"{"a": "\ud83dé"}"#, Some(r#"{"a": "\ufffdé"}"#)),
            (r#"{"a": "\\ud800 \u00e9 \n"}"#, None),
            (r#"{"a": "\ud83d\ude00"}"#, None),
            (r#"{"a": "\"#, None),
        ];
        for (text, mended) in cases {
            assert_eq!(mend_surrogates(text).as_deref(), mended, "{text}");
        }
    }

    #[test]
    fn non_objects_are_malformed() {
        for line in ["1", "[]", "null", "\"{}\"", "garbage", "{", "{\"seq\": 1", "{} {}", "{\"a\": 1e999}"] {
            assert!(matches!(StoredEntry::read(line.as_bytes(), 9), ParsedLine::Malformed(_)), "{line}");
        }
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(200), "]".repeat(200));
        assert!(matches!(StoredEntry::read(deep.as_bytes(), 9), ParsedLine::Malformed(_)));
    }

    #[test]
    fn invalid_numbers_are_no_seq() {
        for line in
            ["{\"seq\": -1}", "{\"seq\": 1.5}", "{\"seq\": \"7\"}", "{\"seq\": 18446744073709551615}", "{}"]
        {
            let ParsedLine::Entry(entry) = StoredEntry::read(line.as_bytes(), 9) else { panic!("{line}") };
            assert_eq!(entry.seq(), None, "{line}");
            assert_eq!(entry.op(), "");
        }
    }
}
