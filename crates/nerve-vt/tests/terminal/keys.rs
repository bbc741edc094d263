//! Keys, pastes and escapes.

use nerve_vt::keys::{Code, Key, paste, unescape};
use nerve_vt::screen::{Modes, MouseEncoding};
use proptest::prelude::*;

const BRACKETED: Modes = Modes { bracketed_paste: true, ..PLAIN };
const PLAIN: Modes = Modes {
    alternate: false,
    bracketed_paste: false,
    application_cursor: false,
    application_keypad: false,
    focus_events: false,
    mouse: None,
    mouse_encoding: MouseEncoding::Bytes,
    alternate_scroll: false,
    kitty_keyboard: 0,
};

fn bytes(name: &str) -> Vec<u8> {
    name.parse::<Key>().unwrap().bytes(PLAIN)
}

#[test]
fn key_names_give_bytes() {
    for (name, expected) in [
        ("enter", "\r"),
        ("Return", "\r"),
        ("esc", "\x1b"),
        ("tab", "\t"),
        ("S-tab", "\x1b[Z"),
        ("backspace", "\x7f"),
        ("up", "\x1b[A"),
        ("end", "\x1b[F"),
        ("pgdn", "\x1b[6~"),
        ("f1", "\x1bOP"),
        ("F5", "\x1b[15~"),
        ("f12", "\x1b[24~"),
        ("f20", "\x1b[34~"),
        ("C-c", "\x03"),
        ("ctrl+C", "\x03"),
        ("^d", "\x04"),
        ("C-space", "\0"),
        ("C-[", "\x1b"),
        ("C-_", "\x1f"),
        ("M-x", "\x1bx"),
        ("S-x", "X"),
        ("M-S-x", "\x1bX"),
        ("alt+enter", "\x1b\r"),
        ("a", "a"),
        ("f", "f"),
        ("^", "^"),
        ("é", "é"),
        ("space", " "),
    ] {
        assert_eq!(bytes(name), expected.as_bytes(), "{name}");
    }
    for bad in ["", "f0", "f21", "ctrl+", "ctrl+xyz", "entr", "C-é", "hyper+x"] {
        let error = bad.parse::<Key>().unwrap_err().to_string();
        assert!(error.contains("unknown key"), "{error}");
    }
}

#[test]
fn cursor_keys_follow_the_mode() {
    let application = Modes { application_cursor: true, ..PLAIN };
    assert_eq!(Key::plain(Code::Up).bytes(application), b"\x1bOA");
    assert_eq!(Key::plain(Code::Home).bytes(application), b"\x1bOH");
    assert_eq!(Key::plain(Code::Delete).bytes(application), b"\x1b[3~");
}

#[test]
fn line_ends_of_a_paste() {
    assert_eq!(paste("a\r\nb\nc\rd\te", PLAIN), b"a\rb\rc\rd\te");
    assert_eq!(paste("a\r\nb\nc\rd\te", BRACKETED), b"\x1b[200~a\nb\nc\nd\te\x1b[201~");
}

#[test]
fn paste_cannot_end_itself() {
    let hostile = "x\x1b[201~rm -rf\x03\u{9b}201~\x00y";
    assert_eq!(paste(hostile, BRACKETED), b"\x1b[200~x[201~rm -rf201~y\x1b[201~");
    assert_eq!(paste(hostile, PLAIN), b"x[201~rm -rf201~y");
}

proptest! {
    #[test]
    fn paste_contains_no_escape(text in any::<String>()) {
        let bracketed = paste(&text, BRACKETED);
        let inner = &bracketed[6..bracketed.len() - 6];
        let inner = std::str::from_utf8(inner).unwrap();
        prop_assert!(inner.chars().all(|c| c == '\t' || c == '\n' || !c.is_control()));
    }

    #[test]
    fn names_never_panic(name in any::<String>()) {
        if let Ok(key) = name.parse::<Key>() {
            key.bytes(PLAIN);
        }
        let _ = unescape(&name);
    }
}

#[test]
fn escapes_are_decoded() {
    assert_eq!(
        unescape(r"a\r\n\t\e[31m\\ \x7f\xff\u{e9}\0é").unwrap(),
        b"a\r\n\t\x1b[31m\\ \x7f\xff\xc3\xa9\0\xc3\xa9"
    );
    assert_eq!(unescape("plain").unwrap(), b"plain");
    for (bad, position) in [
        (r"ab\", 2),
        (r"é\q", 2),
        (r"\x1", 0),
        (r"\n\x1g", 2),
        (r"\u{110000}", 0),
        (r"\u41", 0),
        (r"\u{}", 0),
    ] {
        let error = unescape(bad).unwrap_err();
        assert_eq!(error.position, position, "{bad}: {error}");
        assert!(error.to_string().contains(&format!("at byte {position}")));
    }
}
