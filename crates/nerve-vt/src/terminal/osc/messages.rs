//! Parses messages to the terminal's user: notifications and clipboard texts.

use super::args::join_text;
use crate::terminal::alert::{Clipboard, Notification, Selections};

/// Allowed keys of OSC 99: identifier, done, encoding, application name, icon name, occasion, payload, sound, type,
/// urgency, expiry.
const KEYS: [&str; 11] = ["i", "d", "e", "f", "n", "o", "p", "s", "t", "u", "w"];

/// Parses OSC 52, a clipboard text: `selections ; Base64`. Requests to read the clipboard are ignored.
pub(super) fn parse_osc52(args: &[&[u8]]) -> Option<Clipboard> {
    let [selections, data] = args else { return None };
    // Cut buffers and the secondary selection exist only on X11.
    let has = |names: &[u8]| selections.iter().any(|name| names.contains(name));
    let to = match (selections.is_empty() || has(b"c"), has(b"ps")) {
        (true, true) => Selections::Both,
        (true, false) => Selections::Clipboard,
        (false, true) => Selections::Primary,
        (false, false) => return None,
    };
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let base64 = std::str::from_utf8(data).ok().filter(|_| data.iter().all(is_base64))?;
    Some(Clipboard { to, base64: base64.to_string() })
}

/// Parses OSC 9 as a text. Numbers are ConEmu commands.
pub(super) fn parse_osc9(args: &[&[u8]]) -> Option<Notification> {
    let text = join_text(args);
    // Checks the sanitized text: control characters between digits have been removed.
    let is_command = text.split(';').next()?.bytes().all(|byte| byte.is_ascii_digit());
    (!is_command).then_some(Notification::Text(text))
}

/// Parses OSC 777: `notify ; title ; text`. Other commands belong to other extensions.
pub(super) fn parse_osc777(args: &[&[u8]]) -> Option<Notification> {
    let [b"notify", title, body @ ..] = args else { return None };
    Some(Notification::Titled { title: join_text(&[title]), body: join_text(body) })
}

/// Parses OSC 99: `metadata ; payload`. Drops queries and keys that request a reply, because no replies are sent.
pub(super) fn parse_osc99(args: &[&[u8]]) -> Option<Notification> {
    let [metadata, payload @ ..] = args else { return None };
    let metadata = join_text(&[metadata]);
    let pairs = || metadata.split(':').filter_map(|pair| pair.trim().split_once('='));
    if pairs().any(|(key, value)| key == "p" && !["title", "body", "close"].contains(&value)) {
        return None;
    }
    let allowed = pairs().filter(|(key, value)| KEYS.contains(key) && value.chars().all(is_of_value));
    let metadata: Vec<String> = allowed.map(|(key, value)| format!("{key}={value}")).collect();
    Some(Notification::Piece { metadata: metadata.join(":"), payload: join_text(payload) })
}

/// Returns true for a character allowed in values (kitty, "Desktop notifications").
fn is_of_value(char: char) -> bool {
    char.is_ascii_alphanumeric() || "-_/+.,(){}[]*&^%$#@!`~=".contains(char)
}
