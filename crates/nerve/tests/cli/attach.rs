//! `nerve attach`: a program that runs, in a window of a real pseudo-terminal.

use std::time::Duration;

use nerve_term::event::Size;
use nerve_term::screen::Color;
use nerve_testkit::wait_until;
use rustix::process::Signal;

use crate::harness::{DEADLINE, Home};
use crate::panes::Tmux;
use crate::tty::{LIMIT, Seat, resize};

const SIZE: Size = Size { cols: 70, rows: 12 };
/// The prefix, as terminals with the kitty keyboard protocol send it.
const PREFIX: &str = "\x1b[93;5u";

fn attached(home: &Home, more: &[&str]) -> Seat {
    Seat::new(home, SIZE, &[&["attach", "sh"], more].concat())
}

/// The colour of the first letter of these words where they begin a row.
fn colour(seat: &Seat, words: &str) -> Option<Color> {
    let shown = seat.shown.lock().unwrap();
    let screen = shown.screen();
    let row = screen.rows.iter().find(|row| row.text.starts_with(words))?;
    Some(row.cells().next()?.style.fg)
}

#[test]
fn attach_shows_node_takes_input_and_reattaches() {
    let home = Home::with_shell();
    let mut seat = attached(&home, &[]);
    seat.sees("ready");
    seat.types("clear; printf '\\e[35mred\\e[0m and 世界e\\u0301|\\n'; printf '\\e]2;a title\\e\\\\'; echo $((20 + 3)) there\r");
    seat.sees("\n23 there");
    seat.sees("red and 世界e\u{301}|");
    assert_eq!(colour(&seat, "red and"), Some(Color::Indexed(5)), "{}", seat.text());
    assert!(wait_until(LIMIT, || seat.shown.lock().unwrap().title() == "a title"));
    let cursor = || seat.shown.lock().unwrap().screen().cursor;
    seat.types("世");
    assert!(wait_until(LIMIT, || (cursor().row, cursor().col) == (2, 4)), "{:?}: {}", cursor(), seat.text());
    seat.types("\x15");
    seat.sees("ready");
    seat.types(&format!("{PREFIX}d"));
    assert_eq!(seat.left(), Some(0));
    let mut again = attached(&home, &[]);
    again.sees("23 there");
    again.types("exit\r");
    assert_eq!(again.left(), Some(0));
}

#[test]
fn working_shell_without_prompt_marks_is_busy() {
    let home = Home::with_shell();
    home.ok(&["server", "node", "create", "plain", "-c", "sh"]);
    let mut seat = Seat::new(&home, SIZE, &["attach", "plain"]);
    seat.sees("ready");
    // A line is known to be entered if it was seen before: people type slower than the screen is looked at.
    seat.types("i=0; while :; do i=$((i+1)); echo $i; done");
    seat.sees("echo $i; done");
    std::thread::sleep(Duration::from_millis(500));
    seat.types("\r");
    seat.sees("busy");
    // Whoever types: the server's own node knows it too.
    assert!(wait_until(DEADLINE, || home.info("plain")["state"] == "busy"), "{}", home.info("plain"));
    seat.types("\x03");
    seat.sees("ready");
    assert!(wait_until(DEADLINE, || home.info("plain")["state"] == "ready"), "{}", home.info("plain"));
    seat.types(&format!("{PREFIX}b"));
    seat.sees("no branch was made here");
    seat.types(&format!("{PREFIX}d"));
    assert_eq!(seat.left(), Some(0));
}

