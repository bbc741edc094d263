//! `nerve record` in a terminal: the viewer in front of a recorder that goes on without it.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nerve_record::ssz::frame::{MAX_EVENT, decode_frame};
use nerve_term::event::{ExitStatus, Origin, Size};
use nerve_testkit::{wait_for, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{DEADLINE, Home, NERVE, alive, pid_in, signal};
use crate::recording::Recording;
use crate::tty::{LIMIT, Seat, pair, resize};

const SIZE: Size = Size { cols: 60, rows: 12 };
/// Says its size for each line, and clears the screen before at `c`, until one says how to end.
const SAYS_SIZE: &str = "stty -echo; echo up; while read a; do case $a in [0-9]*) exit $a;; c) printf '\\033[2J\\033[H'; continue;; esac; stty size; done";

fn out_file(home: &Home) -> (PathBuf, String) {
    let path = home.hermetic.work().join("session.ahr");
    let text = path.to_str().unwrap().to_string();
    (path, text)
}

/// A recorder with a viewer, with [`SAYS_SIZE`] in it.
fn viewed(home: &Home, more: &[&str]) -> Seat {
    let mut command = home.command(&["record"]);
    command.args(more).args(["--", "sh", "-c", SAYS_SIZE]);
    let seat = Seat::of(command, SIZE);
    seat.sees("up");
    seat
}

/// The only host there is.
fn host(home: &Home) -> Value {
    let [host] = home.hosts().try_into().unwrap_or_else(|hosts| panic!("{hosts:?}"));
    host
}

fn id(home: &Home) -> String {
    host(home)["id"].as_str().unwrap().to_string()
}

/// Types the prefix, as terminals with the kitty keyboard protocol send it, and a key.
fn prefixed(seat: &Seat, key: &str) {
    seat.types(&format!("\x1b[93;5u{key}"));
}

#[test]
fn program_gets_window_minus_status_and_gutter() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let mut seat = viewed(&home, &["--out-file", &file]);
    seat.types("\r");
    seat.sees("11 59");
    resize(&seat.keyboard, Size::new(71, 15));
    seat.signal(Signal::WINCH);
    // A signal and a key come by two ways: which is first, nobody says.
    let asked = || {
        seat.types("\r");
        seat.text().contains("14 70")
    };
    assert!(wait_until(LIMIT, asked), "{}", seat.text());
    seat.types("7\r");
    assert_eq!(seat.left(), Some(7));
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
    let mut seat = viewed(&home, &["--cols", "100", "--rows", "30", "--out-file", &file]);
    seat.types("\r");
    seat.sees("30 100");
    let mut other = Seat::new(&home, Size::new(40, 9), &["attach", &id(&home)]);
    other.sees("30 100");
    other.types("0\r");
    assert_eq!((seat.left(), other.left()), (Some(0), Some(0)));
    assert_eq!(Recording::of(&path).sizes, [(100, 30)]);
}

#[test]
fn detached_program_can_be_reattached() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let mut seat = viewed(&home, &["--session-id", "mine", "--out-file", &file]);
    let id = id(&home);
    prefixed(&seat, "d");
    assert_eq!(seat.left(), Some(0));
    seat.sees(&format!("detached; come back with 'nerve attach {id}'"));
    assert_eq!(host(&home)["alive"], true);
    // What it says meanwhile is there when somebody comes back.
    home.ok(&["host", "write", "mine", "--escape", "\\r"]);
    assert!(wait_until(DEADLINE, || Recording::of(&path).text().contains("11 59")));
    let mut back = Seat::new(&home, SIZE, &["attach", &id]);
    back.sees("up\n11 59");
    back.types("4\r");
    assert_eq!(back.left(), Some(0));
    assert!(wait_until(DEADLINE, || home.hosts().is_empty()));
    let recorded = Recording::of(&path);
    assert_eq!((recorded.exits, recorded.complete), (vec![ExitStatus::Code(4)], true));
}

#[test]
fn smaller_window_sets_size_until_it_leaves() {
    let home = Home::new();
    let mut large = viewed(&home, &[]);
    let mut small = Seat::new(&home, Size::new(41, 9), &["attach", &id(&home)]);
    let says = |seat: &Seat, size: &str| {
        let asked = || {
            seat.types("\r");
            seat.text().contains(size)
        };
        assert!(wait_until(LIMIT, asked), "no {size:?}: {}", seat.text());
    };
    says(&small, "8 40");
    says(&large, "8 40");
    prefixed(&small, "d");
    assert_eq!(small.left(), Some(0));
    says(&large, "11 59");
    // One that takes over counts alone, one that only looks not at all.
    let mut mine = Seat::new(&home, Size::new(90, 30), &["attach", &id(&home), "--size", "mine"]);
    says(&mine, "29 89");
    let mut keeps = Seat::new(&home, Size::new(20, 6), &["attach", &id(&home), "--size", "keep"]);
    keeps.sees("29 89");
    prefixed(&mine, "d");
    assert_eq!(mine.left(), Some(0));
    large.types("c\r");
    assert!(wait_until(LIMIT, || !large.text().contains("11 59")), "{}", large.text());
    says(&large, "11 59");
    large.types("0\r");
    assert_eq!((large.left(), keeps.left()), (Some(0), Some(0)));
}

