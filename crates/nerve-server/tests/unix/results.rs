//! Conversations and asynchronous executions over the protocol.

use serde_json::{Value, json};

use crate::harness::{Client, TestServer};

async fn create_bash(client: &mut Client, node: &str) {
    client.request_ok("CREATE_NODE", json!({ "node_id": node, "backend": "bash" })).await;
}

fn execute(node: &str, text: &str, more: Value) -> Value {
    let mut params = json!({ "node_id": node, "text": text });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

#[tokio::test]
async fn async_execution_is_accepted_and_its_end_reported() {
    let server = TestServer::start();
    let (client, listener) = (&mut server.client().await, &mut server.client().await);
    listener.request_ok("SUBSCRIBE", json!({ "types": ["RESULT_READY"], "node_id": "b" })).await;
    create_bash(client, "b").await;
    let accepted =
        client.request_ok("EXECUTE_INPUT", execute("b", "echo hello", json!({ "async": true }))).await;
    let id = accepted["result_id"].as_str().unwrap();
    assert_eq!(accepted, json!({ "result_id": id, "node_id": "b" }));
    let result =
        client.request_ok("GET_RESULT", json!({ "result_id": id, "wait": true, "timeout": 20 })).await;
    assert_eq!((&result["state"], &result["turn"]), (&json!("done"), &json!(1)), "{result:#}");
    assert_eq!(result["response"]["text"].as_str().unwrap().trim(), "hello");
    assert_eq!(result["session_id"], "default");
    let event = listener.wait_for_event("RESULT_READY").await;
    assert_eq!(event["data"], json!({ "result_id": id, "success": true, "state": "done" }));
    assert_eq!(event["node_id"], "b");
    let all = client.request_ok("LIST_RESULTS", json!({})).await;
    assert_eq!(all["results"][0]["result_id"], id);
    assert!(all["results"][0].get("response").is_none(), "{all:#}");
    assert_eq!(client.request_ok("LIST_RESULTS", json!({ "node_id": "other" })).await["results"], json!([]));
    assert_eq!(client.request_ok("LIST_RESULTS", json!({ "last": 0 })).await["results"], json!([]));
    // Results are available after a restart too.
    let server = server.restart().await;
    let client = &mut server.client().await;
    let again = client.request_ok("GET_RESULT", json!({ "result_id": id })).await;
    assert_eq!(again, result);
    server.stop().await;
}

#[tokio::test]
async fn unsubscribed_client_gets_only_original_events() {
    let server = TestServer::start();
    let (old, client) = (&mut server.client().await, &mut server.client().await);
    create_bash(client, "b").await;
    let prompt = execute("b", "echo hello", json!({ "async": true }));
    let id = client.request_ok("EXECUTE_INPUT", prompt).await["result_id"].clone();
    client.request_ok("GET_RESULT", json!({ "result_id": id, "wait": true, "timeout": 20 })).await;
    let mut watcher = server.client().await;
    watcher.request_ok("SUBSCRIBE", json!({ "since": 0 })).await;
    watcher.wait_for_event("RESULT_READY").await;
    client.request_ok("STOP_NODE", json!({ "node_id": "b" })).await;
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind| kind != "NODE_STOPPED") {
        kinds.push(old.line().await.unwrap()["event_type"].as_str().unwrap().to_string());
    }
    assert_eq!(kinds[0], "NODE_CREATED");
    let is_original =
        |kind: &String| nerve_api::EventType::ORIGINAL.iter().any(|event| event.as_str() == kind);
    assert!(kinds.iter().all(is_original), "{kinds:?}");
    server.stop().await;
}

#[tokio::test]
async fn execution_is_lost_with_its_server() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    create_bash(client, "b").await;
    let blocking = execute("b", "exec sleep 1000", json!({ "async": true }));
    let id = client.request_ok("EXECUTE_INPUT", blocking).await["result_id"].clone();
    let waiting = client.send("GET_RESULT", json!({ "result_id": id, "wait": true })).await;
    let server = server.restart().await;
    let client = &mut server.client().await;
    let result = client.request_ok("GET_RESULT", json!({ "result_id": id, "wait": true })).await;
    assert_eq!(
        (&result["state"], &result["error_type"]),
        (&json!("lost"), &json!("lost")),
        "{waiting}: {result:#}"
    );
    server.stop().await;
}

#[tokio::test]
async fn execution_is_cancelled() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    create_bash(client, "b").await;
    let blocking = execute("b", "exec sleep 1000", json!({ "async": true }));
    let id = client.request_ok("EXECUTE_INPUT", blocking).await["result_id"].clone();
    let result = client.request_ok("CANCEL_RESULT", json!({ "result_id": id })).await;
    assert_eq!(
        (&result["state"], &result["error_type"]),
        (&json!("cancelled"), &json!("cancelled")),
        "{result:#}"
    );
    assert!(
        client.request_err("CANCEL_RESULT", json!({ "result_id": id })).await.contains("cancelled already")
    );
    server.stop().await;
}

