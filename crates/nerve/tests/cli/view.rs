//! `nerve view` in a terminal: what is seen, what keys do, and how the terminal is left.

use nerve_record::ahr::Body;
use nerve_term::event::Size;
use nerve_testkit::wait_until;
use rustix::process::Signal;

use crate::harness::{Home, NERVE};
use crate::recordings::{data, record};
use crate::tty::{LIMIT, Seat, resize};

const SIZE: Size = Size { cols: 80, rows: 12 };

/// Sixty lines on a terminal of 40 × 6, one a second, with snapshots behind lines 20 and 40.
fn home() -> (Home, String) {
    let home = Home::new();
    let path = home.hermetic.work().join("sixty.ahr");
    let lines: Vec<String> = (1..=60).map(|n| format!("\x1b[3{}mline {n}\x1b[0m\r\n", n % 8)).collect();
    let mut records = vec![(0, Body::Resize { cols: 40, rows: 6 })];
    let mut off = 0;
    for (nth, line) in (1..).zip(&lines) {
        records.push((nth * 1000, data(off, line)));
        off += line.len() as u64;
        if nth % 20 == 0 && nth < 60 {
            records.push((nth * 1000 + 1, Body::Snapshot { id: nth, anchor: off, label: b"here" }));
        }
    }
    record(&path, &records);
    (home, path.to_str().unwrap().to_string())
}

/// It is there from the begin, and has the keys.
fn close_entry(seat: &Seat) {
    seat.sees("branch from the end");
    seat.types("\x1b");
    seat.sees("Esc once more to leave");
}

/// A task that was sent is away.
fn close_entry_if_shown(seat: &Seat) {
    assert!(wait_until(LIMIT, || !seat.text().contains("branch from")), "{}", seat.text());
}

#[test]
fn end_is_framed_and_all_lines_are_reachable() {
    let (home, path) = home();
    let mut seat = Seat::new(&home, SIZE, &["view", &path]);
    seat.sees("│line 60");
    seat.sees("2 snapshots · line 61 of 61 · end");
    let text = seat.text();
    let frame = text.lines().find(|line| line.contains('┌')).unwrap();
    assert_eq!(frame.trim_start().chars().count(), 43, "40 columns, the gutter and the frame: {text}");
    assert!(frame.starts_with("                  ┌"), "in the middle: {text}");
    close_entry(&seat);
    seat.types("g");
    seat.sees("│line 1 ");
    seat.types("]");
    seat.sees("│line 21 ");
    seat.types("[");
    seat.sees("no snapshot above");
    seat.types("k");
    seat.sees("│line 21                                 ▶│");
    seat.types("/LINE 4[37]");
    seat.sees("/LINE 4[37]▏");
    seat.types("\r");
    seat.sees("is nowhere");
    seat.types("/line 4[37]\r");
    seat.sees("match 1 of 2");
    seat.types("n");
    seat.sees("match 2 of 2");
    seat.sees("│line 47");
    seat.types("\x1b[5~\x1b[6~\x1b[<65;5;5MG");
    seat.sees("│line 60");
    seat.types("h");
    seat.sees("a line down");
    seat.types("x");
    seat.sees("│line 60");
    seat.types("q");
    assert_eq!(seat.left(), Some(0));
    assert!(!seat.text().contains("line"), "what was shown is gone: {}", seat.text());
}

#[test]
fn seeking_and_playing_reach_any_moment() {
    let (home, path) = home();
    let mut seat = Seat::new(&home, SIZE, &["replay", "--viewer", &path]);
    seat.sees("line 61 of 61");
    close_entry(&seat);
    seat.types("3,");
    seat.sees("\n0:45 ━");
    seat.sees("│line 45");
    assert!(!seat.text().contains("│line 46"), "{}", seat.text());
    seat.types(".");
    seat.sees("\n0:50 ━");
    seat.types("++++p");
    seat.sees("│line 52");
    seat.sees("\n1:00 ━");
    seat.sees("end");
    seat.types("99,");
    seat.sees("\n0:00 ●");
    assert!(!seat.text().contains("│line"), "{}", seat.text());
    seat.types("p");
    seat.sees("16×");
    seat.sees("\n1:00 ━");
    // A click on the timeline's middle.
    seat.types("\x1b[<0;40;11M\x1b[<0;40;11m");
    seat.sees("\n0:29 ━");
    seat.types("\x1b");
    seat.sees("Esc once more to leave");
    seat.types("\x1b");
    assert_eq!(seat.left(), Some(0));
}

