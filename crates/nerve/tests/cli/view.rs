//! `nerve view` in a terminal: the display, the keys, and the restored terminal.

use nerve_record::ahr::Body;
use nerve_testkit::harness::resize;
use nerve_testkit::wait_until;
use nerve_types::Size;
use rustix::process::Signal;

use crate::harness::{Home, NERVE};
use crate::recordings::{data, record};
use crate::tty::{LIMIT, Tty};

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

/// Closes the task entry, which is open at the start.
fn close_entry(tty: &Tty) {
    tty.expect("branch from the end");
    tty.send("\x1b");
    tty.expect("press Esc again to leave");
}

/// Closes the task entry opened with `i`.
fn close_entry_with_esc(tty: &Tty) {
    tty.send("\x1b");
    close_entry_if_shown(tty);
}

/// Waits until a submitted task has left the screen.
fn close_entry_if_shown(tty: &Tty) {
    assert!(wait_until(LIMIT, || !tty.text().contains("branch from")), "{}", tty.text());
}

#[test]
fn end_is_framed_and_all_lines_are_reachable() {
    let (home, path) = home();
    let mut tty = Tty::new(&home, SIZE, &["view", "--task", &path]);
    tty.expect("│line 60");
    tty.expect("2 snapshots · line 61 of 61 · end");
    let text = tty.text();
    let frame = text.lines().find(|line| line.contains('┌')).unwrap();
    assert_eq!(frame.trim_start().chars().count(), 43, "40 columns, the gutter and the frame: {text}");
    assert!(frame.starts_with("                  ┌"), "in the middle: {text}");
    close_entry(&tty);
    tty.send("g");
    tty.expect("│line 1 ");
    tty.send("]");
    tty.expect("│line 21 ");
    tty.send("[");
    tty.expect("no snapshot above");
    tty.send("k");
    tty.expect("│line 21                                 ▶│");
    tty.send("/LINE 4[37]");
    tty.expect("/LINE 4[37]▏");
    tty.send("\r");
    tty.expect("no match for");
    tty.send("/line 4[37]\r");
    tty.expect("match 1 of 2");
    tty.send("n");
    tty.expect("match 2 of 2");
    tty.expect("│line 47");
    tty.send("\x1b[5~\x1b[6~\x1b[<65;5;5MG");
    tty.expect("│line 60");
    tty.send("h");
    tty.expect("a line down");
    tty.send("x");
    tty.expect("│line 60");
    tty.send("q");
    assert_eq!(tty.wait_for_exit(), Some(0));
    assert!(!tty.text().contains("line"), "what was shown is gone: {}", tty.text());
}

#[test]
fn recording_opens_as_pager_and_no_key_submits() {
    let (home, path) = home();
    let mut tty = Tty::new(&home, SIZE, &["view", &path]);
    tty.expect("line 61 of 61");
    assert!(!tty.text().contains("branch from"), "{}", tty.text());
    tty.send("q");
    assert_eq!(tty.wait_for_exit(), Some(0));
    let mut tty = Tty::new(&home, SIZE, &["view", &path]);
    tty.expect("line 61 of 61");
    tty.send("g");
    tty.expect("│line 1 ");
    tty.send("\r");
    let is_scrolled = || tty.text().contains("│line 2 ") && !tty.text().contains("│line 1 ");
    assert!(wait_until(LIMIT, is_scrolled), "Enter scrolls by a line: {}", tty.text());
    tty.send("Gi");
    tty.expect("branch from");
    // Without a text, Enter submits nothing.
    tty.send("\r");
    close_entry_with_esc(&tty);
    tty.send("q");
    assert_eq!(tty.wait_for_exit(), Some(0));
    let config = home.ok(&["config", "path"]);
    let config = std::path::Path::new(config.trim());
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(config, "agent.record.task = true\n").unwrap();
    let tty = Tty::new(&home, SIZE, &["view", &path]);
    tty.expect("branch from the end");
}

