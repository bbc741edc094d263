//! `nerve record` and `ah agent record`: a program in a terminal, recorded, and nothing changed for it.

use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nerve_record::activity::{Activity, Status};
use nerve_record::ssz::event;
use nerve_record::ssz::frame::{MAX_EVENT, decode_frame};
use nerve_record::ssz::snapshot::{Request, Response};
use nerve_testkit::harness::{CommandOutput, resize};
use nerve_testkit::wait_until;
use nerve_types::{ExitStatus, Origin, Size};
use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{DEADLINE, Home, NERVE};
use crate::recording::Recording;
use crate::tty::{LIMIT, Tty};

const SIZE: Size = Size { cols: 60, rows: 12 };

fn out_file(home: &Home) -> (PathBuf, String) {
    let path = home.hermetic.work().join("session.ahr");
    let text = path.to_str().unwrap().to_string();
    (path, text)
}

fn ah(home: &Home, args: &[&str]) -> Command {
    let mut command = home.hermetic.command(env!("CARGO_BIN_EXE_ah"));
    command.args(args);
    command
}

#[test]
fn recording_to_standard_output_is_refused() {
    let home = Home::new();
    let refused = home.nerve(&["record", "--headless", "--out-file", "-", "--", "true"]);
    refused.assert_stderr(2, &["./-"]);
    assert!(!home.hermetic.work().join("-").exists());
}

#[test]
fn keys_output_size_and_exit_code_pass_through() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let mut tty = Tty::new(
        &home,
        SIZE,
        &["record", "--plain", "--out-file", &file, "--", "bash", "--norc", "--noprofile"],
    );
    tty.expect("bash-");
    tty.send("echo two$((1 + 1))words; stty size\r");
    tty.expect("two2words");
    tty.expect("12 60");
    // The shell edits no line while the size changes: it would draw that again.
    tty.send("echo be''gun; until [ \"$(stty size)\" = '15 70' ]; do :; done; stty size; read -s -p Pass: secret; echo; exit 7\r");
    tty.expect("begun");
    resize(&tty.keyboard, Size::new(70, 15)).unwrap();
    // The kernel signals only those whose controlling terminal it is.
    tty.signal(Signal::WINCH);
    tty.expect("\n15 70");
    tty.expect("\nPass:");
    tty.send("hunter2\r");
    assert_eq!(tty.wait_for_exit(), Some(7));

    let recorded = Recording::of(&path);
    assert!(recorded.complete && recorded.lost.is_empty(), "{recorded:?}");
    assert_eq!(recorded.sizes, [(60, 12), (70, 15)]);
    assert_eq!(recorded.exits, [ExitStatus::Code(7)]);
    assert!(recorded.inputs.iter().all(|typed| typed.origin == Some(Origin::User)));
    let hidden: Vec<u8> =
        recorded.inputs.iter().filter(|typed| typed.redacted).flat_map(|typed| typed.bytes.clone()).collect();
    assert_eq!(hidden, b"*******\r");
    let all: Vec<u8> = recorded.inputs.iter().flat_map(|typed| typed.bytes.clone()).collect();
    assert!(!all.windows(7).any(|bytes| bytes == b"hunter2"));
}

#[test]
fn recording_is_kept_unless_refused() {
    let home = Home::new();
    let ids = |home: &Home| {
        let list = home.nerve(&["recording", "list", "--json"]).json();
        list["recordings"].as_array().unwrap().len()
    };
    home.ok(&["record", "--no-record", "--", "echo", "unheard"]);
    assert_eq!(home.run(ah(&home, &["agent", "record", "--", "echo", "unheard"])).code, 0);
    assert_eq!(ids(&home), 0, "the earlier recorder records on request");
    home.ok(&["record", "--", "echo", "heard"]);
    assert_eq!(ids(&home), 1);
    assert_eq!(home.ok(&["replay", "--fast"]).trim_end(), "heard");
    home.nerve(&["record", "--no-record", "--out-file", "x.ahr", "--", "true"])
        .assert_stderr(2, &["--no-record", "--out-file"]);
}

