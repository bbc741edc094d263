//! Anthropic's API served by an OpenAI upstream.

use hyper::Method;
use nerve_proxy::{ProxyConfig, Secret, create_openai_proxy};
use nerve_testkit::mock_model::{Answer, BodyEnd, MockModel, Raw as RawAnswer, Script, ToolCall};
use nerve_testkit::within_deadline;
use serde_json::{Value, json};

use crate::harness::{RawUpstream, TestClient, config, message, next_piece, read_reply, write};

fn calls() -> Answer {
    let own = |name: &str, input: Value| ToolCall::Own { name: name.into(), input };
    Answer::tools([own("Bash", json!({ "command": "ls" })), own("Read", json!({ "file_path": "/x" }))])
}

#[tokio::test]
async fn text_whole_and_streamed() {
    let model = MockModel::start(Script::default()).await;
    let options = ProxyConfig {
        model: Some("gpt-x".into()),
        max_output: Some(50),
        ..config(&format!("{}/v1", model.url()))
    };
    let proxy = create_openai_proxy(options).await.unwrap();
    let client = TestClient::new(&proxy);
    let reply = client.send_message("hello", false).await.json();
    assert_eq!(reply["content"], json!([{ "type": "text", "text": "You said: hello" }]));
    assert_eq!(
        (&reply["stop_reason"], &reply["type"], &reply["model"]),
        (&json!("end_turn"), &json!("message"), &json!("gpt-x"))
    );
    let reply = client.send_message("LONG please", true).await;
    assert!(reply.joined("/delta/text").trim_end().ends_with("END-OF-LONG"));
    assert_eq!(reply.joined("/delta/stop_reason"), "end_turn");
    assert_eq!(reply.events().last().unwrap()["type"], "message_stop");
    let request = &model.requests()[1];
    assert_eq!(
        (request.path.as_str(), &request.body["stream_options"]["include_usage"]),
        ("/v1/chat/completions", &json!(true))
    );
    assert_eq!((&request.body["model"], &request.body["max_tokens"]), (&json!("gpt-x"), &json!(50)));
    let spent = proxy.spent();
    assert!(spent.requests == 2 && spent.usage.input > 0 && spent.usage.output > 0, "{spent:?}");
}

