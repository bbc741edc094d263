//! Requests forwarded to an Anthropic upstream.

use hyper::Method;
use nerve_proxy::{ProxyConfig, Secret, create_anthropic_proxy};
use nerve_testkit::mock_model::{Answer, BodyEnd, MockModel, Script};
use nerve_testkit::within_deadline;
use serde_json::json;

use crate::harness::{RawUpstream, TestClient, config, message, next_piece, read_reply, wait_closed, write};

#[tokio::test]
async fn replies_are_forwarded_byte_for_byte() {
    let model = MockModel::start(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let (client, direct) = (TestClient::new(&proxy), TestClient::at(model.url()));
    for (text, stream) in
        [("hello", false), ("LONG please", true), ("WIDE please", true), ("TOUCHTOOL", true), ("THINK", true)]
    {
        // The scripted model's names contain a count of its replies.
        let same = |body: String| {
            let pieces: Vec<&str> = body.split("_mock_").collect();
            pieces
                .iter()
                .map(|piece| piece.trim_start_matches(|c: char| c.is_ascii_digit()))
                .collect::<String>()
        };
        let (through, straight) =
            (client.send_message(text, stream).await, direct.send_message(text, stream).await);
        assert_eq!(same(through.body), same(straight.body), "{text}");
        assert_eq!(through.headers["content-type"], straight.headers["content-type"]);
        assert!(through.headers.contains_key("x-nerve-request-id"));
    }
}

#[tokio::test]
async fn every_path_is_forwarded() {
    let model = MockModel::start(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    for (method, path, status) in [
        (Method::HEAD, "/", 200),
        (Method::HEAD, "/api/hello", 200),
        (Method::GET, "/api/hello", 200),
        (Method::GET, "/v1/models?limit=5", 200),
        (Method::DELETE, "/v1/files/x", 404),
    ] {
        let reply = read_reply(client.send(method.clone(), path, &[], "").await).await.unwrap();
        assert_eq!(reply.status, status, "{method} {path}");
    }
    assert!(
        client.post("/v1/messages/count_tokens", &message("hello", false)).await.json()["input_tokens"]
            .as_u64()
            > Some(0)
    );
    client.send_message("hello", false).await;
    let received: Vec<String> =
        model.requests().iter().map(|request| format!("{} {}", request.method, request.path)).collect();
    assert_eq!(
        received,
        [
            "HEAD /",
            "HEAD /api/hello",
            "GET /api/hello",
            "GET /v1/models?limit=5",
            "DELETE /v1/files/x",
            "POST /v1/messages/count_tokens",
            "POST /v1/messages?beta=true"
        ]
    );
}

#[tokio::test]
async fn end_to_end_headers_are_forwarded() {
    let raw = RawUpstream::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    let headers = [
        ("authorization", "Bearer theirs"),
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "a,b"),
        ("x-stainless-lang", "js"),
        ("x-claude-code-session-id", "s"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("te", "trailers"),
    ];
    let (reply, request) = tokio::join!(client.send(Method::POST, "/v1/messages", &headers, "{}"), async {
        let (request, mut stream) = raw.request().await;
        write(&mut stream, "HTTP/1.1 529 \r\nretry-after: 7\r\nrequest-id: req_1\r\nset-cookie: a=b\r\nkeep-alive: timeout=5\r\ncontent-length: 4\r\n\r\nbusy").await;
        request
    });
    let head = request.to_ascii_lowercase();
    for there in [
        "post /v1/messages http/1.1",
        "authorization: bearer theirs",
        "anthropic-version: 2023-06-01",
        "anthropic-beta: a,b",
        "x-stainless-lang: js",
        "x-claude-code-session-id: s",
        &format!("host: {}", raw.url().replace("http://", "")),
    ] {
        assert!(head.contains(&format!("{there}\r\n")), "{there}: {head}");
    }
    for not_there in ["x-hop", "te:", "accept-encoding: gzip"] {
        assert!(!head.contains(not_there), "{not_there}: {head}");
    }
    let reply = read_reply(reply).await.unwrap();
    assert_eq!((reply.status, reply.body.as_str()), (529, "busy"), "upstream error changed");
    assert!(reply.headers["retry-after"] == "7" && reply.headers["request-id"] == "req_1", "{reply:?}");
    assert!(!reply.headers.contains_key("keep-alive"));
}

#[tokio::test]
async fn proxy_key_replaces_client_key() {
    let raw = RawUpstream::listen().await;
    let proxy =
        create_anthropic_proxy(ProxyConfig { api_key: Some(Secret::new("sk-ours")), ..config(&raw.url()) })
            .await
            .unwrap();
    let client = TestClient::new(&proxy);
    let headers = [("authorization", "Bearer theirs"), ("x-api-key", "theirs")];
    let (_, request) = tokio::join!(client.send(Method::POST, "/v1/messages", &headers, "{}"), async {
        let (request, mut stream) = raw.request().await;
        write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        request
    });
    assert!(request.contains("x-api-key: sk-ours\r\n") && !request.contains("theirs"), "{request}");
}

#[tokio::test]
async fn model_replacement_keeps_other_bytes() {
    let raw = RawUpstream::listen().await;
    let proxy = create_anthropic_proxy(ProxyConfig { model: Some("other".into()), ..config(&raw.url()) })
        .await
        .unwrap();
    let client = TestClient::new(&proxy);
    let body = "{ \"stream\": false,\"model\" :\"claude-x\", \"max_tokens\":1e2, \"messages\":[{\"content\":\"model\",\"role\":\"user\"}] }";
    for (path, expected) in [
        ("/v1/messages?beta=true", body.replace("claude-x", "other")),
        ("/v1/messages/count_tokens", body.replace("claude-x", "other")),
        ("/api/event_logging/batch", body.to_string()),
    ] {
        let (_, request) = tokio::join!(client.send(Method::POST, path, &[], body), async {
            let (request, mut stream) = raw.request().await;
            write(&mut stream, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
            request
        });
        assert!(request.ends_with(&format!("\r\n\r\n{expected}")), "{path}: {request}");
    }
}

#[tokio::test]
async fn body_without_replaceable_model_is_rejected() {
    let model = MockModel::start(Script::default()).await;
    let proxy = create_anthropic_proxy(ProxyConfig { model: Some("other".into()), ..config(&model.url()) })
        .await
        .unwrap();
    let client = TestClient::new(&proxy);
    for body in [r#"{"model":"a","model":"b"}"#, "[1]", "{"] {
        let reply = client.send(Method::POST, "/v1/messages", &[], body).await;
        read_reply(reply).await.unwrap().assert_error(400, "invalid_request_error", "model");
    }
    assert!(model.requests().is_empty());
    // Without another model, the upstream reports the error.
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let reply = TestClient::new(&proxy).send(Method::POST, "/v1/messages", &[], "{").await;
    read_reply(reply).await.unwrap().assert_error(400, "invalid_request_error", "not JSON");
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn model_replacement_blocks_other_billable_paths() {
    let model = MockModel::start(Script::default()).await;
    let proxy = create_anthropic_proxy(ProxyConfig { model: Some("other".into()), ..config(&model.url()) })
        .await
        .unwrap();
    let client = TestClient::new(&proxy);
    let body = message("hello", false);
    for path in ["/v1//messages", "/v1/./messages", "/api/../v1/messages", "/v1/messages/", "/v1%2fmessages"]
    {
        client.post(path, &body).await.assert_error(400, "invalid_request_error", "ambiguous");
    }
    for path in ["/v1/%6dessages", "/v1/messages/batches", "/v1/complete", "/messages", "/api/v1/messages"] {
        client.post(path, &body).await.assert_error(404, "not_found_error", "model");
    }
    assert!(model.requests().is_empty());
    assert_eq!(client.post("/v1/messages", &body).await.status, 200);
    assert_eq!(read_reply(client.send(Method::GET, "/api/hello", &[], "").await).await.unwrap().status, 200);
}

#[tokio::test]
async fn first_piece_is_streamed_at_once() {
    let first = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    let model =
        MockModel::start(Script::default().rule("wait", Answer::stream(first, BodyEnd::Endless))).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    let mut reply = client.send(Method::POST, "/v1/messages", &[], message("wait", true).to_string()).await;
    // The upstream sends nothing more, so the piece was not held back.
    assert_eq!(next_piece(&mut reply).await.unwrap().unwrap(), first);
}

#[tokio::test]
async fn client_disconnect_cancels_upstream_request() {
    let raw = RawUpstream::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    // Before the response …
    let client = TestClient::new(&proxy);
    let url = proxy.url();
    let client_side =
        tokio::spawn(async move { TestClient::at(url).send(Method::POST, "/v1/messages", &[], "{}").await });
    let (_, mut stream) = raw.request().await;
    client_side.abort();
    wait_closed(&mut stream).await;
    // … and in the middle of it.
    let (reply, mut stream) = tokio::join!(client.send(Method::POST, "/v1/messages", &[], "{}"), async {
        let (_, mut stream) = raw.request().await;
        write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
        stream
    });
    let mut reply = reply;
    assert_eq!(next_piece(&mut reply).await.unwrap().unwrap(), "hello");
    drop((reply, client));
    wait_closed(&mut stream).await;
}

#[tokio::test]
async fn concurrent_requests_are_not_mixed() {
    let model = MockModel::start(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let client = std::sync::Arc::new(TestClient::new(&proxy));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..100 {
        let client = client.clone();
        tasks.spawn(async move { (n, client.send_message(&format!("number {n}."), n % 2 == 0).await) });
    }
    while let Some(done) = within_deadline("an answer", tasks.join_next()).await {
        let (n, reply) = done.unwrap();
        assert!(reply.body.contains(&format!("You said: number {n}.")), "{n}: {reply:?}");
    }
    let spent = proxy.shutdown().await;
    assert_eq!((spent.requests, spent.refused), (100, 0));
    assert!(spent.usage.input > 1000 && spent.usage.output >= 400, "{spent:?}");
}

#[tokio::test]
async fn body_size_is_limited() {
    let model = MockModel::start(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    let reply = client.send_message(&format!("large {}", "x".repeat(4 << 20)), false).await;
    assert_eq!(reply.status, 200);
    let body = json!({ "pad": "x".repeat((64 << 20) + 1) });
    client.post("/v1/messages", &body).await.assert_error(413, "request_too_large", "64 MiB");
}

#[tokio::test]
async fn protocol_switch_of_upstream_is_a_bad_gateway() {
    let upstream = RawUpstream::listen().await;
    let proxy = create_anthropic_proxy(config(&upstream.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    let (reply, _stream) = tokio::join!(client.send_message("hello", false), async {
        let (_, mut stream) = upstream.request().await;
        let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
        write(&mut stream, head).await;
        stream
    });
    assert_eq!(reply.status, 502);
}