#[test]
fn terminal_shows_how_to_open_the_recording() {
    let home = Home::new();
    for options in [&["--plain"][..], &[]] {
        // The program's own options need no '--'.
        let args = [&["record"], options, &["sh", "-c", "echo heard"]].concat();
        let mut tty = Tty::with_stderr(home.command(&args), SIZE);
        assert_eq!(tty.wait_for_exit(), Some(0), "{}", tty.text());
        let id = home.nerve(&["recording", "list", "--json"]).json()["recordings"][0]["recording_id"].clone();
        let text = tty.text().replace('\n', "");
        assert!(text.contains("heard") && text.contains("recorded "), "{text}");
        assert!(text.contains(&format!("nerve view {}", id.as_str().unwrap())), "{text}");
    }
    let mut tty = Tty::with_stderr(home.command(&["record", "--plain", "--no-record", "true"]), SIZE);
    assert_eq!((tty.wait_for_exit(), tty.text().contains("recorded")), (Some(0), false));
}

#[test]
fn no_file_is_left_in_the_directory_and_socket_exists() {
    let home = Home::new();
    let script = "test -S \"$NERVE_RECORDER_SOCKET\" && test \"$AH_RECORDER_IPC_SOCKET\" = \"$NERVE_RECORDER_SOCKET\" \
                  && test -n \"$NERVE_SESSION_ID\" && echo there";
    let shown = home.ok(&["record", "--", "sh", "-c", script]);
    assert_eq!(shown, "there\r\n");
    assert_eq!(fs::read_dir(home.hermetic.work()).unwrap().count(), 0);
    assert_eq!(home.ok(&["recordings", "list"]).trim(), home.ok(&["recordings", "list"]).trim());
    assert!(home.hosts().is_empty(), "nothing is left behind");
}

#[test]
fn session_gets_its_id_and_folder() {
    let home = Home::new();
    home.ok(&["record", "--session-id", "my-session", "--out-file", "--", "echo", "hi"]);
    let shown = home.ok(&["replay", "my-session", "--fast"]);
    assert_eq!(shown.trim_end(), "hi");
    let bad = home.nerve(&["record", "--session-id", "../up", "--", "echo"]);
    bad.assert_stderr(2, &["../up"]);
}

#[test]
fn snapshot_follows_all_earlier_output() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let points = home.hermetic.work().join("points.json");
    let script = format!("seq 1 20000; {NERVE} snapshot --no-files --label here >/dev/null; echo after");
    let points_file = points.to_str().unwrap().to_string();
    let mut command = ah(
        &home,
        &["agent", "record", "--headless", "--out-file", &file, "--out-branch-points", &points_file],
    );
    command.args(["--", "sh", "-c", &script]);
    let done = home.run(command);
    assert_eq!((done.code, done.stdout.as_str()), (0, ""), "{done:?}");
    let recorded = Recording::of(&path);
    let before: usize = (1..=20000).map(|n: u32| n.to_string().len() + 2).sum();
    let end = recorded.output.len() as u64;
    assert_eq!(recorded.snapshots, [(1, before as u64), (2, end)], "the last one is the session's end");
    let points: Value = serde_json::from_str(&fs::read_to_string(points).unwrap()).unwrap();
    let items = points["items"].as_array().unwrap();
    let at = items.iter().position(|item| item["kind"] == "snapshot").unwrap();
    assert_eq!(items[at]["label"], "here");
    assert_eq!(items[at - 1]["text"], "20000");
    assert_eq!(items[at + 1]["text"], "after", "written after the snapshot");
}

#[test]
fn snapshot_can_be_requested_over_loopback() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let mut command =
        home.command(&["record", "--headless", "--ipc", "tcp:127.0.0.1:0", "--out-file", &file, "--"]);
    command.args(["sh", "-c", "echo \"$NERVE_RECORDER_SOCKET\" > socket; read line"]);
    let mut child = command.spawn().unwrap();
    let socket_file = home.hermetic.work().join("socket");
    assert!(wait_until(LIMIT, || fs::read_to_string(&socket_file).is_ok_and(|text| text.ends_with('\n'))));
    let socket = fs::read_to_string(&socket_file).unwrap();
    let mut stream = std::net::TcpStream::connect(socket.trim().strip_prefix("tcp:").unwrap()).unwrap();
    let mut ask = |bytes: &[u8]| {
        std::io::Write::write_all(&mut stream, bytes).unwrap();
        let mut read = Vec::new();
        loop {
            if let Some(body) = decode_frame(&mut read, MAX_EVENT).unwrap() {
                return Response::decode(&body).unwrap();
            }
            let mut piece = [0; 100];
            let size = stream.read(&mut piece).unwrap();
            assert_ne!(size, 0, "it closed");
            read.extend_from_slice(&piece[..size]);
        }
    };
    let request = |id| Request::Snapshot { id, label: b"x".to_vec() }.frame().unwrap();
    assert!(matches!(ask(&request(5)), Response::Success { id: 5, .. }));
    // An invalid request is answered and the connection stays open.
    assert!(matches!(ask(&[1, 0, 0, 0, 9]), Response::Error { .. }), "a selector that is not known");
    assert!(matches!(ask(&[3, 0, 0, 0, 0, 1, 2]), Response::Error { .. }), "too short");
    assert!(matches!(ask(&request(6)), Response::Success { id: 6, .. }));
    // An invalid length closes the connection.
    assert!(matches!(ask(&[0xff; 4]), Response::Error { .. }));
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    home_types(&home, "over\r");
    child.wait().unwrap();
    assert_eq!(Recording::of(&path).snapshots.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [5, 6, 7]);
    home.nerve(&["record", "--ipc", "tcp:0.0.0.0:0", "--", "true"]).assert_stderr(2, &["loopback"]);
}

