//! User input and its encoding for the program.

use nerve_vt::keys::{Button, Code, Input, Key, Mouse, MouseAction, Wheel};
use nerve_vt::screen::{Modes, MouseEncoding, MouseTracking};
use proptest::prelude::*;

use crate::terminal_with;

/// Returns the modes after a program wrote this.
fn modes(written: &str) -> Modes {
    terminal_with(80, 24, written).modes()
}

#[track_caller]
fn typed(written: &str, name: &str) -> String {
    let key = Input::Key(name.parse().unwrap());
    String::from_utf8(key.bytes(modes(written))).unwrap()
}

fn mouse(action: MouseAction, col: u16, row: u16) -> Mouse {
    Mouse { action, col, row, ctrl: false, alt: false, shift: false }
}

#[track_caller]
fn encode(written: &str, mouse: Mouse) -> Vec<u8> {
    Input::Mouse(mouse).bytes(modes(written))
}

// The mode sequences that programs write.
const DISAMBIGUATE: &str = "\x1b[>1u";
const ALTERNATES: &str = "\x1b[>5u";
const ALL_KEYS: &str = "\x1b[>9u";
const ALL_WITH_TEXT: &str = "\x1b[>29u";
const EVENT_TYPES: &str = "\x1b[>2u";

const PRESS: MouseAction = MouseAction::Press(Button::Left);
const RELEASE: MouseAction = MouseAction::Release(Button::Right);
const DRAG: MouseAction = MouseAction::Move(Some(Button::Middle));
const MOVE: MouseAction = MouseAction::Move(None);

