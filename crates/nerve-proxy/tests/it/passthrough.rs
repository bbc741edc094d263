//! Anthropic's API behind: what goes through, and how.

use hyper::Method;
use nerve_proxy::{ProxyConfig, Secret, create_anthropic_proxy};
use nerve_testkit::mock_model::{Answer, Ending, Script};
use serde_json::json;

use crate::harness::{Front, Raw, closed, config, message, model, piece, say, soon, whole};

#[tokio::test]
async fn replies_are_the_upstreams_byte_for_byte() {
    let model = model(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let (front, direct) = (Front::of(&proxy), Front::at(model.url()));
    for (text, stream) in
        [("hello", false), ("LONG please", true), ("WIDE please", true), ("TOUCHTOOL", true), ("THINK", true)]
    {
        // The scripted model counts its replies, and names them so.
        let same = |body: String| {
            let pieces: Vec<&str> = body.split("_mock_").collect();
            pieces
                .iter()
                .map(|piece| piece.trim_start_matches(|c: char| c.is_ascii_digit()))
                .collect::<String>()
        };
        let (through, straight) = (front.ask(text, stream).await, direct.ask(text, stream).await);
        assert_eq!(same(through.body), same(straight.body), "{text}");
        assert_eq!(through.headers["content-type"], straight.headers["content-type"]);
        assert!(through.headers.contains_key("x-nerve-request-id"));
    }
}

#[tokio::test]
async fn every_path_is_answered_by_the_upstream() {
    let model = model(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let front = Front::of(&proxy);
    for (method, path, status) in [
        (Method::HEAD, "/", 200),
        (Method::HEAD, "/api/hello", 200),
        (Method::GET, "/api/hello", 200),
        (Method::GET, "/v1/models?limit=5", 404),
        (Method::DELETE, "/v1/files/x", 404),
    ] {
        let told = whole(front.send(method.clone(), path, &[], "").await).await.unwrap();
        assert_eq!(told.status, status, "{method} {path}");
    }
    assert!(
        front.post("/v1/messages/count_tokens", &message("hello", false)).await.json()["input_tokens"]
            .as_u64()
            > Some(0)
    );
    front.ask("hello", false).await;
    let seen: Vec<String> =
        model.requests().iter().map(|request| format!("{} {}", request.method, request.path)).collect();
    assert_eq!(
        seen,
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
async fn headers_go_on_and_those_of_the_connection_do_not() {
    let raw = Raw::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    let front = Front::of(&proxy);
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
    let (reply, asked) = tokio::join!(front.send(Method::POST, "/v1/messages", &headers, "{}"), async {
        let (asked, mut stream) = raw.request().await;
        say(&mut stream, "HTTP/1.1 529 \r\nretry-after: 7\r\nrequest-id: req_1\r\nset-cookie: a=b\r\nkeep-alive: timeout=5\r\ncontent-length: 4\r\n\r\nbusy").await;
        asked
    });
    let head = asked.to_ascii_lowercase();
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
    let told = whole(reply).await.unwrap();
    assert_eq!((told.status, told.body.as_str()), (529, "busy"), "errors are passed on as they are");
    assert!(told.headers["retry-after"] == "7" && told.headers["request-id"] == "req_1", "{told:?}");
    assert!(!told.headers.contains_key("keep-alive"));
}

#[tokio::test]
async fn the_proxys_key_takes_the_place_of_the_clients() {
    let raw = Raw::listen().await;
    let proxy =
        create_anthropic_proxy(ProxyConfig { api_key: Some(Secret::new("sk-ours")), ..config(&raw.url()) })
            .await
            .unwrap();
    let front = Front::of(&proxy);
    let headers = [("authorization", "Bearer theirs"), ("x-api-key", "theirs")];
    let (_, asked) = tokio::join!(front.send(Method::POST, "/v1/messages", &headers, "{}"), async {
        let (asked, mut stream) = raw.request().await;
        say(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        asked
    });
    assert!(asked.contains("x-api-key: sk-ours\r\n") && !asked.contains("theirs"), "{asked}");
}

#[tokio::test]
async fn another_model_changes_nothing_else() {
    let raw = Raw::listen().await;
    let proxy = create_anthropic_proxy(ProxyConfig { model: Some("other".into()), ..config(&raw.url()) })
        .await
        .unwrap();
    let front = Front::of(&proxy);
    let body = "{ \"stream\": false,\"model\" :\"claude-x\", \"max_tokens\":1e2, \"messages\":[{\"content\":\"model\",\"role\":\"user\"}] }";
    for (path, expected) in [
        ("/v1/messages?beta=true", body.replace("claude-x", "other")),
        ("/v1/messages/count_tokens", body.replace("claude-x", "other")),
        ("/api/event_logging/batch", body.to_string()),
    ] {
        let (_, asked) = tokio::join!(front.send(Method::POST, path, &[], body), async {
            let (asked, mut stream) = raw.request().await;
            say(&mut stream, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
            asked
        });
        assert!(asked.ends_with(&format!("\r\n\r\n{expected}")), "{path}: {asked}");
    }
}

#[tokio::test]
async fn another_model_is_put_there_or_nothing_goes_on() {
    let model = model(Script::default()).await;
    let proxy = create_anthropic_proxy(ProxyConfig { model: Some("other".into()), ..config(&model.url()) })
        .await
        .unwrap();
    let front = Front::of(&proxy);
    for body in [r#"{"model":"a","model":"b"}"#, "[1]", "{"] {
        let reply = front.send(Method::POST, "/v1/messages", &[], body).await;
        whole(reply).await.unwrap().says(400, "invalid_request_error", "another model");
    }
    assert!(model.requests().is_empty());
    // Without another model it is the upstream that says what is wrong.
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let reply = Front::of(&proxy).send(Method::POST, "/v1/messages", &[], "{").await;
    whole(reply).await.unwrap().says(400, "invalid_request_error", "not JSON");
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn with_another_model_nothing_goes_on_that_could_cost_something_and_keep_its_own() {
    let model = model(Script::default()).await;
    let proxy = create_anthropic_proxy(ProxyConfig { model: Some("other".into()), ..config(&model.url()) })
        .await
        .unwrap();
    let front = Front::of(&proxy);
    let body = message("hello", false);
    for path in ["/v1//messages", "/v1/./messages", "/api/../v1/messages", "/v1/messages/", "/v1%2fmessages"]
    {
        front.post(path, &body).await.says(400, "invalid_request_error", "more than one way");
    }
    for path in ["/v1/%6dessages", "/v1/messages/batches", "/v1/complete", "/messages", "/api/v1/messages"] {
        front.post(path, &body).await.says(404, "not_found_error", "another model");
    }
    assert!(model.requests().is_empty());
    assert_eq!(front.post("/v1/messages", &body).await.status, 200);
    assert_eq!(whole(front.send(Method::GET, "/api/hello", &[], "").await).await.unwrap().status, 200);
}

#[tokio::test]
async fn the_first_piece_is_not_held_back() {
    let first = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    let model = model(Script::default().rule("wait", Answer::stream(first, Ending::Endless))).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let front = Front::of(&proxy);
    let mut reply = front.send(Method::POST, "/v1/messages", &[], message("wait", true).to_string()).await;
    // The upstream never sends more: what comes has come at once.
    assert_eq!(piece(&mut reply).await.unwrap().unwrap(), first);
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_upstreams_request() {
    let raw = Raw::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    // Before a reply …
    let front = Front::of(&proxy);
    let url = proxy.url();
    let asking =
        tokio::spawn(async move { Front::at(url).send(Method::POST, "/v1/messages", &[], "{}").await });
    let (_, mut stream) = raw.request().await;
    asking.abort();
    closed(&mut stream).await;
    // … and in the middle of one.
    let (reply, mut stream) = tokio::join!(front.send(Method::POST, "/v1/messages", &[], "{}"), async {
        let (_, mut stream) = raw.request().await;
        say(&mut stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
        stream
    });
    let mut reply = reply;
    assert_eq!(piece(&mut reply).await.unwrap().unwrap(), "hello");
    drop((reply, front));
    closed(&mut stream).await;
}

#[tokio::test]
async fn many_at_once_are_not_mixed() {
    let model = model(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let front = std::sync::Arc::new(Front::of(&proxy));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..100 {
        let front = front.clone();
        tasks.spawn(async move { (n, front.ask(&format!("number {n}."), n % 2 == 0).await) });
    }
    while let Some(done) = soon("an answer", tasks.join_next()).await {
        let (n, told) = done.unwrap();
        assert!(told.body.contains(&format!("You said: number {n}.")), "{n}: {told:?}");
    }
    let spent = proxy.shutdown().await;
    assert_eq!((spent.requests, spent.refused), (100, 0));
    assert!(spent.usage.input > 1000 && spent.usage.output >= 400, "{spent:?}");
}

#[tokio::test]
async fn a_large_body_passes_and_a_larger_one_does_not() {
    let model = model(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let front = Front::of(&proxy);
    let told = front.ask(&format!("large {}", "x".repeat(4 << 20)), false).await;
    assert_eq!(told.status, 200);
    let body = json!({ "pad": "x".repeat((64 << 20) + 1) });
    front.post("/v1/messages", &body).await.says(413, "request_too_large", "64 MiB");
}