/// Starts a program that is recorded in its own folder. Snapshots are taken from another folder.
fn recorded_elsewhere(home: &Home, ipc: &str) -> (PathBuf, std::process::Child) {
    let work = home.hermetic.work();
    let there = work.join("there");
    fs::create_dir_all(&there).unwrap();
    fs::write(there.join("file"), "kept\n").unwrap();
    let path = work.join("s.ahr");
    let file = path.to_str().unwrap();
    let args = ["record", "--headless", "--ipc", ipc, "--session-id", "my-session", "--out-file", file, "--"];
    let mut command = home.command(&args);
    command.current_dir(&there).args(["sh", "-c", "echo up; read line"]);
    let child = command.spawn().unwrap();
    assert!(wait_until(LIMIT, || home.hosts().len() == 1));
    (path, child)
}

#[test]
fn snapshot_from_another_terminal_joins_the_session() {
    let home = Home::new();
    let (path, mut child) = recorded_elsewhere(&home, "auto");
    let host = home.nerve(&["host", "list", "--json"]).json()["hosts"][0].clone();
    let socket = host["snapshot_socket"].as_str().unwrap().to_string();
    home.nerve(&["snapshot", "--socket", &format!("{socket}x")]).assert_stderr(3, &["host list"]);
    home.nerve(&["snapshot", "--session", "absent"]).assert_stderr(3, &["'absent'", "nerve host list"]);
    let there = home.hermetic.work().join("there");
    let dir = there.to_str().unwrap();
    let by_socket =
        home.nerve(&["snapshot", "--socket", &socket, "--dir", dir, "--label", "s5", "--json"]).json();
    assert_eq!(
        (&by_socket["recording_id"], &by_socket["snapshot_id"]),
        (&"my-session".into(), &1.into()),
        "{by_socket}"
    );
    let id = host["host_id"].as_str().unwrap();
    for (n, wanted) in (2..).zip([id, "my-sess", path.to_str().unwrap()]) {
        let done = home.nerve(&["snapshot", "--session", wanted, "--json"]);
        let taken = done.json();
        assert_eq!(
            (&taken["recording_id"], &taken["snapshot_id"]),
            (&"my-session".into(), &Value::from(n)),
            "{done:?}"
        );
        let source = PathBuf::from(taken["files"]["source"].as_str().unwrap());
        assert_eq!(source, there.canonicalize().unwrap(), "the files of its program's folder");
    }
    let lines = nerve_record::snapshots::read(&path).unwrap();
    assert!(lines.len() == 4 && lines.iter().all(|line| line.files.is_some()), "{lines:?}");
    let listed = home.ok(&["snapshot", "list", path.to_str().unwrap()]);
    assert!(listed.contains("s5") && listed.lines().count() == 5, "{listed}");
    home.ok(&["snapshot", "restore", "1", "--session", path.to_str().unwrap(), "--to", "before"]);
    assert_eq!(fs::read_to_string(home.hermetic.work().join("before/file")).unwrap(), "kept\n");
    home_types(&home, "over\r");
    child.wait().unwrap();
    home.nerve(&["snapshot", "--session", "my-session"]).assert_stderr(3, &["'my-session'"]);
}

