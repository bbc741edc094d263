//! `nerve record` in a terminal: the viewer of a recorder that runs independently.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nerve_record::ssz::frame::{MAX_EVENT, decode_frame};
use nerve_testkit::harness::{is_alive, open_pty, resize, signal};
use nerve_testkit::{wait_for, wait_until};
use nerve_types::{ExitStatus, Origin, Size};
use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{DEADLINE, Home, NERVE, pid_in};
use crate::recording::Recording;
use crate::tty::{LIMIT, Tty};

const SIZE: Size = Size { cols: 60, rows: 12 };
/// Prints its size for each line (after clearing the screen for `c`) until a line gives the exit code.
const SIZE_SCRIPT: &str = "stty -echo; echo up; while read a; do case $a in [0-9]*) exit $a;; c) printf '\\033[2J\\033[H'; continue;; esac; stty size; done";

fn out_file(home: &Home) -> (PathBuf, String) {
    let path = home.hermetic.work().join("session.ahr");
    let text = path.to_str().unwrap().to_string();
    (path, text)
}

/// Starts a recorder with a viewer and [`SIZE_SCRIPT`].
fn start_viewer(home: &Home, more: &[&str]) -> Tty {
    let mut command = home.command(&["record"]);
    command.args(more).args(["--", "sh", "-c", SIZE_SCRIPT]);
    let tty = Tty::spawn(command, SIZE);
    tty.expect("up");
    tty
}

/// Returns the only host.
fn host(home: &Home) -> Value {
    let [host] = home.hosts().try_into().unwrap_or_else(|hosts| panic!("{hosts:?}"));
    host
}

fn id(home: &Home) -> String {
    host(home)["host_id"].as_str().unwrap().to_string()
}

/// Types the prefix, as terminals with the kitty keyboard protocol send it, and a key.
fn send_prefixed(tty: &Tty, key: &str) {
    tty.send(&format!("\x1b[93;5u{key}"));
}

#[test]
fn program_gets_window_minus_status_and_gutter() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let mut tty = start_viewer(&home, &["--out-file", &file]);
    tty.send("\r");
    tty.expect("11 59");
    resize(&tty.keyboard, Size::new(71, 15)).unwrap();
    tty.signal(Signal::WINCH);
    // Signals and keys arrive in no fixed order.
    let has_size = || {
        tty.send("\r");
        tty.text().contains("14 70")
    };
    assert!(wait_until(LIMIT, has_size), "{}", tty.text());
    tty.send("7\r");
    assert_eq!(tty.wait_for_exit(), Some(7));
    assert!(home.hosts().is_empty(), "nothing is left behind");
    let recorded = Recording::of(&path);
    assert!(recorded.complete && recorded.lost.is_empty(), "{recorded:?}");
    assert_eq!(recorded.sizes, [(59, 11), (70, 14)]);
    assert_eq!(recorded.exits, [ExitStatus::Code(7)]);
    assert!(recorded.inputs.iter().all(|typed| typed.origin == Some(Origin::User)));
}

#[test]
fn explicit_size_overrides_the_window() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let mut tty = start_viewer(&home, &["--cols", "100", "--rows", "30", "--out-file", &file]);
    tty.send("\r");
    tty.expect("30 100");
    let mut other = Tty::new(&home, Size::new(40, 9), &["attach", &id(&home)]);
    other.expect("30 100");
    other.send("0\r");
    assert_eq!((tty.wait_for_exit(), other.wait_for_exit()), (Some(0), Some(0)));
    assert_eq!(Recording::of(&path).sizes, [(100, 30)]);
}

#[test]
fn detached_program_can_be_reattached() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let mut tty = start_viewer(&home, &["--session-id", "mine", "--out-file", &file]);
    let id = id(&home);
    send_prefixed(&tty, "d");
    assert_eq!(tty.wait_for_exit(), Some(0));
    tty.expect(&format!("detached; reattach with 'nerve attach {id}'"));
    assert_eq!(host(&home)["alive"], true);
    // Output written while detached is shown after reattaching.
    let written = home.nerve(&["host", "write", "mine", "--escape", "\\r", "--json"]).json();
    assert_eq!(written["written"], 1, "{written}");
    assert!(wait_until(DEADLINE, || Recording::of(&path).text().contains("11 59")));
    let mut reattached = Tty::new(&home, SIZE, &["attach", &id]);
    reattached.expect("up\n11 59");
    reattached.send("4\r");
    assert_eq!(reattached.wait_for_exit(), Some(0));
    assert!(wait_until(DEADLINE, || home.hosts().is_empty()));
    let recorded = Recording::of(&path);
    assert_eq!((recorded.exits, recorded.complete), (vec![ExitStatus::Code(4)], true));
}

