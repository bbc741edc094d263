//! Nodes over a real shell.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use nerve_testkit::harness::{KillOnDrop, signal};
use nerve_testkit::{wait_for, wait_until};
use rustix::process::Signal;
use serde_json::json;

use crate::forks::mock_claude;
use crate::harness::{DEADLINE, Home};

#[test]
fn turn_prints_only_the_answer() {
    let home = Home::with_shell();
    assert_eq!(home.ok(&["server", "node", "execute", "sh", "echo hello"]), "hello\n");
    let done = home.nerve_with(&["server", "node", "execute", "sh", "-"], "echo from stdin\n");
    assert_eq!(done.stdout, "from stdin\n");
    let file = home.hermetic.work().join("prompt");
    fs::write(&file, "echo from a file\n").unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(home.ok(&["server", "node", "execute", "sh", "--file", file]), "from a file\n");
    let data = home.nerve(&["server", "node", "execute", "sh", "echo data", "--json"]).json();
    assert_eq!(data["response"]["text"].as_str().unwrap().trim(), "data");
    assert_eq!(data["response"]["success"], true);
    assert_eq!(data["node_id"], "sh");
}

#[test]
fn streamed_turn_prints_terminal_output() {
    let home = Home::with_shell();
    let shown = home.ok(&["server", "node", "execute", "sh", "echo one; sleep 0.2; echo two", "--stream"]);
    assert!(shown.contains("one") && shown.contains("two"), "{shown:?}");
    let lines = home.ok(&["server", "node", "execute", "sh", "echo three", "--stream", "--json"]);
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(last["response"]["text"].as_str().unwrap().trim(), "three");
}

#[test]
fn failed_turn_exits_with_1_and_late_turn_with_4() {
    let home = Home::with_shell();
    home.ok(&["server", "node", "create", "once", "--backend", "bash"]);
    let failed = home.nerve(&["server", "node", "execute", "once", "echo out; exit 7"]);
    failed.assert_stderr(1, &["exit code 7"]);
    assert_eq!(failed.stdout, "out\n");
    home.nerve(&["server", "node", "execute", "once", "sleep 100", "--timeout", "0.3"])
        .assert_stderr(4, &["error"]);
    home.nerve(&["server", "node", "execute", "sh", "sleep 100", "--timeout", "0.5"])
        .assert_stderr(4, &["error"]);
    // Neither node is stuck.
    assert_eq!(home.ok(&["server", "node", "execute", "once", "echo a"]), "a\n");
    assert_eq!(home.ok(&["server", "node", "execute", "sh", "echo b"]), "b\n");
}

#[test]
fn missing_node_exits_with_3() {
    let home = Home::with_shell();
    home.nerve(&["server", "node", "execute", "absent", "x"]).assert_stderr(3, &["absent"]);
    home.nerve(&["server", "node", "info", "absent"]).assert_stderr(3, &["absent"]);
    home.nerve(&["server", "node", "history", "absent"]).assert_stderr(3, &["absent"]);
    home.nerve(&["server", "node", "history", "sh", "--seq", "999"]).assert_stderr(3, &["999"]);
    home.nerve(&["server", "session", "info", "nothing"]).assert_stderr(3, &["nothing"]);
    home.nerve(&["server", "node", "list", "--session", "nothing"]).assert_stderr(3, &["nothing"]);
}

#[test]
fn invalid_nodes_are_refused_and_server_survives() {
    let home = Home::with_shell();
    let create = |args: &[&str]| home.nerve(&[&["server", "node", "create"], args].concat());
    create(&["x", "-c", "claud-misspelt"]).assert_stderr(1, &["claud-misspelt"]);
    create(&["x", "-c", "bash", "--cwd", "/no/such"]).assert_stderr(1, &["/no/such"]);
    // The address of a node in a session.
    create(&["../x"]).assert_stderr(3, &["no session '..'"]);
    create(&["Capital"]).assert_code(2);
    create(&["sh"]).assert_stderr(1, &["exists"]);
    create(&["x", "-c", "bash 'unclosed"]).assert_stderr(2, &["error"]);
    create(&["x", "--profile", "no-such-profile"]).assert_stderr(3, &["no-such-profile"]);
    assert_eq!(home.nerve(&["server", "node", "list", "--json"]).json()["nodes"], json!(["sh"]));
}