#[test]
fn seeking_and_playing_reach_any_moment() {
    let (home, path) = home();
    let mut tty = Tty::new(&home, SIZE, &["replay", "--viewer", &path]);
    tty.expect("line 61 of 61");
    tty.send("3,");
    tty.expect("\n0:45 ━");
    tty.expect("│line 45");
    assert!(!tty.text().contains("│line 46"), "{}", tty.text());
    tty.send(".");
    tty.expect("\n0:50 ━");
    tty.send("++++p");
    tty.expect("│line 52");
    tty.expect("\n1:00 ━");
    tty.expect("end");
    tty.send("99,");
    tty.expect("\n0:00 ●");
    assert!(!tty.text().contains("│line"), "{}", tty.text());
    tty.send("p");
    tty.expect("16×");
    tty.expect("\n1:00 ━");
    // A click on the timeline's middle.
    tty.send("\x1b[<0;40;11M\x1b[<0;40;11m");
    tty.expect("\n0:29 ━");
    tty.send("\x1b");
    tty.expect("press Esc again to leave");
    tty.send("\x1b");
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn view_opens_at_a_time() {
    let (home, path) = home();
    let mut tty = Tty::new(&home, SIZE, &["view", &path, "--at", "0:45.5"]);
    tty.expect("\n0:45 ━");
    tty.expect("│line 45");
    assert!(!tty.text().contains("│line 46"), "{}", tty.text());
    tty.send("q");
    assert_eq!(tty.wait_for_exit(), Some(0));
    home.nerve(&["view", &path, "--at", "+100"]).assert_stderr(2, &["--at", "H:M:S"]);
}

#[test]
fn double_esc_works_without_kitty_protocol() {
    let (home, path) = home();
    let mut tty = Tty::without_kitty(&home, SIZE, &["view", "--task", &path]);
    tty.expect("branch from the end");
    // The first Esc closes the task entry, the second one leaves.
    tty.send("\x1b\x1b");
    assert_eq!(tty.wait_for_exit(), Some(0));
    let mut tty = Tty::without_kitty(&home, SIZE, &["view", "--task", &path]);
    tty.expect("branch from the end");
    tty.send("\x1b");
    tty.expect("press Esc again to leave");
    // A single Esc is not final: with the next key it means Alt.
    tty.send("g\x1b");
    tty.expect("press Esc again to leave");
    tty.send("\x1b>");
    tty.expect("│line 60");
    tty.send("q");
    assert_eq!(tty.wait_for_exit(), Some(0));
    // A program receives both.
    let mut tty = Tty::without_kitty(&home, SIZE, &["record", "--", "cat", "-v"]);
    tty.expect("live");
    tty.send("a\x1b\x1bb\x1b\x1b");
    tty.send("\r");
    tty.expect("a^[^[b^[^[");
    tty.send("\x04");
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn resize_redraws_the_frame() {
    let (home, path) = home();
    let mut tty = Tty::new(&home, SIZE, &["view", "--task", &path, "--gutter", "none", "--no-colors"]);
    tty.expect("line 61 of 61");
    close_entry(&tty);
    tty.send("g");
    tty.expect("│line 6 ");
    for (rows, first) in [(9, "─".repeat(20)), (5, "line 1\nline 2\nline 3\nline 4\n".into())] {
        let small = Size::new(20, rows);
        tty.terminal.lock().unwrap().resize(small);
        resize(&tty.slave, small).unwrap();
        tty.signal(Signal::WINCH);
        assert!(wait_until(LIMIT, || tty.text().starts_with(&first)), "{}", tty.text());
        assert!(!tty.text().contains('│'), "its sides would take columns from the lines: {}", tty.text());
    }
    let coloured = |run: &nerve_vt::screen::StyleRun| run.style.fg != nerve_vt::screen::Color::Default;
    assert!(!tty.terminal.lock().unwrap().screen().rows.iter().any(|row| row.runs.iter().any(coloured)));
    tty.send("q");
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn signals_restore_the_terminal() {
    let (home, path) = home();
    let leave: [(&str, Option<Signal>, i32); 3] =
        [("\x03\x03", None, 130), ("", Some(Signal::TERM), 143), ("", Some(Signal::HUP), 129)];
    for (keys, signal, code) in leave {
        let mut tty = Tty::new(&home, SIZE, &["view", "--task", &path]);
        tty.expect("line 61 of 61");
        tty.send(keys);
        signal.into_iter().for_each(|signal| tty.signal(signal));
        assert_eq!(tty.wait_for_exit(), Some(code), "{keys:?} {signal:?}");
    }
}

#[test]
fn failed_branch_is_reported_and_task_kept() {
    let (home, path) = home();
    let mut tty = Tty::new(&home, Size::new(150, 14), &["view", "--task", &path]);
    tty.expect("branch from the end");
    tty.send("\r");
    tty.send("do it\r");
    tty.expect("sixty.meta.json not found");
    tty.expect("│do it");
    close_entry(&tty);
    tty.send("q");
    assert_eq!(tty.wait_for_exit(), Some(0));
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
    let mut early = Tty::new(&home, Size::new(150, 40), &["view", "--task", recording.to_str().unwrap()]);
    early.expect("the first thing");
    assert!(!early.text().contains("branch from the end"), "it has none yet: {}", early.text());
    early.send("B");
    early.expect("no branch yet");
    early.send("\x03\x03");
    assert_eq!(early.wait_for_exit(), Some(130));
    home.ok(&["server", "node", "stop", "me"]);
    let mut tty =
        Tty::with_stderr(home.command(&["view", "--task", recording.to_str().unwrap()]), Size::new(150, 40));
    tty.expect("branch from");
    tty.send("the second thing\r");
    tty.expect("(B shows it)");
    close_entry_if_shown(&tty);
    // `B` opens the branch in the same terminal; detaching leaves it running.
    tty.send("B");
    tty.expect("live");
    tty.expect("the second thing");
    tty.send("\x1b[93;5ud");
    assert_eq!(tty.wait_for_exit(), Some(0));
    tty.expect("detached; reattach with 'nerve attach ");
    tty.expect("branched: 'nerve attach ");
    let nodes = home.nerve(&["server", "node", "list", "--json"]).json();
    let id =
        nodes["nodes_info"].as_array().unwrap().iter().find(|node| node["node_id"] != "me").unwrap()["node_id"].clone();
    let name = id.as_str().unwrap();
    assert!(wait_until(LIMIT, || home.read(name).contains("the second thing")), "{}", home.read(name));
    // A missing transcript is reported.
    std::fs::remove_dir_all(home.hermetic.home().join(".claude/projects")).unwrap();
    let mut tty =
        Tty::with_stderr(home.command(&["view", "--task", recording.to_str().unwrap()]), Size::new(150, 40));
    tty.expect("branch from");
    tty.send("the third thing\r");
    tty.expect("(B shows it); its conversation is a new one: ");
    close_entry_if_shown(&tty);
    tty.send("q");
    assert_eq!(tty.wait_for_exit(), Some(0));
    tty.expect("; its conversation is a new one: ");
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
    // The agent never gets ready, so creating the branch blocks.
    becomes("exec sleep 1000");
    for (keys, signal, code) in [("", Signal::TERM, 143), ("\x03\x03", Signal::HUP, 130)] {
        let view = home.command(&["view", "--task", recording.to_str().unwrap()]);
        let mut tty = Tty::with_stderr(view, Size::new(150, 40));
        tty.expect("branch from");
        tty.send("the second thing\r");
        tty.expect("branching: starting node");
        tty.send(keys);
        if !keys.is_empty() {
            tty.expect("the branch is still being created");
        }
        tty.signal(signal);
        assert_eq!(tty.wait_for_exit(), Some(code));
        tty.expect("creating the branch was cancelled");
    }
}

#[test]
fn missing_terminal_or_recording_hints_what_to_do() {
    let (home, path) = home();
    let done = home.nerve(&["view", "--task", &path]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.stderr.contains("needs a terminal") && done.stderr.contains("replay --fast"), "{done:?}");
    let mut tty = Tty::new(&home, SIZE, &["view", "nosuch"]);
    assert_eq!(tty.wait_for_exit(), Some(3));
    home.nerve(&["view", "nosuch"]).assert_stderr(3, &["nosuch"]);
    let mut dumb = home.command(&["view", "--task", &path]);
    dumb.env("TERM", "dumb");
    let mut tty = Tty::with_stderr(dumb, SIZE);
    tty.expect("TERM is 'dumb'");
    tty.expect("replay --fast");
    assert_eq!(tty.wait_for_exit(), Some(2));
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
        for args in [
            &["view", file][..],
            &["replay", "--viewer", file],
            &["replay", file],
            &["replay", "--fast", file],
            &["replay", "--print-meta", file],
            &["export", "-f", "txt", file],
            &["branch-points", file],
            &["branch", file, "continue"],
        ] {
            home.nerve(args).assert_stderr(1, &[file.trim_start_matches("./"), words]);
        }
    }
    home.nerve(&["view", "/"]).assert_stderr(1, &["regular file"]);
}

#[test]
fn player_options_and_bad_numbers_are_refused() {
    let (home, path) = home();
    home.nerve(&["replay", "--viewer", "--speed", "3", &path]).assert_stderr(2, &["--speed"]);
    home.nerve(&["replay", "--viewer", "--idle-limit", "3", &path]).assert_stderr(2, &["--idle-limit"]);
    home.nerve(&["replay", "--speed", "-1", &path]).assert_stderr(2, &["0.001"]);
    home.nerve(&["replay", "--idle-limit", "-1", &path]).assert_code(2);
    home.nerve(&["snapshot", "-t", "-1"]).assert_code(2);
}
