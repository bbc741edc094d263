//! Compatibility of server and SDK with the deprecated commands and events, on shells in real terminals.

use std::time::Duration;

use nerve_api::request::{CommandLine, CreateNode, ExecuteInput};
use nerve_api::value::ParserKind;
use nerve_client::{NerveClient, RemoteNode, StreamItem};
use serde_json::{Value, json};

use crate::harness::{Client, DEADLINE, TestServer};

/// Returns a shell in a terminal as a node of a graph.
fn shell() -> Value {
    json!({ "type": "pty", "command": ["bash", "--norc", "--noprofile"], "env": { "PS1": "$ ", "HISTFILE": "" } })
}

/// Returns a graph of two steps on one shell.
fn graph(id: &str, first: &str, second: &str) -> Value {
    json!({
        "graph": id,
        "nodes": { "sh": shell() },
        "steps": [
            { "id": "a", "node": "sh", "input": first },
            { "id": "b", "node": "sh", "input": second, "depends_on": ["a"] },
        ],
    })
}

fn merge(mut params: Value, more: Value) -> Value {
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

/// EXECUTE_DAG and its replacement.
#[tokio::test]
async fn test_execute_graph() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    for input in ["7", "seven"] {
        let params = merge(graph("g", "x={{ input }}", "echo x is $x"), json!({ "input": input }));
        let data = client.request_ok("EXECUTE_GRAPH", params).await;
        assert_eq!((&data["state"], &data["graph_id"]), (&json!("completed"), &json!("g")));
        // The second step runs in the terminal of the first.
        assert_eq!(data["results"]["b"]["text"], format!("x is {input}"), "{data:#}");
    }
    // The deprecated command and field names.
    let node = merge(json!({ "node_id": "old" }), shell());
    client.request_ok("CREATE_NODE", node).await;
    let tasks = json!([
        { "task_id": "a", "channel_id": "old", "text": "y=8" },
        { "task_id": "b", "channel_id": "old", "text": "echo y is $y", "depends_on": ["a"] },
    ]);
    let reply = client.request("EXECUTE_DAG", json!({ "dag_id": "d", "tasks": tasks })).await;
    assert_eq!(reply["data"]["results"]["b"]["text"], "y is 8", "{reply:#}");
    assert!(reply["warnings"].to_string().contains("EXECUTE_DAG is deprecated"), "{reply:#}");
    server.stop().await;
}

/// Runs a graph whose second step does not end, cancels it with `command` and returns the failed result.
async fn run_and_cancel(server: &TestServer, command: &str, target: Value) -> Value {
    let (mut client, mut other): (Client, Client) = (server.client().await, server.client().await);
    other.request_ok("SUBSCRIBE", json!({ "types": ["STEP_STARTED", "NODE_STOPPED"] })).await;
    let run = merge(graph("long", "echo one", "sleep 1000"), json!({ "run_id": "r" }));
    client.send("EXECUTE_GRAPH", run).await;
    while other.wait_for_event("STEP_STARTED").await["data"]["step_id"] != "b" {}
    assert_eq!(other.request_ok(command, target).await["cancelled"], true);
    client.reply().await
}

/// CANCEL_DAG and its replacement.
#[tokio::test]
async fn test_cancel_graph() {
    for (command, target) in [
        ("CANCEL_GRAPH", json!({ "run_id": "r" })),
        ("CANCEL_GRAPH", json!({ "graph_id": "long" })),
        ("CANCEL_DAG", json!({ "dag_id": "long" })),
    ] {
        let server = TestServer::start();
        let reply = run_and_cancel(&server, command, target).await;
        let data = &reply["data"];
        assert_eq!((&reply["success"], &data["state"]), (&json!(false), &json!("cancelled")), "{reply:#}");
        assert_eq!(
            (&data["error_type"], &data["results"]["a"]["text"]),
            (&json!("cancelled"), &json!("one"))
        );
        assert_eq!(data["results"].get("b"), None, "{reply:#}");
        server.stop().await;
    }
}

