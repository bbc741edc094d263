//! `kill -9` of the server, and another one after it.

use std::fs;
use std::path::PathBuf;

use nerve_testkit::harness::{freeze, is_alive, signal};
use nerve_testkit::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Home, NERVE, pid_in};
use crate::recording::{Recording, assert_counts, numbers};

/// Returns the metadata of a node that must not depend on the server.
fn stable_metadata(info: &Value) -> Value {
    let mut info = info.clone();
    // Its times begin when a server adopts the node.
    info.as_object_mut().unwrap().remove("progress");
    let metadata = info["metadata"].as_object_mut().unwrap();
    // Drops what changes while the program runs.
    let changing = ["delivery", "evidence", "has_turns", "title", "turns", "queued"];
    metadata.retain(|name, _| !changing.contains(&name.as_str()));
    info
}

fn why(home: &Home, node: &str) -> Value {
    home.nerve(&["server", "node", "why", node, "--json"]).json()
}

#[test]
fn agents_survive_and_next_server_adopts_them() {
    let home = Home::with_server();
    home.counter("loop");
    let agent = ["--profile", "claude"];
    home.create("idle", &format!("{NERVE} mock-agent"), &agent);
    home.create("turn", &format!("{NERVE} mock-agent --word-delay 80"), &agent);
    for node in ["idle", "turn"] {
        home.ok(&["server", "node", "wait", node]);
    }
    assert_eq!(home.execute("idle", "hello"), "You said: hello\n");
    let turn = home.start(&["server", "node", "execute", "turn", "SLOW words"]);
    home.wait_for_state("turn", "busy");
    home.wait_for_text("loop", "line 20");
    let nodes = ["loop", "idle", "turn"];
    let before = nodes.map(|node| home.info(node));
    let hosts = nodes.map(|node| home.host_of(node));
    let (screen, text) = (why(&home, "idle"), home.read("idle"));

    home.kill_server("default");
    assert_eq!(turn.output().code, 1);
    let seen = numbers(&Recording::of(&home_recording(&before[0])).text(), "line").len();
    assert!(
        wait_until(DEADLINE, || {
            numbers(&Recording::of(&home_recording(&before[0])).text(), "line").len() > seen + 50
        }),
        "no output comes into the recording"
    );
    for host in &hosts {
        assert!(is_alive(pid_in(&host["pid"])) && is_alive(pid_in(&host["child"])), "{host} is gone");
    }

    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "idle"]);
    assert_eq!(home.read("idle"), text);
    let now = why(&home, "idle");
    assert_eq!(
        [&now["state"], &now["screen"], &now["offset"]],
        [&screen["state"], &screen["screen"], &screen["offset"]]
    );
    home.ok(&["server", "node", "wait", "turn"]);
    assert!(home.read("turn").contains("END-OF-SLOW"));
    for (node, before) in nodes.iter().zip(&before) {
        let mut now = stable_metadata(&home.info(node));
        let mut before = stable_metadata(before);
        if *node == "turn" {
            assert_eq!([before["state"].take(), now["state"].take()], [json!("busy"), json!("ready")]);
        }
        assert_eq!(now, before);
    }
    assert_eq!(home.execute("idle", "again"), "You said: again\n");
    assert_eq!(home.execute("turn", "and you"), "You said: and you\n");

    let end = home.end_counter("loop");
    let recording = Recording::of(&home.recording_of("loop"));
    assert!(recording.lost.is_empty(), "{:?}", recording.lost);
    assert_counts(&numbers(&recording.text(), "line"), end, "the recording");
    home.wait_for_text("loop", &format!("end {end}"));
    assert_counts(&numbers(&home.read("loop"), "line"), end, "the terminal");
    let history = home.nerve(&["server", "node", "history", "idle", "--json"]).json();
    let entries = history["entries"].as_array().unwrap();
    let numbers: Vec<u64> = entries.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert_counts(&numbers, entries.len() as u64, "the history");
    let inputs: Vec<&Value> =
        entries.iter().map(|entry| &entry["input"]).filter(|input| !input.is_null()).collect();
    assert_eq!(inputs, ["hello", "again"]);
}