/// Tests no flags, each flag and all flags: the tables of the protocol's page.
#[test]
fn kitty_protocol_tables() {
    //         key            none           1              2              1+4               1+8             1+4+8+16
    #[rustfmt::skip]
    let table = [
        ("a",             ["a",           "a",           "a",           "a",              "\x1b[97u",     "\x1b[97;;97u"]),
        ("A",             ["A",           "A",           "A",           "A",              "\x1b[97;2u",   "\x1b[97:65;2;65u"]),
        ("shift+a",       ["A",           "A",           "A",           "A",              "\x1b[97;2u",   "\x1b[97:65;2;65u"]),
        ("é",             ["é",           "é",           "é",           "é",              "\x1b[233u",    "\x1b[233;;233u"]),
        ("space",         [" ",           " ",           " ",           " ",              "\x1b[32u",     "\x1b[32;;32u"]),
        ("$",             ["$",           "$",           "$",           "$",              "\x1b[36u",     "\x1b[36;;36u"]),
        ("ctrl+c",        ["\x03",        "\x1b[99;5u",  "\x03",        "\x1b[99;5u",     "\x1b[99;5u",   "\x1b[99;5u"]),
        ("ctrl+i",        ["\t",          "\x1b[105;5u", "\t",          "\x1b[105;5u",    "\x1b[105;5u",  "\x1b[105;5u"]),
        ("ctrl+shift+c",  ["\x03",        "\x1b[99;6u",  "\x03",        "\x1b[99:67;6u",  "\x1b[99;6u",   "\x1b[99:67;6u"]),
        ("alt+x",         ["\x1bx",       "\x1b[120;3u", "\x1bx",       "\x1b[120;3u",    "\x1b[120;3u",  "\x1b[120;3u"]),
        ("alt+[",         ["\x1b[",       "\x1b[91;3u",  "\x1b[",       "\x1b[91;3u",     "\x1b[91;3u",   "\x1b[91;3u"]),
        ("ctrl+alt+x",    ["\x1b\x18",    "\x1b[120;7u", "\x1b\x18",    "\x1b[120;7u",    "\x1b[120;7u",  "\x1b[120;7u"]),
        ("ctrl+space",    ["\0",          "\x1b[32;5u",  "\0",          "\x1b[32;5u",     "\x1b[32;5u",   "\x1b[32;5u"]),
        ("esc",           ["\x1b",        "\x1b[27u",    "\x1b",        "\x1b[27u",       "\x1b[27u",     "\x1b[27u"]),
        ("enter",         ["\r",          "\r",          "\r",          "\r",             "\x1b[13u",     "\x1b[13u"]),
        ("shift+enter",   ["\r",          "\x1b[13;2u",  "\x1b[13;2u",  "\x1b[13;2u",     "\x1b[13;2u",   "\x1b[13;2u"]),
        ("alt+enter",     ["\x1b\r",      "\x1b[13;3u",  "\x1b[13;3u",  "\x1b[13;3u",     "\x1b[13;3u",   "\x1b[13;3u"]),
        ("tab",           ["\t",          "\t",          "\t",          "\t",             "\x1b[9u",      "\x1b[9u"]),
        ("shift+tab",     ["\x1b[Z",      "\x1b[9;2u",   "\x1b[9;2u",   "\x1b[9;2u",      "\x1b[9;2u",    "\x1b[9;2u"]),
        ("backspace",     ["\x7f",        "\x7f",        "\x7f",        "\x7f",           "\x1b[127u",    "\x1b[127u"]),
        ("ctrl+backspace",["\x08",        "\x1b[127;5u", "\x1b[127;5u", "\x1b[127;5u",    "\x1b[127;5u",  "\x1b[127;5u"]),
        ("up",            ["\x1b[A",      "\x1b[A",      "\x1b[A",      "\x1b[A",         "\x1b[A",       "\x1b[A"]),
        ("ctrl+shift+up", ["\x1b[1;6A",   "\x1b[1;6A",   "\x1b[1;6A",   "\x1b[1;6A",      "\x1b[1;6A",    "\x1b[1;6A"]),
        ("home",          ["\x1b[H",      "\x1b[H",      "\x1b[H",      "\x1b[H",         "\x1b[H",       "\x1b[H"]),
        ("delete",        ["\x1b[3~",     "\x1b[3~",     "\x1b[3~",     "\x1b[3~",        "\x1b[3~",      "\x1b[3~"]),
        ("shift+pageup",  ["\x1b[5;2~",   "\x1b[5;2~",   "\x1b[5;2~",   "\x1b[5;2~",      "\x1b[5;2~",    "\x1b[5;2~"]),
        ("f1",            ["\x1bOP",      "\x1b[P",      "\x1b[P",      "\x1b[P",         "\x1b[P",       "\x1b[P"]),
        ("f3",            ["\x1bOR",      "\x1b[13~",    "\x1b[13~",    "\x1b[13~",       "\x1b[13~",     "\x1b[13~"]),
        ("ctrl+f5",       ["\x1b[15;5~",  "\x1b[15;5~",  "\x1b[15;5~",  "\x1b[15;5~",     "\x1b[15;5~",   "\x1b[15;5~"]),
        ("f12",           ["\x1b[24~",    "\x1b[24~",    "\x1b[24~",    "\x1b[24~",       "\x1b[24~",     "\x1b[24~"]),
        ("f13",           ["\x1b[25~",    "\x1b[57376u", "\x1b[57376u", "\x1b[57376u",    "\x1b[57376u",  "\x1b[57376u"]),
        ("f20",           ["\x1b[34~",    "\x1b[57383u", "\x1b[57383u", "\x1b[57383u",    "\x1b[57383u",  "\x1b[57383u"]),
    ];
    let flags = ["", DISAMBIGUATE, EVENT_TYPES, ALTERNATES, ALL_KEYS, ALL_WITH_TEXT];
    for (name, expected) in table {
        for (written, expected) in flags.into_iter().zip(expected) {
            assert_eq!(typed(written, name), expected, "{name} after {written:?}");
        }
    }
}

/// Application cursor keys apply to programs without the protocol.
#[test]
fn cursor_keys_in_both_modes() {
    assert_eq!(typed("\x1b[?1h", "up"), "\x1bOA");
    assert_eq!(typed("\x1b[?1h\x1b[>1u", "up"), "\x1b[A");
    assert_eq!(typed("\x1b[?1h\x1b[>4u", "up"), "\x1bOA");
}

/// Flags pushed on the alternate screen do not apply to the main screen.
#[test]
fn each_screen_has_its_own_flags() {
    assert_eq!(typed("\x1b[?1049h\x1b[>1u", "esc"), "\x1b[27u");
    assert_eq!(typed("\x1b[?1049h\x1b[>1u\x1b[?1049l", "esc"), "\x1b");
    assert_eq!(typed("\x1b[>1u\x1b[<u", "esc"), "\x1b");
}

