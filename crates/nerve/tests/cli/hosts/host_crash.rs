//! `kill -9` of a host: its node ends, and its recording lacks at most the last moment.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nerve_record::ssz::frame::{MAX_MESSAGE, decode_frame};
use nerve_record::ssz::snapshot::{Request, Response};
use nerve_testkit::harness::{freeze, is_alive, signal};
use nerve_testkit::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Home, NERVE, pid_in};
use crate::recording::{Recording, numbers};

/// Maximum time a block waits, plus an allowance for a busy machine with two cores.
const MAY_BE_LOST: Duration = Duration::from_millis(250 + 250);

/// Announces a snapshot as a program in the terminal would; returns its anchor.
fn snapshot(socket: &str, id: u64, label: &str) -> u64 {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(&Request::Snapshot { id, label: label.into() }.frame().unwrap()).unwrap();
    let mut read = Vec::new();
    loop {
        if let Some(body) = decode_frame(&mut read, MAX_MESSAGE).unwrap() {
            match Response::decode(&body).unwrap() {
                Response::Success { id: answered, anchor, .. } if answered == id => return anchor,
                other => panic!("{other:?}"),
            }
        }
        let mut piece = [0; 1024];
        let size = stream.read(&mut piece).unwrap();
        assert!(size > 0, "the host hung up");
        read.extend_from_slice(&piece[..size]);
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

#[test]
fn only_its_node_stops_with_the_reason() {
    let home = Home::with_server();
    home.shell("sh");
    home.create("me", &format!("{NERVE} mock-agent"), &["--profile", "claude"]);
    home.ok(&["server", "node", "wait", "me"]);
    let (host, child) = (home.host_of("sh"), pid_in(&json!(home.metadata("sh", "pid"))));
    let wait = home.start(&["server", "node", "wait", "sh", "--until", "stopped"]);
    let turn = home.start(&["server", "node", "execute", "sh", "sleep 1000"]);
    home.wait_for_state("sh", "busy");
    let pid = host["pid"].as_u64().unwrap();
    signal(pid_in(&host["pid"]), Signal::KILL);
    assert_eq!(wait.output().code, 0);
    turn.output().assert_stderr(1, &["node 'sh'"]);
    assert_eq!(home.state("sh"), "stopped");
    assert!(
        home.metadata("sh", "faults").contains(&format!("its host (pid {pid}) is gone")),
        "{:#}",
        home.info("sh")
    );
    home.nerve(&["server", "node", "execute", "sh", "x"]).assert_stderr(1, &["host"]);
    assert!(wait_until(DEADLINE, || !is_alive(child)), "the shell was not hung up");
    let nodes: Vec<Value> = home.hosts().into_iter().map(|host| host["node_id"].clone()).collect();
    assert_eq!(nodes, ["me"]);
    let runtime = home.hermetic.nerve_home().join("run/hosts");
    assert!(!runtime.join(host["host_id"].as_str().unwrap()).exists(), "its sockets are left behind");
    assert_eq!(home.execute("me", "hello"), "You said: hello\n");
    home.shell("sh");
    assert_eq!(home.execute("sh", "echo new"), "new\n");
}

#[test]
fn turn_of_its_node_fails_with_the_reason() {
    let home = Home::with_server();
    home.shell("sh");
    let turn = home.start(&["server", "node", "execute", "sh", "sleep 1000"]);
    home.wait_for_state("sh", "busy");
    let pid = pid_in(&home.host_of("sh")["pid"]);
    signal(pid, Signal::KILL);
    turn.output().assert_stderr(1, &["node 'sh'", &format!("its host (pid {pid}) is gone")]);
}

#[test]
fn program_ignoring_hangup_is_ended_too() {
    let home = Home::with_server();
    home.script(
        "deaf",
        "trap '' HUP TERM\necho begun\nwhile :; do read -rt 1 </dev/null; sleep 0.05 2>/dev/null; done\n",
        &[],
    );
    home.wait_for_text("deaf", "begun");
    let child = pid_in(&json!(home.metadata("deaf", "pid")));
    signal(pid_in(&home.host_of("deaf")["pid"]), Signal::KILL);
    home.wait_for_state("deaf", "stopped");
    let ended = wait_until(DEADLINE, || !is_alive(child));
    if !ended {
        signal(child, Signal::KILL);
    }
    assert!(ended, "the program outlives its host: pid {child}");
}

#[test]
fn recording_lacks_at_most_the_last_moment() {
    let home = Home::with_server();
    home.script(
        "clock",
        "i=0; while :; do i=$((i+1)); echo \"line $i\"; echo \"at ${EPOCHREALTIME/./}\"; sleep 0.005; done\n",
        &[],
    );
    home.wait_for_text("clock", "line 50");
    let host = home.host_of("clock");
    let runtime = home.hermetic.nerve_home().join("run/hosts").join(host["host_id"].as_str().unwrap());
    let socket = runtime.join("snapshot");
    for round in 1..=5 {
        let written = home.read("clock").len();
        let anchor = snapshot(socket.to_str().unwrap(), round, "a mark");
        assert!(anchor as usize >= written, "what was shown before is before the snapshot");
    }
    let anchor = snapshot(socket.to_str().unwrap(), 6, "last");
    let recording = home.recording_of("clock");
    signal(pid_in(&host["pid"]), Signal::KILL);
    let killed = now();
    home.wait_for_state("clock", "stopped");
    let found = Recording::of(&recording);
    assert!(found.lost.iter().all(|lost| lost.tail), "{:?}", found.lost);
    assert!(found.output.len() as u64 >= anchor, "output before the snapshot is lost");
    assert_eq!(found.snapshots.len(), 6);
    assert_eq!(found.snapshots[5], (6, anchor));
    let lines = nerve_record::snapshots::read(&recording).unwrap();
    assert_eq!(lines.iter().map(|line| (line.id, line.anchor_byte)).collect::<Vec<_>>(), found.snapshots);
    let text = found.text();
    let counted = numbers(&text, "line");
    assert!(counted.iter().copied().eq(1..=counted.len() as u64));
    let last = Duration::from_micros(*numbers(&text, "at").last().unwrap());
    assert!(killed.saturating_sub(last) < MAY_BE_LOST, "{:?} are lost", killed.saturating_sub(last));
    // The node received its text over the connection, so it has at least as much.
    assert!(home.read("clock").lines().count() >= text.lines().count() - 1);
}

#[test]
fn snapshot_includes_output_written_just_before() {
    let home = Home::with_server();
    home.shell("sh");
    let socket = home.execute("sh", "echo $NERVE_RECORDER_SOCKET");
    assert_eq!(home.execute("sh", "echo $AH_RECORDER_IPC_SOCKET"), socket);
    assert_eq!(home.execute("sh", "echo $NERVE_RECORDING").trim(), home.metadata("sh", "recording_path"));
    home.execute("sh", "seq 1 20000");
    let anchor = snapshot(socket.trim(), 77, "");
    // The snapshot is in the file at once, without waiting for the timer.
    let found = Recording::of(&home.recording_of("sh"));
    assert_eq!(found.snapshots, [(77, anchor)]);
    assert!(String::from_utf8_lossy(&found.output[..anchor as usize]).contains("\n20000\r\n"));
}

#[test]
fn next_server_reports_host_that_died_meanwhile() {
    let home = Home::with_server();
    home.shell("sh");
    home.execute("sh", "echo kept $((1+1))");
    let (host, recording) = (home.host_of("sh"), home.recording_of("sh"));
    assert!(wait_until(DEADLINE, || Recording::of(&recording).text().contains("kept 2\r\n")));
    home.kill_server("default");
    signal(pid_in(&host["pid"]), Signal::KILL);
    home.wait_for_end(&host);
    assert!(wait_until(DEADLINE, || home.hosts()[0]["alive"] == false), "{:?}", home.hosts());
    home.ok(&["server", "start"]);
    home.wait_for_state("sh", "stopped");
    assert!(home.metadata("sh", "faults").contains("its host"), "{:#}", home.info("sh"));
    assert!(home.read("sh").lines().any(|line| line == "kept 2"), "{}", home.read("sh"));
    assert_eq!(home.hosts(), Vec::<Value>::new());
}

#[test]
fn unreaped_dead_host_counts_as_dead() {
    let home = Home::with_server();
    home.shell("sh");
    let (host, server) = (home.host_of("sh"), home.pid("default"));
    // Its parent cannot reap it; in a container the first process may never do.
    freeze(server);
    signal(pid_in(&host["pid"]), Signal::KILL);
    home.wait_for_end(&host);
    let listed = home.hosts();
    let stop = home.start(&["host", "stop", host["host_id"].as_str().unwrap(), "--timeout", "3"]);
    let stopped = stop.output();
    signal(server, Signal::CONT);
    assert_eq!(listed[0]["alive"], false, "a zombie is no host");
    assert_eq!(stopped.code, 0, "{stopped:?}");
}