#[test]
fn text_and_keys_are_written_and_read_back() {
    let home = Home::with_shell();
    home.ok(&["server", "node", "wait", "sh"]);
    let screen = || home.ok(&["server", "node", "read", "sh"]);
    home.ok(&["server", "node", "write", "sh", "echo typed-äö", "--key", "enter"]);
    assert!(wait_until(DEADLINE, || screen().lines().any(|line| line == "typed-äö")));
    home.ok(&["server", "node", "write", "sh", "--escape", r"echo esc\x61ped\r"]);
    assert!(wait_until(DEADLINE, || screen().lines().any(|line| line == "escaped")));
    home.ok(&["server", "node", "write", "sh", r"echo plain\r"]);
    assert!(wait_until(DEADLINE, || screen().contains(r"echo plain\r")));
    home.ok(&["server", "node", "write", "sh", "--key", "C-c"]);
    home.ok(&["server", "node", "run", "sh", "echo ran"]);
    assert!(wait_until(DEADLINE, || screen().lines().any(|line| line == "ran")));
    assert_eq!(home.ok(&["server", "node", "read", "sh", "-n", "1"]).lines().count(), 1);
    home.nerve(&["server", "node", "write", "sh"]).assert_stderr(2, &["DATA"]);
    home.nerve(&["server", "node", "write", "sh", "--key", "hyperspace"]).assert_stderr(2, &["hyperspace"]);
    home.nerve(&["server", "node", "write", "sh", "--escape", r"\q"]).assert_stderr(2, &[r"\q"]);
}

#[test]
fn interrupt_ends_the_running_command() {
    let home = Home::with_shell();
    home.ok(&["server", "node", "wait", "sh"]);
    // A loop of the shell's own: a ^C between the shell's reading a line and its starting a program hits neither.
    home.ok(&["server", "node", "run", "sh", "echo begun; while :; do :; done"]);
    let begun = || home.ok(&["server", "node", "read", "sh"]).lines().any(|line| line == "begun");
    assert!(wait_until(DEADLINE, begun));
    home.ok(&["server", "node", "interrupt", "sh"]);
    assert_eq!(home.info("sh")["state"], "ready", "the interrupt has taken effect");
    assert_eq!(home.ok(&["server", "node", "execute", "sh", "echo alive"]), "alive\n");
}

#[test]
fn interrupted_turn_fails_and_prints_its_partial_answer() {
    let home = Home::with_shell();
    let endless = "echo begun; while :; do :; done";
    let mut command = home.command(&["server", "node", "execute", "sh", endless]);
    let execute = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = || home.ok(&["server", "node", "read", "sh"]).lines().any(|line| line == "begun");
    assert!(wait_until(DEADLINE, begun));
    home.ok(&["server", "node", "interrupt", "sh"]);
    let output = execute.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("begun"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"), "{output:?}");
}

#[test]
fn ctrl_c_ends_the_client_but_not_the_turn() {
    let home = Home::with_shell();
    let go = home.hermetic.work().join("go");
    let late = format!("until [ -e {} ]; do sleep 0.01; done; echo late", go.display());
    let mut command = home.command(&["server", "node", "execute", "sh", &late]);
    let mut execute = command.stderr(Stdio::piped()).spawn().unwrap();
    home.ok(&["server", "node", "wait", "sh", "--until", "busy"]);
    signal(execute.id(), Signal::INT);
    let status = wait_for(DEADLINE, || execute.try_wait().unwrap()).expect("the process did not exit");
    assert_eq!(status.code(), Some(130));
    let mut said = String::new();
    execute.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("nerve node interrupt sh"), "{said}");
    fs::write(go, "").unwrap();
    home.ok(&["server", "node", "wait", "sh"]);
    assert!(home.ok(&["server", "node", "history", "sh", "--op", "send"]).contains("late"));
}

#[test]
fn wait_timeout_exits_with_4() {
    let home = Home::with_shell();
    home.ok(&["server", "node", "wait", "sh"]);
    home.nerve(&["server", "node", "wait", "sh", "--until", "busy", "--timeout", "0.2"])
        .assert_stderr(4, &["node 'sh'", "200ms"]);
}

#[test]
fn prompt_without_text_is_refused_at_once() {
    let home = Home::with_shell();
    for prompt in ["  ", "\n", "\u{3}"] {
        home.nerve(&["server", "node", "execute", "sh", prompt]).assert_stderr(2, &["--key"]);
        home.nerve(&["server", "node", "execute", "sh", prompt, "--async"]).assert_code(2);
    }
}

#[test]
fn escape_typed_as_characters_is_explained() {
    let home = Home::with_shell();
    home.nerve(&["server", "node", "write", "sh", r"\x1b"]).assert_stderr(0, &[r"\x1b", "--escape", "--key"]);
    let escaped = home.nerve(&["server", "node", "write", "sh", "--escape", r"\x1b"]);
    assert!(!escaped.stderr.contains("--escape"), "{}", escaped.stderr);
}

