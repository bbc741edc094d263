//! `nerve replay` in a terminal: the display, the keys, and the restored terminal.

use std::path::Path;

use nerve_record::ahr::Body;
use nerve_testkit::harness::resize;
use nerve_testkit::wait_until;
use nerve_types::Size;
use rustix::process::Signal;
use rustix::termios::{LocalModes, tcgetattr};

use crate::harness::Home;
use crate::recordings::{data, record};
use crate::tty::{LIMIT, Tty};

/// Writes a recording of a program that changes title, modes and screen: a second between its words, an hour before its end.
fn unruly(path: &Path) {
    let start =
        "\x1b]0;a title\x07\x1b[?2004h\x1b[?1000h\x1b[?1006h\x1b[>7u\x1b[?25l\x1b[?1049h\x1b[2J\x1b[H";
    let mut records = vec![(0, Body::Resize { cols: 40, rows: 6 }), (0, data(0, start))];
    let words: Vec<String> = (1..=20).map(|n| format!("word {n}\r\n")).collect();
    let mut off = start.len() as u64;
    for (nth, word) in (1..).zip(&words) {
        records.push((nth * 1000, data(off, word)));
        off += word.len() as u64;
    }
    records.push((3_600_000, data(off, "the end")));
    record(path, &records);
}

fn unruly_home() -> (Home, String) {
    let home = Home::new();
    let path = home.hermetic.work().join("unruly.ahr");
    unruly(&path);
    (home, path.to_str().unwrap().to_string())
}

const SIZE: Size = Size { cols: 40, rows: 6 };

#[test]
fn keys_pause_step_seek_and_quit() {
    let (home, path) = unruly_home();
    let mut tty = Tty::new(&home, SIZE, &["replay", &path, "--from", "2.5", "--speed", "0.01"]);
    tty.expect("word 2");
    assert!(!tcgetattr(&tty.slave).unwrap().local_modes.contains(LocalModes::ICANON), "keys are had at once");
    tty.send(" ");
    tty.expect("paused  0:02 / 1:00:00");
    tty.send(".");
    tty.expect("word 3");
    tty.send("\x1b[C");
    tty.expect("word 8");
    tty.expect("paused  0:08");
    tty.send("\x1bOD");
    tty.expect("paused  0:03");
    assert!(!tty.text().contains("word 8"));
    tty.send("x\x1b[A ");
    assert!(wait_until(LIMIT, || !tty.text().contains("paused")), "{}", tty.text());
    // Seeking back stops at the start.
    tty.send(" \x1b[D\x1b[D");
    tty.expect("paused  0:00");
    tty.send("q");
    assert_eq!(tty.wait_for_exit(), Some(0));
    assert!(!tty.text().contains("word"), "what was shown is gone: {}", tty.text());
}

#[test]
fn ctrl_c_and_signals_restore_the_terminal() {
    let (home, path) = unruly_home();
    let mut tty = Tty::new(&home, SIZE, &["replay", &path, "--from", "2.5"]);
    tty.expect("word 3");
    tty.send("\x03");
    assert_eq!(tty.wait_for_exit(), Some(130));
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut tty = Tty::new(&home, SIZE, &["replay", &path, "--from", "2.5"]);
        tty.expect("word 2");
        tty.signal(signal);
        assert_eq!(tty.wait_for_exit(), Some(code));
    }
}

#[test]
fn end_leaves_last_screen_visible() {
    let (home, path) = unruly_home();
    let mut tty = Tty::new(&home, SIZE, &["replay", &path, "--idle-limit", "0.01"]);
    assert_eq!(tty.wait_for_exit(), Some(0));
    tty.expect("word 20\nthe end");
}

#[test]
fn replay_paused_at_end_can_seek_back() {
    let (home, path) = unruly_home();
    let mut tty = Tty::new(&home, SIZE, &["replay", &path, "--from", "20.5"]);
    tty.expect("word 20");
    tty.send(".");
    tty.expect("the end");
    tty.send("\x1b[C");
    tty.expect("paused  1:00:05");
    tty.send("\x1b[D\x1b[D\x1b[D");
    assert!(wait_until(LIMIT, || !tty.text().contains("the end")), "{}", tty.text());
    tty.send("Q");
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn small_terminal_shows_what_fits() {
    let home = Home::new();
    let path = home.hermetic.work().join("wide.ahr");
    let text = "\x1b[31m0123456789abcdefghij\x1b[0m\r\n2\r\n3\r\n4\r\n5";
    record(
        &path,
        &[
            (0, Body::Resize { cols: 30, rows: 8 }),
            (0, data(0, text)),
            (9_000_000, data(text.len() as u64, "x")),
        ],
    );
    let path = path.to_str().unwrap();
    let mut tty = Tty::new(&home, Size::new(10, 4), &["replay", path]);
    tty.expect("2\n3\n4\n5");
    resize(&tty.keyboard, Size::new(20, 10)).unwrap();
    tty.terminal.lock().unwrap().resize(Size::new(20, 10));
    // The kernel signals only the foreground group of a controlling terminal, which this is not.
    tty.signal(Signal::WINCH);
    tty.expect("0123456789abcdefghij\n2\n3\n4\n5");
    let coloured = |tty: &Tty| !tty.terminal.lock().unwrap().screen().rows[0].runs.is_empty();
    assert!(coloured(&tty));
    tty.send("q");
    assert_eq!(tty.wait_for_exit(), Some(0));
    let plain = Tty::new(&home, Size::new(30, 8), &["replay", path, "--no-colors"]);
    plain.expect("0123456789abcdefghij");
    assert!(!coloured(&plain));
}

#[test]
fn final_state_is_coloured_on_a_terminal() {
    let home = Home::new();
    let path = home.hermetic.work().join("colour.ahr");
    record(&path, &[(0, data(0, "\x1b[32mgreen\x1b[0m"))]);
    let path = path.to_str().unwrap();
    for (args, coloured) in [(vec![], true), (vec!["--no-colors"], false)] {
        let args: Vec<&str> = ["replay", path, "--fast"].into_iter().chain(args).collect();
        let mut tty = Tty::new(&home, SIZE, &args);
        assert_eq!(tty.wait_for_exit(), Some(0));
        tty.expect("green");
        assert_eq!(!tty.terminal.lock().unwrap().screen().rows[0].runs.is_empty(), coloured, "{args:?}");
    }
}
