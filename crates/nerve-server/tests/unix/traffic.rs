//! Many requests, slow readers, clients that leave: none affects the others.

use serde_json::{Value, json};

use super::harness::{Client, TestServer};
use crate::harness::DEADLINE;

/// Creates a node with bash in a terminal.
async fn create_shell(client: &mut Client, node: &str) {
    let params = json!({
        "node_id": node, "command": ["bash", "--norc", "--noprofile"], "env": { "PS1": "$ ", "HISTFILE": "" },
    });
    assert_eq!(client.request_ok("CREATE_NODE", params).await["node_id"], node);
}

async fn create_bash(client: &mut Client, node: &str) {
    let params = json!({ "node_id": node, "backend": "bash" });
    assert_eq!(client.request_ok("CREATE_NODE", params).await["node_id"], node);
}

async fn node_state(client: &mut Client, node: &str) -> Value {
    client.request_ok("GET_NODE", json!({ "node_id": node })).await["state"].clone()
}

#[tokio::test]
async fn every_one_of_many_requests_is_answered() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let mut pending = std::collections::BTreeSet::new();
    for sent in 0..3000 {
        pending.insert(client.send("PING", json!({})).await);
        // A client that never reads is blocked eventually.
        while pending.len() > 300 || (sent == 2999 && !pending.is_empty()) {
            let reply = client.reply().await;
            let id = reply["request_id"].as_str().unwrap();
            assert!(pending.remove(id), "{id} twice");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn many_clients_get_their_own_answers() {
    let server = TestServer::start();
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..50 {
        let mut client = server.client().await;
        clients.spawn(async move {
            for command in 0..20 {
                let id = format!("{number}-{command}");
                client.send_raw(json!({ "command_type": "PING", "request_id": id }).to_string()).await;
                let reply = client.reply().await;
                assert_eq!((&reply["request_id"], &reply["data"]["pong"]), (&json!(id), &json!(true)));
            }
        });
    }
    clients.join_all().await;
    server.stop().await;
}

#[tokio::test]
async fn subscribers_that_read_nothing_delay_no_other_client() {
    let server = TestServer::start();
    let mut stalled = Vec::new();
    for _ in 0..10 {
        let mut client = server.client().await;
        client.request_ok("SUBSCRIBE", json!({})).await;
        stalled.push(client);
    }
    let mut reader = server.client().await;
    reader.request_ok("SUBSCRIBE", json!({ "types": ["NODE_CREATED", "EVENTS_DROPPED"] })).await;
    let mut client = server.client().await;
    client.request_ok("SUBSCRIBE", json!({ "types": [] })).await;
    for round in 0..400 {
        let node = json!({ "node_id": format!("n{round}"), "backend": "bash", "history": false });
        client.request_ok("CREATE_NODE", node.clone()).await;
        client.request_ok("STOP_NODE", node.clone()).await;
        client.request_ok("REMOVE_NODE", node).await;
        let event = reader.line().await.unwrap();
        assert_eq!(
            (&event["event_type"], &event["node_id"]),
            (&json!("NODE_CREATED"), &json!(format!("n{round}")))
        );
    }
    drop(stalled);
    server.stop().await;
}

#[tokio::test]
async fn quick_request_overtakes_slow_one() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    create_bash(client, "slow").await;
    let marker = server.home.path().join("go");
    let text = format!("until [ -e {} ]; do sleep 0.01; done; echo done", marker.display());
    let slow = client.send("EXECUTE_INPUT", json!({ "node_id": "slow", "text": text })).await;
    let quick = client.send("PING", json!({})).await;
    assert_eq!(client.reply().await["request_id"], quick.as_str());
    std::fs::write(marker, "").unwrap();
    let reply = client.reply().await;
    assert_eq!(reply["request_id"], slow.as_str());
    assert_eq!(reply["data"]["response"]["text"].as_str().unwrap().trim(), "done", "{reply}");
    server.stop().await;
}

#[tokio::test]
async fn half_closed_client_gets_its_answers() {
    let server = TestServer::start();
    let mut client = server.client().await;
    create_bash(&mut client, "a").await;
    let ping = client.send("PING", json!({})).await;
    let go = server.home.path().join("go");
    let text = format!("until [ -e {} ]; do sleep 0.01; done; echo hi", go.display());
    let turn = client.send("EXECUTE_INPUT", json!({ "node_id": "a", "text": text })).await;
    client.half_close();
    std::fs::write(go, "").unwrap();
    let mut answered = Vec::new();
    while let Some(line) = client.line().await {
        if line["type"] == "result" {
            assert_eq!(line["success"], true, "{line}");
            answered.push(line["request_id"].as_str().unwrap().to_string());
        }
    }
    answered.sort();
    let mut sent = vec![ping, turn];
    sent.sort();
    assert_eq!(answered, sent);
    server.stop().await;
}

#[tokio::test]
async fn turn_ends_normally_after_its_client_left() {
    let server = TestServer::start();
    let mut leaver = server.client().await;
    create_bash(&mut leaver, "a").await;
    let mut watcher = server.client().await;
    watcher.request_ok("SUBSCRIBE", json!({ "types": ["NODE_BUSY", "NODE_READY"] })).await;
    let go = server.home.path().join("go");
    let text = format!("until [ -e {} ]; do sleep 0.01; done; echo left alone", go.display());
    leaver.send("EXECUTE_INPUT", json!({ "node_id": "a", "text": text })).await;
    watcher.wait_for_event("NODE_BUSY").await;
    drop(leaver);
    std::fs::write(go, "").unwrap();
    watcher.wait_for_event("NODE_READY").await;
    let mut other = server.client().await;
    let reply = other.request_ok("EXECUTE_INPUT", json!({ "node_id": "a", "text": "echo mine" })).await;
    assert_eq!(reply["response"]["text"].as_str().unwrap().trim(), "mine");
    let history = other.request_ok("GET_HISTORY", json!({ "node_id": "a", "op": "send" })).await;
    assert_eq!(history["total"], 2, "{history}");
    assert!(history["entries"][0].to_string().contains("left alone"), "{history}");
    server.stop().await;
}

#[tokio::test]
async fn terminal_node_is_ready_again_after_client_left() {
    let server = TestServer::start();
    let mut leaver = server.client().await;
    create_shell(&mut leaver, "sh").await;
    leaver.request_ok("WAIT_NODE", json!({ "node_id": "sh", "timeout": 20 })).await;
    let mut watcher = server.client().await;
    watcher.request_ok("SUBSCRIBE", json!({ "node_id": "sh", "types": ["NODE_BUSY"] })).await;
    let go = server.home.path().join("go");
    let text = format!("until [ -e {} ]; do sleep 0.01; done; echo done", go.display());
    leaver.send("EXECUTE_INPUT", json!({ "node_id": "sh", "text": text })).await;
    watcher.wait_for_event("NODE_BUSY").await;
    drop(leaver);
    std::fs::write(go, "").unwrap();
    watcher.request_ok("WAIT_NODE", json!({ "node_id": "sh", "timeout": 20 })).await;
    assert_eq!(node_state(&mut watcher, "sh").await, "ready");
    let reply = watcher.request_ok("EXECUTE_INPUT", json!({ "node_id": "sh", "text": "echo mine" })).await;
    assert_eq!(reply["response"]["text"].as_str().unwrap().trim(), "mine");
    server.stop().await;
}

#[tokio::test]
async fn half_closed_listener_still_gets_events() {
    let server = TestServer::start();
    let mut listener = server.client().await;
    listener.request_ok("SUBSCRIBE", json!({ "types": ["NODE_CREATED", "SERVER_SHUTDOWN"] })).await;
    listener.half_close();
    let mut client = server.client().await;
    create_bash(&mut client, "a").await;
    assert_eq!(listener.wait_for_event("NODE_CREATED").await["node_id"], "a");
    client.request_ok("SHUTDOWN", json!({})).await;
    listener.wait_for_event("SERVER_SHUTDOWN").await;
    assert_eq!(listener.line().await, None);
}

#[tokio::test]
async fn events_are_numbered_filtered_and_replayed() {
    let server = TestServer::start();
    let mut client = server.client().await;
    create_bash(&mut client, "a").await;
    create_bash(&mut client, "b").await;
    let mut late = server.client().await;
    late.request_ok(
        "SUBSCRIBE",
        json!({ "since": 0, "node_id": "b", "types": ["NODE_CREATED"], "aliases": true }),
    )
    .await;
    let event = late.wait_for_event("NODE_CREATED").await;
    assert_eq!(event["node_id"], "b");
    assert!(event["seq"].as_u64().unwrap() > 0);
    let old = late.line().await.unwrap();
    assert_eq!(old["event_type"], "CHANNEL_CREATED");
    assert_eq!(old["channel_id"], "b");
    late.request_ok("SUBSCRIBE", json!({ "types": [] })).await;
    client.request_ok("STOP_NODE", json!({ "node_id": "b" })).await;
    let reply = late.request("PING", json!({})).await;
    assert_eq!(reply["success"], true);
    server.stop().await;
}

#[tokio::test]
async fn chunks_precede_the_answer() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    create_shell(client, "sh").await;
    let params = json!({ "node_id": "sh", "text": "echo one; sleep 0.1; echo two", "stream": true });
    let id = client.send("EXECUTE_INPUT", params).await;
    let mut chunks = String::new();
    loop {
        let line = client.line().await.unwrap();
        if line["event_type"] == "OUTPUT_CHUNK" {
            chunks.push_str(line["data"]["chunk"].as_str().unwrap());
        }
        if line["request_id"] == id.as_str() {
            assert_eq!(line["success"], true, "{line}");
            break;
        }
    }
    assert!(chunks.contains("one") && chunks.contains("two"), "{chunks:?}");
    server.stop().await;
}