#[test]
fn smaller_window_sets_size_until_it_leaves() {
    let home = Home::new();
    let mut large = start_viewer(&home, &[]);
    let mut small = Tty::new(&home, Size::new(41, 9), &["attach", &id(&home)]);
    let expect_size = |tty: &Tty, size: &str| {
        let has_size = || {
            tty.send("\r");
            tty.text().contains(size)
        };
        assert!(wait_until(LIMIT, has_size), "no {size:?}: {}", tty.text());
    };
    expect_size(&small, "8 40");
    expect_size(&large, "8 40");
    send_prefixed(&small, "d");
    assert_eq!(small.wait_for_exit(), Some(0));
    expect_size(&large, "11 59");
    // `--size mine` overrides all others; `--size keep` has no effect.
    let mut exclusive = Tty::new(&home, Size::new(90, 30), &["attach", &id(&home), "--size", "mine"]);
    expect_size(&exclusive, "29 89");
    let mut keeping = Tty::new(&home, Size::new(20, 6), &["attach", &id(&home), "--size", "keep"]);
    keeping.expect("29 89");
    send_prefixed(&exclusive, "d");
    assert_eq!(exclusive.wait_for_exit(), Some(0));
    large.send("c\r");
    assert!(wait_until(LIMIT, || !large.text().contains("11 59")), "{}", large.text());
    expect_size(&large, "11 59");
    large.send("0\r");
    assert_eq!((large.wait_for_exit(), keeping.wait_for_exit()), (Some(0), Some(0)));
}

#[test]
fn recorder_survives_killed_viewer() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let mut tty = start_viewer(&home, &["--out-file", &file]);
    let host = host(&home);
    tty.child.kill().unwrap();
    tty.child.wait().unwrap();
    let id = host["host_id"].as_str().unwrap();
    home.ok(&["host", "write", id, "--escape", "\\r"]);
    assert!(wait_until(DEADLINE, || Recording::of(&path).text().contains("11 59")), "it works on");
    assert!(is_alive(pid_in(&host["pid"])));
    home.ok(&["host", "stop", id]);
    let recorded = Recording::of(&path);
    assert_eq!((recorded.exits, recorded.complete), (vec![ExitStatus::Signal(Signal::HUP.as_raw())], true));
}

#[test]
fn killed_recorder_is_reported() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let command = home.command(&["record", "--out-file", &file, "--", "sh", "-c", SIZE_SCRIPT]);
    let mut tty = Tty::with_stderr(command, SIZE);
    tty.expect("up");
    signal(pid_in(&host(&home)["pid"]), Signal::KILL);
    assert_eq!(tty.wait_for_exit(), Some(1));
    tty.expect("the recorder was killed by SIGKILL");
    assert!(Recording::of(&path).text().contains("up"));
}

#[test]
fn hangup_or_term_ends_program_and_completes_recording() {
    for sent in [Signal::HUP, Signal::TERM] {
        let home = Home::new();
        let (path, file) = out_file(&home);
        let mut tty = start_viewer(&home, &["--out-file", &file]);
        tty.signal(sent);
        assert_eq!(tty.wait_for_exit(), Some(128 + Signal::HUP.as_raw()));
        let recorded = Recording::of(&path);
        assert!(recorded.complete && home.hosts().is_empty());
        assert_eq!(recorded.exits, [ExitStatus::Signal(Signal::HUP.as_raw())]);
    }
}

#[test]
fn failed_start_is_reported_and_leaves_nothing() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    for (args, code, words) in [
        (vec!["--out-file", &file, "--", "no-such-program"], 127, "no-such-program"),
        (vec!["--session-id", "../up", "--", "true"], 2, "../up"),
        (vec!["--events-pipe-fd", "77", "--", "true"], 2, "write end"),
    ] {
        let mut command = home.command(&["record"]);
        command.args(args);
        let mut tty = Tty::with_stderr(command, Size::new(200, 12));
        assert_eq!(tty.wait_for_exit(), Some(code), "{}", tty.text());
        tty.expect(words);
    }
    assert!(!path.exists() && home.hosts().is_empty());
}

