//! Invalid input: each line gets an error that says what and where, and the connection stays open.

use serde_json::{Value, json};

use super::harness::{Client, TestServer};

/// Sends a line and expects an error with these words on an open connection.
async fn expect_error(client: &mut Client, line: &[u8], words: &[&str]) -> Value {
    client.send_raw(line).await;
    let reply = client.reply().await;
    let prefix = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
    let error = reply["error"].as_str().unwrap_or_else(|| panic!("no error for {prefix}: {reply}"));
    for word in words {
        assert!(error.to_lowercase().contains(&word.to_lowercase()), "{prefix}: {error:?} lacks {word:?}");
    }
    assert_eq!(client.request_ok("PING", json!({})).await["pong"], true);
    reply
}

#[tokio::test]
async fn invalid_request_gets_error_and_connection_stays() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    expect_error(client, b"hello", &["json"]).await;
    expect_error(client, b"{\"type\":\"command\"", &["json"]).await;
    expect_error(client, b"[1,2,3]", &["list", "object"]).await;
    expect_error(client, b"\"text\"", &["object"]).await;
    expect_error(client, b"{\"type\":\"command\",\"command_type\":\"PING\",\"x\":\"\xff\xfe\"}", &["utf-8"])
        .await;
    expect_error(client, b"{}", &["type"]).await;
    let deep = format!("{{\"type\":\"command\",\"params\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    expect_error(client, deep.as_bytes(), &["deep"]).await;
    server.stop().await;
}

#[tokio::test]
async fn long_name_is_not_echoed() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let name = "é".repeat(2 << 20);
    let line = format!(r#"{{"command_type":"GET_NODE","params":{{"node_id":"{name}"}},"request_id":"1"}}"#);
    let reply = expect_error(client, line.as_bytes(), &["no node", "ééé"]).await;
    let length = reply["error"].as_str().unwrap().len();
    assert!(length < 20_000, "an error of {length} bytes");
    server.stop().await;
}

#[tokio::test]
async fn unknown_command_suggests_the_nearest() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let line = br#"{"type":"command","command_type":"CREAT_NODE","params":{},"request_id":"r7"}"#;
    let reply = expect_error(client, line, &["CREAT_NODE", "CREATE_NODE"]).await;
    assert_eq!(reply["request_id"], "r7");
    server.stop().await;
}

#[tokio::test]
async fn missing_or_wrong_field_is_named() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let missing = client.request_err("EXECUTE_INPUT", json!({ "text": "hello" })).await;
    assert!(missing.contains("node_id"), "{missing}");
    let wrong = client.request_err("RESIZE_NODE", json!({ "node_id": "a", "cols": "wide", "rows": 3 })).await;
    assert!(wrong.contains("cols"), "{wrong}");
    let backend = client.request_err("CREATE_NODE", json!({ "node_id": "a", "backend": "telepathy" })).await;
    assert!(backend.contains("telepathy"), "{backend}");
    let event = client.request_err("SUBSCRIBE", json!({ "types": ["NODE_EXPLODED"] })).await;
    assert!(event.contains("NODE_EXPLODED"), "{event}");
    server.stop().await;
}

#[tokio::test]
async fn oversized_line_is_rejected_and_next_is_read() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let mut line = br#"{"type":"command","command_type":"PING","params":{"x":""#.to_vec();
    line.resize(17 * 1024 * 1024, b'x');
    line.extend(b"\"}}");
    expect_error(client, &line, &["16"]).await;
    server.stop().await;
}

#[tokio::test]
async fn empty_lines_and_crlf_are_accepted() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    client.send_raw(b"\r").await;
    client.send_raw(b"{\"type\":\"command\",\"command_type\":\"PING\",\"request_id\":1}\r").await;
    let reply = loop {
        let reply = client.reply().await;
        if reply["type"] == "result" {
            break reply;
        }
    };
    assert_eq!(reply["request_id"], 1);
    assert_eq!(reply["data"]["pong"], true);
    server.stop().await;
}

#[tokio::test]
async fn deprecated_name_works_with_warning() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let reply = client.request("LIST_CHANNELS", json!({})).await;
    assert_eq!(reply["success"], true, "{reply}");
    let warning = reply["warnings"][0].as_str().unwrap();
    assert!(warning.contains("LIST_CHANNELS") && warning.contains("LIST_NODES"), "{warning}");
    assert_eq!((&reply["data"]["channels"], &reply["data"]["nodes"]), (&json!([]), &json!([])), "{reply}");
    let new = client.request("LIST_NODES", json!({})).await;
    assert_eq!((new.get("warnings"), new["data"].get("channels")), (None, None), "{new}");
    server.stop().await;
}

#[tokio::test]
async fn old_requests_get_old_field_names() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let channel = json!({ "channel_id": "sh", "backend": "bash" });
    let created = client.request_ok("CREATE_CHANNEL", channel.clone()).await;
    assert_eq!((&created["channel_id"], &created["status"]), (&json!("sh"), &json!("created")), "{created}");
    assert_eq!(client.request_ok("LIST_CHANNELS", json!({})).await["channels"], json!(["sh"]));
    let info = client.request_ok("GET_CHANNEL", channel.clone()).await;
    assert_eq!((&info["channel_id"], &info["type"]), (&json!("sh"), &json!("bash")), "{info}");
    let sent = client.request_ok("SEND_INPUT", json!({ "channel_id": "sh", "input": "echo hello" })).await;
    assert_eq!(sent["response"]["text"].as_str().unwrap().trim(), "hello", "{sent}");
    // The field alone is an older name too.
    assert_eq!(client.request_ok("GET_HISTORY", channel.clone()).await["channel_id"], "sh");
    let tasks = json!([{ "task_id": "a", "channel_id": "sh", "text": "echo one" }]);
    let run = client.request_ok("EXECUTE_DAG", json!({ "dag_id": "d", "tasks": tasks })).await;
    assert_eq!((&run["dag_id"], &run["graph_id"]), (&json!("d"), &json!("d")), "{run}");
    assert_eq!(client.request_ok("CLOSE_CHANNEL", channel).await["closed"], true);
    server.stop().await;
}

#[tokio::test]
async fn path_traversal_in_names_is_rejected() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    for name in ["../../etc/passwd", "a/b", "A", "", &"a".repeat(33)] {
        client.request_err("GET_HISTORY", json!({ "node_id": name })).await;
        client.request_err("GET_HISTORY", json!({ "node_id": "a", "server_name": name })).await;
        client.request_err("CREATE_SESSION", json!({ "name": name })).await;
        client.request_err("CREATE_NODE", json!({ "node_id": name, "command": "true" })).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn invalid_line_does_not_affect_other_clients() {
    let server = TestServer::start();
    let mut good = server.client().await;
    let mut bad = server.client().await;
    let id = good.send("PING", json!({})).await;
    bad.send_raw(b"\xff\xff\xff").await;
    assert_eq!(bad.reply().await["type"], "error");
    assert_eq!(good.reply().await["request_id"], id.as_str());
    assert_eq!(good.request_ok("PING", json!({})).await["pong"], true);
    server.stop().await;
}