#[test]
fn nodes_get_directory_size_and_environment() {
    let home = Home::with_shell();
    let work = home.hermetic.work();
    assert_eq!(home.ok(&["server", "node", "execute", "sh", "pwd"]).trim(), work.to_str().unwrap());
    fs::create_dir(work.join("sub")).unwrap();
    let create = ["server", "node", "create", "b", "-c", "bash --norc", "--cwd", "sub", "--env", "WORD=a b"];
    home.ok(&[&create[..], &["--cols", "90", "--rows", "20"]].concat());
    let shown = home.ok(&["server", "node", "execute", "b", "pwd; echo $WORD; stty size"]);
    assert_eq!(shown, format!("{}/sub\na b\n20 90\n", work.display()));
    home.ok(&["server", "node", "resize", "b", "--cols", "70", "--rows", "30"]);
    assert_eq!(home.ok(&["server", "node", "execute", "b", "stty size"]), "30 70\n");
    let info = home.ok(&["server", "node", "info", "b"]);
    assert!(info.contains("70") && info.contains("ready"), "{info}");
}

#[test]
fn old_names_warn_once_on_stderr() {
    let home = Home::with_shell();
    let done = home.nerve(&["server", "channel", "send", "sh", "echo old"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "old\n"));
    done.assert_stderr(done.code, &["warning:", "'nerve server channel send'", "'nerve send'"]);
    assert_eq!(home.nerve(&["server", "node", "execute", "sh", "echo new"]).stderr, "");
    home.nerve(&["server", "node", "delete", "sh"]).assert_stderr(0, &["'nerve stop'"]);
}