#[tokio::test]
async fn invalid_parameters_are_named() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    create_bash(client, "b").await;
    let message_of = |role: &str, content: Value| json!({ "role": role, "content": content, "timestamp": 1 });
    let history =
        |second: Value| json!({ "conversation": { "history": [message_of("user", json!("x")), second] } });
    let cases = [
        (history(message_of("system", json!("x"))), "history[1]: unknown role \"system\""),
        (history(message_of("user", json!(5))), "history[1]: invalid type"),
        (history(json!({ "role": "user" })), "history[1]: missing field `content`"),
        (history(json!("x")), "history[1]: "),
        (json!({ "conversation": "w/c" }), "params.conversation: invalid type"),
        (json!({ "conversation": { "workspace": "w" } }), "workspace and chat, or neither"),
        (json!({ "conversation": { "workspace": "w", "chat": "" } }), "chat is empty"),
        (json!({ "conversation": { "context": "often" } }), "unknown context \"often\""),
        (json!({ "conversation": { "history": 5 } }), "params.conversation: "),
        (json!({ "conversation": { "workspace": "w", "chat": "c", "context": "always" } }), "as commands"),
        (json!({ "webhook": { "url": "http://a/" } }), "params.webhook"),
        (json!({ "async": true, "webhook": { "url": "ftp://a/" } }), "http:// or https://"),
        (json!({ "async": true, "webhook": { "url": "http://a/", "secret": "" } }), "secret is empty"),
        (json!({ "async": true, "webhook": { "secret": "x" } }), "missing field `url`"),
        (json!({ "async": true, "webhook": "http://a/" }), "params.webhook"),
        (json!({ "async": "yes" }), "params.async"),
        (json!({ "async": true, "node_id": "absent" }), "absent"),
        (json!({ "async": true, "conversation": { "workspace": " ", "chat": "c" } }), "workspace is empty"),
    ];
    for (more, words) in cases {
        let error = client.request_err("EXECUTE_INPUT", execute("b", "true", more.clone())).await;
        assert!(error.contains(words), "{more}: {error}");
    }
    for (command, params, words) in [
        ("GET_RESULT", json!({}), "params.result_id is missing"),
        ("GET_RESULT", json!({ "result_id": "../../x" }), "no result '../../x'"),
        ("GET_RESULT", json!({ "result_id": "x", "timeout": -1 }), "params.timeout"),
        ("CANCEL_RESULT", json!({ "result_id": "x" }), "no result 'x'"),
        ("LIST_RESULTS", json!({ "last": -1 }), "params.last"),
        ("CREATE_NODE", json!({ "node_id": "c", "conversation": { "workspace": "w" } }), "or neither"),
        (
            "CREATE_NODE",
            json!({ "node_id": "c", "conversation": { "context": "auto" } }),
            "workspace and a chat only",
        ),
        ("CREATE_NODE", json!({ "node_id": "c", "conversation": 5 }), "params.conversation"),
    ] {
        let error = client.request_err(command, params.clone()).await;
        assert!(error.contains(words), "{command} {params}: {error}");
    }
    server.stop().await;
}

#[tokio::test]
async fn conversation_survives_restart_and_its_errors_are_warnings() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let conversation = json!({ "workspace": "my site", "chat": "c" });
    client
        .request_ok("CREATE_NODE", json!({ "node_id": "b", "backend": "bash", "conversation": conversation }))
        .await;
    client.request_ok("EXECUTE_INPUT", execute("b", "echo one", json!({}))).await;
    let server = server.restart().await;
    let client = &mut server.client().await;
    // The conversation is part of the definition.
    client.request_ok("START_NODE", json!({ "node_id": "b" })).await;
    client.request_ok("EXECUTE_INPUT", execute("b", "echo two", json!({}))).await;
    let base = server.home.path().join("conversations");
    let workspace = std::fs::read_dir(&base).unwrap().next().unwrap().unwrap().path();
    assert!(workspace.file_name().unwrap().to_string_lossy().starts_with("my_site."), "{workspace:?}");
    let file = workspace.join("c.json");
    let messages: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let contents: Vec<&str> =
        messages.iter().map(|message| message["content"].as_str().unwrap().trim()).collect();
    assert_eq!(contents, ["echo one", "one", "echo two", "two"]);
    std::fs::write(&file, "[]]").unwrap();
    let reply = client.request("EXECUTE_INPUT", execute("b", "echo three", json!({}))).await;
    assert_eq!(reply["success"], true, "{reply:#}");
    assert!(reply["warnings"].to_string().contains("is now in"), "{reply:#}");
    assert!(reply["data"]["response"]["attributes"].get("warnings").is_none(), "{reply:#}");
    server.stop().await;
}
