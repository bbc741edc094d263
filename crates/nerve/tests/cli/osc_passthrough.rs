//! OSC sequences of a program in the viewer: links, underlines, clipboard texts, notifications.

use std::fs;

use nerve_record::ahr::Body;
use nerve_testkit::wait_until;
use nerve_types::Size;
use nerve_vt::screen::Underline;

use crate::harness::Home;
use crate::recordings::record;
use crate::tty::{LIMIT, Tty};

const SIZE: Size = Size { cols: 70, rows: 12 };
/// The prefix, as terminals with the kitty keyboard protocol send it.
const PREFIX: &str = "\x1b[93;5u";
/// Prints all sequences and a number for each line of input.
const OSC_SCRIPT: &str = r#"stty -echo; echo up; while read n; do
printf '\033]8;id=7;https://example.org/\033\\a link\033]8;;\033\\ and \033[4:3;58;5;9mcurls\033[m\r\n'
printf '\033]52;c;aGVsbG8=\007\033]52;c;?\007\033]9;it is done\007\033]777;notify;T;b\007\033]9;4;1;42\007\007'
echo "said $n"; done"#;
const COPIED: &str = "\x1b]52;c;aGVsbG8=\x1b\\";
const LINK: &str = "\x1b]8;id=7;https://example.org/\x1b\\a link\x1b]8;;\x1b\\";

fn output(tty: &Tty) -> String {
    String::from_utf8_lossy(&tty.output.lock().unwrap()).into_owned()
}

/// Waits for this output.
#[track_caller]
fn expect_output(tty: &Tty, words: &str) {
    assert!(wait_until(LIMIT, || output(tty).contains(words)), "no {words:?} in {:?}", output(tty));
}

#[test]
fn osc_sequences_reach_the_outer_terminal() {
    let home = Home::new();
    let mut tty = Tty::new(&home, SIZE, &["record", "--", "sh", "-c", OSC_SCRIPT]);
    tty.expect("up");
    tty.send("1\r");
    tty.expect("said 1");
    for words in
        [COPIED, LINK, "\x1b]9;it is done\x1b\\", "\x1b]777;notify;T;b\x1b\\", "\x1b]9;4;1;42\x1b\\", "\x07"]
    {
        expect_output(&tty, words);
    }
    assert!(!output(&tty).contains("52;c;?"), "{:?}", output(&tty));
    let form = || {
        let shown = tty.terminal.lock().unwrap().screen();
        let row = shown.rows.iter().find(|row| row.text.starts_with("a link and curls"))?;
        let decorations: Vec<_> = row.decorations.iter().map(|d| (d.start, d.len, d.underline)).collect();
        Some((decorations, row.links[0].uri.clone()))
    };
    let wanted =
        (vec![(0, 6, Underline::None), (11, 5, Underline::Curl)], "https://example.org/".to_string());
    assert_eq!(form(), Some(wanted));
    // When the program ends, its state is reset in the outer terminal.
    tty.send("\x04");
    assert_eq!(tty.wait_for_exit(), Some(0));
    let all = output(&tty);
    let (_, end) = all.rsplit_once("\x1b]9;4;0\x1b\\").unwrap();
    assert!(end.starts_with("\x1b]8;;\x1b\\"), "{end:?}");
}

#[test]
fn osc_sequences_of_short_program_are_passed_on() {
    let home = Home::new();
    let script = r"printf '\033]52;c;aGVsbG8=\007\033]9;it is done\007\007'";
    let mut tty = Tty::new(&home, SIZE, &["record", "--", "sh", "-c", script]);
    assert_eq!(tty.wait_for_exit(), Some(0));
    let all = output(&tty);
    let (viewer, _) = all.split_once("\x1b[?1049l").unwrap();
    assert!(viewer.contains(COPIED) && viewer.contains("\x07\x1b]9;it is done\x1b\\"), "{all:?}");
}

#[test]
fn read_only_or_configured_viewer_keeps_clipboard() {
    let home = Home::with_shell();
    let settings = "[agent.record]\nclipboard = false\n";
    let config = home.ok(&["config", "path"]);
    let config = std::path::Path::new(config.trim());
    home.ok(&[
        "server",
        "node",
        "create",
        "says",
        "-c",
        &format!("sh -c '{}'", OSC_SCRIPT.replace('\'', "'\\''")),
    ]);
    let mut read_only = Tty::new(&home, SIZE, &["attach", "says", "--read-only"]);
    read_only.expect("up");
    let mut interactive = Tty::new(&home, SIZE, &["attach", "says"]);
    interactive.expect("up");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(config, settings).unwrap();
    let mut configured = Tty::new(&home, SIZE, &["attach", "says"]);
    configured.expect("up");
    interactive.send("1\r");
    for tty in [&read_only, &interactive, &configured] {
        tty.expect("said 1");
        expect_output(tty, "\x1b]9;it is done\x1b\\");
        expect_output(tty, LINK);
    }
    expect_output(&interactive, COPIED);
    // A late viewer shows earlier output without repeating its sequences, except the progress.
    let mut late = Tty::new(&home, SIZE, &["attach", "says"]);
    late.expect("said 1");
    expect_output(&late, "\x1b]9;4;1;42\x1b\\");
    for tty in [&mut read_only, &mut interactive, &mut configured, &mut late] {
        tty.send(&format!("{PREFIX}d"));
        assert_eq!(tty.wait_for_exit(), Some(0));
    }
    for (tty, has_copied) in [(&read_only, false), (&interactive, true), (&configured, false), (&late, false)]
    {
        assert_eq!(output(tty).contains("\x1b]52;"), has_copied, "{:?}", output(tty));
    }
    assert!(!output(&late).contains("it is done"), "{:?}", output(&late));
}

#[test]
fn too_long_clipboard_text_is_reported() {
    let home = Home::new();
    let copies = r"stty -echo; echo up; read n; printf '\033]52;c;'; head -c 120000 /dev/zero | tr '\0' a; printf '\007'; echo copied; read n";
    let mut tty = Tty::new(&home, Size::new(100, 12), &["record", "--", "sh", "-c", copies]);
    tty.expect("up");
    tty.send("\r");
    tty.expect("has copied 90 kB");
    tty.send("\r");
    assert_eq!(tty.wait_for_exit(), Some(0));
    assert!(!output(&tty).contains("\x1b]52;"));
}

#[test]
fn recording_shows_links_and_sends_no_osc() {
    let home = Home::new();
    let path = home.hermetic.work().join("said.ahr");
    let text = "\x1b]8;id=7;https://example.org/\x1b\\a link\x1b]8;;\x1b\\ \x1b[4:2mtwice\x1b[m\r\n\
                \x1b]52;c;aGVsbG8=\x07\x1b]9;it is done\x07\x1b]9;4;1;42\x07\x07";
    let data = Body::Data { off: 0, bytes: text.as_bytes() };
    record(&path, &[(0, Body::Resize { cols: 40, rows: 4 }), (1, data)]);
    let mut tty = Tty::new(&home, SIZE, &["view", "--task", path.to_str().unwrap()]);
    tty.expect("branch from the end");
    tty.send("\x1b");
    tty.expect("a link twice");
    expect_output(&tty, LINK);
    expect_output(&tty, "\x1b[4:2mtwice");
    tty.send("q");
    assert_eq!(tty.wait_for_exit(), Some(0));
    let all = output(&tty);
    assert!(!all.contains("\x1b]52;") && !all.contains("\x1b]9;") && !all.contains("52;c"), "{all:?}");
}
