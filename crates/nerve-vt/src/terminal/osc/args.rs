//! Arguments of operating system commands: texts, numbers and URLs.

use percent_encoding::percent_decode_str;

/// Maximum length of a text in characters.
const MAX_TEXT: usize = 4096;

/// Parses a decimal number.
pub(super) fn number(arg: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(arg).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Joins arguments at their semicolons and removes control characters.
pub(super) fn join_text(args: &[&[u8]]) -> String {
    let joined = args.join(&b';');
    String::from_utf8_lossy(&joined).chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect()
}

/// Returns the path of a `file:` URL, percent-decoded; other text unchanged.
pub(super) fn url_path(url: &str) -> String {
    let Some(rest) = url.strip_prefix("file://") else { return url.to_string() };
    let path = &rest[rest.find('/').unwrap_or(rest.len())..];
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}
