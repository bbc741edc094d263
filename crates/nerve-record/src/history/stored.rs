//! A line of a history, read back. Files of the first nerve and of later versions read too: whatever is a JSON object is an
//! entry, and unknown operations and fields stay as they are.

use serde_json::Value;

use super::INPUT_OPS;

/// The largest sequence number believed: more is not a count, and JSON readers would round it.
const MAX_SEQ: u64 = (1 << 53) - 1;

/// One entry as it stands in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEntry {
    /// The line's number, from 1, blank and malformed lines counted; `None` where the file was read from its end.
    pub line_no: Option<u64>,
    /// Bytes of the file before the line.
    pub offset: u64,
    /// The line: one JSON object. What was not UTF-8 or not Unicode in it is replaced by U+FFFD.
    pub text: String,
    /// The same, parsed.
    pub value: Value,
}

/// What a line turned out to be.
pub(super) enum ParsedLine {
    Blank,
    Malformed(String),
    Entry(StoredEntry),
}

impl StoredEntry {
    /// The sequence number, if the entry has one.
    pub fn seq(&self) -> Option<u64> {
        self.value.get("seq")?.as_u64().filter(|&seq| seq <= MAX_SEQ)
    }

    /// The operation; empty if the entry names none.
    pub fn op(&self) -> &str {
        self.value.get("op").and_then(Value::as_str).unwrap_or_default()
    }

    /// Is it one of [`INPUT_OPS`]?
    pub fn is_input(&self) -> bool {
        INPUT_OPS.contains(&self.op())
    }

    /// Reads a line. CRLF ends and a byte order mark at the start of the file are no part of it.
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

/// Replaces `\ud800`–`\udfff` escapes that are not half of a pair by `\ufffd`. Python writes them for bytes that were no UTF-8;
/// JSON parsers refuse them. `None` if there are none.
fn mend_surrogates(text: &str) -> Option<String> {
    let mut mended = String::with_capacity(text.len());
    let mut changed = false;
    let mut rest = text;
    while let Some(backslash) = rest.find('\\') {
        mended.push_str(&rest[..backslash]);
        rest = &rest[backslash..];
        let taken = match unit(rest) {
            Some(0xd800..=0xdbff) if matches!(rest.get(6..).and_then(unit), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                changed = true;
                mended.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            Some(_) => 6,
            // An escape like `\n` or `\\`, or the end of a broken line.
            None => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        mended.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    mended.push_str(rest);
    changed.then_some(mended)
}

/// The UTF-16 unit of the `\uXXXX` at the start of `text`.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{ParsedLine, StoredEntry, mend_surrogates};

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_stay() {
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
    fn what_is_not_an_object_is_malformed() {
        for line in ["1", "[]", "null", "\"{}\"", "garbage", "{", "{\"seq\": 1", "{} {}", "{\"a\": 1e999}"] {
            assert!(matches!(StoredEntry::read(line.as_bytes(), 9), ParsedLine::Malformed(_)), "{line}");
        }
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(200), "]".repeat(200));
        assert!(matches!(StoredEntry::read(deep.as_bytes(), 9), ParsedLine::Malformed(_)));
    }

    #[test]
    fn numbers_that_are_no_count_are_no_seq() {
        for line in
            ["{\"seq\": -1}", "{\"seq\": 1.5}", "{\"seq\": \"7\"}", "{\"seq\": 18446744073709551615}", "{}"]
        {
            let ParsedLine::Entry(entry) = StoredEntry::read(line.as_bytes(), 9) else { panic!("{line}") };
            assert_eq!(entry.seq(), None, "{line}");
            assert_eq!(entry.op(), "");
        }
    }
}