#[tokio::test]
async fn failed_start_affects_only_its_caller() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    create_shell(client, "sh").await;
    let error =
        client.request_err("CREATE_NODE", json!({ "node_id": "x", "command": "claud-misspelt" })).await;
    assert!(error.contains("claud-misspelt"), "{error}");
    let params = json!({ "node_id": "y", "command": "bash", "cwd": "/no/such/directory" });
    let error = client.request_err("CREATE_NODE", params).await;
    assert!(error.contains("/no/such/directory"), "{error}");
    let taken = client.request("CREATE_NODE", json!({ "node_id": "sh", "command": "bash" })).await;
    assert_eq!(taken["data"]["error_type"], "already_exists_error", "{taken}");
    let nodes = client.request_ok("LIST_NODES", json!({})).await;
    assert_eq!(nodes["nodes"], json!(["sh"]));
    server.stop().await;
}

#[tokio::test]
async fn lists_come_in_pages() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    for name in ["a", "b", "c", "d", "e"] {
        client.request_ok("CREATE_SESSION", json!({ "name": name })).await;
    }
    let (mut cursor, mut pages) = (Value::Null, Vec::new());
    loop {
        let page = client.request_ok("LIST_SESSIONS", json!({ "limit": 4, "cursor": cursor })).await;
        let names = page["sessions"].as_array().unwrap().iter().map(|session| session["name"].clone());
        pages.push(names.collect::<Vec<_>>());
        cursor = page["next"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(pages, [vec!["a", "b", "c", "d"], vec!["default", "e"]]);
    let all = client.request_ok("LIST_SESSIONS", json!({})).await;
    assert_eq!((all["sessions"].as_array().unwrap().len(), &all["next"]), (6, &Value::Null));
    for invalid in [json!({ "limit": 0 }), json!({ "limit": 1001 }), json!({ "cursor": "x" })] {
        let reply = client.request("LIST_SESSIONS", invalid.clone()).await;
        assert_eq!(reply["data"]["error_type"], "invalid_request_error", "{invalid}: {reply}");
    }
    server.stop().await;
}

#[tokio::test]
async fn concurrent_turns_get_separate_answers() {
    let server = TestServer::start();
    let mut first = server.client().await;
    let mut second = server.client().await;
    create_shell(&mut first, "sh").await;
    for round in 0..5 {
        let params =
            |word: &str| json!({ "node_id": "sh", "text": format!("sleep 0.05; echo {word}-{round}") });
        first.send("EXECUTE_INPUT", params("left")).await;
        second.send("EXECUTE_INPUT", params("right")).await;
        let text = |reply: &Value| reply["data"]["response"]["text"].as_str().unwrap().trim().to_string();
        assert_eq!(text(&first.reply().await), format!("left-{round}"));
        assert_eq!(text(&second.reply().await), format!("right-{round}"));
    }
    server.stop().await;
}

#[tokio::test]
async fn turns_work_after_large_output() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    create_shell(client, "sh").await;
    let params = json!({ "node_id": "sh", "text": "seq 1 400000", "timeout": 60 });
    client.request_ok("EXECUTE_INPUT", params).await;
    for number in 0..3 {
        let params = json!({ "node_id": "sh", "text": format!("echo after-{number}"), "timeout": 20 });
        let reply = client.request_ok("EXECUTE_INPUT", params).await;
        assert_eq!(reply["response"]["text"].as_str().unwrap().trim(), format!("after-{number}"));
    }
    server.stop().await;
}