#[test]
fn keys_pastes_focus_and_mouse_follow_program_modes() {
    let home = Home::with_shell();
    let mut seat = attached(&home, &["--gutter", "left"]);
    seat.sees("ready");
    seat.types(
        "stty -icanon -echo; printf '\\e[?2004h\\e[?1004h\\e[?1000h\\e[?1006h\\e[?1h\\e[Hon'; cat -v\r",
    );
    seat.sees(" on");
    let modes = || home.read("sh").contains("on");
    assert!(wait_until(DEADLINE, modes));
    seat.types("\x1b[A\x1b[1;5C\x1b[3~é");
    seat.sees("^[OA^[[1;5C^[[3~M-CM-)");
    seat.types("\x1b[200~two\nlines\x1b[201~");
    seat.sees("^[[200~two");
    seat.sees("lines^[[201~");
    seat.types("\x1b[O\x1b[I");
    seat.sees("^[[O^[[I");
    // The column of the gutter is not the program's.
    seat.types("\x1b[<0;9;3M\x1b[<0;9;3m\x1b[<64;2;2M");
    seat.sees("^[[<0;8;3M^[[<0;8;3m^[[<64;1;2M");
    seat.types("\x03");
    seat.sees("\n $");
    seat.types("printf '\\e[?2004l\\e[?1004l\\e[?1000l\\e[?1l'; stty sane; clear; echo sane\r");
    seat.sees("sane");
    seat.types(&format!("cat -v\r\x1b[A{PREFIX}{PREFIX}\r"));
    seat.sees("^[[A^]");
    seat.types(&format!("{PREFIX}d"));
    assert_eq!(seat.left(), Some(0));
}

#[test]
fn scrollback_can_be_scrolled_and_searched() {
    let home = Home::with_shell();
    let mut seat = attached(&home, &[]);
    seat.sees("ready");
    seat.types("seq -f 'row %g.' 1 300\r");
    seat.sees("row 300.\n");
    seat.types("\x1b[5;2~");
    seat.sees("row 285.");
    seat.types("/row 17\\.\r");
    seat.sees("row 17.");
    seat.sees("match 1 of 1");
    seat.types("g");
    seat.sees("\nrow 3.");
    seat.types("?row 20\r");
    seat.sees("row 20");
    // Keys are the program's again.
    seat.types("q");
    seat.sees("row 300.\n");
    seat.types("echo ba''ck\r");
    seat.sees("\nback");
    // By the wheel, and back at the end by it.
    seat.types("\x1b[<64;5;5M\x1b[<64;5;5M");
    seat.sees("row 29");
    assert!(wait_until(LIMIT, || !seat.text().contains("\nback")), "{}", seat.text());
    seat.types("\x1b[<65;5;5M\x1b[<65;5;5M\x1b[<65;5;5M");
    seat.sees("\nback");
    seat.types(&format!("{PREFIX}d"));
    assert_eq!(seat.left(), Some(0));
}

#[test]
fn prefix_opens_help_and_tools_and_stop_needs_confirmation() {
    let home = Home::with_shell();
    let mut seat = attached(&home, &[]);
    seat.sees("ready");
    seat.types(&format!("{PREFIX}?"));
    seat.sees("ctrl+]");
    seat.types("q");
    seat.sees("ready");
    seat.types(&format!("{PREFIX}t"));
    seat.sees("is listed when a turn ends");
    seat.types(&format!("{PREFIX}q"));
    seat.types("n");
    seat.types("echo st''ill\r");
    seat.sees("\nstill");
    seat.types(&format!("{PREFIX}q"));
    seat.types("y");
    assert_eq!(seat.left(), Some(0));
    assert!(wait_until(DEADLINE, || home.hosts().is_empty() || home.info("sh")["state"] == "stopped"));
}

#[test]
fn smaller_of_two_windows_sets_the_size() {
    let home = Home::with_shell();
    let mut large = attached(&home, &[]);
    let mut small = Seat::new(&home, Size::new(41, 9), &["attach", "sh"]);
    small.sees("ready");
    let asked = |seat: &Seat, size: &str| {
        let asks = || {
            seat.types("clear; stty size\r");
            large.text().contains(size) && seat.text().contains(size)
        };
        assert!(wait_until(LIMIT, asks), "no {size}:\n{}\n{}", large.text(), seat.text());
    };
    asked(&small, "8 40");
    resize(&small.keyboard, Size::new(51, 7));
    asked(&small, "6 50");
    small.signal(Signal::TERM);
    assert_eq!(small.left(), Some(143));
    asked(&large, "11 69");
    large.types(&format!("{PREFIX}d"));
    assert_eq!(large.left(), Some(0));
}

