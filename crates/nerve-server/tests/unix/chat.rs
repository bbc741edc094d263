//! Chat nodes over the protocol, with the scripted model API.

use nerve_testkit::mock_model::{Answer, MockModel, Script, ToolCall};
use serde_json::{Value, json};

use crate::harness::{Client, TestServer};

const KEY: &str = "sk-wire-0123456789";

fn params(provider: &str, model: &MockModel, more: Value) -> Value {
    let mut chat = json!({ "provider": provider, "model": "test-model", "base_url": model.url() });
    chat.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let env = json!({ "ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY });
    json!({ "node_id": "c", "backend": "chat", "env": env, "chat": chat })
}

async fn execute(client: &mut Client, text: &str) -> Value {
    client.request_ok("EXECUTE_INPUT", json!({ "node_id": "c", "text": text })).await
}

#[tokio::test]
async fn chat_node_life_cycle() {
    for provider in ["anthropic", "openai"] {
        let server = TestServer::start();
        let mut client = server.client().await;
        let tool = ToolCall::Own { name: "sh_run".into(), input: json!({ "command": "echo from the tool" }) };
        let model = MockModel::start(Script::default().rule("use it", Answer::tools([tool]))).await;
        client.request_ok("CREATE_NODE", json!({ "node_id": "sh", "backend": "bash" })).await;
        let node =
            params(provider, &model, json!({ "system": "Be brief.", "max_tokens": 7, "tools": ["sh"] }));
        assert_eq!(client.request_ok("CREATE_NODE", node).await, json!({ "node_id": "c" }));
        let answer = execute(&mut client, "use it").await;
        let response = &answer["response"];
        assert_eq!(
            (&answer["turn"], &response["text"]),
            (&json!(1), &json!("The tool said: from the tool\n\nEND-OF-TOOL"))
        );
        assert_eq!((&response["source"], &response["success"]), (&json!("api"), &json!(true)));
        let attributes = &response["attributes"];
        assert_eq!((&attributes["finish_reason"], &attributes["api_calls"]), (&json!("stop"), &json!(2)));
        assert_eq!(attributes["tool_calls"][0]["name"], "sh.run");
        assert_eq!(attributes["usage"]["total"], response["tokens"]["total"]);
        assert_eq!(response["sections"][0]["metadata"]["tool"], "sh.run");
        let request = model.requests()[0].body.clone();
        assert_eq!(request["max_tokens"], 7);
        assert!(request.to_string().contains("Be brief."));

        let info = client.request_ok("GET_NODE", json!({ "node_id": "c" })).await;
        assert_eq!(
            (&info["type"], &info["state"], &info["persistent"]),
            (&json!("chat"), &json!("ready"), &json!(true))
        );
        let metadata = &info["metadata"];
        assert_eq!(
            (&metadata["provider"], &metadata["model"], &metadata["messages"]),
            (&json!(provider), &json!("test-model"), &json!(4))
        );
        assert!(!info.to_string().contains(KEY));

        client.request_ok("FORK_NODE", json!({ "source_id": "c", "target_id": "d" })).await;
        client.request_ok("CLEAR_BUFFER", json!({ "node_id": "c" })).await;
        assert_eq!(client.request_ok("GET_BUFFER", json!({ "node_id": "c" })).await["buffer"], "");
        let forked = client.request_ok("GET_BUFFER", json!({ "node_id": "d" })).await["buffer"].clone();
        assert!(forked.as_str().unwrap().starts_with("user: use it\nassistant: sh_run("), "{forked}");
        client.request_err("WRITE_DATA", json!({ "node_id": "c", "data": "x" })).await;
        client.request_ok("STOP_NODE", json!({ "node_id": "c" })).await;
        server.stop().await;
    }
}

#[tokio::test]
async fn streamed_answer_arrives_in_chunks() {
    let server = TestServer::start();
    let mut client = server.client().await;
    let pieces = ["one ", "two"].map(String::from).to_vec();
    let model = MockModel::start(
        Script::default().first([Answer::slow(std::time::Duration::from_millis(20), pieces)]),
    )
    .await;
    client.request_ok("CREATE_NODE", params("openai", &model, json!({}))).await;
    client.request_ok("SUBSCRIBE", json!({ "events": ["OUTPUT_CHUNK"] })).await;
    client.send("EXECUTE_INPUT", json!({ "node_id": "c", "text": "count", "stream": true })).await;
    assert_eq!(client.wait_for_event("OUTPUT_CHUNK").await["data"]["chunk"], "one ");
    assert_eq!(client.wait_for_event("OUTPUT_CHUNK").await["data"]["chunk"], "two");
    assert_eq!(client.reply().await["data"]["response"]["text"], "one two");
    server.stop().await;
}

#[tokio::test]
async fn errors_name_their_field() {
    let server = TestServer::start();
    let mut client = server.client().await;
    let model = MockModel::start(Script::default().first([Answer::error(400, "its own words")])).await;
    for (params, expected) in [
        (params("robot", &model, json!({})), "params.chat: unknown provider \"robot\""),
        (params("openai", &model, json!({ "max_tokens": "many" })), "params.chat"),
        (params("openai", &model, json!({ "temperature": 3 })), "chat.temperature"),
        (params("openai", &model, json!({ "tool_choice": "sh" })), "chat.tool_choice"),
        (
            params("openai", &model, json!({ "base_url": format!("http://me:{KEY}@h") })),
            "chat.base_url contains a user",
        ),
        (
            params("openai", &model, json!({ "api_key_env": "NERVE_TEST_NO_SUCH" })),
            "NERVE_TEST_NO_SUCH is not set",
        ),
        (json!({ "node_id": "c", "backend": "chat" }), "a chat node needs a model"),
        (json!({ "node_id": "c", "backend": "chat", "chat": {} }), "model"),
        (
            json!({ "node_id": "c", "backend": "bash", "chat": { "model": "m" } }),
            "params.chat is for backend chat",
        ),
    ] {
        let error = client.request_err("CREATE_NODE", params).await;
        assert!(error.contains(expected) && !error.contains(KEY), "{expected}: {error}");
    }
    client.request_ok("CREATE_NODE", params("anthropic", &model, json!({}))).await;
    let reply = client.request("EXECUTE_INPUT", json!({ "node_id": "c", "text": "q" })).await;
    assert_eq!(reply["data"]["error_type"], "invalid_request_error");
    assert!(reply["error"].as_str().unwrap().ends_with("its own words"), "{reply}");
    server.stop().await;
}

#[tokio::test]
async fn definition_survives_restart_but_key_does_not() {
    let server = TestServer::start();
    let model = MockModel::start(Script::default()).await;
    let mut client = server.client().await;
    // Without a key, so that the restarted server can start the node.
    let chat = json!({ "api_key_env": "", "system": "Be brief." });
    client.request_ok("CREATE_NODE", params("openai", &model, chat)).await;
    execute(&mut client, "remember").await;
    drop(client);
    let server = server.restart().await;
    let file = std::fs::read_to_string(server.home.path().join("sessions.json")).unwrap();
    assert!(file.contains("Be brief.") && !file.contains(KEY), "{file}");
    let mut client = server.client().await;
    let info = client.request_ok("GET_NODE", json!({ "node_id": "c" })).await;
    assert_eq!((&info["state"], &info["type"]), (&json!("stopped"), &json!("chat")));
    client.request_ok("START_NODE", json!({ "node_id": "c" })).await;
    execute(&mut client, "hello").await;
    let body = model.requests()[1].body.to_string();
    assert!(body.contains("Be brief.") && !body.contains("remember"), "{body}");
    server.stop().await;
}