#[tokio::test]
async fn tool_ids_round_trip() {
    let model = MockModel::start(Script::default().rule("look", calls())).await;
    let proxy = create_openai_proxy(config(&model.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    let tool = |name: &str| json!({ "name": name, "description": "d", "input_schema": { "type": "object" } });
    let mut request = message("look", true);
    request["tools"] = json!([tool("Bash"), tool("Read")]);
    request["tool_choice"] = json!({ "type": "any" });
    let reply = client.post("/v1/messages", &request).await;
    let starts: Vec<Value> = reply
        .events()
        .iter()
        .filter(|event| event["type"] == "content_block_start")
        .map(|event| event["content_block"].clone())
        .collect();
    assert_eq!(
        starts.iter().map(|block| block["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["Bash", "Read"]
    );
    assert_eq!(reply.joined("/delta/partial_json"), r#"{"command":"ls"}{"file_path":"/x"}"#);
    assert_eq!(reply.joined("/delta/stop_reason"), "tool_use");
    let result = |block: &Value, text: &str, is_error: bool| json!({ "type": "tool_result", "tool_use_id": block["id"], "content": text, "is_error": is_error });
    let use_of =
        |block: &Value| json!({ "type": "tool_use", "id": block["id"], "name": block["name"], "input": {} });
    let messages = json!([
        { "role": "user", "content": "look" },
        { "role": "assistant", "content": [use_of(&starts[0]), use_of(&starts[1])] },
        { "role": "user", "content": [result(&starts[1], "no such file", true), result(&starts[0], "a.txt", false)] },
    ]);
    request["messages"] = messages;
    let reply = client.post("/v1/messages", &request).await;
    assert!(reply.joined("/delta/text").starts_with("The tool said: "), "{reply:?}");
    let sent = &model.requests()[1].body;
    assert_eq!(sent["tool_choice"], "required");
    let ids: Vec<&str> = sent["messages"][1]["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["call_mock_000001_0", "call_mock_000001_1"], "tool id changed");
    assert_eq!(
        sent["messages"][2],
        json!({ "role": "tool", "tool_call_id": ids[1], "content": "Error: no such file" })
    );
    assert_eq!(sent["messages"][3], json!({ "role": "tool", "tool_call_id": ids[0], "content": "a.txt" }));
}

#[tokio::test]
async fn only_the_proxy_key_reaches_the_upstream() {
    let raw = RawUpstream::listen().await;
    let answer = r#"{"id":"1","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    for (api_key, expected) in
        [(None, None), (Some(Secret::new("sk-ours")), Some("authorization: Bearer sk-ours\r\n"))]
    {
        let proxy = create_openai_proxy(ProxyConfig { api_key, ..config(&raw.url()) }).await.unwrap();
        let client = TestClient::new(&proxy);
        let headers = [("x-api-key", "theirs"), ("authorization", "Bearer theirs"), ("cookie", "theirs")];
        let (reply, request) = tokio::join!(
            client.send(Method::POST, "/v1/messages", &headers, message("hi", false).to_string()),
            async {
                let (request, mut stream) = raw.request().await;
                write(&mut stream, &format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}", answer.len())).await;
                request
            }
        );
        assert_eq!(read_reply(reply).await.unwrap().json()["content"][0]["text"], "hi");
        assert!(!request.contains("theirs"), "{request}");
        assert_eq!(request.contains("authorization"), expected.is_some());
        assert!(expected.is_none_or(|line| request.contains(line)), "{request}");
    }
}

#[tokio::test]
async fn first_piece_is_streamed_at_once() {
    let first = "data: {\"id\":\"1\",\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    let model =
        MockModel::start(Script::default().rule("wait", Answer::stream(first, BodyEnd::Endless))).await;
    let proxy = create_openai_proxy(config(&model.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    let mut reply = client.send(Method::POST, "/v1/messages", &[], message("wait", true).to_string()).await;
    let reply = next_piece(&mut reply).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&reply).contains("\"text\":\"Hel\""), "{reply:?}");
}

#[tokio::test]
async fn incomplete_upstream_answer_is_an_error() {
    let half = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    let script = Script::default()
        .rule("break", Answer::stream(half, BodyEnd::Broken))
        .rule("end", Answer::stream(half, BodyEnd::Whole))
        .rule("garble", Answer::stream(format!("{half}data: {{\n\n"), BodyEnd::Endless))
        .rule(
            "fail",
            Answer::stream(
                format!("{half}data: {{\"error\":{{\"message\":\"sorry\"}}}}\n\n"),
                BodyEnd::Whole,
            ),
        );
    let model = MockModel::start(script).await;
    let proxy = create_openai_proxy(config(&model.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    let send = |text| client.send(Method::POST, "/v1/messages", &[], message(text, true).to_string());
    for text in ["break", "end"] {
        assert!(read_reply(send(text).await).await.is_err(), "{text}");
    }
    for (text, words) in [("garble", "not JSON"), ("fail", "sorry")] {
        let reply = read_reply(send(text).await).await.unwrap();
        let last = reply.events().pop().unwrap();
        assert_eq!((&last["type"], &last["error"]["type"]), (&json!("error"), &json!("api_error")));
        assert!(last["error"]["message"].as_str().unwrap().contains(words), "{last}");
    }
}

#[tokio::test]
async fn errors_have_anthropics_format() {
    let raw = |status, body: &str| {
        let headers = vec![
            ("content-type".to_string(), "application/json".to_string()),
            ("retry-after".to_string(), "3".to_string()),
        ];
        Answer::Raw(RawAnswer { status, headers, body: body.into(), end: BodyEnd::Whole })
    };
    let script = Script::default()
        .rule("slow", raw(429, r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#))
        .rule("poor", raw(429, r#"{"error":{"message":"no money","code":"insufficient_quota"}}"#))
        .rule("html", raw(503, "<html>busy</html>"))
        .rule("moved", Answer::status(302, "location", "http://127.0.0.1:1/"))
        .rule("other", raw(200, r#"{"hello":1}"#))
        .rule("text", raw(200, "hello"));
    let model = MockModel::start(script).await;
    let proxy = create_openai_proxy(config(&model.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    let slow = client.send_message("slow", true).await;
    slow.assert_error(429, "rate_limit_error", "slow down");
    assert_eq!(slow.headers["retry-after"], "3");
    client.send_message("poor", false).await.assert_error(402, "billing_error", "no money");
    client.send_message("html", true).await.assert_error(503, "overloaded_error", "<html>busy");
    client.send_message("moved", true).await.assert_error(502, "api_error", "302");
    client.send_message("other", false).await.assert_error(502, "api_error", "has no message");
    client.send_message("text", false).await.assert_error(502, "api_error", "not JSON");
}

#[tokio::test]
async fn other_agent_requests_are_answered_locally() {
    let model = MockModel::start(Script::default()).await;
    let proxy = create_openai_proxy(config(&model.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    for (method, path) in [(Method::HEAD, "/"), (Method::HEAD, "/api/hello"), (Method::GET, "/api/hello")] {
        assert_eq!(read_reply(client.send(method, path, &[], "").await).await.unwrap().status, 200);
    }
    let count = client.post("/v1/messages/count_tokens", &message(&"x".repeat(4000), false)).await;
    assert!(
        count.json()["input_tokens"].as_u64() > Some(1000) && count.headers["x-nerve-estimate"] == "true"
    );
    client.post("/v1/other", &json!({})).await.assert_error(404, "not_found_error", "/v1/other");
    read_reply(client.send(Method::POST, "/v1/messages", &[], "{").await).await.unwrap().assert_error(
        400,
        "invalid_request_error",
        "not JSON",
    );
    let deep = format!("{{\"model\":\"m\",\"messages\":{}", "[".repeat(100_000));
    read_reply(client.send(Method::POST, "/v1/messages", &[], deep).await).await.unwrap().assert_error(
        400,
        "invalid_request_error",
        "not JSON",
    );
    client.post("/v1/messages", &json!({ "model": "m" })).await.assert_error(
        400,
        "invalid_request_error",
        "messages",
    );
    assert!(model.requests().is_empty());
    assert_eq!(within_deadline("the end", proxy.shutdown()).await.requests, 0, "local request counted");
}