#[test]
fn recorder_survives_killed_viewer() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let mut seat = viewed(&home, &["--out-file", &file]);
    let host = host(&home);
    seat.child.kill().unwrap();
    seat.child.wait().unwrap();
    let id = host["id"].as_str().unwrap();
    home.ok(&["host", "write", id, "--escape", "\\r"]);
    assert!(wait_until(DEADLINE, || Recording::of(&path).text().contains("11 59")), "it works on");
    assert!(alive(pid_in(&host["pid"])));
    home.ok(&["host", "stop", id]);
    let recorded = Recording::of(&path);
    assert_eq!((recorded.exits, recorded.complete), (vec![ExitStatus::Signal(Signal::HUP.as_raw())], true));
}

#[test]
fn killed_recorder_is_reported() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let command = home.command(&["record", "--out-file", &file, "--", "sh", "-c", SAYS_SIZE]);
    let mut seat = Seat::with_stderr(command, SIZE);
    seat.sees("up");
    signal(pid_in(&host(&home)["pid"]), Signal::KILL);
    assert_eq!(seat.left(), Some(1));
    seat.sees("the recorder was ended by SIGKILL");
    assert!(Recording::of(&path).text().contains("up"));
}

#[test]
fn hangup_or_term_ends_program_and_completes_recording() {
    for told in [Signal::HUP, Signal::TERM] {
        let home = Home::new();
        let (path, file) = out_file(&home);
        let mut seat = viewed(&home, &["--out-file", &file]);
        seat.signal(told);
        assert_eq!(seat.left(), Some(128 + Signal::HUP.as_raw()));
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
        let mut seat = Seat::with_stderr(command, Size::new(200, 12));
        assert_eq!(seat.left(), Some(code), "{}", seat.text());
        seat.sees(words);
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
    let mut seat = Seat::of(command, SIZE);
    drop(writer);
    seat.sees("before");
    assert!(wait_until(LIMIT, || seat.text().contains('▶')), "{}", seat.text());
    seat.types("\r");
    assert_eq!(seat.left(), Some(3));
    let items: Vec<Value> = serde_json::from_str(&fs::read_to_string(points).unwrap()).unwrap();
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
    let mut seat = Seat::with_stderr(command, SIZE);
    assert_eq!(seat.left(), Some(2));
    seat.sees("one\ntwo");
    assert_eq!(seat.text().trim(), "one\ntwo", "no word of a host");
}

#[test]
fn ah_agent_record_shows_the_viewer() {
    let home = Home::new();
    let mut command = home.hermetic.command(env!("CARGO_BIN_EXE_ah"));
    command.args(["agent", "record", "--", "sh", "-c", "echo up; read a; exit 5"]);
    let mut seat = Seat::of(command, SIZE);
    seat.sees("up");
    seat.types("\r");
    assert_eq!(seat.left(), Some(5));
}

#[test]
fn prompt_waits_for_typing_user_and_window_sets_size() {
    let home = Home::with_shell();
    home.ok(&["server", "node", "wait", "sh"]);
    let seat = Seat::new(&home, SIZE, &["attach", "sh"]);
    seat.sees("$");
    // One key, and it is taken back.
    seat.types("x");
    seat.sees("$ x");
    seat.types("\x7f");
    assert!(wait_until(LIMIT, || !seat.text().contains("$ x")), "{}", seat.text());
    let typed = Instant::now();
    assert_eq!(home.ok(&["server", "node", "execute", "sh", "stty size"]).trim(), "11 59");
    assert!(typed.elapsed() > Duration::from_secs(1), "{:?}", typed.elapsed());
    seat.sees("11 59");
    let resize = || home.nerve(&["server", "node", "resize", "sh", "--cols", "33", "--rows", "7"]);
    resize().says(1, &["stays at 59 columns and 11 rows", "--size mine"]);
    assert_eq!(home.ok(&["server", "node", "execute", "sh", "stty size"]).trim(), "11 59", "somebody looks");
    drop(seat);
    assert!(wait_until(DEADLINE, || resize().code == 0), "nobody does any more");
    assert_eq!(home.ok(&["server", "node", "execute", "sh", "stty size"]).trim(), "7 33");
}

#[test]
fn host_list_shows_recorder_and_session() {
    let home = Home::new();
    let mut seat = viewed(&home, &["--session-id", "my-session"]);
    let host = host(&home);
    assert_eq!((&host["recorder"], &host["session_id"]), (&Value::Bool(true), &Value::from("my-session")));
    let listed = home.ok(&["host", "list"]);
    assert!(listed.contains("record my-session"), "{listed}");
    seat.types("0\r");
    assert_eq!(seat.left(), Some(0));
}

#[test]
fn key_burst_arrives_whole_and_prefix_still_works() {
    let home = Home::new();
    let script = "stty raw -echo; printf up; head -c 20000 >/dev/null; printf ' all'; cat >/dev/null";
    let mut seat = Seat::of(home.command(&["record", "--", "sh", "-c", script]), SIZE);
    seat.sees("up");
    // No bracketed paste: keys, as many at once as the terminal holds.
    (&seat.keyboard).write_all(&[b'x'; 20_000]).unwrap();
    seat.sees("up all");
    (&seat.keyboard).write_all(&[b'x'; 20_000]).unwrap();
    prefixed(&seat, "q");
    seat.types("y");
    assert_eq!(seat.left(), Some(128 + Signal::HUP.as_raw()));
}

#[test]
fn vanished_terminal_ends_the_recording() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    // It is nobody's terminal: nobody is told that it closes.
    let mut command = home.command(&["record", "--out-file", &file, "--", "sh", "-c", SAYS_SIZE]);
    let (keyboard, slave) = pair(SIZE);
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
    assert!(ended.is_some(), "it goes on without a terminal");
    assert!(Recording::of(&path).complete);
}

