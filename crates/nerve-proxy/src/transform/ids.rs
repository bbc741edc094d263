//! Translates ids of tool calls. Anthropic's consist of `A-Z a-z 0-9 _ -`; other vendors use anything, like
//! `functions.Bash:0`.

use nerve_types::text::hex;

const PLAIN: &str = "toolu_oai_";
const HEX: &str = "toolu_hex_";

/// Encodes an OpenAI id for Anthropic; [`to_openai`] reverses this. A missing id is replaced by `fallback`, which both
/// sides then use.
pub(super) fn to_anthropic(id: &str, fallback: &str) -> String {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
    if id.is_empty() {
        format!("toolu_gen_{fallback}")
    } else if id.bytes().all(is_plain) {
        format!("{PLAIN}{id}")
    } else {
        format!("{HEX}{}", hex(id.as_bytes()))
    }
}

/// Decodes an id for OpenAI. An id from a conversation with another vendor stays unchanged.
pub(super) fn to_openai(id: &str) -> String {
    if let Some(plain) = id.strip_prefix(PLAIN) {
        return plain.to_string();
    }
    id.strip_prefix(HEX).and_then(from_hex).unwrap_or_else(|| id.to_string())
}

fn from_hex(hex: &str) -> Option<String> {
    if !hex.len().is_multiple_of(2) {
        return None;
    }
    let byte = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    String::from_utf8(bytes?).ok()
}

/// Returns the characters of an id that are valid in another one.
pub(super) fn stem(id: &str) -> String {
    id.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip() {
        for id in ["call_abc123", "functions.Bash:0", "chatcmpl-tool-1", "ä b", "0", "toolu_01A"] {
            let there = to_anthropic(id, "x");
            assert!(there.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-')), "{there}");
            assert_eq!(to_openai(&there), id);
        }
        assert_eq!(to_openai(&to_anthropic("", "c1_0")), "toolu_gen_c1_0");
        for foreign in ["toolu_01AbC", "toolu_hex_zz", "toolu_hex_f", "toolu_hex_ff", "x"] {
            assert_eq!(to_openai(foreign), foreign);
        }
    }
}
