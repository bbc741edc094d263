//! FORK_NODE and agents' conversation ids over the protocol.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::harness::{Client, TestServer};

const ID: &str = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa";

/// Returns a fake agent that has already had a turn in its conversation and shows a composer.
fn agent(server: &TestServer) -> Value {
    let claude = server.home.path().join("claude");
    let rule = "─".repeat(40);
    let screen = format!("printf '\\033]0;✳ x\\007{rule}\\r\\n❯ \\r\\n{rule}\\r\\n\\033[2A\\033[3G'");
    let turn = r#"{"type":"user","uuid":"u","message":{"content":"hi"}}
{"type":"assistant","uuid":"a","parentUuid":"u","message":{"content":"yes","stop_reason":"end_turn"}}"#;
    let folder = "$HOME/.claude/projects/-x";
    let script = format!(
        "#!/bin/sh\nmkdir -p {folder}\ncat > {folder}/{ID}.jsonl <<'END'\n{turn}\nEND\n{screen}\nexec sleep 600\n"
    );
    fs::write(&claude, script).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    json!([claude.display().to_string()])
}

async fn create(client: &mut Client, server: &TestServer, id: &str) -> Value {
    let env = json!({ "HOME": server.home.path().display().to_string() });
    let params = json!({ "node_id": "c", "command": agent(server), "env": env, "backend": "claude", "conversation_id": id });
    client.request("CREATE_NODE", params).await
}

#[tokio::test]
async fn fork_of_agent_is_reported_on_both_nodes() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    assert_eq!(create(client, &server, ID).await["success"], true);
    client.request_ok("WAIT_NODE", json!({ "node_id": "c", "until": "ready", "timeout": 30 })).await;
    let info = client.request_ok("GET_NODE", json!({ "node_id": "c" })).await;
    assert_eq!(info["metadata"]["conversation_id"], ID, "{info}");
    let mut watcher = server.client().await;
    watcher.request_ok("SUBSCRIBE", json!({ "types": ["NODE_CREATED"] })).await;
    let data = client.request_ok("FORK_NODE", json!({ "source_id": "c", "target_id": "d" })).await;
    assert_eq!(data, json!({ "node_id": "d", "forked_from": "c" }));
    let event = watcher.wait_for_event("NODE_CREATED").await;
    assert_eq!((&event["node_id"], &event["data"]["forked_from"]), (&json!("d"), &json!("c")), "{event}");
    let info = client.request_ok("GET_NODE", json!({ "node_id": "d" })).await;
    let command = info["metadata"]["command"].as_str().unwrap();
    let new = info["metadata"]["conversation_id"].as_str().unwrap();
    assert!(command.ends_with(&format!("--resume {ID} --fork-session --session-id {new}")), "{command}");
    let error = client.request_err("FORK_NODE", json!({ "source_id": "c", "target_id": "d" })).await;
    assert!(error.contains("'d' exists already"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn fork_errors_are_reported() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let reply = create(client, &server, "custom").await;
    assert_eq!(reply["success"], false);
    assert!(reply["error"].as_str().unwrap().contains("UUID"), "{reply}");
    for (params, word) in [
        (json!({ "target_id": "d" }), "source_id"),
        (json!({ "source_id": "c" }), "target_id"),
        (json!({ "source_id": "c", "target_id": "d" }), "'c'"),
        (json!({ "source_id": "c", "target_id": 7 }), "target_id"),
        (json!({ "source_id": "c", "target_id": "d", "at": "x" }), "at"),
    ] {
        let error = client.request_err("FORK_NODE", params).await;
        assert!(error.contains(word), "{error}");
    }
    client.request_ok("CREATE_NODE", json!({ "node_id": "b", "backend": "bash" })).await;
    let error = client.request_err("FORK_NODE", json!({ "source_id": "b", "target_id": "d" })).await;
    assert!(error.contains("'b'"), "{error}");
    server.stop().await;
}