/// The DAG_* events and their replacements.
#[tokio::test]
async fn test_graph_events() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    for (id, second, end) in [("good", "echo two", "completed"), ("bad", "false", "failed")] {
        let mut watcher = server.client().await;
        watcher.request_ok("SUBSCRIBE", json!({ "run_id": id })).await;
        client.request("EXECUTE_GRAPH", merge(graph(id, "echo one", second), json!({ "run_id": id }))).await;
        let mut kinds = Vec::new();
        loop {
            let event = watcher.line().await.unwrap();
            let (kind, data) = (event["event_type"].as_str().unwrap(), &event["data"]);
            if kind.starts_with("NODE") || kind == "OUTPUT_CHUNK" {
                continue;
            }
            assert_eq!((&data["run_id"], &data["graph_id"]), (&json!(id), &json!(id)), "{event:#}");
            assert!(event["emitted_at"].as_str().unwrap() > "2024", "{event:#}");
            kinds.push(format!("{kind} {}", data["step_id"].as_str().unwrap_or_default()).trim().to_string());
            if kind == "GRAPH_COMPLETED" {
                assert_eq!(data["state"], end, "{event:#}");
                break;
            }
        }
        let last = if end == "completed" { "STEP_COMPLETED b" } else { "STEP_FAILED b" };
        assert_eq!(
            kinds,
            [
                "GRAPH_STARTED",
                "STEP_STARTED a",
                "STEP_COMPLETED a",
                "STEP_STARTED b",
                last,
                "GRAPH_COMPLETED"
            ]
        );
    }
    server.stop().await;
}

async fn remote_shell(server: &TestServer) -> RemoteNode {
    let client = NerveClient::connect(&server.socket).await.unwrap();
    let params = CreateNode {
        command: Some(CommandLine::Argv(["bash", "--norc", "--noprofile"].map(String::from).to_vec())),
        env: [("PS1".to_string(), "$ ".to_string())].into(),
        ..CreateNode::new("sh")
    };
    client.create_node(&params).await.unwrap()
}

/// `RemoteChannel.send()` and its replacement.
#[tokio::test]
async fn test_remote_node_execute() {
    let server = TestServer::start();
    let node = remote_shell(&server).await;
    let unparsed = |text: &str| ExecuteInput { parser: Some(ParserKind::None), ..ExecuteInput::from(text) };
    node.execute(unparsed("x=5")).await.unwrap();
    let answer = node.execute(unparsed("echo x is $x")).await.unwrap();
    assert_eq!((answer.response.text.as_str(), answer.node_id.as_str(), answer.turn), ("x is 5", "sh", 2));
    assert!(answer.response.success && answer.response.is_complete);
    let timeout = Some(Duration::from_millis(200).into());
    let late = node.execute(ExecuteInput { timeout, ..ExecuteInput::from("sleep 1000") }).await.unwrap_err();
    assert_eq!(late.server().unwrap().details.error_type.as_str(), "timeout", "{late}");
    node.stop().await.unwrap();
    server.stop().await;
}

/// `RemoteChannel.send_stream()` and its replacement.
#[tokio::test]
async fn test_remote_node_execute_stream() {
    let server = TestServer::start();
    let node = remote_shell(&server).await;
    let go = server.home.path().join("go");
    let command =
        format!("echo one; printf 'and '; until [ -e {} ]; do sleep 0.01; done; echo two", go.display());
    let mut stream = node.execute_stream(command).await.unwrap();
    // It arrives while the command is still running: only the test can end it.
    let first = tokio::time::timeout(DEADLINE, stream.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(first, StreamItem::Chunk("one".to_string()));
    std::fs::write(go, "").unwrap();
    let mut all = "one".to_string();
    let answer = loop {
        match stream.next().await.unwrap().unwrap() {
            StreamItem::Chunk(chunk) => all.push_str(&chunk),
            StreamItem::Response(answer) => break answer,
            StreamItem::Missed(missed) => panic!("{missed} pieces are missing"),
        }
    };
    assert_eq!((all.as_str(), answer.response.text.as_str()), ("one\nand two", "one\nand two"));
    assert!(stream.next().await.is_none());
    node.stop().await.unwrap();
    server.stop().await;
}
