//! GET_USAGE over the protocol.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{TestServer, paths};

/// Writes a proxy's log with one response of a node.
fn write_log(server: &TestServer, node: &str, output: u64) {
    let log = paths(server.home.path()).data.proxies.join(format!("log/test/default/{node}.jsonl"));
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    let reply = json!({ "type": "reply", "time": "2026-01-31T10:30:00Z", "node": node, "turn": 1, "model": "m",
        "cost_usd": 0.5, "tokens": { "input": 1, "output": output, "cache_read": 3, "cache_write": 4 } });
    fs::write(log, format!("{reply}\n")).unwrap();
}

#[tokio::test]
async fn responses_are_summed_up_by_node_and_model() {
    let server = TestServer::start();
    write_log(&server, "a", 10);
    write_log(&server, "b", 20);
    let client = &mut server.client().await;
    let all = client.request_ok("GET_USAGE", json!({})).await;
    let nodes: Vec<&Value> = all["rows"].as_array().unwrap().iter().map(|row| &row["node_id"]).collect();
    assert_eq!(nodes, ["a", "b"], "{all}");
    assert_eq!(all["total"]["tokens"]["output"], 30, "{all}");
    let one = client.request_ok("GET_USAGE", json!({ "nodes": ["default/b"], "by": "model" })).await;
    let row = &one["rows"][0];
    assert_eq!(
        (&row["model"], &row["node_id"], &row["turns"], &row["cost_usd"]),
        (&json!("m"), &Value::Null, &json!(1), &json!(0.5)),
        "{one}"
    );
    let later = client.request_ok("GET_USAGE", json!({ "since": "2026-02-01T00:00:00Z" })).await;
    assert_eq!(later["rows"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn invalid_requests_fail_with_hints() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    for (params, error_type) in [
        (json!({ "nodes": ["c"] }), "not_found_error"),
        (json!({ "nodes": ["a@b"] }), "invalid_request_error"),
        (json!({ "since": "soon" }), "invalid_request_error"),
    ] {
        let reply = client.request("GET_USAGE", params.clone()).await;
        assert_eq!((&reply["success"], &reply["data"]["error_type"]), (&json!(false), &json!(error_type)));
        assert!(reply["data"]["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{params}: {reply}");
    }
    let error = client.request_err("GET_USAGE", json!({ "by": "moon" })).await;
    assert!(error.contains("params.by"), "{error}");
    server.stop().await;
}
