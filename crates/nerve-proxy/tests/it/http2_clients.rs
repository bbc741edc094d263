//! Clients that use HTTP/2 with prior knowledge.

use std::net::SocketAddr;
use std::time::Duration;

use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::{Request, Response, Version};
use hyper::Method;
use hyper::body::Bytes;
use nerve_proxy::{ProxyConfig, Secret, create_anthropic_proxy, create_openai_proxy};
use nerve_testkit::mock_model::{MockModel, Script};
use nerve_testkit::{skip, within_deadline};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::harness::{RawUpstream, TestClient, config, message, read_reply, write};

/// Returns a connection and its task.
async fn connect(address: SocketAddr) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    (client, tokio::spawn(connection))
}

async fn send_request(
    client: &SendRequest<Bytes>,
    request: http::request::Builder,
) -> Result<Response<RecvStream>, h2::Error> {
    let mut client = within_deadline("room for a stream", client.clone().ready()).await?;
    let (reply, _) = client.send_request(request.body(()).unwrap(), true)?;
    within_deadline("a reply", reply).await
}

#[tokio::test]
async fn one_port_serves_http1_and_http2() {
    let model = MockModel::start(Script::default()).await;
    for proxy in [
        create_anthropic_proxy(config(&model.url())).await.unwrap(),
        create_openai_proxy(config(&model.url())).await.unwrap(),
    ] {
        for client in [TestClient::http2(&proxy), TestClient::new(&proxy)] {
            let reply = client.send_message("hello", true).await;
            assert_eq!(reply.joined("/delta/text"), "You said: hello");
            assert!(reply.headers.contains_key("x-nerve-request-id"));
            assert_eq!(client.send_message("ERR 429", false).await.status, 429);
        }
        assert_eq!(proxy.shutdown().await.requests, 4);
    }
}