#[test]
fn only_requested_mouse_events_are_reported() {
    let acts = [PRESS, RELEASE, MouseAction::Wheel(Wheel::Down), DRAG, MOVE];
    for (written, expected) in [
        ("", [false; 5]),
        ("\x1b[?1006h", [false; 5]),
        ("\x1b[?9h", [true, false, false, false, false]),
        ("\x1b[?1000h", [true, true, true, false, false]),
        ("\x1b[?1002h", [true, true, true, true, false]),
        ("\x1b[?1003h", [true; 5]),
        ("\x1b[?1003h\x1b[?1003l", [false; 5]),
    ] {
        for (act, expected) in acts.into_iter().zip(expected) {
            assert_eq!(!encode(written, mouse(act, 0, 0)).is_empty(), expected, "{act:?} after {written:?}");
        }
    }
}

#[test]
fn mouse_bytes_follow_encoding() {
    let wheel = MouseAction::Wheel(Wheel::Right);
    let (bytes, utf8, sgr, urxvt) = ("", "\x1b[?1005h", "\x1b[?1006h", "\x1b[?1015h");
    for (encoding, act, expected) in [
        (bytes, PRESS, "\x1b[M +%"),
        (bytes, RELEASE, "\x1b[M#+%"),
        (bytes, DRAG, "\x1b[MA+%"),
        (bytes, MOVE, "\x1b[MC+%"),
        (bytes, wheel, "\x1b[Mc+%"),
        (utf8, PRESS, "\x1b[M +%"),
        (sgr, PRESS, "\x1b[<0;11;5M"),
        (sgr, RELEASE, "\x1b[<2;11;5m"),
        (sgr, DRAG, "\x1b[<33;11;5M"),
        (sgr, MOVE, "\x1b[<35;11;5M"),
        (sgr, wheel, "\x1b[<67;11;5M"),
        (sgr, MouseAction::Wheel(Wheel::Up), "\x1b[<64;11;5M"),
        (urxvt, PRESS, "\x1b[32;11;5M"),
        (urxvt, RELEASE, "\x1b[35;11;5M"),
        (urxvt, MouseAction::Wheel(Wheel::Down), "\x1b[97;11;5M"),
    ] {
        let report = encode(&format!("\x1b[?1003h{encoding}"), mouse(act, 10, 4));
        assert_eq!(String::from_utf8(report).unwrap(), expected, "{act:?} in {encoding:?}");
    }
}

#[test]
fn mouse_modifiers_are_encoded() {
    let modified = |ctrl, alt, shift| Mouse { ctrl, alt, shift, ..mouse(PRESS, 0, 0) };
    for (mouse, code) in [
        (modified(false, false, true), 4),
        (modified(false, true, false), 8),
        (modified(true, true, true), 28),
    ] {
        assert_eq!(encode("\x1b[?1000h\x1b[?1006h", mouse), format!("\x1b[<{code};1;1M").into_bytes());
        assert_eq!(encode("\x1b[?1000h", mouse), [0x1b, b'[', b'M', 32 + code, 33, 33]);
        // X10's encoding has no modifiers.
        assert_eq!(encode("\x1b[?9h", mouse), b"\x1b[M !!");
    }
}

/// Beyond its last column an encoding reports nothing rather than a wrong position.
#[test]
fn mouse_encoding_limits() {
    let at = |col| mouse(PRESS, col, 0);
    assert_eq!(encode("\x1b[?1000h", at(222)), b"\x1b[M \xff!");
    assert_eq!(encode("\x1b[?1000h", at(223)), b"");
    assert_eq!(encode("\x1b[?1000h\x1b[?1005h", at(222)), "\x1b[M \u{ff}!".as_bytes());
    assert_eq!(encode("\x1b[?1000h\x1b[?1005h", at(2014)), "\x1b[M \u{7ff}!".as_bytes());
    assert_eq!(encode("\x1b[?1000h\x1b[?1005h", at(2015)), b"");
    assert_eq!(encode("\x1b[?1000h\x1b[?1006h", at(u16::MAX)), b"\x1b[<0;65536;1M");
}

/// A pager without mouse support is scrolled with cursor keys in its requested form; a shell is not.
#[test]
fn wheel_on_alternate_screen() {
    let (up, down) =
        (mouse(MouseAction::Wheel(Wheel::Up), 3, 3), mouse(MouseAction::Wheel(Wheel::Down), 3, 3));
    assert_eq!(encode("\x1b[?1049h", up), b"\x1b[A\x1b[A\x1b[A");
    assert_eq!(encode("\x1b[?1049h\x1b[?1h", down), b"\x1bOB\x1bOB\x1bOB");
    assert_eq!(encode("", up), b"");
    assert_eq!(encode("\x1b[?1049h\x1b[?1007l", up), b"");
    assert_eq!(encode("\x1b[?1049h\x1b[?1000h", up), b"\x1b[M`$$");
    assert_eq!(encode("\x1b[?1049h\x1b[?9h", up), b"");
    assert_eq!(encode("\x1b[?1049h", mouse(MouseAction::Wheel(Wheel::Left), 3, 3)), b"");
    assert_eq!(encode("\x1b[?1049h", mouse(PRESS, 3, 3)), b"");
}