#[test]
fn history_is_read_with_and_without_server() {
    let home = Home::with_shell();
    home.ok(&["server", "node", "execute", "sh", "echo logged"]);
    home.ok(&["server", "node", "run", "sh", "true"]);
    let shown = home.ok(&["server", "node", "history", "sh"]);
    assert!(shown.contains("SEND @ ") && shown.contains("    Input: echo logged"), "{shown}");
    let inputs = home.nerve(&["server", "node", "history", "sh", "--inputs-only", "--json"]).json();
    let ops: Vec<&str> =
        inputs["entries"].as_array().unwrap().iter().map(|entry| entry["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["send", "run"]);
    home.ok(&["server", "stop"]);
    let done = home.nerve(&["server", "node", "history", "sh", "--op", "send", "--json"]);
    assert!(done.stderr.contains("server not running: read from"), "{done:?}");
    assert_eq!(done.json()["entries"].as_array().unwrap().len(), 1);
    let last = home.ok(&["server", "node", "history", "sh", "--last", "1"]);
    assert!(last.contains("CLOSE @ "), "{last}");
    let summary = home.ok(&["server", "node", "history", "sh", "--summary"]);
    assert!(summary.contains("Operations:") && summary.contains("  send: 1"), "{summary}");
}

#[test]
fn history_of_older_version_is_read() {
    let home = Home::with_shell();
    let folder = home.hermetic.work().join(".nerve/history/default");
    std::fs::create_dir_all(&folder).unwrap();
    let line = r#"{"seq": 1, "op": "run", "ts": "2026-01-31T10:30:00.000Z", "input": "make"}"#;
    std::fs::write(folder.join("old.jsonl"), line).unwrap();
    for is_running in [true, false] {
        let done = home.nerve(&["logs", "old", "--json"]);
        assert_eq!(done.json()["entries"][0]["input"], "make", "{done:?}");
        done.assert_stderr(0, &["an older version's log: read from"]);
        if is_running {
            home.ok(&["server", "stop"]);
        }
    }
}

#[test]
fn missing_history_is_reported() {
    let home = Home::with_shell();
    home.ok(&["server", "node", "create", "quiet", "--backend", "bash", "--no-history"]);
    home.ok(&["server", "node", "execute", "quiet", "echo unheard"]);
    let done = home.nerve(&["server", "node", "history", "quiet"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, ""), "{done:?}");
    assert!(done.stderr.contains("disabled"), "{done:?}");
}

#[test]
fn sessions_separate_nodes() {
    let home = Home::with_shell();
    home.ok(&["server", "session", "create", "review", "-d", "Code review", "-t", "ci"]);
    home.ok(&["server", "node", "create", "sh", "--backend", "bash", "--session", "review"]);
    let nodes =
        |session: &str| home.nerve(&["server", "node", "list", "--session", session, "--json"]).json();
    assert_eq!(nodes("review")["nodes_info"][0]["type"], "bash");
    assert_eq!(nodes("default")["nodes_info"][0]["type"], "pty");
    let info = home.ok(&["server", "session", "info", "review"]);
    assert!(info.contains("Code review") && info.contains("ci"), "{info}");
    assert!(home.ok(&["server", "session", "list"]).contains("review"));
    home.ok(&["server", "session", "delete", "review"]);
    home.nerve(&["server", "session", "info", "review"]).assert_stderr(3, &["review"]);
    home.ok(&["server", "node", "info", "sh"]);
}

#[test]
fn list_follows_changes() {
    let home = Home::with_shell();
    let mut watch = home.command(&["ls", "--watch"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut rows = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || rows.next().unwrap().unwrap();
    assert!(next().starts_with("NODE  TYPE  STATE"));
    while !next().contains("ready") {}
    // The command reads until it is interrupted.
    home.ok(&["send", "sh", "cat", "--no-wait"]);
    assert!(next().contains("busy"));
    home.ok(&["node", "interrupt", "sh"]);
    assert!(next().contains("ready"));
    home.ok(&["new", "other", "-c", "bash --norc --noprofile"]);
    while !next().starts_with("other") {}
    home.ok(&["stop", "sh"]);
    while !next().contains("stopped") {}
    home.ok(&["rm", "sh"]);
    let mut row = next();
    while !row.contains("removed") {
        row = next();
    }
    assert!(row.starts_with("sh "), "{row}");
    home.ok(&["server", "restart"]);
    home.ok(&["new", "later", "-c", "bash --norc --noprofile"]);
    while !next().starts_with("later") {}
    home.ok(&["server", "stop"]);
    assert!(watch.wait().unwrap().success(), "the end of the server ends it");
}

#[test]
fn list_follows_all_servers_and_sessions() {
    let home = Home::with_shell();
    home.ok(&["session", "create", "review"]);
    let mut watch = home.command(&["ls", "--watch", "--all"]);
    let mut watch = KillOnDrop(watch.stdout(Stdio::piped()).spawn().unwrap());
    let mut rows = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    let mut next = |parts: &[&str]| {
        let is_wanted =
            |row: &String| parts.iter().all(|part| row.split_whitespace().any(|word| word == *part));
        rows.by_ref().map(Result::unwrap).find(is_wanted).unwrap()
    };
    next(&["SINCE", "SERVER", "SESSION", "NODE", "STATE", "LAST"]);
    next(&["default", "sh", "ready"]);
    home.ok(&["new", "critic", "--session", "review", "-c", "bash --norc --noprofile"]);
    next(&["review", "critic", "ready"]);
    home.ok(&["send", "review/critic", "echo $((20 + 3))"]);
    next(&["review", "critic", "ready", "23"]);
    home.ok(&["server", "start", "night"]);
    home.ok(&["new", "late", "-s", "night", "-c", "bash --norc --noprofile"]);
    next(&["night", "late", "ready"]);
    home.ok(&["stop", "sh"]);
    home.ok(&["rm", "sh"]);
    next(&["default", "sh", "removed"]);
    home.ok(&["server", "stop", "--all"]);
}

#[test]
fn budget_takes_units_and_keeps_limits() {
    let home = Home::with_shell();
    let budget = || home.nerve(&["budget", "sh", "--json"]).json()["budget"].clone();
    home.ok(&["budget", "sh", "--budget-tokens", "2M", "--budget-time", "10m", "--at-limit", "stop"]);
    home.ok(&["budget", "sh", "--at-limit", "ask"]);
    let limits = budget();
    assert_eq!((&limits["max_tokens"], &limits["max_time_ms"]), (&2_000_000.into(), &600_000.into()));
    assert_eq!(limits["at_limit"], "ask");
    // A stopped node keeps its budget.
    home.ok(&["stop", "sh"]);
    home.ok(&["budget", "sh", "--at-limit", "stop"]);
    let limits = budget();
    assert_eq!((&limits["max_tokens"], &limits["at_limit"]), (&2_000_000.into(), &"stop".into()));

    home.nerve(&["budget", "--at-limit", "ask"]).assert_stderr(2, &["--budget-cost"]);
    home.nerve(&["budget", "sh", "--budget-cost", "-1"]).assert_code(2);
    home.nerve(&["budget", "sh", "--budget-tokens", "2X"]).assert_stderr(2, &["500k", "2M"]);
    home.nerve(&["new", "x", "-c", "true", "--at-limit", "ask"])
        .assert_stderr(2, &["--at-limit", "--budget-cost"]);
}

#[test]
fn list_shows_command_as_it_was_given() {
    let home = Home::new();
    let claude = mock_claude(&home);
    home.ok(&["server", "start"]);
    home.ok(&["new", "m", "-c", &claude, "-b", "claude"]);
    assert!(home.metadata("m", "command").contains(" --session-id "), "{:#}", home.info("m"));
    let list = home.ok(&["ls"]);
    let row = list.lines().find(|row| row.starts_with("m ")).unwrap();
    assert!(row.contains(&format!(" {claude}  ")), "{list}");
    home.ok(&["stop", "m"]);
}
