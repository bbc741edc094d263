//! `nerve node fork`, `fork` in the REPL: over the mock agent under the name of the agent it looks like.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::harness::{Home, NERVE};

/// Installs the mock agent as `claude` and returns its path.
pub(crate) fn mock_claude(home: &Home) -> String {
    let claude = home.hermetic.work().join("claude");
    fs::write(&claude, format!("#!/bin/sh\nexec '{NERVE}' mock-agent \"$@\"\n")).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    claude.display().to_string()
}

/// A server with a node `me` that has said `one`.
fn fixture() -> Home {
    let home = Home::new();
    let claude = mock_claude(&home);
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "create", "me", "-c", &claude, "-b", "claude"]);
    home.ok(&["server", "node", "execute", "me", "one"]);
    home
}

fn recalled(home: &Home, node: &str) -> String {
    home.ok(&["server", "node", "execute", node, "RECALL"])
}

#[test]
fn forks_take_given_or_generated_names() {
    let home = fixture();
    let said = home.ok(&["server", "node", "fork", "me", "other"]);
    assert_eq!(said, "node 'other' forked from 'me'\n");
    assert_eq!(recalled(&home, "other"), "You said: one\n");
    let json = home.nerve(&["server", "node", "fork", "me", "--json"]).json();
    assert_eq!(json, serde_json::json!({ "node_id": "me-fork", "forked_from": "me" }));
    assert_eq!(home.ok(&["server", "node", "fork", "@me"]), "node 'me-fork-2' forked from 'me'\n");
    assert_ne!(home.metadata("me", "conversation_id"), home.metadata("other", "conversation_id"));
    assert_eq!(recalled(&home, "me"), "You said: one\n", "the source is as it was");

    home.nerve(&["server", "node", "fork", "me", "other"]).assert_stderr(1, &["node 'other'"]);
    home.nerve(&["server", "node", "fork", "absent"]).assert_stderr(3, &["node 'absent'"]);
    home.nerve(&["server", "node", "fork", "me", "x", "--at", "0"]).assert_stderr(2, &["--at"]);
    home.nerve(&["server", "node", "fork", "me", "x", "--at", "9"]).assert_stderr(2, &["turn 9"]);
    home.ok(&["server", "node", "fork", "me", "back", "--at", "1"]);
    assert_eq!(recalled(&home, "back"), "You said: one\n");
    home.ok(&["server", "stop"]);
}

#[test]
fn fork_works_after_server_crash() {
    let home = fixture();
    home.ok(&["server", "node", "fork", "me", "other"]);
    home.ok(&["server", "node", "execute", "other", "two"]);
    let ids = ["me", "other"].map(|node| home.metadata(node, "conversation_id"));
    home.kill_server("default");
    home.ok(&["server", "start"]);
    assert_eq!(["me", "other"].map(|node| home.metadata(node, "conversation_id")), ids);
    for node in ["me", "other"] {
        home.ok(&["server", "node", "wait", node]);
    }
    home.ok(&["server", "node", "fork", "other", "third"]);
    assert_eq!(recalled(&home, "third"), "You said: one | two\n");
    home.ok(&["server", "stop"]);
}

#[test]
fn repl_fork_takes_all_forms() {
    let home = fixture();
    let lines = ["node fork me a", "fork @me b", ":fork @me c", "fork me", "fork me d --at 1", "exit --keep"];
    let done = home.nerve_with(&["server", "repl"], &(lines.join("\n") + "\n"));
    assert_eq!(done.code, 0, "{done:?}");
    for name in ["a", "b", "c", "me-fork", "d"] {
        assert!(done.stdout.contains(&format!("node '{name}' forked from 'me'")), "{done:?}");
    }
    assert_eq!(recalled(&home, "c"), "You said: one\n");
    home.ok(&["server", "stop"]);
}