#[test]
fn focus_and_pastes_follow_modes() {
    assert_eq!(Input::Focus(true).bytes(modes("")), b"");
    assert_eq!(Input::Focus(true).bytes(modes("\x1b[?1004h")), b"\x1b[I");
    assert_eq!(Input::Focus(false).bytes(modes("\x1b[?1004h")), b"\x1b[O");
    assert_eq!(Input::Paste("a\nb".into()).bytes(modes("")), b"a\rb");
    assert_eq!(Input::Paste("a\nb".into()).bytes(modes("\x1b[?2004h")), b"\x1b[200~a\nb\x1b[201~");
}

/// Decodes the keys sent to a program with unambiguous keys.
fn decode(bytes: &[u8]) -> Option<Key> {
    let text = std::str::from_utf8(bytes).ok()?;
    let Some(sequence) = text.strip_prefix("\x1b[") else {
        let mut chars = text.chars();
        let char = chars.next().filter(|_| chars.next().is_none())?;
        return Some(Key::plain(match char {
            '\r' => Code::Enter,
            '\t' => Code::Tab,
            '\x7f' => Code::Backspace,
            char => Code::Char(char),
        }));
    };
    let (last, parameters) = (sequence.chars().last()?, &sequence[..sequence.len() - 1]);
    let mut parameters = parameters.split(';');
    let number = parameters.next()?.split(':').next()?;
    let number: u32 = if number.is_empty() { 1 } else { number.parse().ok()? };
    let modifiers = match parameters.next() {
        None | Some("") => 0,
        Some(modifiers) => modifiers.parse::<u8>().ok()? - 1,
    };
    let code = match (last, number) {
        ('A', 1) => Code::Up,
        ('B', 1) => Code::Down,
        ('C', 1) => Code::Right,
        ('D', 1) => Code::Left,
        ('H', 1) => Code::Home,
        ('F', 1) => Code::End,
        ('P', 1) => Code::F(1),
        ('Q', 1) => Code::F(2),
        ('S', 1) => Code::F(4),
        ('~', 2) => Code::Insert,
        ('~', 3) => Code::Delete,
        ('~', 5) => Code::PageUp,
        ('~', 6) => Code::PageDown,
        ('~', 13) => Code::F(3),
        ('~', 15) => Code::F(5),
        ('~', 17..=21) => Code::F(number as u8 - 11),
        ('~', 23..=24) => Code::F(number as u8 - 12),
        ('u', 57376..=57383) => Code::F((number - 57376) as u8 + 13),
        ('u', 13) => Code::Enter,
        ('u', 9) => Code::Tab,
        ('u', 27) => Code::Esc,
        ('u', 127) => Code::Backspace,
        ('u', _) => Code::Char(char::from_u32(number)?),
        _ => return None,
    };
    Some(Key { code, shift: modifiers & 1 != 0, alt: modifiers & 2 != 0, ctrl: modifiers & 4 != 0 })
}

/// Normalizes a letter with Shift to upper case.
fn normalize_shift(key: Key) -> Key {
    let Code::Char(char) = key.code else { return key };
    let lower: Vec<char> = char.to_lowercase().collect();
    let back: Vec<char> = lower.iter().flat_map(|lower| lower.to_uppercase()).collect();
    match (lower.as_slice(), back.as_slice()) {
        ([lower], [back]) if *back == char && *lower != char => {
            Key { code: Code::Char(*lower), shift: true, ..key }
        }
        _ => key,
    }
}

