//! Clients that speak HTTP/2 from the first byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::{Request, Response, Version};
use hyper::Method;
use hyper::body::Bytes;
use nerve_proxy::{ProxyConfig, Secret, create_anthropic_proxy, create_openai_proxy};
use nerve_testkit::mock_model::Script;
use nerve_testkit::skip;
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::harness::{Front, Raw, config, message, model, say, soon, whole};

/// A connection, and the task that ends with it.
async fn connect(address: SocketAddr) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    (client, tokio::spawn(connection))
}

async fn ask(
    client: &SendRequest<Bytes>,
    request: http::request::Builder,
) -> Result<Response<RecvStream>, h2::Error> {
    let mut client = soon("room for a stream", client.clone().ready()).await?;
    let (reply, _) = client.send_request(request.body(()).unwrap(), true)?;
    soon("a reply", reply).await
}

#[tokio::test]
async fn both_versions_are_spoken_on_one_port() {
    let model = model(Script::default()).await;
    for proxy in [
        create_anthropic_proxy(config(&model.url())).await.unwrap(),
        create_openai_proxy(config(&model.url())).await.unwrap(),
    ] {
        for front in [Front::http2(&proxy), Front::of(&proxy)] {
            let told = front.ask("hello", true).await;
            assert_eq!(told.joined("/delta/text"), "You said: hello");
            assert!(told.headers.contains_key("x-nerve-request-id"));
            assert_eq!(front.ask("ERR 429", false).await.status, 429);
        }
        assert_eq!(proxy.shutdown().await.requests, 4);
    }
}

#[tokio::test]
async fn curl_speaks_it() {
    let has_http2 = std::process::Command::new("curl").arg("--version").output();
    if !has_http2.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains("HTTP2")) {
        return skip("http2_clients::curl_speaks_it", "no curl with HTTP/2");
    }
    let model = model(Script::default()).await;
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
    let told = soon("curl", curl.output()).await.unwrap();
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("You said: hello") && text.contains("message_stop"), "{text}");
    assert!(text.ends_with(" 2 200"), "{text}");
}