fn home_recording(info: &Value) -> std::path::PathBuf {
    info["metadata"]["recording_path"].as_str().unwrap().into()
}

#[test]
fn next_server_sees_running_turn_end() {
    let home = Home::with_server();
    // The turn is longer than a start may take.
    let slow = format!("{NERVE} mock-agent --word-delay 250");
    home.create("me", &slow, &["--profile", "claude", "--ready-timeout", "5"]);
    home.ok(&["server", "node", "wait", "me"]);
    let turn = home.start(&["server", "node", "execute", "me", "SLOW words"]);
    home.wait_for_state("me", "busy");
    home.kill_server("default");
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "me", "--until", "busy", "--timeout", "5"]);
    // The prompt waits for the turn that the previous server started.
    assert_eq!(home.execute("me", "next"), "You said: next\n");
    let text = home.read("me");
    let positions = (text.find("END-OF-SLOW"), text.find("You said: next"));
    assert!(positions.0.is_some() && positions.0 < positions.1, "{text}");
    assert_eq!(turn.output().code, 1);
}

#[test]
fn next_server_sees_running_command() {
    let home = Home::with_server();
    home.shell("sh");
    home.ok(&["server", "node", "run", "sh", "until [ -e enough ]; do sleep 0.05; done; echo over"]);
    home.wait_for_state("sh", "busy");
    home.kill_server("default");
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "sh", "--until", "busy", "--timeout", "5"]);
    fs::write(home.hermetic.work().join("enough"), "").unwrap();
    home.ok(&["server", "node", "wait", "sh"]);
    assert!(home.read("sh").lines().any(|line| line == "over"));
}

#[test]
fn prompt_typed_before_the_crash_does_not_block_the_node() {
    let home = Home::with_server();
    home.create("me", &format!("{NERVE} mock-agent"), &["--profile", "claude"]);
    home.ok(&["server", "node", "wait", "me"]);
    let agent = pid_in(&home.host_of("me")["child"]);
    // A stopped agent shows no prompt, so its Enter is not pressed.
    freeze(agent);
    let turn = home.start(&["server", "node", "execute", "me", "typed but never sent"]);
    assert!(wait_until(DEADLINE, || !why(&home, "me")["turn"].is_null()), "the turn has not begun");
    home.kill_server("default");
    assert_eq!(turn.output().code, 1);
    signal(agent, Signal::CONT);
    home.ok(&["server", "start"]);
    home.wait_for_text("me", "typed but never sent");
    assert_eq!(home.execute("me", "next"), "You said: next\n");
}

#[test]
fn waiting_client_of_dying_server_gets_a_hint() {
    let home = Home::with_server();
    home.create("me", &format!("{NERVE} mock-agent"), &["--profile", "claude"]);
    home.ok(&["server", "node", "wait", "me"]);
    let hangs = home.start(&["server", "node", "execute", "me", "HANG"]);
    home.wait_for_state("me", "busy");
    let waits = [
        hangs,
        home.start(&["server", "node", "wait", "me", "--until", "stopped"]),
        home.start(&["server", "node", "execute", "me", "second", "--stream"]),
    ];
    assert!(wait_until(DEADLINE, || home.metadata("me", "queued") == "1"));
    home.kill_server("default");
    for wait in waits {
        wait.output().assert_stderr(1, &["server 'default'", "nerve server start"]);
    }
}

