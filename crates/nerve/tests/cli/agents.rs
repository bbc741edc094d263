//! The built-in agent, driven by the commands people use.

use std::fs;
use std::process::Stdio;

use nerve_testkit::harness::signal;
use nerve_testkit::{wait_for, wait_until};
use nerve_types::Size;
use rustix::process::Signal;

use crate::harness::{DEADLINE, Home, NERVE};
use crate::tty::Tty;

/// The command of the built-in agent.
fn agent(flags: &str) -> String {
    format!("{NERVE} mock-agent {flags}")
}

fn create(home: &Home, flags: &str) {
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "create", "me", "-c", &agent(flags), "--profile", "claude"]);
}

#[test]
fn demo_runs_without_api_key_and_network() {
    let home = Home::new();
    let shown = home.ok(&["demo"]);
    for word in ["You said: hello from nerve", "def fib", "Bash", "history", "next steps"] {
        assert!(shown.contains(word), "{shown} lacks {word}");
    }
    let report = home.nerve(&["demo", "--json"]).json();
    let turns = report["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 3);
    assert!(turns.iter().all(|turn| turn["success"] == true && turn["is_complete"] == true), "{report:#}");
}

#[test]
fn ask_answers_one_prompt_and_leaves_no_server() {
    let home = Home::new();
    let ask = ["ask", "--command", &agent(""), "--profile", "claude"];
    assert_eq!(home.ok(&[&ask[..], &["hello"]].concat()), "You said: hello\n");
    let done = home.nerve_with(&[&ask[..], &["-", "--json"]].concat(), "from stdin");
    assert_eq!(done.json()["response"]["text"], "You said: from stdin");
    assert_eq!(home.nerve(&["server", "list", "--json"]).json()["servers"].as_array().unwrap().len(), 0);
    home.nerve(&["ask", "--command", "claud-misspelt", "x"])
        .assert_stderr(1, &["claud-misspelt", "nerve doctor"]);
}

#[test]
fn ask_on_terminal_lets_user_answer_dialog() {
    let home = Home::new();
    let ask = ["ask", "--command", &agent(""), "--profile", "claude", "PERMIT this"];
    let mut tty = Tty::with_stderr(home.command(&ask), Size::new(100, 40));
    tty.expect("1. ");
    tty.expect("choice:");
    tty.send("99\r");
    tty.expect("no choice 99");
    tty.send("1\r");
    assert_eq!(tty.wait_for_exit(), Some(0), "{}", tty.text());
    // Standard output may be a pipe.
    let mut piped = home.hermetic.command("sh");
    piped.args(["-c", "exec \"$0\" \"$@\" --json >answer.json", NERVE]).args(ask);
    let answer = home.hermetic.work().join("answer.json");
    let mut tty = Tty::with_stderr(piped, Size::new(100, 40));
    tty.expect("choice:");
    tty.send("1\r");
    assert_eq!(tty.wait_for_exit(), Some(0), "{}", tty.text());
    let answer: serde_json::Value = serde_json::from_slice(&std::fs::read(answer).unwrap()).unwrap();
    assert_eq!(answer["response"]["success"], true, "{answer}");
    // Without a terminal the dialog is an error.
    home.nerve(&ask).assert_stderr(5, &["1. "]);
}

#[test]
fn ctrl_c_ends_ask_and_its_agent() {
    let home = Home::new();
    let mut ask = home.command(&["ask", "--command", &agent(""), "--profile", "claude", "HANG"]);
    let mut ask = ask.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let child = wait_for(DEADLINE, || {
        let tasks = fs::read_dir(format!("/proc/{}/task", ask.id())).ok()?;
        let children = tasks.flatten().map(|task| fs::read_to_string(task.path().join("children")));
        children.flatten().find_map(|children| children.split_whitespace().next()?.parse::<u32>().ok())
    });
    let child = child.expect("the agent was not started");
    signal(ask.id(), Signal::INT);
    let status = wait_for(DEADLINE, || ask.try_wait().unwrap()).expect("ask did not end");
    assert_eq!(status.code(), Some(130));
    assert!(
        wait_until(DEADLINE, || !fs::exists(format!("/proc/{child}")).unwrap()),
        "the agent is left behind"
    );
}

#[test]
fn dialog_exits_with_5_lists_choices_and_can_be_answered() {
    let home = Home::new();
    create(&home, "--onboarding");
    let wait = home.nerve(&["server", "node", "wait", "me"]);
    wait.assert_stderr(5, &["screen (last rows):", "1. ", "nerve answer me"]);
    let execute = home.nerve(&["server", "node", "execute", "me", "hello"]);
    execute.assert_stderr(5, &["1. "]);
    assert!(home.ok(&["server", "node", "list"]).contains("blocked: trust"));
    assert!(home.ok(&["server", "node", "why", "me"]).contains("choices"));
    home.nerve(&["server", "node", "answer", "me", "no such choice"]).assert_code(2);
    home.ok(&["server", "node", "answer", "me", "yes"]);
    assert_eq!(home.ok(&["server", "node", "execute", "me", "hello"]), "You said: hello\n");
}

#[test]
fn answered_permission_prompt_continues_the_turn() {
    let home = Home::new();
    create(&home, "");
    home.nerve(&["server", "node", "execute", "me", "PERMIT"]).assert_stderr(5, &["1. Yes"]);
    let answer = home.ok(&["server", "node", "answer", "me", "1", "--wait"]);
    assert!(answer.contains("END-OF-TOOL"), "{answer}");
    home.ok(&["server", "node", "wait", "me"]);
}

#[test]
fn audit_log_names_client_of_answers_and_cancelled_prompts() {
    let home = Home::new();
    create(&home, "");
    let blocked = home.nerve(&["server", "node", "execute", "me", "PERMIT"]);
    blocked.assert_stderr(5, &["1. Yes", "delivery: started"]);
    let queued = home.ok(&["server", "node", "execute", "me", "later", "--async"]);
    assert!(wait_until(DEADLINE, || home.metadata("me", "queued") == "1"));
    home.ok(&["result", queued.trim(), "--cancel"]);
    home.ok(&["server", "node", "answer", "me", "1", "--wait"]);
    let log = home.nerve(&["logs", "me", "--json"]).json();
    let entry = |op: &str| {
        let found = log["entries"].as_array().unwrap().iter().find(|entry| entry["op"] == op);
        let entry = found.unwrap_or_else(|| panic!("no {op}: {log:#}"));
        assert!(entry["client"].as_str().unwrap().contains("pid "), "{entry}");
        assert_eq!(entry["transport"], "unix");
        entry.clone()
    };
    let answer = entry("answer");
    assert_eq!(answer["dialog"], "permission");
    assert!(answer["choice"].as_str().unwrap().starts_with("Yes"), "{answer}");
    assert_eq!((&entry("cancel")["input"], &entry("unsent")["input"]), (&"later".into(), &"later".into()));
}

#[test]
fn error_of_the_model_api_exits_with_9() {
    let home = Home::new();
    create(&home, "");
    for status in [400, 401, 429, 529] {
        let failed = home.nerve(&["send", "me", &format!("ERR {status}"), "--json"]);
        failed.assert_stderr(9, &["api_error", &status.to_string(), "hint"]);
    }
    let result = home.ok(&["send", "me", "ERR 529", "--no-wait"]);
    home.nerve(&["result", result.trim(), "--wait"]).assert_stderr(9, &["529"]);
    assert_eq!(home.ok(&["send", "me", "hello"]), "You said: hello\n");
}

#[test]
fn exited_agent_is_reported_without_waiting() {
    let home = Home::new();
    create(&home, "--exit-at-once 3");
    home.nerve(&["server", "node", "wait", "me"]).assert_stderr(1, &["me"]);
    home.nerve(&["server", "node", "execute", "me", "hello"]).assert_stderr(1, &["exit code 3"]);
}