#[tokio::test]
async fn many_streams_of_a_connection_at_once_and_no_more_than_the_proxy_takes() {
    let raw = Raw::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    let mut asking = JoinSet::new();
    let mut held = Vec::new();
    let mut clients = Vec::new();
    // 100 a connection.
    for _ in 0..3 {
        clients.push(connect(proxy.address()).await.0);
    }
    for number in 0..256 {
        let client = clients[number / 100].clone();
        let url = format!("{}/v1/models", proxy.url());
        asking.spawn(async move { ask(&client, Request::get(url)).await.unwrap().status() });
        held.push(raw.request().await.1);
    }
    Front::of(&proxy).ask("hello", true).await.says(503, "overloaded_error", "try again");
    let last = ask(&clients[2], Request::get(format!("{}/v1/models", proxy.url()))).await.unwrap();
    assert_eq!(last.status(), 503);
    say(held.last_mut().unwrap(), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(soon("an answer", asking.join_next()).await.unwrap().unwrap(), 200);
    // Its place is free again.
    let front = Front::of(&proxy);
    let (reply, ()) = tokio::join!(front.send(Method::GET, "/v1/models", &[], ""), async {
        let last = held.last_mut().unwrap();
        let mut asked = [0; 3];
        soon("a request", tokio::io::AsyncReadExt::read_exact(last, &mut asked)).await.unwrap();
        say(last, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    });
    assert_eq!(whole(reply).await.unwrap().body, "ok");
}

#[tokio::test]
async fn the_door_is_the_same() {
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
        async move { ask(&client, request).await.unwrap().status().as_u16() }
    };
    assert_eq!(with(&url, &[]).await, 200);
    assert_eq!(with(&url, &[("origin", "http://localhost")]).await, 403);
    assert_eq!(with(&url, &[("sec-fetch-site", "cross-site")]).await, 403);
    assert_eq!(with("http://evil.example/api/hello", &[]).await, 403);
    assert_eq!(with(&url, &[("host", "evil.example")]).await, 400);
    let unknown = ask(&client, Request::get(&url)).await.unwrap();
    assert_eq!(unknown.status(), 401);
    let tunnel = Request::builder().method(Method::CONNECT).uri("127.0.0.1:22").header("x-api-key", "t0ken");
    let told = ask(&client, tunnel).await.unwrap();
    assert!(told.status().is_client_error(), "{told:?}");
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let proxy = create_openai_proxy(config("http://127.0.0.1:1")).await.unwrap();
    let (client, _connection) = connect(proxy.address()).await;
    let long = Request::get(format!("{}/api/hello", proxy.url())).header("x-long", "x".repeat(70 << 10));
    // 431, or the stream is reset: both tell the client.
    let told = ask(&client, long).await;
    assert!(told.as_ref().is_err() || told.as_ref().unwrap().status() == 431, "{told:?}");
    assert!(Front::http2(&proxy).is_answered().await);
}

#[tokio::test]
async fn half_a_request_goes_nowhere() {
    let raw = Raw::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    for reason in [Reason::NO_ERROR, Reason::CANCEL] {
        let (mut client, _connection) = connect(proxy.address()).await;
        let request = Request::post(format!("{}/v1/messages", proxy.url())).body(()).unwrap();
        let (_reply, mut body) = client.send_request(request, false).unwrap();
        body.send_data(Bytes::from_static(b"{\"model\":\"x\"}"), false).unwrap();
        body.send_reset(reason);
        assert_eq!(Front::http2(&proxy).send(Method::GET, "//", &[], "").await.status(), 400, "it goes on");
    }
    // The first request that comes is the whole one.
    let front = Front::http2(&proxy);
    let (reply, asked) = tokio::join!(front.send(Method::GET, "/v1/models", &[], ""), async {
        let (asked, mut stream) = raw.request().await;
        say(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        asked
    });
    assert!(asked.starts_with("GET /v1/models "), "{asked}");
    assert_eq!(whole(reply).await.unwrap().body, "ok");
    assert_eq!(proxy.spent().requests, 0);
}

#[tokio::test]
async fn who_opens_and_resets_streams_without_end_holds_nobody_up() {
    let raw = Raw::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    let (mut client, connection) = connect(proxy.address()).await;
    let mut opened = 0;
    for _ in 0..20_000 {
        // Both sides have their turn.
        tokio::task::yield_now().await;
        let Ok(ready) = soon("room for a stream", client.clone().ready()).await else { break };
        client = ready;
        let request = Request::post(format!("{}/v1/messages", proxy.url())).body(()).unwrap();
        let Ok((_, mut body)) = client.send_request(request, false) else { break };
        body.send_reset(Reason::CANCEL);
        opened += 1;
    }
    // Shut out, or served as fast as it asks: nothing of it stays, and others are served.
    eprintln!("{opened} streams were opened");
    assert_eq!(Front::http2(&proxy).send(Method::GET, "//", &[], "").await.status(), 400);
    assert_eq!(proxy.spent().requests, 0);
    drop(client);
    connection.abort();
    soon("the end", proxy.shutdown()).await;
}

#[tokio::test]
async fn a_shutdown_lets_its_answers_end() {
    let raw = Raw::listen().await;
    let patience = Duration::from_secs(15);
    let proxy = create_anthropic_proxy(ProxyConfig { shutdown_patience: patience, ..config(&raw.url()) })
        .await
        .unwrap();
    let (front, address) = (Arc::new(Front::http2(&proxy)), proxy.address());
    let (reply, mut stream) = tokio::join!(front.send(Method::POST, "/v1/messages", &[], "{}"), async {
        let (_, mut stream) = raw.request().await;
        say(&mut stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
        stream
    });
    let down = tokio::spawn(proxy.shutdown());
    soon("a closed port", async { while TcpStream::connect(address).await.is_ok() {} }).await;
    say(&mut stream, "5\r\n ends\r\n0\r\n\r\n").await;
    assert_eq!(whole(reply).await.unwrap().body, "hello ends");
    assert_eq!(soon("the end", down).await.unwrap().requests, 1);
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_streams_without_end() {
    let raw = Raw::listen().await;
    let patience = Duration::from_millis(100);
    let proxy = create_anthropic_proxy(ProxyConfig { shutdown_patience: patience, ..config(&raw.url()) })
        .await
        .unwrap();
    let front = Front::http2(&proxy);
    let (reply, _stream) = tokio::join!(front.send(Method::POST, "/v1/messages", &[], "{}"), async {
        let (_, mut stream) = raw.request().await;
        say(&mut stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
        stream
    });
    soon("the end", proxy.shutdown()).await;
    assert!(whole(reply).await.is_err());
}

// No deadline of its own: the time of a paused clock passes only when nothing else is to be done.
#[tokio::test(start_paused = true)]
async fn a_connection_without_requests_is_closed_after_a_minute() {
    let proxy = create_openai_proxy(config("http://127.0.0.1:1")).await.unwrap();
    let (client, connection) = connect(proxy.address()).await;
    ask(&client, Request::get(format!("{}/api/hello", proxy.url()))).await.unwrap();
    let started = Instant::now();
    connection.await.unwrap().unwrap();
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(59) && took < Duration::from_secs(70), "{took:?}");
}