fn any_key() -> impl Strategy<Value = Key> {
    use Code::{
        Backspace, Delete, Down, End, Enter, Esc, Home, Insert, Left, PageDown, PageUp, Right, Tab, Up,
    };
    let named =
        [Enter, Tab, Esc, Backspace, Up, Down, Left, Right, Home, End, PageUp, PageDown, Insert, Delete];
    let char = any::<char>().prop_filter("no key gives a control character", |char| !char.is_control());
    let code = prop_oneof![
        prop::sample::select(named.to_vec()),
        char.prop_map(Code::Char),
        prop::char::range(' ', '~').prop_map(Code::Char),
        (1u8..=20).prop_map(Code::F),
    ];
    (code, any::<[bool; 3]>()).prop_map(|(code, [ctrl, alt, shift])| Key { code, ctrl, alt, shift })
}

fn any_modes() -> impl Strategy<Value = Modes> {
    let tracking = prop::sample::select(vec![
        None,
        Some(MouseTracking::Presses),
        Some(MouseTracking::Buttons),
        Some(MouseTracking::Drags),
        Some(MouseTracking::Moves),
    ]);
    let encoding = prop::sample::select(vec![
        MouseEncoding::Bytes,
        MouseEncoding::Utf8,
        MouseEncoding::Sgr,
        MouseEncoding::Urxvt,
    ]);
    (any::<[bool; 6]>(), tracking, encoding, any::<u8>()).prop_map(
        |(on, mouse, mouse_encoding, kitty_keyboard)| Modes {
            alternate: on[0],
            bracketed_paste: on[1],
            application_cursor: on[2],
            application_keypad: on[3],
            focus_events: on[4],
            alternate_scroll: on[5],
            mouse,
            mouse_encoding,
            kitty_keyboard,
        },
    )
}

fn any_mouse() -> impl Strategy<Value = Mouse> {
    let button = || prop::sample::select(vec![Button::Left, Button::Middle, Button::Right]);
    let wheel = prop::sample::select(vec![Wheel::Up, Wheel::Down, Wheel::Left, Wheel::Right]);
    let action = prop_oneof![
        button().prop_map(MouseAction::Press),
        button().prop_map(MouseAction::Release),
        prop::option::of(button()).prop_map(MouseAction::Move),
        wheel.prop_map(MouseAction::Wheel),
    ];
    (action, any::<u16>(), any::<u16>(), any::<[bool; 3]>())
        .prop_map(|(action, col, row, [ctrl, alt, shift])| Mouse { action, col, row, ctrl, alt, shift })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// With the disambiguate flag, every key has a distinct encoding.
    #[test]
    fn unambiguous_keys_round_trip(key in any_key(), flags in any::<u8>(), application in any::<bool>()) {
        let modes = Modes { kitty_keyboard: flags & 31 | 1, application_cursor: application, ..Modes::default() };
        let bytes = Input::Key(key).bytes(modes);
        let mut expected = normalize_shift(key);
        if let Code::Char(char) = key.code && !key.ctrl && !key.alt && flags & 8 == 0 {
            // Text is sent as is: in upper case if that is a single character.
            let upper: Vec<char> = char.to_uppercase().collect();
            let text = if let ([upper], true) = (upper.as_slice(), key.shift) { *upper } else { char };
            expected = normalize_shift(Key::char(text));
        }
        prop_assert_eq!(decode(&bytes).map(normalize_shift), Some(expected), "{:?}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn every_key_has_an_encoding_in_any_mode(key in any_key(), modes in any_modes()) {
        prop_assert!(!Input::Key(key).bytes(modes).is_empty());
    }

    /// A report is one sequence with the position, or empty.
    #[test]
    fn mouse_report_contains_position(mouse in any_mouse(), modes in any_modes()) {
        let bytes = Input::Mouse(mouse).bytes(modes);
        let Some(_) = modes.mouse else {
            prop_assert!(bytes.is_empty() || modes.alternate && modes.alternate_scroll);
            return Ok(());
        };
        if bytes.is_empty() {
            return Ok(());
        }
        let place = match modes.mouse_encoding {
            MouseEncoding::Bytes => bytes[4..].iter().map(|byte| u32::from(*byte) - 33).collect::<Vec<_>>(),
            MouseEncoding::Utf8 => {
                std::str::from_utf8(&bytes).unwrap().chars().skip(4).map(|char| u32::from(char) - 33).collect()
            }
            MouseEncoding::Sgr | MouseEncoding::Urxvt => {
                let text = std::str::from_utf8(&bytes[..bytes.len() - 1]).unwrap();
                text.split(';').skip(1).map(|number| number.parse::<u32>().unwrap() - 1).collect()
            }
        };
        prop_assert_eq!(place, [u32::from(mouse.col), u32::from(mouse.row)]);
    }
}
