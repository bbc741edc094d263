//! `nerve attach` in a pseudo-terminal.

use nerve_testkit::harness::resize;
use nerve_testkit::wait_until;
use nerve_types::Size;
use nerve_vt::screen::Color;
use rustix::process::Signal;

use crate::harness::{DEADLINE, Home};
use crate::panes::Tmux;
use crate::tty::{LIMIT, Tty};

const SIZE: Size = Size { cols: 70, rows: 12 };
/// The prefix, as terminals with the kitty keyboard protocol send it.
const PREFIX: &str = "\x1b[93;5u";

fn attached(home: &Home, more: &[&str]) -> Tty {
    Tty::new(home, SIZE, &[&["attach", "sh"], more].concat())
}

/// Returns the colour of the first letter of a row that starts with these words.
fn colour(tty: &Tty, words: &str) -> Option<Color> {
    let shown = tty.terminal.lock().unwrap();
    let screen = shown.screen();
    let row = screen.rows.iter().find(|row| row.text.starts_with(words))?;
    Some(row.cells().next()?.style.fg)
}

#[test]
fn attach_shows_node_takes_input_and_reattaches() {
    let home = Home::with_shell();
    let mut tty = attached(&home, &[]);
    tty.expect("ready");
    tty.send("clear; printf '\\e[35mred\\e[0m and 世界e\\u0301|\\n'; printf '\\e]2;a title\\e\\\\'; echo $((20 + 3)) there\r");
    tty.expect("\n23 there");
    tty.expect("red and 世界e\u{301}|");
    assert_eq!(colour(&tty, "red and"), Some(Color::Indexed(5)), "{}", tty.text());
    assert!(wait_until(LIMIT, || tty.terminal.lock().unwrap().title() == "a title"));
    let cursor = || tty.terminal.lock().unwrap().screen().cursor;
    tty.send("世");
    assert!(wait_until(LIMIT, || (cursor().row, cursor().col) == (2, 4)), "{:?}: {}", cursor(), tty.text());
    tty.send("\x15");
    tty.expect("ready");
    tty.send(&format!("{PREFIX}d"));
    assert_eq!(tty.wait_for_exit(), Some(0));
    let mut again = attached(&home, &["--session", "default"]);
    again.expect("23 there");
    again.send("exit\r");
    assert_eq!(again.wait_for_exit(), Some(0));
}