#[test]
fn read_only_viewer_types_nothing_and_keeps_size() {
    let home = Home::with_shell();
    let mut seat = attached(&home, &["--read-only", "--size", "keep"]);
    seat.sees("ready");
    seat.types("x");
    seat.sees("attached for reading only");
    home.ok(&["server", "node", "run", "sh", "echo typed$((1 + 1)); stty size"]);
    seat.sees("typed2");
    assert!(!home.read("sh").contains("11 69"), "{}", home.read("sh"));
    // At once, not when it would have been done.
    seat.types(&format!("{PREFIX}q"));
    seat.sees("attached for reading only: ctrl+] d leaves");
    seat.types("\x1b[1;6A");
    seat.sees("attached for reading only: 'nerve branch'");
    seat.types(&format!("{PREFIX}d"));
    assert_eq!(seat.left(), Some(0));
    assert!(!home.read("sh").contains('x'));
}

#[test]
fn signals_restore_the_terminal() {
    let home = Home::with_shell();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let mut seat = attached(&home, &[]);
        seat.sees("ready");
        seat.signal(signal);
        assert_eq!(seat.left(), Some(code), "{signal:?}");
    }
    assert_eq!(home.info("sh")["state"], "ready", "the program goes on");
}

#[test]
fn failed_attach_explains_what_to_do() {
    let home = Home::with_shell();
    let says = |args: &[&str], code: i32, words: &[&str]| {
        home.nerve(&[&["attach"], args].concat()).says(code, words);
    };
    says(&["nosuch"], 3, &["no program 'nosuch'", "nerve host list"]);
    says(&["sh", "--session", "other"], 3, &["no program 'sh'"]);
    for server in ["tcp://127.0.0.1:9", "tls://example.org:443"] {
        let elsewhere = format!("'{server}' is reached over the network");
        let read = format!("'nerve server node read sh --server {server}'");
        says(&["sh", "-s", server], 2, &[&elsewhere, "'nerve attach sh' on the server's own machine", &read]);
    }
    says(&["sh"], 2, &["needs a terminal", "node read"]);
    home.ok(&["server", "node", "create", "once", "-b", "bash"]);
    says(&["once"], 2, &["node 'once'", "has no terminal", "node history once"]);
    home.ok(&["server", "session", "create", "night"]);
    for session in [&[][..], &["--session", "night"]] {
        let create = ["server", "node", "create", "twin", "-c", "bash --norc"];
        home.ok(&[&create[..], session].concat());
    }
    // The default session's is meant: it fails for want of a terminal only.
    says(&["twin"], 2, &["needs a terminal"]);
    home.ok(&["server", "node", "stop", "twin"]);
    home.ok(&["server", "node", "stop", "sh"]);
    says(&["sh"], 3, &["sh"]);
}

#[test]
fn tmux_pane_is_attached_with_tmux() {
    let Some(tmux) = Tmux::new("tmux_pane_is_attached_with_tmux") else { return };
    let home = &tmux.home;
    home.ok(&["server", "start"]);
    let pane = tmux.ok(&["spawn", "-c", "sh"]);
    let place = ["-b", "tmux", "--socket", &tmux.socket, "--pane-id", pane.trim()];
    home.ok(&[&["server", "node", "create", "pane"], &place[..]].concat());
    let goes = format!("'tmux -S {} attach -t %0'", tmux.socket);
    home.nerve(&["attach", "pane"]).says(2, &["pane %0 of tmux", &goes]);
}
