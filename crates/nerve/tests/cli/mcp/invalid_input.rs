//! Bad clients: what they say is answered or passed over, and ends nothing.

use nerve_testkit::wait_until;
use serde_json::{Value, json};

use super::stdio_client::{Asks, Mcp, text};
use crate::harness::{DEADLINE, Home};

#[test]
fn invalid_input_is_answered_and_ends_nothing() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let mut mcp = Mcp::start(&home, &[]);
    mcp.say("before anything: not JSON {{{");
    mcp.initialize();
    mcp.say("garbage");
    mcp.say("");
    mcp.say("\u{0}\u{1}");
    mcp.say(&"[".repeat(100_000));
    // JSON, and no message: told, without an id that could be somebody's.
    mcp.say(r#"{"jsonrpc": "2.0", "id": [1], "method": 7}"#);
    let invalid =
        mcp.next(|message| message.get("error").is_some() && message.get("id").is_none_or(Value::is_null));
    assert_eq!(invalid["error"]["code"], -32600, "{invalid}");
    let unknown = mcp.request("tools/call", json!({"name": "nerve_brew", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("nerve_brew"), "{unknown}");
    let method = mcp.request("tea/brew", json!({}));
    assert_eq!(method["error"]["code"], -32601, "{method}");
    for (arguments, named) in [
        (json!({}), "node_id"),
        (json!({"node_id": "a"}), "text"),
        (json!({"node_id": 7, "text": "x"}), "string"),
        (json!({"node_id": "a", "text": "x", "txet": 1}), "txet"),
        (json!({"node_id": "a", "text": "x", "timeout": -1}), "timeout"),
        (json!({"node_id": "../../etc", "text": "x"}), "node"),
    ] {
        let result = mcp.call("nerve_execute", arguments);
        assert_eq!(result["isError"], true, "{result}");
        assert!(text(&result).contains(named), "{named}: {result}");
    }
    for uri in [
        "nerve://recordings/..%2f..%2fetc",
        "nerve://recordings/../x",
        "file:///etc/passwd",
        "nerve://nodes/x",
    ] {
        let read = mcp.request("resources/read", json!({"uri": uri}));
        assert_eq!(read["error"]["code"], -32002, "{uri}: {read}");
    }
    assert_eq!(mcp.request("resources/list", json!({"cursor": "x"}))["error"]["code"], -32602);
    assert_eq!(mcp.request("ping", json!({}))["result"], json!({}));
    assert_eq!(mcp.leave(), Some(0));
}

#[test]
fn oversized_line_is_skipped() {
    let home = Home::new();
    let mut mcp = Mcp::ready(&home, &[]);
    let long = "x".repeat(17 << 20);
    mcp.say(&json!({"jsonrpc": "2.0", "id": 99, "method": "ping", "params": {"long": long}}).to_string());
    assert_eq!(mcp.request("ping", json!({}))["result"], json!({}));
    assert!(!mcp.waits(|message| message["id"] == 99));
}

#[test]
fn client_without_mcp_gets_an_explanation() {
    let home = Home::new();
    let mut mcp = Mcp::start(&home, &[]);
    mcp.notify("notifications/progress", json!({"progressToken": 1, "progress": 1}));
    assert_eq!(mcp.ended(), Some(1));
    assert!(mcp.stderr().contains("initialize"));
    let mut silent = Mcp::start(&home, &[]);
    assert_eq!(silent.leave(), Some(0));
}

#[test]
fn concurrent_calls_are_limited() {
    let home = Home::new();
    let mut mcp = Mcp::ready(&home, &["--in-process"]);
    let mut sent = Vec::new();
    for node in ["a", "b", "c"] {
        mcp.ok("nerve_create_node", json!({"node_id": node, "backend": "bash"}));
        // As many as a node lets wait.
        let arguments = json!({"node_id": node, "text": "sleep 3000"});
        sent.extend(
            (0..60).map(|_| mcp.send("tools/call", json!({"name": "nerve_execute", "arguments": arguments}))),
        );
    }
    let refused = |message: &Value| message.to_string().contains("128 calls are already running");
    let answers: Vec<Value> = (0..sent.len() - 128).map(|_| mcp.next(refused)).collect();
    assert!(answers.iter().all(|answer| answer["result"]["isError"] == true), "{answers:?}");
    // One that is cancelled makes room, and the others are still at work.
    mcp.notify("notifications/cancelled", json!({"requestId": sent[0]}));
    let room = || mcp.call("nerve_list_nodes", json!({}))["isError"] != true;
    assert!(wait_until(DEADLINE, room), "a cancelled call keeps its place");
    assert!(!mcp.waits(|message| message.get("id").is_some()), "others were answered");
}