#[tokio::test]
async fn server_with_twenty_nodes_shuts_down() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    for number in 0..20 {
        create_shell(client, &format!("n{number}")).await;
    }
    client.request_ok("SHUTDOWN", json!({})).await;
    server.wait_for_exit().await;
}

#[tokio::test]
async fn answer_of_a_million_lines_is_sent() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    create_shell(client, "sh").await;
    let data = client.request_ok("EXECUTE_INPUT", json!({ "node_id": "sh", "text": "seq 1 1000000" })).await;
    let response = &data["response"];
    assert!(response["text"].as_str().unwrap().ends_with("\n999999\n1000000"));
    assert!(response["attributes"]["truncated"].is_string(), "{}", response["attributes"]);
    assert_eq!((&response["success"], &response["error_type"]), (&json!(false), &json!("incomplete")));
    // Every byte needs escaping.
    let text = "head -c 3000000 /dev/zero | tr '\\0' '\"' | fold -w 70";
    let data = client.request_ok("EXECUTE_INPUT", json!({ "node_id": "sh", "text": text })).await;
    assert!(data["response"]["text"].as_str().unwrap().ends_with('"'));
    server.stop().await;
}

/// Collects the chunks that a client sees until its request is answered, each with its request id.
async fn chunks_until(client: &mut Client, request: &str) -> Vec<(Value, String)> {
    let mut chunks = Vec::new();
    loop {
        let line = client.line().await.unwrap();
        if line["event_type"] == "OUTPUT_CHUNK" {
            let chunk = line["data"]["chunk"].as_str().unwrap().to_string();
            chunks.push((line["data"]["request_id"].clone(), chunk));
        }
        if line["request_id"] == request {
            assert_eq!(line["success"], true, "{line}");
            return chunks;
        }
    }
}