#[test]
fn keys_before_the_reply_of_a_slow_terminal_are_typed() {
    let home = Home::with_shell();
    let mut tty = Tty::without_replies(&home, SIZE, &["attach", "sh"]);
    tty.expect("ready");
    // The keys and the primary device attributes arrive in one read.
    tty.send("early\x1b[?62c");
    tty.expect("$ early");
    tty.send("\x15exit\r");
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn working_shell_without_prompt_marks_is_busy() {
    let home = Home::with_shell();
    home.ok(&["server", "node", "create", "plain", "-c", "sh"]);
    let mut tty = Tty::new(&home, SIZE, &["attach", "plain"]);
    tty.expect("ready");
    tty.send("i=0; while :; do i=$((i+1)); echo $i; done\r");
    tty.expect("busy");
    // The server detects it too, no matter who types.
    assert!(wait_until(DEADLINE, || home.info("plain")["state"] == "busy"), "{}", home.info("plain"));
    tty.send("\x03");
    tty.expect("ready");
    assert!(wait_until(DEADLINE, || home.info("plain")["state"] == "ready"), "{}", home.info("plain"));
    tty.send(&format!("{PREFIX}b"));
    tty.expect("no branch yet");
    tty.send(&format!("{PREFIX}d"));
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn keys_pastes_focus_and_mouse_follow_program_modes() {
    let home = Home::with_shell();
    let mut tty = attached(&home, &["--gutter", "left"]);
    tty.expect("ready");
    tty.send("stty -icanon -echo; printf '\\e[?2004h\\e[?1004h\\e[?1000h\\e[?1006h\\e[?1h\\e[Hon'; cat -v\r");
    tty.expect(" on");
    let modes = || home.read("sh").contains("on");
    assert!(wait_until(DEADLINE, modes));
    tty.send("\x1b[A\x1b[1;5C\x1b[3~é");
    tty.expect("^[OA^[[1;5C^[[3~M-CM-)");
    tty.send("\x1b[200~two\nlines\x1b[201~");
    tty.expect("^[[200~two");
    tty.expect("lines^[[201~");
    tty.send("\x1b[O\x1b[I");
    tty.expect("^[[O^[[I");
    // Mouse columns exclude the gutter.
    tty.send("\x1b[<0;9;3M\x1b[<0;9;3m\x1b[<64;2;2M");
    tty.expect("^[[<0;8;3M^[[<0;8;3m^[[<64;1;2M");
    tty.send("\x03");
    tty.expect("\n $");
    tty.send("printf '\\e[?2004l\\e[?1004l\\e[?1000l\\e[?1l'; stty sane; clear; echo sane\r");
    tty.expect("sane");
    tty.send(&format!("cat -v\r\x1b[A{PREFIX}{PREFIX}\r"));
    tty.expect("^[[A^]");
    tty.send(&format!("{PREFIX}d"));
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn scrollback_can_be_scrolled_and_searched() {
    let home = Home::with_shell();
    let mut tty = attached(&home, &[]);
    tty.expect("ready");
    tty.send("seq -f 'row %g.' 1 300\r");
    tty.expect("row 300.\n");
    tty.send("\x1b[5;2~");
    tty.expect("row 285.");
    tty.send("/row 17\\.\r");
    tty.expect("row 17.");
    tty.expect("match 1 of 1");
    tty.send("g");
    tty.expect("\nrow 3.");
    tty.send("?row 20\r");
    tty.expect("row 20");
    // Keys reach the program again.
    tty.send("q");
    tty.expect("row 300.\n");
    tty.send("echo ba''ck\r");
    tty.expect("\nback");
    // Scroll with the wheel, back to the end.
    tty.send("\x1b[<64;5;5M\x1b[<64;5;5M");
    tty.expect("row 29");
    assert!(wait_until(LIMIT, || !tty.text().contains("\nback")), "{}", tty.text());
    tty.send("\x1b[<65;5;5M\x1b[<65;5;5M\x1b[<65;5;5M");
    tty.expect("\nback");
    tty.send(&format!("{PREFIX}d"));
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn prefix_opens_help_and_tools_and_stop_needs_confirmation() {
    let home = Home::with_shell();
    let mut tty = attached(&home, &[]);
    tty.expect("ready");
    tty.send(&format!("{PREFIX}?"));
    tty.expect("ctrl+]");
    tty.send("q");
    tty.expect("ready");
    tty.send(&format!("{PREFIX}t"));
    tty.expect("tools are listed when a turn ends");
    tty.send(&format!("{PREFIX}q"));
    tty.send("n");
    tty.send("echo st''ill\r");
    tty.expect("\nstill");
    tty.send(&format!("{PREFIX}q"));
    tty.send("y");
    assert_eq!(tty.wait_for_exit(), Some(0));
    assert!(wait_until(DEADLINE, || home.hosts().is_empty() || home.info("sh")["state"] == "stopped"));
}

#[test]
fn smaller_of_two_windows_sets_the_size() {
    let home = Home::with_shell();
    let mut large = attached(&home, &[]);
    let mut small = Tty::new(&home, Size::new(41, 9), &["attach", "sh"]);
    small.expect("ready");
    let expect_size = |tty: &Tty, size: &str| {
        let has_size = || {
            tty.send("clear; stty size\r");
            large.text().contains(size) && tty.text().contains(size)
        };
        assert!(wait_until(LIMIT, has_size), "no {size}:\n{}\n{}", large.text(), tty.text());
    };
    expect_size(&small, "8 40");
    resize(&small.keyboard, Size::new(51, 7)).unwrap();
    expect_size(&small, "6 50");
    small.signal(Signal::TERM);
    assert_eq!(small.wait_for_exit(), Some(143));
    expect_size(&large, "11 69");
    large.send(&format!("{PREFIX}d"));
    assert_eq!(large.wait_for_exit(), Some(0));
}

#[test]
fn read_only_viewer_types_nothing_and_keeps_size() {
    let home = Home::with_shell();
    let mut tty = attached(&home, &["--read-only", "--size", "keep"]);
    tty.expect("ready");
    tty.send("x");
    tty.expect("attached read-only");
    home.ok(&["server", "node", "run", "sh", "echo typed$((1 + 1)); stty size"]);
    tty.expect("typed2");
    assert!(!home.read("sh").contains("11 69"), "{}", home.read("sh"));
    // Refused at once, not after the confirmation.
    tty.send(&format!("{PREFIX}q"));
    tty.expect("attached read-only: ctrl+] d leaves");
    tty.send("\x1b[1;6A");
    tty.expect("attached read-only: use 'nerve branch'");
    tty.send(&format!("{PREFIX}d"));
    assert_eq!(tty.wait_for_exit(), Some(0));
    assert!(!home.read("sh").contains('x'));
}

#[test]
fn signals_restore_the_terminal() {
    let home = Home::with_shell();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let mut tty = attached(&home, &[]);
        tty.expect("ready");
        tty.signal(signal);
        assert_eq!(tty.wait_for_exit(), Some(code), "{signal:?}");
    }
    assert_eq!(home.info("sh")["state"], "ready", "the program continues");
}

#[test]
fn failed_attach_explains_what_to_do() {
    let home = Home::with_shell();
    let fails = |args: &[&str], code: i32, words: &[&str]| {
        home.nerve(&[&["attach"], args].concat()).assert_stderr(code, words);
    };
    fails(&["nosuch"], 3, &["no program 'nosuch'", "nerve host list"]);
    fails(&["sh", "--session", "other"], 3, &["no program 'sh'"]);
    for server in ["tcp://127.0.0.1:9", "tls://example.org:443"] {
        let cannot = format!("cannot attach on {server}");
        let read = format!("nerve node read sh --server {server}");
        fails(&["sh", "-s", server], 2, &[&cannot, "run 'nerve attach sh' there", &read]);
    }
    fails(&["sh"], 2, &["needs a terminal", "node read"]);
    home.ok(&["server", "node", "create", "once", "-b", "bash"]);
    fails(&["once"], 2, &["node 'once'", "have no terminal", "nerve logs once"]);
    home.ok(&["server", "session", "create", "night"]);
    for session in [&[][..], &["--session", "night"]] {
        let create = ["server", "node", "create", "twin", "-c", "bash --norc"];
        home.ok(&[&create[..], session].concat());
    }
    // The default session's node is meant: only the terminal is missing.
    fails(&["twin"], 2, &["needs a terminal"]);
    home.ok(&["server", "node", "stop", "twin"]);
    home.ok(&["server", "node", "stop", "sh"]);
    fails(&["sh"], 3, &["sh"]);
}

#[test]
fn tmux_pane_is_attached_with_tmux() {
    let Some(tmux) = Tmux::new("tmux_pane_is_attached_with_tmux") else { return };
    let home = &tmux.home;
    home.ok(&["server", "start"]);
    let pane = tmux.ok(&["spawn", "-c", "sh"]);
    let place = ["-b", "tmux", "--socket", &tmux.socket, "--pane-id", pane.trim()];
    home.ok(&[&["server", "node", "create", "pane"], &place[..]].concat());
    let attach = format!("tmux -S {} attach -t %0", tmux.socket);
    home.nerve(&["attach", "pane"]).assert_stderr(2, &["pane %0", &attach]);
}
