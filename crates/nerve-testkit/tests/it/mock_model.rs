//! The scripted model over HTTP.

use std::io;
use std::time::{Duration, Instant};

use nerve_testkit::mock_model::{Answer, BodyEnd, MockModel, Script, ToolCall};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

struct Response {
    status: u16,
    headers: String,
    body: String,
}

impl Response {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// Returns the JSON of each event.
    fn events(&self) -> Vec<Value> {
        assert!(self.headers.contains("text/event-stream"), "{}", self.headers);
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// Joins the strings at `pointer` in all events.
    fn joined(&self, pointer: &str) -> String {
        self.events().iter().filter_map(|event| event.pointer(pointer)?.as_str().map(String::from)).collect()
    }
}

async fn model() -> MockModel {
    MockModel::start(Script::default()).await
}

/// HTTP/1.0, so that the body ends with the connection.
async fn request(model: &MockModel, head: &str, body: &str) -> Response {
    let mut stream = TcpStream::connect(model.addr()).await.unwrap();
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.0\r\nHost: mock\r\nAuthorization: Bearer dummy\r\nX-App: cli\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (headers, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, headers: headers.to_ascii_lowercase(), body: body.to_owned() }
}

async fn post(model: &MockModel, path: &str, body: Value) -> Response {
    request(model, &format!("POST {path}"), &body.to_string()).await
}

fn message(text: &str, stream: bool) -> Value {
    let content = json!([{ "type": "text", "text": text }]);
    json!({ "model": "m", "max_tokens": 10, "stream": stream, "messages": [{ "role": "user", "content": content }] })
}

#[tokio::test]
async fn message_gets_complete_answer() {
    let model = model().await;
    let message = post(&model, "/v1/messages?beta=true", message("hello", false)).await.json();
    assert_eq!(message["content"], json!([{ "type": "text", "text": "You said: hello" }]));
    assert_eq!((&message["stop_reason"], &message["model"]), (&json!("end_turn"), &json!("m")));
    assert!(message["usage"]["output_tokens"].as_u64() > Some(0));
}

#[tokio::test]
async fn stream_events_have_api_order() {
    let response = post(&model().await, "/v1/messages", message("LONG", true)).await;
    let mut kinds: Vec<String> =
        response.events().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    let deltas = kinds.iter().filter(|kind| *kind == "content_block_delta").count();
    assert!(deltas > 5, "{deltas}");
    kinds.dedup();
    let expected = [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(kinds, expected);
    for kind in expected {
        assert!(response.body.contains(&format!("event: {kind}\n")));
    }
    let text = response.joined("/delta/text");
    assert!(text.starts_with("# Report") && text.ends_with("END-OF-LONG"), "{text}");
    assert_eq!(response.joined("/delta/stop_reason"), "end_turn");
}

#[tokio::test]
async fn thinking_is_a_separate_block() {
    let response = post(&model().await, "/v1/messages", message("THINK", true)).await;
    assert!(!response.joined("/delta/thinking").is_empty());
    assert!(!response.joined("/delta/signature").is_empty());
    assert_eq!(response.joined("/delta/text"), "You said: THINK");
    let opened = response.events().into_iter().find(|event| event["type"] == "content_block_start").unwrap();
    assert_eq!(opened["content_block"]["thinking"], "");
}

#[tokio::test]
async fn tool_is_called_and_its_result_used() {
    let model = model().await;
    let response = post(&model, "/v1/messages", message("TOUCHTOOL", true)).await;
    let input: Value = serde_json::from_str(&response.joined("/delta/partial_json")).unwrap();
    assert_eq!(input["command"], "touch made-by-tool.txt && ls -la made-by-tool.txt");
    assert_eq!(response.joined("/delta/stop_reason"), "tool_use");
    let start =
        response.events().into_iter().find(|event| event["content_block"]["type"] == "tool_use").unwrap();
    assert_eq!(
        (&start["content_block"]["name"], &start["content_block"]["input"]),
        (&json!("Bash"), &json!({}))
    );

    let mut body = message("TOUCHTOOL", true);
    let result =
        json!({ "type": "tool_result", "tool_use_id": start["content_block"]["id"], "content": "made" });
    body["messages"].as_array_mut().unwrap().extend([
        json!({ "role": "assistant", "content": [start["content_block"]] }),
        json!({ "role": "user", "content": [result, { "type": "text", "text": "<system-reminder>LONG</system-reminder>" }] }),
    ]);
    let response = post(&model, "/v1/messages", body).await;
    assert_eq!(response.joined("/delta/text"), "The tool said: made\nEND-OF-TOOL");
}

#[tokio::test]
async fn errors_have_api_format() {
    let model = model().await;
    for (status, kind) in [
        (400, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ] {
        let response = post(&model, "/v1/messages", message(&format!("ERR {status}"), true)).await;
        assert_eq!(response.status, status);
        assert_eq!(response.json()["error"], json!({ "type": kind, "message": "scripted error" }));
    }
    assert_eq!(request(&model, "POST /v1/messages", "{no json").await.status, 400);
    let unknown = request(&model, "GET /v1/unknown", "").await;
    assert_eq!((unknown.status, &unknown.json()["error"]["type"]), (404, &json!("not_found_error")));
    assert_eq!(request(&model, "DELETE /v1/messages", "").await.status, 404);
}

#[tokio::test]
async fn side_requests_are_answered() {
    let model = model().await;
    for head in ["HEAD /", "HEAD /api/hello", "GET /api/hello"] {
        assert_eq!(request(&model, head, "").await.status, 200, "{head}");
    }
    let count = post(&model, "/v1/messages/count_tokens", message("hello", false)).await.json();
    assert!(count["input_tokens"].as_u64() > Some(0));
}

#[tokio::test]
async fn custom_rules_apply_in_every_protocol() {
    let model = MockModel::start(Script::default().rule("capital", Answer::text("Paris"))).await;
    let chat = json!({ "messages": [{ "role": "user", "content": "the capital?" }] });
    let message = post(&model, "/v1/messages", chat.clone()).await.json();
    assert_eq!(message["content"][0]["text"], "Paris");
    let completion = post(&model, "/v1/chat/completions", chat).await.json();
    assert_eq!(completion["choices"][0]["message"]["content"], "Paris");
    let response = post(&model, "/v1/responses", json!({ "input": "the capital?" })).await.json();
    assert_eq!(response["output"][0]["content"][0]["text"], "Paris");
    let gemini = json!({ "contents": [{ "role": "user", "parts": [{ "text": "the capital?" }] }] });
    let whole = post(&model, "/v1beta/models/m:generateContent", gemini.clone()).await.json();
    assert_eq!(whole["candidates"][0]["content"]["parts"][0]["text"], "Paris");
}

#[tokio::test]
async fn other_protocols_stream() {
    let model = model().await;
    let gemini = json!({ "contents": [{ "role": "user", "parts": [{ "text": "hi" }] }] });
    let streamed = post(&model, "/v1beta/models/m:streamGenerateContent?alt=sse", gemini).await;
    assert_eq!(streamed.joined("/candidates/0/content/parts/0/text"), "You said: hi");
    assert_eq!(streamed.joined("/candidates/0/finishReason"), "STOP");

    let streamed = post(&model, "/v1/responses", json!({ "stream": true, "input": "hi" })).await;
    assert_eq!(streamed.joined("/delta"), "You said: hi");
    assert_eq!(streamed.events().last().unwrap()["type"], "response.completed");

    let chat = json!({ "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    let streamed = post(&model, "/v1/chat/completions", chat).await;
    assert_eq!(streamed.joined("/choices/0/delta/content"), "You said: hi");
    assert!(streamed.body.ends_with("data: [DONE]\n\n"));
}

/// A request of the Chat Completions API that offers one tool.
fn chat(text: &str, tool: &str, stream: bool) -> Value {
    let parameters = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    json!({
        "model": "m", "stream": stream, "stream_options": { "include_usage": true },
        "messages": [{ "role": "user", "content": text }],
        "tools": [{ "type": "function", "function": { "name": tool, "parameters": parameters } }],
    })
}

#[tokio::test]
async fn completions_stream_tool_calls_as_deltas() {
    let model = model().await;
    let streamed = post(&model, "/v1/chat/completions", chat("TOUCHTOOL", "bash", true)).await;
    assert_eq!(streamed.joined("/choices/0/delta/tool_calls/0/function/name"), "bash");
    let arguments = streamed.joined("/choices/0/delta/tool_calls/0/function/arguments");
    let arguments: Value = serde_json::from_str(&arguments).unwrap();
    assert_eq!(arguments["command"], "touch made-by-tool.txt && ls -la made-by-tool.txt");
    let deltas = streamed.events();
    let deltas = deltas.iter().filter(|event| event.pointer("/choices/0/delta/tool_calls").is_some());
    assert_eq!(deltas.count(), 3, "the name, then the arguments in two pieces");
    assert_eq!(streamed.joined("/choices/0/finish_reason"), "tool_calls");

    let mut body = chat("TOUCHTOOL", "bash", true);
    let result = json!({ "role": "tool", "tool_call_id": "call_mock_000001_0", "content": "made" });
    body["messages"].as_array_mut().unwrap().push(result);
    let streamed = post(&model, "/v1/chat/completions", body).await;
    assert_eq!(streamed.joined("/choices/0/delta/content"), "The tool said: made\nEND-OF-TOOL");
    assert_eq!(streamed.joined("/choices/0/finish_reason"), "stop");
}

#[tokio::test]
async fn completion_has_the_whole_tool_call() {
    let whole = post(&model().await, "/v1/chat/completions", chat("READTOOL FILE=/x", "read", false)).await;
    let choice = &whole.json()["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    let function = &choice["message"]["tool_calls"][0]["function"];
    assert_eq!((&function["name"], &function["arguments"]), (&json!("read"), &json!(r#"{"path":"/x"}"#)));
    assert!(whole.json()["usage"]["completion_tokens"].as_u64() > Some(0));
}

#[tokio::test]
async fn completions_stream_usage_only_on_request() {
    let model = model().await;
    let usages =
        |response: &Response| response.events().iter().filter(|event| event["usage"].is_object()).count();
    let mut body = chat("LONG", "bash", true);
    let streamed = post(&model, "/v1/chat/completions", body.clone()).await;
    assert!(streamed.joined("/choices/0/delta/content").ends_with("END-OF-LONG"));
    assert_eq!(usages(&streamed), 1);
    assert_eq!(streamed.events().last().unwrap()["choices"], json!([]), "the usage is the last chunk");
    body.as_object_mut().unwrap().remove("stream_options");
    assert_eq!(usages(&post(&model, "/v1/chat/completions", body).await), 0);
}

#[tokio::test]
async fn completions_fail_in_the_api_format() {
    let model = model().await;
    for status in [400, 401, 429, 529] {
        let text = format!("ERR {status}");
        let failed = post(&model, "/v1/chat/completions", chat(&text, "bash", true)).await;
        assert_eq!((failed.status, &failed.json()["error"]["message"]), (status, &json!("scripted error")));
    }
    let script = Script::default().rule("cut", Answer::cut("The first half"));
    let model = MockModel::start(script).await;
    let cut = post(&model, "/v1/chat/completions", chat("cut", "bash", true)).await;
    assert_eq!(cut.joined("/choices/0/delta/content"), "The first half");
    assert!(cut.joined("/choices/0/finish_reason").is_empty() && !cut.body.contains("[DONE]"));
}

#[tokio::test]
async fn models_are_listed() {
    let models = request(&model().await, "GET /v1/models", "").await;
    assert_eq!((models.status, &models.json()["data"][0]["id"]), (200, &json!("fake-model")));
}

#[tokio::test]
async fn requests_are_recorded_without_secrets() {
    let model = model().await;
    post(&model, "/v1/messages?beta=true", message("hello", true)).await;
    let requests = model.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].method.as_str(), requests[0].path.as_str()), ("POST", "/v1/messages?beta=true"));
    assert_eq!(requests[0].body["messages"][0]["content"][0]["text"], "hello");
    assert!(requests[0].headers.contains(&("x-app".into(), "cli".into())));
    assert!(!requests[0].headers.iter().any(|(name, _)| name == "authorization"));
}

#[tokio::test]
async fn stalled_and_slow_answers_have_delays() {
    let model = model().await;
    let start = Instant::now();
    post(&model, "/v1/messages", message("STALL 1", true)).await;
    assert!(start.elapsed() >= Duration::from_secs(1));
    let start = Instant::now();
    let slow = post(&model, "/v1/messages", message("SLOW", true)).await;
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert!(slow.joined("/delta/text").ends_with("END-OF-SLOW"));
}

#[tokio::test]
async fn shutdown_aborts_answers_and_frees_port() -> io::Result<()> {
    let model = model().await;
    let addr = model.addr();
    let mut slow = TcpStream::connect(addr).await?;
    let body = message("SLOW", true).to_string();
    let head = format!("POST /v1/messages HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
    slow.write_all((head + &body).as_bytes()).await?;
    let mut first = [0; 1];
    slow.read_exact(&mut first).await?;
    model.shutdown().await?;
    let mut rest = String::new();
    slow.read_to_string(&mut rest).await?;
    assert!(!rest.contains("message_stop"));
    tokio::net::TcpListener::bind(addr).await.map(drop)
}

#[tokio::test]
async fn body_over_64_mib_is_rejected() -> io::Result<()> {
    let model = model().await;
    let mut stream = TcpStream::connect(model.addr()).await?;
    let head = format!("POST /v1/messages HTTP/1.1\r\nHost: m\r\nContent-Length: {}\r\n\r\n", (64 << 20) + 1);
    stream.write_all(head.as_bytes()).await?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await?;
    assert_eq!(&answer, b"HTTP/1.1 413");
    Ok(())
}

#[tokio::test]
async fn first_answers_precede_rules() {
    let raw = Answer::status(429, "retry-after", "7");
    let half = Answer::stream("data: half\n\n", BodyEnd::Broken);
    let own = ToolCall::Own { name: "sh_run".into(), input: json!({ "command": "ls" }) };
    let script = Script::default().first([raw, half, Answer::tools([own.clone(), own])]);
    let model = MockModel::start(script).await;
    let busy = post(&model, "/v1/messages", message("hello", true)).await;
    assert_eq!((busy.status, busy.body.as_str()), (429, ""));
    assert!(busy.headers.contains("retry-after: 7"), "{}", busy.headers);
    // In HTTP/1.0 the end of the connection ends the body, so the part already sent is received.
    assert_eq!(post(&model, "/v1/messages", message("hello", true)).await.body, "data: half\n\n");
    let tools = post(&model, "/v1/messages", message("hello", false)).await.json();
    assert_eq!(tools["content"].as_array().map(Vec::len), Some(2));
    assert_eq!((&tools["content"][1]["name"], &tools["stop_reason"]), (&json!("sh_run"), &json!("tool_use")));
    let last = post(&model, "/v1/messages", message("hello", false)).await.json();
    assert_eq!(last["content"][0]["text"], "You said: hello");
}