#[tokio::test]
async fn curl_uses_http2() {
    let has_http2 = std::process::Command::new("curl").arg("--version").output();
    if !has_http2.is_ok_and(|reply| String::from_utf8_lossy(&reply.stdout).contains("HTTP2")) {
        return skip("http2_clients::curl_uses_http2", "no curl with HTTP/2");
    }
    let model = MockModel::start(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let url = format!("{}/v1/messages", proxy.url());
    let mut curl = tokio::process::Command::new("curl");
    curl.args([
        "-sN",
        "--noproxy",
        "*",
        "--http2-prior-knowledge",
        "-w",
        " %{http_version} %{http_code}",
        "-d",
    ]);
    curl.arg(message("hello", true).to_string()).arg(url).kill_on_drop(true);
    let reply = within_deadline("curl", curl.output()).await.unwrap();
    let text = String::from_utf8(reply.stdout).unwrap();
    assert!(text.contains("You said: hello") && text.contains("message_stop"), "{text}");
    assert!(text.ends_with(" 2 200"), "{text}");
}

#[tokio::test]
async fn concurrent_streams_up_to_the_request_limit() {
    let raw = RawUpstream::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    let mut requests = JoinSet::new();
    let mut streams = Vec::new();
    let mut clients = Vec::new();
    // 100 streams per connection.
    for _ in 0..3 {
        clients.push(connect(proxy.address()).await.0);
    }
    for number in 0..256 {
        let client = clients[number / 100].clone();
        let url = format!("{}/v1/models", proxy.url());
        requests.spawn(async move { send_request(&client, Request::get(url)).await.unwrap().status() });
        streams.push(raw.request().await.1);
    }
    TestClient::new(&proxy).send_message("hello", true).await.assert_error(
        503,
        "overloaded_error",
        "try again",
    );
    let last = send_request(&clients[2], Request::get(format!("{}/v1/models", proxy.url()))).await.unwrap();
    assert_eq!(last.status(), 503);
    write(streams.last_mut().unwrap(), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(within_deadline("an answer", requests.join_next()).await.unwrap().unwrap(), 200);
    // The permit is free again.
    let client = TestClient::new(&proxy);
    let (reply, ()) = tokio::join!(client.send(Method::GET, "/v1/models", &[], ""), async {
        let last = streams.last_mut().unwrap();
        let mut request = [0; 3];
        within_deadline("a request", tokio::io::AsyncReadExt::read_exact(last, &mut request)).await.unwrap();
        write(last, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    });
    assert_eq!(read_reply(reply).await.unwrap().body, "ok");
}

#[tokio::test]
async fn http2_requests_are_authenticated() {
    let token = Some(Secret::new("t0ken"));
    let proxy = create_openai_proxy(ProxyConfig { client_token: token, ..config("http://127.0.0.1:1") })
        .await
        .unwrap();
    let (client, _connection) = connect(proxy.address()).await;
    let url = format!("{}/api/hello", proxy.url());
    let with = |url: &str, lines: &[(&str, &str)]| {
        let request = Request::get(url).version(Version::HTTP_2).header("x-api-key", "t0ken");
        let request = lines.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let client = client.clone();
        async move { send_request(&client, request).await.unwrap().status().as_u16() }
    };
    assert_eq!(with(&url, &[]).await, 200);
    assert_eq!(with(&url, &[("origin", "http://localhost")]).await, 403);
    assert_eq!(with(&url, &[("sec-fetch-site", "cross-site")]).await, 403);
    assert_eq!(with("http://evil.example/api/hello", &[]).await, 403);
    assert_eq!(with(&url, &[("host", "evil.example")]).await, 400);
    let unknown = send_request(&client, Request::get(&url)).await.unwrap();
    assert_eq!(unknown.status(), 401);
    let tunnel = Request::builder().method(Method::CONNECT).uri("127.0.0.1:22").header("x-api-key", "t0ken");
    let reply = send_request(&client, tunnel).await.unwrap();
    assert!(reply.status().is_client_error(), "{reply:?}");
}

#[tokio::test]
async fn oversized_head_is_rejected() {
    let proxy = create_openai_proxy(config("http://127.0.0.1:1")).await.unwrap();
    let (client, _connection) = connect(proxy.address()).await;
    let long = Request::get(format!("{}/api/hello", proxy.url())).header("x-long", "x".repeat(70 << 10));
    // Status 431 and a stream reset are both acceptable.
    let reply = send_request(&client, long).await;
    assert!(reply.as_ref().is_err() || reply.as_ref().unwrap().status() == 431, "{reply:?}");
    assert!(TestClient::http2(&proxy).is_answered().await);
}

#[tokio::test]
async fn incomplete_request_is_not_forwarded() {
    let raw = RawUpstream::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    for reason in [Reason::NO_ERROR, Reason::CANCEL] {
        let (mut client, _connection) = connect(proxy.address()).await;
        let request = Request::post(format!("{}/v1/messages", proxy.url())).body(()).unwrap();
        let (_reply, mut body) = client.send_request(request, false).unwrap();
        body.send_data(Bytes::from_static(b"{\"model\":\"x\"}"), false).unwrap();
        body.send_reset(reason);
        assert_eq!(
            TestClient::http2(&proxy).send(Method::GET, "//", &[], "").await.status(),
            400,
            "proxy stopped serving"
        );
    }
    // The first request that arrives is the complete one.
    let client = TestClient::http2(&proxy);
    let (reply, request) = tokio::join!(client.send(Method::GET, "/v1/models", &[], ""), async {
        let (request, mut stream) = raw.request().await;
        write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        request
    });
    assert!(request.starts_with("GET /v1/models "), "{request}");
    assert_eq!(read_reply(reply).await.unwrap().body, "ok");
    assert_eq!(proxy.spent().requests, 0);
}

#[tokio::test]
async fn rapid_reset_does_not_block_others() {
    let raw = RawUpstream::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    let (mut client, connection) = connect(proxy.address()).await;
    let mut opened = 0;
    for _ in 0..20_000 {
        // Lets the server make progress.
        tokio::task::yield_now().await;
        let Ok(ready) = within_deadline("room for a stream", client.clone().ready()).await else { break };
        client = ready;
        let request = Request::post(format!("{}/v1/messages", proxy.url())).body(()).unwrap();
        let Ok((_, mut body)) = client.send_request(request, false) else { break };
        body.send_reset(Reason::CANCEL);
        opened += 1;
    }
    // The client may be shut out or served. Either way its streams cost nothing, and other clients are served.
    eprintln!("{opened} streams were opened");
    assert_eq!(TestClient::http2(&proxy).send(Method::GET, "//", &[], "").await.status(), 400);
    assert_eq!(proxy.spent().requests, 0);
    drop(client);
    connection.abort();
    within_deadline("the end", proxy.shutdown()).await;
}

#[tokio::test]
async fn shutdown_times_out_with_endless_streams() {
    let raw = RawUpstream::listen().await;
    let timeout = Duration::from_millis(100);
    let proxy = create_anthropic_proxy(ProxyConfig { shutdown_timeout: timeout, ..config(&raw.url()) })
        .await
        .unwrap();
    let client = TestClient::http2(&proxy);
    let (reply, _stream) =
        tokio::join!(client.send(Method::POST, "/v1/messages", &[], "{}"), raw.begin_answer());
    within_deadline("the end", proxy.shutdown()).await;
    assert!(read_reply(reply).await.is_err());
}

// Needs no deadline: a paused clock advances only when all tasks are idle.
#[tokio::test(start_paused = true)]
async fn idle_connection_is_closed_after_a_minute() {
    let proxy = create_openai_proxy(config("http://127.0.0.1:1")).await.unwrap();
    let (client, connection) = connect(proxy.address()).await;
    send_request(&client, Request::get(format!("{}/api/hello", proxy.url()))).await.unwrap();
    let started = Instant::now();
    connection.await.unwrap().unwrap();
    let elapsed = started.elapsed();
    assert!(elapsed >= Duration::from_secs(59) && elapsed < Duration::from_secs(70), "{elapsed:?}");
}