#[test]
fn branch_points_and_events_are_written_at_exit() {
    let home = Home::new();
    let points = home.hermetic.work().join("points.json");
    let (mut reader, writer) = std::io::pipe().unwrap();
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
    let mut command = home.command(&["record", "--out-branch-points", points.to_str().unwrap()]);
    command.args(["--events-pipe-fd", &writer.as_raw_fd().to_string(), "--", "sh", "-c"]);
    command.arg(format!(
        "echo before; {NERVE} snapshot --no-files --label here >/dev/null; read a; echo after; exit 3"
    ));
    let mut tty = Tty::spawn(command, SIZE);
    drop(writer);
    tty.expect("before");
    assert!(wait_until(LIMIT, || tty.text().contains('▶')), "{}", tty.text());
    tty.send("\r");
    assert_eq!(tty.wait_for_exit(), Some(3));
    let points: Value = serde_json::from_str(&fs::read_to_string(points).unwrap()).unwrap();
    let items = points["items"].as_array().unwrap();
    assert!(
        items.iter().any(|item| item["label"] == "here") && items.iter().any(|item| item["text"] == "after")
    );
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert!(wait_for(LIMIT, || decode_frame(&mut bytes, MAX_EVENT).unwrap()).is_some());
}

#[test]
fn short_program_leaves_its_last_lines() {
    let home = Home::new();
    let mut command = home.command(&["record", "--", "sh", "-c"]);
    command.arg("echo one; printf '\\033[31mtwo\\033[0m\\n'; exit 2");
    let mut tty = Tty::with_stderr(command, SIZE);
    assert_eq!(tty.wait_for_exit(), Some(2));
    tty.expect("one\ntwo\nrecorded ");
    let text = tty.text();
    assert!(text.trim().starts_with("one\ntwo\nrecorded ") && !text.contains("host"), "{text}");
}

#[test]
fn ah_agent_record_shows_the_viewer() {
    let home = Home::new();
    let mut command = home.hermetic.command(env!("CARGO_BIN_EXE_ah"));
    command.args(["agent", "record", "--", "sh", "-c", "echo up; read a; exit 5"]);
    let mut tty = Tty::spawn(command, SIZE);
    tty.expect("up");
    tty.send("\r");
    assert_eq!(tty.wait_for_exit(), Some(5));
}

#[test]
fn prompt_waits_for_typing_user_and_window_sets_size() {
    let home = Home::with_shell();
    home.ok(&["server", "node", "wait", "sh"]);
    let tty = Tty::new(&home, SIZE, &["attach", "sh"]);
    tty.expect("$");
    // Types one key and deletes it.
    tty.send("x");
    tty.expect("$ x");
    let typed = Instant::now();
    tty.send("\x7f");
    assert!(wait_until(LIMIT, || !tty.text().contains("$ x")), "{}", tty.text());
    assert_eq!(home.ok(&["server", "node", "execute", "sh", "stty size"]).trim(), "11 59");
    assert!(typed.elapsed() > Duration::from_secs(1), "{:?}", typed.elapsed());
    tty.expect("11 59");
    let resize = || home.nerve(&["server", "node", "resize", "sh", "--cols", "33", "--rows", "7"]);
    resize().assert_stderr(1, &["59 columns", "11 rows", "--size mine"]);
    assert_eq!(
        home.ok(&["server", "node", "execute", "sh", "stty size"]).trim(),
        "11 59",
        "a viewer is attached"
    );
    drop(tty);
    assert!(wait_until(DEADLINE, || resize().code == 0), "no viewer is attached");
    assert_eq!(home.ok(&["server", "node", "execute", "sh", "stty size"]).trim(), "7 33");
}

