//! Requests that the proxy accepts or rejects.

use hyper::Method;
use nerve_proxy::{ProxyConfig, ProxyError, Secret, create_anthropic_proxy, create_openai_proxy};
use nerve_testkit::mock_model::{MockModel, Script};
use tokio::net::TcpStream;

use crate::harness::{TestClient, config, exchange, message, read_reply};

#[tokio::test]
async fn browser_pages_are_rejected() {
    let model = MockModel::start(Script::default()).await;
    let proxy = create_openai_proxy(config(&model.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    for headers in [
        [("origin", "https://evil.example"), ("accept", "*/*")],
        [("host", "evil.example"), ("accept", "*/*")],
        // A local server may show pages of any author, and text/plain needs no CORS preflight.
        [("origin", "http://localhost:3000"), ("content-type", "text/plain")],
        [("sec-fetch-site", "same-site"), ("content-type", "text/plain")],
        [("sec-fetch-site", "cross-site"), ("content-type", "text/plain")],
    ] {
        let reply =
            client.send(Method::POST, "/v1/messages", &headers, message("hello", false).to_string()).await;
        read_reply(reply).await.unwrap().assert_error(403, "permission_error", "the proxy");
    }
    assert!(model.requests().is_empty());
    assert_eq!(client.send_message("hello", false).await.status, 200);
}

#[tokio::test]
async fn request_host_must_be_unambiguous() {
    let model = MockModel::start(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    for (target, hosts, status) in [
        ("/", "Host: evil@127.0.0.1\r\n", 403),
        ("/", "Host: localhost\r\nHost: evil.example\r\n", 400),
        ("/", "Host: localhost\r\nHost: localhost\r\n", 400),
        ("/", "", 400),
        ("http://evil.example/", "Host: localhost\r\n", 400),
        ("http://evil.example/", "Host: evil.example\r\n", 403),
        ("http://localhost/", "Host: localhost\r\n", 200),
    ] {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        let reply = exchange(&mut stream, &format!("HEAD {target} HTTP/1.1\r\n{hosts}\r\n")).await;
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {hosts:?}: {reply:?}");
    }
    assert_eq!(model.requests().len(), 1);
    // Each of the two headers would be rejected on its own too.
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    let two = "HEAD / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: https://evil.example\r\n\r\n";
    assert!(exchange(&mut stream, two).await.starts_with("HTTP/1.1 403 "));
}

#[tokio::test]
async fn client_token_is_required() {
    let model = MockModel::start(Script::default()).await;
    let (api_key, client_token) = (Some(Secret::new("sk-ours")), Some(Secret::new("t0ken")));
    let proxy =
        create_anthropic_proxy(ProxyConfig { api_key, client_token, ..config(&model.url()) }).await.unwrap();
    let client = TestClient::new(&proxy);
    client.send_message("hello", false).await.assert_error(401, "authentication_error", "token");
    for (headers, status) in [
        ([("x-api-key", "t0kem")], 401),
        ([("x-api-key", "t0ken")], 200),
        ([("authorization", "Bearer t0ken")], 200),
    ] {
        let reply =
            client.send(Method::POST, "/v1/messages", &headers, message("hello", false).to_string()).await;
        assert_eq!(read_reply(reply).await.unwrap().status, status, "{headers:?}");
    }
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn only_loopback_addresses_are_accepted() {
    let far = ProxyConfig { listen: ([0, 0, 0, 0], 0).into(), ..config("http://127.0.0.1:1") };
    assert!(matches!(create_anthropic_proxy(far).await, Err(ProxyError::NotLoopback(_))));
    let first = create_anthropic_proxy(config("http://127.0.0.1:1")).await.unwrap();
    let taken = ProxyConfig { listen: first.address(), ..config("http://127.0.0.1:1") };
    assert!(matches!(create_anthropic_proxy(taken).await, Err(ProxyError::Listen { .. })));
}
