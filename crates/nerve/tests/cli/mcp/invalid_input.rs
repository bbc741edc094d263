//! Invalid clients: their input is answered or skipped and ends nothing.

use nerve_testkit::wait_until;
use serde_json::{Value, json};

use super::stdio_client::{Client, StdioClient, text};
use crate::harness::{DEADLINE, Home};

#[test]
fn invalid_input_is_answered_and_ends_nothing() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let mut mcp = StdioClient::start(&home, &[]);
    mcp.send_line("before anything: not JSON {{{");
    mcp.initialize();
    mcp.send_line("garbage");
    mcp.send_line("");
    mcp.send_line("\u{0}\u{1}");
    mcp.send_line(&"[".repeat(100_000));
    // JSON but no message: the error has no id, because the id in the text may belong to another request.
    mcp.send_line(r#"{"jsonrpc": "2.0", "id": [1], "method": 7}"#);
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
    assert_eq!(mcp.disconnect(), Some(0));
}

#[test]
fn oversized_line_is_skipped() {
    let home = Home::new();
    let mut mcp = StdioClient::ready(&home, &[]);
    let long = "x".repeat(17 << 20);
    mcp.send_line(
        &json!({"jsonrpc": "2.0", "id": 99, "method": "ping", "params": {"long": long}}).to_string(),
    );
    assert_eq!(mcp.request("ping", json!({}))["result"], json!({}));
    assert!(!mcp.has_pending(|message| message["id"] == 99));
}

#[test]
fn client_without_mcp_gets_an_explanation() {
    let home = Home::new();
    let mut mcp = StdioClient::start(&home, &[]);
    mcp.notify("notifications/progress", json!({"progressToken": 1, "progress": 1}));
    assert_eq!(mcp.wait_for_exit(), Some(1));
    assert!(mcp.stderr().contains("initialize"));
    let mut silent = StdioClient::start(&home, &[]);
    assert_eq!(silent.disconnect(), Some(0));
}

#[test]
fn concurrent_calls_are_limited() {
    let home = Home::new();
    let mut mcp = StdioClient::ready(&home, &["--in-process"]);
    let mut sent = Vec::new();
    for node in ["a", "b", "c"] {
        mcp.ok("nerve_create_node", json!({"node_id": node, "backend": "bash"}));
        // As many prompts as a node queues.
        let arguments = json!({"node_id": node, "text": "sleep 3000"});
        sent.extend(
            (0..60).map(|_| mcp.send("tools/call", json!({"name": "nerve_execute", "arguments": arguments}))),
        );
    }
    let refused = |message: &Value| message.to_string().contains("128 calls are already running");
    let answers: Vec<Value> = (0..sent.len() - 128).map(|_| mcp.next(refused)).collect();
    assert!(answers.iter().all(|answer| answer["result"]["isError"] == true), "{answers:?}");
    // A cancelled call frees its place; the other calls continue.
    mcp.notify("notifications/cancelled", json!({"requestId": sent[0]}));
    let room = || mcp.call("nerve_list_nodes", json!({}))["isError"] != true;
    assert!(wait_until(DEADLINE, room), "a cancelled call keeps its place");
    assert!(!mcp.has_pending(|message| message.get("id").is_some()), "others were answered");
}
