//! Long turns: progress, cancellation, clients that leave.

use nerve_testkit::harness::{children, is_alive, signal};
use nerve_testkit::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::stdio_client::{Client, StdioClient, text};
use crate::harness::{DEADLINE, Home, pid_in};

#[test]
fn long_turn_reports_progress() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    for args in [&[][..], &["--in-process"][..]] {
        let mut mcp = StdioClient::ready(&home, args);
        mcp.ok("nerve_create_node", json!({"node_id": "sh", "command": "bash --norc", "env": {"PS1": "$ "}}));
        let wait = "for i in 1 2 3; do echo step-$i; read -t 0.5 <> <(:); done; echo over";
        let call = json!({
            "name": "nerve_execute", "arguments": {"node_id": "sh", "text": wait}, "_meta": {"progressToken": "p1"},
        });
        let id = mcp.send("tools/call", call);
        let message = mcp.next(|message| message["method"] == "notifications/progress");
        assert_eq!(message["params"]["progressToken"], "p1", "{message}");
        assert!(message["params"]["message"].as_str().unwrap().contains("step-"), "{message}");
        let more = mcp.next(|message| message["method"] == "notifications/progress");
        assert!(
            more["params"]["progress"].as_f64() > message["params"]["progress"].as_f64(),
            "{message} {more}"
        );
        let answer = mcp.answer(id);
        assert!(text(&answer["result"]).ends_with("over"), "{answer}");
        // Without a progress token there are no notifications.
        let quiet = mcp.call("nerve_execute", json!({"node_id": "sh", "text": "echo quiet"}));
        assert_eq!(text(&quiet), "quiet");
        mcp.ok("nerve_stop_node", json!({"node_id": "sh"}));
    }
}

/// Begins a long turn and waits until the node is busy.
fn begin_long_turn(mcp: &mut StdioClient, more: Value) -> u64 {
    mcp.ok("nerve_create_node", json!({"node_id": "sh", "command": "bash --norc", "env": {"PS1": "$ "}}));
    let mut arguments = json!({"node_id": "sh", "text": "echo begun; sleep 3000; echo over"});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let id = mcp.send("tools/call", json!({"name": "nerve_execute", "arguments": arguments}));
    let at_it = wait_until(DEADLINE, || {
        let read = mcp.ok("nerve_read", json!({"node_id": "sh", "screen": true}));
        read["state"] == "busy" && read["text"].as_str().unwrap().lines().any(|line| line == "begun")
    });
    assert!(at_it, "the turn does not begin");
    id
}

#[test]
fn cancelled_call_leaves_its_turn_running_by_default() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    for (more, goes_on) in [(json!({}), true), (json!({"interrupt_on_cancel": true}), false)] {
        let mut mcp = StdioClient::ready(&home, &[]);
        let id = begin_long_turn(&mut mcp, more);
        mcp.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
        if goes_on {
            // The server handles the cancellation before the next request.
            assert_eq!(mcp.ok("nerve_read", json!({"node_id": "sh"}))["state"], "busy");
            mcp.ok("nerve_interrupt", json!({"node_id": "sh"}));
        }
        let ready = || mcp.ok("nerve_read", json!({"node_id": "sh"}))["state"] == "ready";
        assert!(wait_until(DEADLINE, ready), "the turn does not end");
        assert!(!mcp.has_pending(|message| message["id"] == id), "a cancelled request is not answered");
        mcp.ok("nerve_stop_node", json!({"node_id": "sh"}));
    }
}

#[test]
fn queued_prompt_is_withdrawn_and_running_turn_continues() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let mut mcp = StdioClient::ready(&home, &[]);
    begin_long_turn(&mut mcp, json!({}));
    let arguments = json!({"node_id": "sh", "text": "echo second", "interrupt_on_cancel": true});
    let second = mcp.send("tools/call", json!({"name": "nerve_execute", "arguments": arguments}));
    let queued = || home.nerve(&["result", "--list", "--json"]).stdout.contains("echo second");
    assert!(wait_until(DEADLINE, queued), "the second prompt does not arrive");
    mcp.notify("notifications/cancelled", json!({"requestId": second}));
    let taken = || home.nerve(&["result", "--list", "--json"]).stdout.contains("cancelled");
    assert!(wait_until(DEADLINE, taken), "{}", home.nerve(&["result", "--list", "--json"]).stdout);
    assert_eq!(mcp.ok("nerve_read", json!({"node_id": "sh"}))["state"], "busy", "the first turn continues");
}

#[test]
fn node_survives_client_exit_during_a_call() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let mut mcp = StdioClient::ready(&home, &[]);
    begin_long_turn(&mut mcp, json!({"interrupt_on_cancel": true}));
    assert_eq!(mcp.disconnect(), Some(0));
    let pid = pid_in(&home.info("sh")["metadata"]["pid"]);
    assert!(is_alive(pid));
    assert_eq!(home.info("sh")["state"], "busy", "no interrupt was requested");
    // The next client finds the node busy.
    let mut other = StdioClient::ready(&home, &[]);
    assert_eq!(other.ok("nerve_list_nodes", json!({}))["nodes"][0]["state"], "busy");
    home.ok(&["server", "node", "interrupt", "sh"]);
}

#[test]
fn nodes_of_the_process_end_with_it() {
    let home = Home::new();
    for by_signal in [false, true] {
        let mut mcp = StdioClient::ready(&home, &["--in-process"]);
        begin_long_turn(&mut mcp, json!({}));
        let nodes = children(mcp.pid());
        assert!(!nodes.is_empty());
        if by_signal {
            // Standard input is still open.
            signal(mcp.pid(), Signal::TERM);
            assert_eq!(mcp.wait_for_exit(), Some(0));
        } else {
            assert_eq!(mcp.disconnect(), Some(0));
        }
        assert!(nodes.iter().all(|&pid| !is_alive(pid)), "{nodes:?} live");
    }
    assert!(home.nerve(&["server", "list", "--json"]).json()["servers"].as_array().is_none_or(Vec::is_empty));
}
