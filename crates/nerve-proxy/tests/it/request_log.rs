//! The request log.

use hyper::Method;
use nerve_proxy::{LogConfig, Prices, ProxyConfig, Secret, create_anthropic_proxy, create_openai_proxy};
use nerve_testkit::mock_model::{Answer, BodyEnd, MockModel, Script};
use serde_json::Value;

use crate::harness::{TestClient, config, message, next_piece, read_reply};

fn lines(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn one_line_per_request_and_reply() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.jsonl");
    let model = MockModel::start(Script::default()).await;
    let more = ProxyConfig {
        log: Some(LogConfig::new(&path)),
        node: Some("me".into()),
        prices: Some(Prices::new(3.0, 15.0)),
        ..config(&model.url())
    };
    let proxy = create_anthropic_proxy(more).await.unwrap();
    let client = TestClient::new(&proxy);
    let headers = [("x-claude-code-session-id", "s-1"), ("authorization", "Bearer hunter2-hunter2")];
    let reply = client
        .send(
            Method::POST,
            "/v1/messages?beta=true&key=hunter2",
            &headers,
            message("hello", true).to_string(),
        )
        .await;
    let id = reply.headers()["x-nerve-request-id"].to_str().unwrap().to_string();
    let reply = read_reply(reply).await.unwrap();
    proxy.shutdown().await;
    let lines = lines(&path);
    let [request, exchange] = &lines[..] else { panic!("{lines:#?}") };
    let fields = |line: &Value| {
        ["type", "id", "method", "path", "model", "node", "session_id"]
            .map(|name| line[name].as_str().unwrap().to_string())
    };
    let common = ["POST", "/v1/messages?beta=true", "claude-x", "me", "s-1"];
    assert_eq!(fields(request)[2..], common);
    assert_eq!(fields(exchange)[2..], common);
    assert_eq!(
        (&fields(request)[..2], &fields(exchange)[..2]),
        (&["request".into(), id.clone()][..], &["reply".into(), id][..])
    );
    assert_eq!(
        (&request["stream"], request["bytes"].as_u64()),
        (&Value::Bool(true), Some(message("hello", true).to_string().len() as u64))
    );
    assert_eq!((exchange["status"].as_u64(), exchange["outcome"].as_str()), (Some(200), Some("whole")));
    assert_eq!(exchange["bytes"].as_u64(), Some(reply.body.len() as u64));
    assert!(
        exchange["tokens"]["input"].as_u64() > Some(0) && exchange["tokens"]["output"].as_u64() > Some(0)
    );
    assert!(exchange["cost_usd"].as_f64() > Some(0.0));
    let (first, all) = (exchange["ttft_ms"].as_f64().unwrap(), exchange["duration_ms"].as_f64().unwrap());
    assert!(0.0 < first && first <= all, "{exchange}");
    assert!(exchange["time"].as_str().unwrap().ends_with('Z'));
    assert!(request["body"].is_null() && exchange["body"].is_null());
    assert!(!std::fs::read_to_string(&path).unwrap().contains("hunter2"));
}

#[tokio::test]
async fn logged_bodies_contain_no_keys() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.jsonl");
    let model = MockModel::start(Script::default()).await;
    let log = LogConfig { bodies: true, ..LogConfig::new(&path) };
    let api_key = Some(Secret::new("sk-ours-hunter2"));
    let proxy =
        create_openai_proxy(ProxyConfig { log: Some(log), api_key, ..config(&model.url()) }).await.unwrap();
    let client = TestClient::new(&proxy);
    let headers = [
        ("x-api-key", "sk-theirs-hunter2"),
        ("cookie", "hunter2=1"),
        ("x-claude-code-session-id", "s-sk-theirs-hunter2"),
    ];
    let body = message("say sk-ours-hunter2 and sk-theirs-hunter2", true).to_string();
    let reply = read_reply(client.send(Method::POST, "/v1/messages", &headers, body).await).await.unwrap();
    assert!(reply.body.contains("sk-ours-hunter2"), "client response was redacted");
    let body = r#"{"model":"sk-theirs-hunter2"}"#;
    let lost = client.send(Method::POST, "/v1/sk-theirs-hunter2", &headers, body).await;
    read_reply(lost).await.unwrap().assert_error(404, "not_found_error", "no equivalent");
    proxy.shutdown().await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let lines = lines(&path);
    assert!(
        lines[0]["body"]["messages"][0]["content"][0]["text"].as_str().unwrap().starts_with("say [redacted]")
    );
    assert!(lines[1]["body"].as_str().unwrap().contains("event: message_stop"));
    assert!(lines.len() == 4 && lines.iter().all(|line| line["session_id"] == "s-[redacted]"), "{text}");
    assert_eq!((&lines[2]["model"], &lines[2]["path"]), (&"[redacted]".into(), &"/v1/[redacted]".into()));
    assert!(lines[3]["error"].as_str().unwrap().contains("/v1/[redacted]"), "{text}");
}

#[tokio::test]
async fn outcomes_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.jsonl");
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let script = Script::default()
        .rule("break", Answer::stream("data: x\n\n", BodyEnd::Broken))
        .rule("wait", Answer::stream("data: x\n\n", BodyEnd::Endless))
        .rule("fail", Answer::stream(error, BodyEnd::Whole));
    let model = MockModel::start(script).await;
    let proxy =
        create_anthropic_proxy(ProxyConfig { log: Some(LogConfig::new(&path)), ..config(&model.url()) })
            .await
            .unwrap();
    let client = TestClient::new(&proxy);
    client.send_message("hello", false).await;
    client.send_message("ERR 500", false).await;
    client.send_message("fail", true).await;
    let send = |text| client.send(Method::POST, "/v1/messages", &[], message(text, true).to_string());
    assert!(read_reply(send("break").await).await.is_err());
    read_reply(client.send(Method::HEAD, "/", &[], "").await).await.unwrap();
    read_reply(client.send(Method::GET, "/", &[("origin", "https://evil.example")], "").await).await.unwrap();
    let mut reply = send("wait").await;
    next_piece(&mut reply).await;
    drop((reply, client));
    proxy.shutdown().await;
    let ends = lines(&path).into_iter().filter(|line| line["type"] == "reply");
    let ends: Vec<(u64, String)> = ends
        .map(|line| (line["status"].as_u64().unwrap_or(0), line["outcome"].as_str().unwrap().into()))
        .collect();
    let expected = [
        (200, "whole"),
        (500, "whole"),
        (200, "broken"),
        (200, "broken"),
        (200, "whole"),
        (403, "refused"),
        (200, "client_gone"),
    ];
    assert_eq!(ends, expected.map(|(status, word)| (status, word.to_string())));
    let errors: Vec<Value> = lines(&path)
        .iter()
        .filter(|line| !line["error"].is_null())
        .map(|line| line["error"].clone())
        .collect();
    assert_eq!(errors.len(), 3);
    assert_eq!(errors[0], "Overloaded");
}

#[tokio::test]
async fn unwritable_log_fails_at_start() {
    let log = Some(LogConfig::new("/nonexistent/log.jsonl"));
    let error =
        create_anthropic_proxy(ProxyConfig { log, ..config("http://127.0.0.1:1") }).await.unwrap_err();
    assert!(error.to_string().contains("/nonexistent/log.jsonl"), "{error}");
}
