//! The short commands, the groups at the top level, and their older spellings.

use crate::harness::{Home, NERVE};

#[test]
fn short_commands_run_a_node_from_start_to_stop() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["new", "me", "-c", &format!("{NERVE} mock-agent")]);
    assert_eq!(home.ok(&["wait", "me"]), "ready\n");
    assert!(home.ok(&["send", "me", "hello"]).contains("You said: hello"));
    assert!(home.ok(&["ls"]).contains("me"));
    assert_eq!(home.ok(&["ls"]), home.ok(&["server", "node", "list"]));
    home.nerve(&["send", "me", "a PERMIT please"]).assert_stderr(5, &["nerve answer"]);
    assert!(home.ok(&["answer", "me", "1", "--wait"]).contains("END-OF-TOOL"));
    let log = home.ok(&["logs", "me", "--inputs-only"]);
    assert!(log.contains("Input: hello"), "{log}");
    assert_eq!(log, home.ok(&["server", "node", "history", "me", "--inputs-only"]));
    assert_eq!(home.ok(&["stop", "me"]), "node 'me' stopped\n");
}

#[test]
fn groups_work_at_the_top_level() {
    let home = Home::with_shell();
    home.ok(&["wait", "sh"]);
    assert_eq!(home.ok(&["node", "info", "sh"]), home.ok(&["server", "node", "info", "sh"]));
    assert_eq!(home.ok(&["node", "ls"]), home.ok(&["ls"]));
    assert_eq!(home.ok(&["session", "list"]), home.ok(&["server", "session", "list"]));
    assert_eq!(home.ok(&["graph", "schema"]), home.ok(&["server", "graph", "schema"]));
    home.ok(&["stop", "sh"]);
    for command in ["list", "branches"] {
        assert_eq!(home.ok(&["recording", command]), home.ok(&["recordings", command]));
    }
    for command in ["inspect", "branch-points"] {
        assert_eq!(home.ok(&["recording", command]), home.ok(&[command]));
    }
    home.nerve(&["node", "list", "-s", "absent"]).assert_stderr(3, &["nerve server start absent"]);
}

#[test]
fn prompt_may_begin_with_dash() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["new", "me", "-c", &format!("{NERVE} mock-agent")]);
    let prompt = "-v is ignored, why?";
    assert!(home.ok(&["send", "me", prompt]).contains("You said: -v is ignored, why?"));
    let answer = home.nerve(&["server", "node", "execute", "me", prompt, "--json"]).json();
    assert!(answer["response"]["text"].as_str().unwrap().contains(prompt), "{answer}");
    home.nerve(&["send", "me", "--nonsense"]).assert_stderr(2, &["'--nonsense'"]);
}

#[test]
fn older_options_work() {
    let home = Home::with_shell();
    let id = home.ok(&["send", "sh", "echo later", "--async"]);
    assert_eq!(home.ok(&["result", id.trim(), "-w"]), "later\n");
    assert_eq!(home.ok(&["logs", "sh", "--last", "1"]), home.ok(&["logs", "sh", "-n", "1"]));
    assert_eq!(home.ok(&["send", "sh", "echo ok", "--detach"]), "ok\n");
    home.ok(&["session", "create", "review", "-d", "Code review", "-t", "ci"]);
    let session = home.ok(&["session", "info", "review"]);
    assert!(session.contains("Code review") && session.contains("ci"), "{session}");
    assert_eq!(home.ok(&["exec", "-c", "echo run"]), home.ok(&["exec", "--shell", "echo run"]));
    assert!(home.ok(&["server", "start", "-n", "work"]).contains("'work' started"));
    home.ok(&["server", "stop", "-n", "work", "-f"]);
}

#[test]
fn unknown_word_names_the_command() {
    let home = Home::new();
    home.nerve(&["status"]).assert_stderr(2, &["'status'", "'nerve ls'"]);
    home.nerve(&["up"]).assert_stderr(2, &["'nerve server start'"]);
    home.nerve(&["help", "send"]).assert_stderr(0, &[]);
}