#[test]
fn double_esc_works_without_kitty_protocol() {
    let (home, path) = home();
    let mut seat = Seat::plain(&home, SIZE, &["view", &path]);
    seat.sees("branch from the end");
    // The first one closes the task entry, the second one leaves.
    seat.types("\x1b\x1b");
    assert_eq!(seat.left(), Some(0));
    let mut seat = Seat::plain(&home, SIZE, &["view", &path]);
    seat.sees("branch from the end");
    seat.types("\x1b");
    seat.sees("Esc once more to leave");
    // And once at once is once: with the next key it is Alt.
    seat.types("g\x1b");
    seat.sees("Esc once more to leave");
    seat.types("\x1b>");
    seat.sees("│line 60");
    seat.types("q");
    assert_eq!(seat.left(), Some(0));
    // A program has both.
    let mut seat = Seat::plain(&home, SIZE, &["record", "--", "cat", "-v"]);
    seat.sees("live");
    seat.types("a\x1b\x1bb\x1b\x1b");
    seat.types("\r");
    seat.sees("a^[^[b^[^[");
    seat.types("\x04");
    assert_eq!(seat.left(), Some(0));
}

#[test]
fn resize_redraws_the_frame() {
    let (home, path) = home();
    let mut seat = Seat::new(&home, SIZE, &["view", &path, "--gutter", "none", "--no-colors"]);
    seat.sees("line 61 of 61");
    close_entry(&seat);
    seat.types("g");
    seat.sees("│line 6 ");
    for (rows, first) in [(9, "─".repeat(20)), (5, "line 1\nline 2\nline 3\nline 4\n".into())] {
        let small = Size::new(20, rows);
        seat.shown.lock().unwrap().resize(small);
        resize(&seat.slave, small);
        seat.signal(Signal::WINCH);
        assert!(wait_until(LIMIT, || seat.text().starts_with(&first)), "{}", seat.text());
        assert!(!seat.text().contains('│'), "its sides would take columns from the lines: {}", seat.text());
    }
    let coloured = |run: &nerve_term::screen::StyleRun| run.style.fg != nerve_term::screen::Color::Default;
    assert!(!seat.shown.lock().unwrap().screen().rows.iter().any(|row| row.runs.iter().any(coloured)));
    seat.types("q");
    assert_eq!(seat.left(), Some(0));
}

#[test]
fn signals_restore_the_terminal() {
    let (home, path) = home();
    let leave: [(&str, Option<Signal>, i32); 3] =
        [("\x03\x03", None, 130), ("", Some(Signal::TERM), 143), ("", Some(Signal::HUP), 129)];
    for (keys, signal, code) in leave {
        let mut seat = Seat::new(&home, SIZE, &["view", &path]);
        seat.sees("line 61 of 61");
        seat.types(keys);
        signal.into_iter().for_each(|signal| seat.signal(signal));
        assert_eq!(seat.left(), Some(code), "{keys:?} {signal:?}");
    }
}

#[test]
fn failed_branch_is_reported_and_task_kept() {
    let (home, path) = home();
    let mut seat = Seat::new(&home, Size::new(150, 14), &["view", &path]);
    seat.sees("branch from the end");
    seat.types("\r");
    seat.types("do it\r");
    seat.sees("sixty.meta.json not found");
    seat.sees("│do it");
    close_entry(&seat);
    seat.types("q");
    assert_eq!(seat.left(), Some(0));
}