#[tokio::test]
async fn chunks_name_request_only_for_its_sender() {
    let server = TestServer::start();
    let (mut first, mut second) = (server.client().await, server.client().await);
    let mut watcher = server.client().await;
    watcher.request_ok("SUBSCRIBE", json!({ "types": ["OUTPUT_CHUNK"] })).await;
    create_bash(&mut first, "b").await;
    create_shell(&mut first, "sh").await;
    for node in ["b", "sh"] {
        // Both use the same request id and wait for the same node.
        for (client, word) in [(&mut first, "left"), (&mut second, "right")] {
            let params = json!({ "node_id": node, "text": format!("echo {word}; sleep 0.2; echo {word}"), "stream": true });
            let request = json!({ "command_type": "EXECUTE_INPUT", "params": params, "request_id": "1" });
            client.send_raw(request.to_string()).await;
        }
        let (left, right) = (chunks_until(&mut first, "1").await, chunks_until(&mut second, "1").await);
        for (chunks, word, other) in [(left, "left", "right"), (right, "right", "left")] {
            let text_of = |id: Value| -> String {
                chunks.iter().filter(|(named, _)| *named == id).map(|(_, chunk)| chunk.as_str()).collect()
            };
            assert_eq!(text_of(json!("1")).matches(word).count(), 2, "{node}: {chunks:?}");
            assert!(!text_of(json!("1")).contains(other), "{node}: {chunks:?}");
            assert!(!text_of(Value::Null).contains(word), "{node}: {chunks:?}");
        }
        let mut matches = 0;
        while matches < 4 {
            let event = watcher.wait_for_event("OUTPUT_CHUNK").await;
            assert_eq!(event["data"].get("request_id"), None, "{event}");
            let chunk = event["data"]["chunk"].as_str().unwrap();
            matches += chunk.matches("left").count() + chunk.matches("right").count();
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn two_streams_on_one_node_do_not_mix() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    create_bash(client, "b").await;
    for (id, word) in [(1, "one"), (2, "two")] {
        let params =
            json!({ "node_id": "b", "text": format!("echo {word}; sleep 0.2; echo {word}"), "stream": true });
        let request = json!({ "command_type": "EXECUTE_INPUT", "params": params, "request_id": id });
        client.send_raw(request.to_string()).await;
    }
    let mut chunks = Vec::new();
    let mut answered = 0;
    while answered < 2 {
        let line = client.line().await.unwrap();
        if line["event_type"] == "OUTPUT_CHUNK" {
            let chunk = line["data"]["chunk"].as_str().unwrap().replace('\n', " ");
            chunks.push((
                line["data"]["request_id"].as_str().unwrap().to_string(),
                line["data"]["turn"].clone(),
                chunk,
            ));
        }
        answered += usize::from(line["type"] == "result");
    }
    for (id, _, chunk) in &chunks {
        assert_eq!(chunk.contains("one"), id == "1", "{chunks:?}");
        assert_eq!(chunk.contains("two"), id == "2", "{chunks:?}");
    }
    let turns = |id: &str| {
        chunks.iter().filter(|chunk| chunk.0 == id).map(|chunk| chunk.1.clone()).collect::<Vec<_>>()
    };
    assert!(
        turns("1").iter().all(|turn| turn == &turns("1")[0]) && turns("1")[0] != turns("2")[0],
        "{chunks:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn requests_are_accepted_while_answers_are_unread() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    create_bash(client, "b").await;
    let large_output = "head -c 300000 /dev/zero | tr '\\0' x";
    let mut pending = std::collections::BTreeSet::new();
    for _ in 0..20 {
        pending.insert(client.send("EXECUTE_INPUT", json!({ "node_id": "b", "text": large_output })).await);
    }
    for _ in 0..500 {
        pending.insert(client.send("PING", json!({})).await);
    }
    // The answers exceed the socket's buffer. Later requests are executed anyway.
    client.send("CREATE_NODE", json!({ "node_id": "last", "backend": "bash" })).await;
    let mut other = server.client().await;
    let created = async {
        loop {
            let nodes = other.request_ok("LIST_NODES", json!({})).await;
            if nodes["nodes"].as_array().unwrap().contains(&json!("last")) {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, created).await.expect("node was not created");
    while !pending.is_empty() {
        let reply = client.reply().await;
        let id = reply["request_id"].as_str().unwrap();
        assert!(pending.remove(id) || id.starts_with("CREATE"), "{id} twice");
    }
    server.stop().await;
}

#[tokio::test]
async fn writes_to_a_node_keep_their_order() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let params = json!({ "node_id": "cat", "command": ["cat"], "parser": "none" });
    client.request_ok("CREATE_NODE", params).await;
    for number in 0..60 {
        client.send("WRITE_DATA", json!({ "node_id": "cat", "data": format!("{number}.") })).await;
    }
    for _ in 0..60 {
        assert_eq!(client.reply().await["success"], true);
    }
    client.request_ok("WRITE_DATA", json!({ "node_id": "cat", "data": "end\r" })).await;
    let expected: String = (0..60).map(|number| format!("{number}.")).collect();
    let read_to_end = async {
        loop {
            let buffer = client.request_ok("GET_BUFFER", json!({ "node_id": "cat" })).await;
            let text = buffer["buffer"].as_str().unwrap().replace('\n', "");
            if text.contains("end") {
                return text;
            }
        }
    };
    let text = tokio::time::timeout(DEADLINE, read_to_end).await.expect("end marker missing");
    assert!(text.starts_with(&expected), "{text}");
    server.stop().await;
}