#[test]
fn node_settings_outlive_the_server() {
    let home = Home::with_server();
    let cwd = home.hermetic.work().join("a b");
    fs::create_dir(&cwd).unwrap();
    home.ok(&["server", "session", "create", "work"]);
    let made = ["--env", "PS1=$ ", "--env", "KEPT=a b", "--cwd", cwd.to_str().unwrap(), "--parser", "codex"];
    let limits = ["--response-timeout", "1", "--no-history", "--session", "work"];
    home.create("sh", "bash --norc", &[&made[..], &limits[..]].concat());
    home.ok(&["server", "node", "wait", "sh", "--session", "work"]);
    home.kill_server("default");
    home.ok(&["server", "start"]);
    let list = home.nerve(&["server", "node", "list", "--session", "work", "--json"]).json();
    assert_eq!(list["nodes"], json!(["sh"]));
    assert_eq!(home.nerve(&["server", "node", "list", "--json"]).json()["nodes"], json!([]));
    let execute = |text| {
        home.nerve(&["server", "node", "execute", "sh", "--session", "work", "--parser", "none", text])
    };
    let output = execute("echo $KEPT; pwd").stdout;
    assert!(output.contains("a b\n") && output.contains(cwd.to_str().unwrap()), "{output}");
    execute("sleep 100").assert_code(4);
    let info = home.nerve(&["server", "node", "info", "sh", "--session", "work", "--json"]).json();
    assert_eq!(info["metadata"]["parser"], "codex");
    assert_eq!(info["metadata"]["profile"], "shell");
    let logs = home.hermetic.nerve_home().join("history/default/work");
    assert!(!logs.join("sh.jsonl").exists(), "it was made without a history");
}

#[test]
fn size_outlives_the_server() {
    let home = Home::with_server();
    home.shell("sh");
    home.execute("sh", "echo before");
    home.ok(&["server", "node", "resize", "sh", "--cols", "60", "--rows", "17"]);
    home.execute("sh", "printf '%070d\\n' 7");
    let text = home.read("sh");
    home.kill_server("default");
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "sh"]);
    assert_eq!([home.metadata("sh", "cols"), home.metadata("sh", "rows")], ["60", "17"]);
    assert_eq!(home.read("sh"), text);
    assert_eq!(home.execute("sh", "stty size"), "17 60\n");
    // A size given by the next server counts as well.
    home.ok(&["server", "node", "resize", "sh", "--cols", "90", "--rows", "30"]);
    assert_eq!(home.execute("sh", "stty size"), "30 90\n");
    let recording = home.recording_of("sh");
    let sizes = [(120, 40), (60, 17), (90, 30)];
    // The recorder writes within 250 ms, not at once.
    assert!(wait_until(DEADLINE, || Recording::of(&recording).sizes == sizes));
}

#[test]
fn long_history_is_read_from_the_recording() {
    let home = Home::with_server();
    home.shell("sh");
    home.execute("sh", "echo the begin");
    // More output than the host keeps in memory.
    home.execute_cut("sh", "seq 1 400000");
    home.ok(&["server", "node", "resize", "sh", "--cols", "50", "--rows", "20"]);
    home.execute_cut("sh", "seq 400001 800000");
    let text = home.read("sh");
    assert!(text.lines().any(|line| line == "800000"));
    home.kill_server("default");
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "sh"]);
    assert!(home.read("sh") == text, "the text is another");
    assert_eq!([home.metadata("sh", "cols"), home.metadata("sh", "rows")], ["50", "20"]);
    assert_eq!(home.metadata("sh", "faults"), "");
    assert_eq!(home.execute("sh", "echo fine"), "fine\n");
}

#[test]
fn size_outlives_the_server_without_recording() {
    let home = Home::with_server();
    home.create("sh", "bash --norc", &["--env", "PS1=$ ", "--no-record"]);
    home.ok(&["server", "node", "wait", "sh"]);
    home.ok(&["server", "node", "resize", "sh", "--cols", "60", "--rows", "17"]);
    home.execute("sh", "echo kept");
    home.kill_server("default");
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "sh"]);
    assert_eq!([home.metadata("sh", "cols"), home.metadata("sh", "rows")], ["60", "17"]);
    assert!(home.read("sh").lines().any(|line| line == "kept"), "what the host still has is shown");
    assert_eq!(home.metadata("sh", "recording_path"), "");
}