#[test]
fn host_list_shows_recorder_and_session() {
    let home = Home::new();
    let mut tty = start_viewer(&home, &["--session-id", "my-session"]);
    let host = host(&home);
    assert_eq!((&host["recorder"], &host["recording_id"]), (&Value::Bool(true), &Value::from("my-session")));
    let listed = home.ok(&["host", "list"]);
    assert!(listed.contains("record my-session"), "{listed}");
    tty.send("0\r");
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn key_burst_arrives_whole_and_prefix_still_works() {
    let home = Home::new();
    let script = "stty raw -echo; printf up; head -c 20000 >/dev/null; printf ' all'; cat >/dev/null";
    let mut tty = Tty::spawn(home.command(&["record", "--", "sh", "-c", script]), SIZE);
    tty.expect("up");
    // No bracketed paste: as many keys at once as the terminal's buffer holds.
    (&tty.keyboard).write_all(&[b'x'; 20_000]).unwrap();
    tty.expect("up all");
    (&tty.keyboard).write_all(&[b'x'; 20_000]).unwrap();
    send_prefixed(&tty, "q");
    tty.send("y");
    assert_eq!(tty.wait_for_exit(), Some(128 + Signal::HUP.as_raw()));
}

#[test]
fn vanished_terminal_ends_the_recording() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    // The terminal is not the controlling one, so no signal announces that it closes.
    let mut command = home.command(&["record", "--out-file", &file, "--", "sh", "-c", SIZE_SCRIPT]);
    let (keyboard, slave) = open_pty(SIZE).unwrap();
    let end = || Stdio::from(slave.try_clone().unwrap());
    command.stdin(end()).stdout(end()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop((command, slave));
    assert!(wait_until(LIMIT, || path.exists() && Recording::of(&path).text().contains("up")));
    drop(keyboard);
    let ended = wait_for(LIMIT, || child.try_wait().unwrap());
    if ended.is_none() {
        child.kill().unwrap();
    }
    assert!(ended.is_some(), "it outlives its terminal");
    assert!(Recording::of(&path).complete);
}

#[test]
fn explicit_size_keeps_output_of_short_program() {
    let home = Home::new();
    let command = home.command(&["record", "--cols", "80", "--rows", "20", "--", "echo", "hi"]);
    let mut tty = Tty::with_stderr(command, Size::new(81, 21));
    assert_eq!(tty.wait_for_exit(), Some(0));
    tty.expect("hi\nrecorded ");
    let text = tty.text();
    assert!(text.trim().starts_with("hi\nrecorded ") && !text.contains("warning"), "{text}");
}

#[test]
fn viewers_exit_with_program_unless_stay_is_set() {
    let home = Home::new();
    let (_, file) = out_file(&home);
    let mut tty = start_viewer(&home, &["--stay", "--out-file", &file]);
    let id = id(&home);
    let attached = |more: &[&str], shows: &str, keys: &str| {
        let other = Tty::new(&home, SIZE, &[&["attach", &id], more].concat());
        other.expect("up");
        other.send(keys);
        other.expect(shows);
        other
    };
    let mut scrolling = attached(&[], "scroll", "\x1b[5;2~");
    let mut showing_help = attached(&[], "Running program", "\x1b[93;5u?");
    let mut staying = attached(&["--stay"], "up", "");
    home.ok(&["host", "write", &id, "--escape", "4\\r"]);
    assert_eq!((scrolling.wait_for_exit(), showing_help.wait_for_exit()), (Some(0), Some(0)));
    for tty in [&tty, &staying] {
        tty.expect("the program has ended");
        tty.expect("scroll");
        tty.send("q");
    }
    assert_eq!((tty.wait_for_exit(), staying.wait_for_exit()), (Some(4), Some(0)));
}

#[test]
fn terminal_reports_are_not_user_input() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let script = "stty raw -echo; printf '\\033[?1004h\\033[?1000h\\033[?1006hup'; head -c 13 >/dev/null";
    let mut tty = Tty::spawn(home.command(&["record", "--out-file", &file, "--", "sh", "-c", script]), SIZE);
    tty.expect("up");
    tty.send("\x1b[I\x1b[<0;3;3Mx");
    assert_eq!(tty.wait_for_exit(), Some(0));
    let inputs = Recording::of(&path).inputs;
    let of = |origin| -> Vec<u8> {
        let inputs = inputs.iter().filter(|input| input.origin == Some(origin));
        inputs.flat_map(|input| input.bytes.clone()).collect()
    };
    assert_eq!((of(Origin::Terminal), of(Origin::User)), (b"\x1b[I\x1b[<0;3;3M".to_vec(), b"x".to_vec()));
}

#[test]
fn status_shows_final_recording_size() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    // Incompressible output, then silence.
    let script = "head -c 30000 /dev/urandom | base64 -w 50; printf up; read a";
    let mut tty = Tty::spawn(
        home.command(&["record", "--out-file", &file, "--", "sh", "-c", script]),
        Size::new(140, 12),
    );
    tty.expect("up");
    let shows_size = || {
        let size = std::fs::metadata(&path).unwrap().len();
        size > 20_000 && tty.text().contains(&format!("{} kB", size / 1000))
    };
    assert!(wait_until(LIMIT, shows_size), "{}", tty.text());
    tty.send("\r");
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn bell_rings_only_for_current_viewers() {
    let home = Home::new();
    let script = "printf 'early \\a'; read a; printf 'now \\a\\a'; read a; exit 3";
    let mut tty = Tty::new(&home, SIZE, &["record", "--", "sh", "-c", script]);
    let count_bells = |tty: &Tty| tty.output.lock().unwrap().iter().filter(|byte| **byte == 7).count();
    tty.expect("early");
    let mut later = Tty::new(&home, SIZE, &["attach", &id(&home)]);
    later.expect("early");
    let before = count_bells(&tty);
    assert_eq!(count_bells(&later), 0, "that was before it came");
    tty.send("\r");
    later.expect("now");
    assert!(wait_until(LIMIT, || count_bells(&tty) == before + 1), "{}", count_bells(&tty));
    assert!(wait_until(LIMIT, || count_bells(&later) == 1), "{}", count_bells(&later));
    tty.send("\r");
    assert_eq!((tty.wait_for_exit(), later.wait_for_exit()), (Some(3), Some(0)));
    assert_eq!(count_bells(&later), 1);
}