#[test]
fn explicit_size_keeps_output_of_short_program() {
    let home = Home::new();
    let command = home.command(&["record", "--cols", "80", "--rows", "20", "--", "echo", "hi"]);
    let mut seat = Seat::with_stderr(command, Size::new(81, 21));
    assert_eq!(seat.left(), Some(0));
    seat.sees("hi");
    assert_eq!(seat.text().trim(), "hi", "nothing is wrong");
}

#[test]
fn viewers_exit_with_program_unless_stay_is_set() {
    let home = Home::new();
    let (_, file) = out_file(&home);
    let mut seat = viewed(&home, &["--stay", "--out-file", &file]);
    let id = id(&home);
    let attached = |more: &[&str], shows: &str, keys: &str| {
        let other = Seat::new(&home, SIZE, &[&["attach", &id], more].concat());
        other.sees("up");
        other.types(keys);
        other.sees(shows);
        other
    };
    let mut scrolls = attached(&[], "scroll", "\x1b[5;2~");
    let mut helps = attached(&[], "While the program runs", "\x1b[93;5u?");
    let mut stays = attached(&["--stay"], "up", "");
    home.ok(&["host", "write", &id, "--escape", "4\\r"]);
    assert_eq!((scrolls.left(), helps.left()), (Some(0), Some(0)));
    for seat in [&seat, &stays] {
        seat.sees("the program has ended");
        seat.sees("scroll");
        seat.types("q");
    }
    assert_eq!((seat.left(), stays.left()), (Some(4), Some(0)));
}

#[test]
fn terminal_reports_are_not_user_input() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let script = "stty raw -echo; printf '\\033[?1004h\\033[?1000h\\033[?1006hup'; head -c 13 >/dev/null";
    let mut seat = Seat::of(home.command(&["record", "--out-file", &file, "--", "sh", "-c", script]), SIZE);
    seat.sees("up");
    seat.types("\x1b[I\x1b[<0;3;3Mx");
    assert_eq!(seat.left(), Some(0));
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
    // Nothing that a program that compresses could make small; then it is silent.
    let script = "head -c 30000 /dev/urandom | base64 -w 50; printf up; read a";
    let mut seat = Seat::of(
        home.command(&["record", "--out-file", &file, "--", "sh", "-c", script]),
        Size::new(140, 12),
    );
    seat.sees("up");
    let told = || {
        let size = std::fs::metadata(&path).unwrap().len();
        size > 20_000 && seat.text().contains(&format!("{} kB", size / 1000))
    };
    assert!(wait_until(LIMIT, told), "{}", seat.text());
    seat.types("\r");
    assert_eq!(seat.left(), Some(0));
}

#[test]
fn bell_rings_only_for_current_viewers() {
    let home = Home::new();
    let script = "printf 'early \\a'; read a; printf 'now \\a\\a'; read a; exit 3";
    let mut seat = Seat::new(&home, SIZE, &["record", "--", "sh", "-c", script]);
    let rings = |seat: &Seat| seat.written.lock().unwrap().iter().filter(|byte| **byte == 7).count();
    seat.sees("early");
    let mut later = Seat::new(&home, SIZE, &["attach", &id(&home)]);
    later.sees("early");
    let before = rings(&seat);
    assert_eq!(rings(&later), 0, "that was before it came");
    seat.types("\r");
    later.sees("now");
    assert!(wait_until(LIMIT, || rings(&seat) == before + 1), "{}", rings(&seat));
    assert!(wait_until(LIMIT, || rings(&later) == 1), "{}", rings(&later));
    seat.types("\r");
    assert_eq!((seat.left(), later.left()), (Some(3), Some(0)));
    assert_eq!(rings(&later), 1);
}