#[test]
fn task_at_session_end_starts_a_branch_node() {
    let home = Home::new();
    let folder = home.hermetic.work().join("project");
    std::fs::create_dir(&folder).unwrap();
    let claude = home.hermetic.work().join("claude");
    std::fs::write(&claude, format!("#!/bin/sh\nexec '{NERVE}' mock-agent \"$@\"\n")).unwrap();
    std::fs::set_permissions(&claude, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    home.ok(&["server", "start"]);
    let (claude, cwd) = (claude.to_str().unwrap(), folder.to_str().unwrap());
    home.ok(&["server", "node", "create", "me", "-c", claude, "-b", "claude", "--cwd", cwd]);
    home.ok(&["server", "node", "execute", "me", "the first thing"]);
    let recording = home.recording_of("me");
    let mut early = Seat::new(&home, Size::new(150, 40), &["view", recording.to_str().unwrap()]);
    early.sees("the first thing");
    assert!(!early.text().contains("branch from the end"), "it has none yet: {}", early.text());
    early.types("B");
    early.sees("no branch was made here");
    early.types("\x03\x03");
    assert_eq!(early.left(), Some(130));
    home.ok(&["server", "node", "stop", "me"]);
    let mut seat =
        Seat::with_stderr(home.command(&["view", recording.to_str().unwrap()]), Size::new(150, 40));
    seat.sees("branch from");
    seat.types("the second thing\r");
    seat.sees("(B goes there) has it now");
    close_entry_if_shown(&seat);
    // To it at once, in the same terminal; as from any program, it is left and goes on.
    seat.types("B");
    seat.sees("live");
    seat.sees("the second thing");
    seat.types("\x1b[93;5ud");
    assert_eq!(seat.left(), Some(0));
    seat.sees("detached; come back with 'nerve attach ");
    seat.sees("branched: 'nerve attach ");
    let nodes = home.nerve(&["server", "node", "list", "--json"]).json();
    let id =
        nodes["nodes_info"].as_array().unwrap().iter().find(|node| node["id"] != "me").unwrap()["id"].clone();
    let name = id.as_str().unwrap();
    assert!(wait_until(LIMIT, || home.read(name).contains("the second thing")), "{}", home.read(name));
    // What it does not know is told.
    std::fs::remove_dir_all(home.hermetic.home().join(".claude/projects")).unwrap();
    let mut seat =
        Seat::with_stderr(home.command(&["view", recording.to_str().unwrap()]), Size::new(150, 40));
    seat.sees("branch from");
    seat.types("the third thing\r");
    seat.sees("has it now; its conversation is a new one: ");
    close_entry_if_shown(&seat);
    seat.types("q");
    assert_eq!(seat.left(), Some(0));
    seat.sees("; its conversation is a new one: ");
}

#[test]
fn signal_cancels_branch_creation() {
    let home = Home::new();
    let claude = home.hermetic.work().join("claude");
    let becomes = |script: &str| {
        std::fs::write(&claude, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&claude, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    becomes(&format!("exec '{NERVE}' mock-agent \"$@\""));
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "create", "me", "-c", claude.to_str().unwrap(), "-b", "claude"]);
    home.ok(&["server", "node", "execute", "me", "the first thing"]);
    let recording = home.recording_of("me");
    home.ok(&["server", "node", "stop", "me"]);
    // Nobody can tell it anything for as long as an agent is waited for.
    becomes("exec sleep 1000");
    for (keys, signal, code) in [("", Signal::TERM, 143), ("\x03\x03", Signal::HUP, 130)] {
        let view = home.command(&["view", recording.to_str().unwrap()]);
        let mut seat = Seat::with_stderr(view, Size::new(150, 40));
        seat.sees("branch from");
        seat.types("the second thing\r");
        seat.sees("branching: starting node");
        seat.types(keys);
        if !keys.is_empty() {
            seat.sees("the branch is still being made");
        }
        seat.signal(signal);
        assert_eq!(seat.left(), Some(code));
        seat.sees("the branch that was being made is given up");
    }
}

#[test]
fn missing_terminal_or_recording_hints_what_to_do() {
    let (home, path) = home();
    let done = home.nerve(&["view", &path]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.stderr.contains("needs a terminal") && done.stderr.contains("replay --fast"), "{done:?}");
    let mut seat = Seat::new(&home, SIZE, &["view", "nosuch"]);
    assert_eq!(seat.left(), Some(3));
    home.nerve(&["view", "nosuch"]).says(3, &["nosuch"]);
    let mut dumb = home.command(&["view", &path]);
    dumb.env("TERM", "dumb");
    let mut seat = Seat::with_stderr(dumb, SIZE);
    seat.sees("TERM is 'dumb'");
    seat.sees("replay --fast");
    assert_eq!(seat.left(), Some(2));
}

#[test]
fn invalid_files_are_refused_with_reason() {
    let home = Home::new();
    let work = home.hermetic.work();
    std::fs::write(work.join("text"), "root:x:0:0:root\n".repeat(1000)).unwrap();
    std::fs::write(work.join("empty.ahr"), "").unwrap();
    std::fs::write(work.join("cut.ahr"), b"AHRC\x01\x00").unwrap();
    let words = [("./text", "is not a recording"), ("empty.ahr", "is empty"), ("cut.ahr", "is unreadable")];
    for (file, words) in words {
        for args in [&["view", file][..], &["replay", "--viewer", file], &["branch", file, "go on"]] {
            home.nerve(args).says(1, &[file.trim_start_matches("./"), words]);
        }
    }
    home.nerve(&["view", "/"]).says(1, &["not a regular file"]);
}

#[test]
fn player_options_and_bad_numbers_are_refused() {
    let (home, path) = home();
    home.nerve(&["replay", "--viewer", "--speed", "3", &path]).says(2, &["--speed"]);
    home.nerve(&["replay", "--viewer", "--idle-limit", "3", &path]).says(2, &["--idle-limit"]);
    home.nerve(&["replay", "--speed", "-1", &path]).says(2, &["must be from 0.001"]);
    home.nerve(&["replay", "--idle-limit", "-1", &path]).says(2, &["must be more than 0"]);
    home.nerve(&["snapshot", "-t", "-1"]).says(2, &["must be more than 0"]);
}
