//! `nerve start`, `rm`, `prune`, `session start` and `server start --restore`: stopped nodes and their return.

use std::fs;
use std::time::Instant;

use nerve_testkit::harness::{is_alive, signal};
use nerve_testkit::wait_until;
use rustix::process::Signal;

use crate::forks::mock_claude;
use crate::harness::{DEADLINE, Home, pid_in};

const BASH: &str = "bash --norc --noprofile";

/// A server with a mock Claude Code `me` that has said `one`.
fn with_agent() -> Home {
    let home = Home::new();
    let claude = mock_claude(&home);
    home.ok(&["server", "start"]);
    home.ok(&["new", "me", "-c", &claude, "-b", "claude"]);
    home.ok(&["send", "me", "one"]);
    home
}

/// Kills the server and the hosts of all nodes, as a power failure would.
fn kill_everything(home: &Home) {
    let hosts: Vec<u32> = home.hosts().iter().map(|host| pid_in(&host["pid"])).collect();
    home.kill_server("default");
    for host in &hosts {
        signal(*host, Signal::KILL);
    }
    assert!(wait_until(DEADLINE, || !hosts.iter().any(|host| is_alive(*host))));
}

fn row_of(home: &Home, node: &str) -> String {
    let list = home.ok(&["ls"]);
    list.lines().find(|row| row.starts_with(&format!("{node} "))).unwrap_or_default().to_string()
}

#[test]
fn stopped_nodes_are_listed_started_and_removed() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["new", "sh", "-c", BASH]);
    home.ok(&["new", "seven", "-c", "sh -c 'exit 7'"]);
    assert!(wait_until(DEADLINE, || row_of(&home, "seven").contains("exited 7")), "{}", home.ok(&["ls"]));
    home.nerve(&["start", "sh"]).assert_stderr(1, &["node 'sh' is already running", "nerve stop sh"]);
    home.nerve(&["rm", "sh"]).assert_stderr(2, &["cannot remove node 'sh': it is running", "nerve stop sh"]);

    home.ok(&["stop", "sh"]);
    assert!(row_of(&home, "sh").contains("stopped"), "{}", home.ok(&["ls"]));
    home.nerve(&["send", "sh", "echo x"]).assert_stderr(3, &["no node 'sh'", "nerve start sh"]);
    assert_eq!(home.ok(&["start", "sh"]), "node 'sh' started\n");
    assert_eq!(home.ok(&["send", "sh", "echo back"]), "back\n");

    home.ok(&["stop", "sh"]);
    assert_eq!(home.ok(&["rm", "sh"]), "node 'sh' removed\n");
    assert_eq!(home.ok(&["prune"]), "node 'seven' removed\n");
    home.nerve(&["start", "sh"]).assert_stderr(3, &["no node 'sh'"]);

    // The exit status of a program that was stopped is not its own.
    home.ok(&["new", "trap", "-c", "sh -c 'trap \"exit 7\" HUP TERM; while :; do sleep 0.1; done'"]);
    home.ok(&["stop", "trap"]);
    let row = row_of(&home, "trap");
    assert!(row.contains("stopped") && !row.contains("exited"), "{row}");
    assert_eq!(home.ok(&["prune", "--dry-run"]), "node 'trap' would be removed\n");
    assert_eq!(home.ok(&["prune", "--all"]), "node 'trap' removed\n");
    home.ok(&["server", "stop"]);
}

#[test]
fn conversation_survives_the_end_of_everything() {
    let home = with_agent();
    home.ok(&["new", "sh", "-c", BASH]);
    let id = home.metadata("me", "agent_session");
    kill_everything(&home);
    let started = home.ok(&["server", "start", "--restore"]);
    assert!(started.contains("node 'me' started\n") && started.contains("node 'sh' started\n"), "{started}");
    assert_eq!(home.metadata("me", "agent_session"), id);
    assert_eq!(home.ok(&["send", "me", "RECALL"]), "You said: one\n");

    // The server itself restores in the foreground. A node that was stopped by request stays stopped.
    home.ok(&["stop", "sh"]);
    home.ok(&["server", "stop"]);
    let server = home.start(&["server", "start", "--foreground", "--restore"]);
    assert!(wait_until(DEADLINE, || home.nerve(&["wait", "me"]).code == 0));
    assert!(home.ok(&["send", "me", "RECALL"]).contains("one"));
    assert!(row_of(&home, "sh").contains("stopped"));
    home.ok(&["server", "stop"]);
    drop(server);
}

#[test]
fn unknown_conversation_needs_fresh() {
    let home = with_agent();
    home.ok(&["stop", "me"]);
    let projects = home.hermetic.home().join(".claude/projects");
    for project in fs::read_dir(&projects).unwrap() {
        let project = project.unwrap().path();
        fs::remove_dir_all(&project).unwrap();
        fs::create_dir(&project).unwrap();
    }
    home.nerve(&["start", "me"]).assert_stderr(3, &["node 'me' was not started", "nerve start me --fresh"]);
    home.nerve(&["session", "start", "default"]).assert_stderr(1, &["node 'me'", "--fresh"]);
    fs::remove_dir_all(&projects).unwrap();
    home.nerve(&["start", "me"]).assert_stderr(1, &["No conversation found", "nerve start me --fresh"]);
    home.ok(&["start", "me", "--fresh"]);
    assert_eq!(home.ok(&["send", "me", "hello"]), "You said: hello\n");
    home.ok(&["server", "stop"]);
}

#[test]
fn restore_of_20_shells_is_quick() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    for index in 0..20 {
        home.ok(&["new", &format!("n{index}"), "-c", BASH]);
    }
    kill_everything(&home);
    let before = Instant::now();
    let started = home.ok(&["server", "start", "--restore"]);
    eprintln!("20 nodes restored in {:?}", before.elapsed());
    assert_eq!(started.lines().filter(|line| line.ends_with(" started")).count(), 20, "{started}");
    home.ok(&["server", "stop"]);
}
