//! `nerve start`, `rm`, `prune`, `session start` and `server start --restore`: stopped nodes and their return.

use std::fs;
use std::time::{Duration, Instant, SystemTime};

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
    assert!(
        wait_until(DEADLINE, || row_of(&home, "seven").contains("stopped: exit code 7")),
        "{}",
        home.ok(&["ls"])
    );
    home.nerve(&["start", "sh"]).assert_stderr(1, &["node 'sh'", "nerve stop sh"]);
    home.nerve(&["rm", "sh"]).assert_stderr(2, &["node 'sh'", "nerve stop sh"]);

    home.ok(&["stop", "sh"]);
    assert!(row_of(&home, "sh").contains("stopped"), "{}", home.ok(&["ls"]));
    home.nerve(&["send", "sh", "echo x"]).assert_stderr(3, &["node 'sh'", "nerve start sh"]);
    assert_eq!(home.ok(&["start", "sh"]), "node 'sh' started\n");
    assert_eq!(home.ok(&["send", "sh", "echo back"]), "back\n");

    home.ok(&["stop", "sh"]);
    assert_eq!(home.ok(&["rm", "sh"]), "node 'sh' removed\n");
    assert_eq!(home.ok(&["prune"]), "node 'seven' removed\n");
    home.nerve(&["start", "sh"]).assert_stderr(3, &["node 'sh'"]);

    // The exit status of a program that was stopped is not shown.
    home.ok(&["new", "trap", "-c", "sh -c 'trap \"exit 7\" HUP TERM; while :; do sleep 0.1; done'"]);
    home.ok(&["stop", "trap"]);
    let row = row_of(&home, "trap");
    assert!(row.contains("stopped") && !row.contains("exit code"), "{row}");
    assert_eq!(home.ok(&["prune", "--dry-run"]), "node 'trap' would be removed\n");
    assert_eq!(home.ok(&["prune", "--all"]), "node 'trap' removed\n");
    home.ok(&["server", "stop"]);
}

#[test]
fn nodes_get_the_environment_of_the_shell() {
    let home = Home::new();
    let run = |args: &[&str], vars: &[(&str, &str)]| {
        let mut command = home.command(args);
        command.envs(vars.iter().copied());
        let output = home.run(command);
        assert_eq!(output.code, 0, "{output:?}");
        output
    };
    let of_node = |script: &str| home.ok(&["send", "sh", script]);
    run(&["server", "start"], &[("ONLY_SERVER", "server"), ("BOTH", "server")]);
    let shell =
        [("BOTH", "shell"), ("MY_TOKEN", "secret-value"), ("TMUX", "/tmp/other"), ("CLAUDECODE", "1")];
    run(&["new", "sh", "-c", BASH, "--env", "OWN=node"], &shell);
    run(&["new", "once", "-b", "bash"], &shell);
    assert_eq!(of_node("echo $BOTH $MY_TOKEN ${ONLY_SERVER-unset} $OWN"), "shell secret-value unset node\n");
    assert_eq!(of_node("echo ${TMUX-unset} ${CLAUDECODE-unset} $TERM"), "unset unset xterm-256color\n");
    assert_eq!(home.ok(&["send", "once", "echo $BOTH ${ONLY_SERVER-unset}"]), "shell unset\n");

    // The sessions file contains the node's own variables, and no others of the shell.
    let stored = fs::read_to_string(home.hermetic.nerve_home().join("sessions.json")).unwrap();
    assert!(
        stored.contains("OWN") && !stored.contains("secret-value") && !stored.contains("shell_env"),
        "{stored}"
    );

    // A later start takes the environment of its own shell.
    home.ok(&["stop", "sh"]);
    run(&["start", "sh"], &[("BOTH", "later")]);
    assert_eq!(of_node("echo $BOTH ${MY_TOKEN-unset} $OWN"), "later unset node\n");
    let huge = "x".repeat(120_000);
    let many: Vec<(String, &str)> = (0..10).map(|n| (format!("HUGE{n}"), huge.as_str())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let mut command = home.command(&["new", "huge", "-c", BASH]);
    command.envs(many);
    home.run(command).assert_code(2);
    home.ok(&["server", "stop"]);
}

#[test]
fn old_data_is_pruned_by_age() {
    let home = Home::with_shell();
    home.ok(&["send", "sh", "echo one"]);
    home.ok(&["stop", "sh"]);
    let kept = home.nerve(&["prune", "--older-than", "1h"]);
    assert!(kept.stdout.contains("0 B removed") && !kept.stdout.contains("'sh'"), "{kept:?}");
    assert!(kept.stderr.contains("no nodes that stopped so long ago"), "{kept:?}");
    let dry = home.ok(&["prune", "--older-than", "0s", "--dry-run"]);
    assert!(dry.contains("node 'sh' would be removed"), "{dry}");
    home.nerve(&["prune", "--older-than", "1h", "-s", "tcp://localhost:1"])
        .assert_stderr(2, &["nerve recording prune"]);

    let all = home.nerve(&["prune", "--older-than", "0s", "--json"]).json();
    assert_eq!(all["removed"], serde_json::json!(["sh"]));
    let kind = |name: &str| all["data"].as_array().unwrap().iter().find(|data| data["kind"] == name).unwrap();
    for name in ["recordings", "histories"] {
        assert_eq!(kind(name)["removed"]["files"], 1, "{all:#}");
        assert!(kind(name)["removed"]["bytes"].as_u64().unwrap() > 0, "{all:#}");
    }
    assert_eq!(kind("server_logs")["removed"]["files"], 0, "the server runs");
    home.nerve(&["transcript", "sh"]).assert_stderr(3, &["sh"]);
    home.ok(&["server", "stop"]);

    // Without a server, its nodes stay.
    let stopped = home.nerve(&["prune", "--older-than", "0s"]);
    assert!(stopped.code == 0 && stopped.stderr.contains("nodes are left alone"), "{stopped:?}");
}

#[test]
fn oldest_snapshots_are_removed_beyond_their_limit() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["server", "stop"]);
    let at = |name: &str| home.hermetic.nerve_home().join(name);
    for key in ["old/1", "new/1"] {
        let folder = at("snapshots").join(key);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a"), [b'x'; 3000]).unwrap();
    }
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    fs::File::open(at("snapshots/old/1")).unwrap().set_modified(hour_ago).unwrap();
    fs::write(at("config.toml"), "[snapshots]\nmax-size = \"4K\"\n").unwrap();
    let planned = home.nerve(&["prune", "--older-than", "1h", "--dry-run", "--json"]).json();
    let data = planned["data"].as_array().unwrap().iter().find(|data| data["kind"] == "snapshots").unwrap();
    let one = serde_json::json!({ "files": 1, "bytes": 3000 });
    assert_eq!((&data["removed"], &data["kept"]), (&one, &one));
    assert!(at("snapshots/old/1").exists(), "a dry run removes nothing");
    home.ok(&["server", "start"]);
    assert!(wait_until(DEADLINE, || !at("snapshots/old/1").exists()));
    assert!(at("snapshots/new/1").exists());
    let log = || fs::read_to_string(at("logs/default.log")).unwrap_or_default();
    assert!(wait_until(DEADLINE, || log().contains("old/1")), "{}", log());
    home.ok(&["server", "stop"]);
}