#[test]
fn loopback_recorder_is_found_by_its_port() {
    let home = Home::new();
    let (path, mut child) = recorded_elsewhere(&home, "tcp:127.0.0.1:0");
    let host = home.nerve(&["host", "list", "--json"]).json()["hosts"][0].clone();
    let socket = host["snapshot_socket"].as_str().unwrap();
    assert!(socket.starts_with("tcp:127.0.0.1:"), "{host}");
    let by_socket = home.nerve(&["snapshot", "--socket", socket, "--no-files", "--json"]).json();
    let by_session = home.nerve(&["snapshot", "--session", "my", "--no-files", "--json"]).json();
    assert_eq!((&by_socket["recording_id"], &by_session["snapshot_id"]), (&"my-session".into(), &2.into()));
    home_types(&home, "over\r");
    child.wait().unwrap();
    assert_eq!(Recording::of(&path).snapshots.len(), 3, "those two and the end");
}

#[test]
fn second_recorder_of_a_file_is_refused() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    home.ok(&["record", "--out-file", &file, "--", "echo", "first"]);
    let before = fs::read(&path).unwrap();
    let second = home.nerve(&["record", "--out-file", &file, "--", "touch", "started"]);
    second.assert_stderr(1, &["session.ahr"]);
    assert!(!home.hermetic.work().join("started").exists());
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(home.hosts().is_empty());
}

#[test]
fn missing_program_is_reported_and_leaves_nothing() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let missing = home.nerve(&["record", "--out-file", &file, "--", "no-such-program"]);
    missing.assert_stderr(127, &["program 'no-such-program'", "sh -c"]);
    assert!(!missing.stderr.contains("recording"), "{missing:?}");
    let text = home.hermetic.work().join("text");
    fs::write(&text, "neither\n").unwrap();
    for name in ["./text", "/"] {
        home.nerve(&["record", "--out-file", &file, "--", name]).assert_stderr(126, &[name]);
    }
    for points in ["/no/such/folder/points.json", "/"] {
        home.nerve(&["record", "--out-branch-points", points, "--", "touch", "started"])
            .assert_stderr(1, &[points]);
    }
    assert!(!home.hermetic.work().join("started").exists());
    home.nerve(&["record", "--plain", "--gutter", "left", "--", "true"]).assert_stderr(2, &["--gutter"]);
    assert!(!path.exists());
    home.nerve(&["record"]).assert_stderr(2, &["CMD"]);
    home.nerve(&["record", "--brotli-q", "12", "--", "true"]).assert_stderr(2, &["12"]);
    home.nerve(&["record", "--events-pipe-fd", "77", "--", "true"]).assert_stderr(2, &["77"]);
    assert!(home.hosts().is_empty());
}

#[test]
fn end_of_stdin_ends_program_input() {
    let home = Home::new();
    let done = home.nerve_with(&["record", "--", "cat"], "one\n");
    assert_eq!(done.code, 0, "{done:?}");
    // Echoed by the terminal, then by cat.
    assert_eq!(done.stdout.matches("one\r\n").count(), 2, "{done:?}");
}

#[test]
fn signal_ends_program_and_completes_recording() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let mut tty = Tty::new(
        &home,
        SIZE,
        &["record", "--plain", "--out-file", &file, "--", "sh", "-c", "echo up; sleep 100"],
    );
    tty.expect("up");
    tty.signal(Signal::TERM);
    assert_eq!(tty.wait_for_exit(), Some(128 + Signal::HUP.as_raw()));
    let recorded = Recording::of(&path);
    assert!(recorded.complete);
    assert_eq!(recorded.exits, [ExitStatus::Signal(Signal::HUP.as_raw())]);
}

#[test]
fn failed_window_resize_is_reported_but_program_resizes() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let mut command =
        home.command(&["record", "--plain", "--cols", "100", "--rows", "30", "--out-file", &file, "--"]);
    command.args(["sh", "-c", "stty size"]);
    let mut tty = Tty::spawn(command, SIZE);
    tty.expect("30 100");
    assert_eq!(tty.wait_for_exit(), Some(0));
    assert_eq!(Recording::of(&path).sizes, [(100, 30)]);
}

