//! Asciicasts, and recordings imported from them.

use nerve_record::ahr::{Body, Mark};
use nerve_record::export::{CastOptions, CastVersion, cast};
use nerve_types::ExitStatus;

use crate::{data, reader, recording, resize, sample, snapshot};

fn to_cast(options: CastOptions, file: &[u8]) -> String {
    let mut out = Vec::new();
    cast(&mut reader(file), options, &mut out, |lost| panic!("{lost}")).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn version_2_has_absolute_times() {
    let options = CastOptions {
        command: Some("agent --run 'it now'".into()),
        title: Some("a title".into()),
        ..CastOptions::new(CastVersion::V2)
    };
    assert_eq!(
        to_cast(options, &sample()),
        r#"{"version":2,"width":80,"height":24,"timestamp":1710000000,"command":"agent --run 'it now'","title":"a title","env":{"TERM":"xterm-256color"}}
[0.010000, "o", "line one\r\nline two\r\n"]
[0.020000, "m", "first"]
[0.030000, "o", "progress  10%\rprogress  50%"]
[0.040000, "m", "mid ✓ м"]
[0.050000, "m", "mid|again"]
[0.060000, "o", "\rprogress 100%\r\n"]
[0.070000, "m", ""]
[0.080000, "o", "tail \"x\", y\r\n\r\n\r\n"]
"#
    );
}

#[test]
fn version_3_has_relative_times_and_exit_status() {
    let file = recording(&[
        (0, resize(80, 24)),
        (1500, data(0, "\x1b[1m$ ")),
        (1500, Body::Input { bytes: b"secret" }),
        (2000, resize(100, 30)),
        (1000, data(6, "the clock stepped back")),
        (2750, Body::Mark(Mark::Exit(ExitStatus::Signal(9)))),
    ]);
    assert_eq!(
        to_cast(CastOptions::new(CastVersion::V3), &file),
        r#"{"version":3,"term":{"cols":80,"rows":24,"type":"xterm-256color"},"timestamp":1710000000}
[1.500000, "o", "\u001b[1m$ "]
[0.500000, "r", "100x30"]
[0.000000, "o", "the clock stepped back"]
[0.750000, "x", "137"]
"#
    );
    let with_input = CastOptions { input: true, ..CastOptions::new(CastVersion::V2) };
    assert!(to_cast(with_input, &file).contains("[1.500000, \"i\", \"secret\"]\n"));
}

#[test]
fn split_characters_are_joined_and_bad_bytes_replaced() {
    let bytes = "a😀b".as_bytes();
    let file = recording(&[
        (0, Body::Data { off: 0, bytes: &bytes[..3] }),
        (5, snapshot(1, 3, "in a character")),
        (10, Body::Data { off: 3, bytes: &bytes[3..] }),
        (20, Body::Data { off: 6, bytes: b"\xff\xf0\x9f" }),
    ]);
    let text = to_cast(CastOptions::new(CastVersion::V2), &file);
    let events: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        events,
        [
            r#"[0.000000, "o", "a"]"#,
            r#"[0.005000, "m", "in a character"]"#,
            r#"[0.010000, "o", "😀b"]"#,
            "[0.020000, \"o\", \"\u{fffd}\"]",
            "[0.020000, \"o\", \"\u{fffd}\"]",
        ]
    );
}

#[test]
fn incomplete_character_is_not_joined_across_gap() {
    let file = recording(&[
        (0, Body::Data { off: 0, bytes: b"\xf0\x9f" }),
        (1, Body::Data { off: 100, bytes: b"\x98\x80x" }),
    ]);
    let text = to_cast(CastOptions::new(CastVersion::V2), &file);
    assert!(
        text.ends_with("[0.001000, \"o\", \"\u{fffd}\"]\n[0.001000, \"o\", \"\u{fffd}\u{fffd}x\"]\n"),
        "{text}"
    );
}

#[test]
fn empty_recording_becomes_header() {
    assert_eq!(
        to_cast(CastOptions::new(CastVersion::V3), b""),
        "{\"version\":3,\"term\":{\"cols\":120,\"rows\":40,\"type\":\"xterm-256color\"}}\n"
    );
}