#[test]
fn conversation_survives_the_end_of_everything() {
    let home = with_agent();
    home.ok(&["new", "sh", "-c", BASH]);
    let id = home.metadata("me", "conversation_id");
    kill_everything(&home);
    let started = home.ok(&["server", "start", "--restore"]);
    assert!(started.contains("node 'me' started\n") && started.contains("node 'sh' started\n"), "{started}");
    assert_eq!(home.metadata("me", "conversation_id"), id);
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
    home.nerve(&["start", "me"]).assert_stderr(3, &["node 'me'", "nerve start me --fresh"]);
    home.nerve(&["session", "start", "default"]).assert_stderr(1, &["1 node", "node 'me'", "--fresh"]);
    fs::remove_dir_all(&projects).unwrap();
    home.nerve(&["start", "me"]).assert_stderr(3, &["No conversation found", "nerve start me --fresh"]);
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

#[test]
fn server_restart_answers_and_logs_running_and_queued_turns() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["new", "sh", "-c", BASH]);
    let running = home.start(&["send", "sh", "echo partial; sleep 600"]);
    assert!(wait_until(DEADLINE, || home.read("sh").contains("\npartial")));
    let queued = home.start(&["send", "sh", "echo later"]);
    assert!(wait_until(DEADLINE, || home.metadata("sh", "queued") == "1"));
    home.ok(&["server", "restart"]);
    let running = running.output();
    running.assert_stderr(130, &["shut down before the turn ended; the turn may have continued"]);
    assert!(running.stdout.contains("partial"), "{running:?}");
    queued.output().assert_stderr(130, &["shut down before the prompt was sent"]);
    let log = home.ok(&["logs", "sh"]);
    assert!(log.contains("sleep 600") && log.contains("echo later"), "{log}");
    home.ok(&["server", "stop"]);
}

#[test]
fn progress_survives_server_restart() {
    let home = with_agent();
    let progress = || home.nerve(&["node", "info", "me", "--json"]).json()["progress"].clone();
    let before = progress();
    home.ok(&["server", "restart"]);
    let after = progress();
    assert_eq!((&after["last_prompt"], &after["last_line"]), (&"one".into(), &"You said: one".into()));
    assert_eq!(after["tokens"], before["tokens"]);
    home.ok(&["server", "stop"]);
}