/// Runs a recorder with an event pipe and returns the events.
fn events_of(home: &Home, program: &[&str]) -> (CommandOutput, Vec<Activity>) {
    let (mut reader, writer) = std::io::pipe().unwrap();
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
    let fd = writer.as_raw_fd().to_string();
    let mut command = ah(home, &["agent", "record", "--headless", "--events-pipe-fd", &fd, "--"]);
    command.args(program).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(writer);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    let done = CommandOutput::new(&child.wait_with_output().unwrap());
    let mut events = Vec::new();
    while let Some(body) = decode_frame(&mut bytes, MAX_EVENT).unwrap() {
        events.push(event::decode(&body).unwrap());
    }
    assert!(bytes.is_empty(), "half a frame");
    (done, events)
}

#[test]
fn program_events_are_written_to_a_pipe() {
    let home = Home::new();
    let (done, events) = events_of(&home, &["bash", "--norc", "-c", "echo hi; exit 3"]);
    assert_eq!(done.code, 3, "{done:?}");
    let statuses: Vec<Status> = events
        .iter()
        .map(|event| match event {
            Activity::Status { status, .. } => *status,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(statuses.last(), Some(&Status::Failed), "{statuses:?}");
}

#[test]
fn closed_event_pipe_does_not_disturb_session() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
    let fd = writer.as_raw_fd().to_string();
    let mut command =
        home.command(&["record", "--headless", "--events-pipe-fd", &fd, "--out-file", &file, "--"]);
    command.args(["sh", "-c", "read line; echo \"got $line\"; exit 4"]).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop((reader, writer));
    // The size is recorded when the program runs; the event pipe is closed by then.
    assert!(wait_until(DEADLINE, || path.exists()));
    home_types(&home, "line\r");
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert!(String::from_utf8_lossy(&Recording::of(&path).output).contains("got line"));
}

/// Types into the only host.
fn home_types(home: &Home, keys: &str) {
    assert!(wait_until(DEADLINE, || !home.hosts().is_empty()));
    let id = home.hosts()[0]["host_id"].as_str().unwrap().to_string();
    home.ok(&["host", "write", &id, "--escape", &keys.replace('\r', "\\r")]);
}

#[test]
fn injected_keys_reach_the_program_as_if_typed() {
    let home = Home::new();
    let (path, file) = out_file(&home);
    let mut tty = Tty::new(
        &home,
        SIZE,
        &["record", "--plain", "--out-file", &file, "--", "sh", "-c", "read a; echo got-$a"],
    );
    home_types(&home, "injected\r");
    tty.expect("got-injected");
    assert_eq!(tty.wait_for_exit(), Some(0));
    let recorded = Recording::of(&path);
    assert_eq!(
        recorded.inputs.iter().map(|typed| typed.origin).collect::<Vec<_>>(),
        [Some(Origin::Injected)]
    );
}

#[test]
fn ah_offers_the_first_recorders_commands() {
    let home = Home::new();
    let (_, file) = out_file(&home);
    assert_eq!(home.run(ah(&home, &["agent", "record", "--out-file", &file, "--", "echo", "hello"])).code, 0);
    let replayed = home.run(ah(&home, &["agent", "replay", "--session", &file, "--fast", "--no-colors"]));
    assert_eq!((replayed.code, replayed.stdout.as_str()), (0, "hello\n"), "{replayed:?}");
    let report = home.run(ah(&home, &["agent", "replay", &file, "--format", "csv"]));
    assert!(
        report.code == 0 && report.stdout.contains("line,") && report.stdout.contains("hello"),
        "{report:?}"
    );
    home.run(ah(&home, &["agent", "replay", &file, "--format", "md", "--fast"]))
        .assert_stderr(2, &["--fast"]);
    assert_eq!(home.run(ah(&home, &["agent", "inspect", &file])).code, 0);
    let points = home.run(ah(&home, &["agent", "branch-points", "--session", &file]));
    assert!(points.stdout.contains("hello"), "{points:?}");
    home.run(ah(&home, &["agent", "fs", "snapshot"])).assert_stderr(3, &["NERVE_RECORDER_SOCKET"]);
    home.run(ah(&home, &["agent", "view", "nosuch"])).assert_stderr(3, &["nosuch"]);
    home.run(ah(&home, &["agent", "branch", &file, "Continue", "--dry-run"])).assert_code(2);
    let usage = home.run(ah(&home, &["agent", "branch", "--help"])).stdout;
    assert!(usage.contains("Usage: ah agent branch [OPTIONS]"), "{usage}");
    assert_eq!(home.run(ah(&home, &["server", "list"])).code, 2, "nothing else");
    let help = home.run(ah(&home, &["--help"]));
    assert!(help.stdout.contains("ah agent record"), "{help:?}");
}