/// Creates a node `me` of the scripted agent as Claude Code with hooks, and returns the folder of its host.
fn create_node_with_hooks(home: &Home) -> PathBuf {
    let claude = home.hermetic.work().join("claude");
    // Called as `claude --settings FILE …`: the mock takes no such flag.
    fs::write(&claude, format!("#!/bin/sh\nshift 2\nexec {NERVE} mock-agent \"$@\"\n")).unwrap();
    assert!(std::process::Command::new("chmod").arg("755").arg(&claude).status().unwrap().success());
    home.create("me", claude.to_str().unwrap(), &[]);
    home.ok(&["server", "node", "wait", "me"]);
    home.hermetic.nerve_home().join("run/hosts").join(home.metadata("me", "host_id"))
}

#[test]
fn lost_hooks_are_a_fault_of_the_node() {
    let home = Home::with_server();
    let socket = create_node_with_hooks(&home).join("hooks/socket");
    home.kill_server("default");
    fs::remove_file(&socket).unwrap();
    fs::create_dir(&socket).unwrap();
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "me"]);
    assert!(home.metadata("me", "faults").contains("hooks are lost"), "{}", home.info("me"));
    home.ok(&["server", "node", "stop", "me"]);
}

#[test]
fn agent_hooks_reach_the_next_server() {
    let home = Home::with_server();
    let runtime = create_node_with_hooks(&home);
    let socket = runtime.join("hooks/socket");
    let tell = |event: &str| {
        let message = json!({ "hook_event_name": event, "prompt_id": "p" }).to_string();
        let done = home.nerve_with(&["hook", socket.to_str().unwrap()], &message);
        assert_eq!(done.code, 0, "{done:?}");
    };
    home.kill_server("default");
    tell("Stop");
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "me"]);
    let turn = home.start(&["server", "node", "execute", "me", "STALL 5"]);
    home.wait_for_state("me", "busy");
    tell("UserPromptSubmit");
    // A real agent reports the end of its turn once, when it is drawn.
    let is_reported = wait_until(DEADLINE, || {
        tell("Stop");
        why(&home, "me")["source"] == "hook"
    });
    assert!(is_reported, "{:#}", why(&home, "me"));
    assert_eq!(turn.output().code, 0);
    home.ok(&["server", "node", "stop", "me"]);
    assert!(wait_until(DEADLINE, || !runtime.exists()), "the folder of its hooks is left behind");
}

#[test]
fn program_that_ended_meanwhile_is_reported_once() {
    let home = Home::with_server();
    home.script(
        "brief",
        "echo begun\nuntil [ -e enough ]; do sleep 0.01; done\necho last words\nexit 7\n",
        &[],
    );
    home.wait_for_text("brief", "begun");
    let (host, recording) = (home.host_of("brief"), home.recording_of("brief"));
    home.kill_server("default");
    fs::write(home.hermetic.work().join("enough"), "").unwrap();
    home.wait_for_end(&host);
    Recording::of(&recording).assert_whole();
    home.ok(&["server", "start"]);
    home.wait_for_state("brief", "stopped");
    assert_eq!(home.metadata("brief", "exit"), r#"{"code":7}"#);
    assert_eq!(home.read("brief"), "begun\nlast words\n");
    assert_eq!(home.metadata("brief", "faults"), "");
    home.nerve(&["server", "node", "execute", "brief", "x"]).assert_stderr(1, &["exit code 7"]);
    assert_eq!(home.hosts(), Vec::<Value>::new());
    home.kill_server("default");
    home.ok(&["server", "start"]);
    // The stopped node is still listed; its end is reported only once.
    let list = home.nerve(&["server", "node", "list", "--json"]).json();
    let stopped = &list["stopped"][0];
    assert_eq!((&list["nodes"], &stopped["node_id"]), (&json!([]), &json!("brief")));
    assert_eq!((&stopped["state"], &stopped["metadata"]["exit"]), (&json!("stopped"), &json!({ "code": 7 })));
}
