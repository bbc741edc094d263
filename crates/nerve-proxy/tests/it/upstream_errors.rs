//! Upstreams that are down, fail or hang; shutdown.

use std::time::Duration;

use hyper::Method;
use nerve_proxy::{Proxy, ProxyConfig, create_anthropic_proxy, create_openai_proxy};
use nerve_testkit::mock_model::{Answer, BodyEnd, MockModel, Script};
use nerve_testkit::{eventually, within_deadline};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{RawUpstream, TestClient, config, message, next_piece, read_reply, wait_closed, write};

/// Returns an address without a listener.
async fn unused_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn unreachable_upstream_is_a_502() {
    let (anthropic, openai) = (
        create_anthropic_proxy(config(&unused_address().await)).await.unwrap(),
        create_openai_proxy(config(&unused_address().await)).await.unwrap(),
    );
    for proxy in [anthropic, openai] {
        let reply = TestClient::new(&proxy).send_message("hello", true).await;
        reply.assert_error(502, "api_error", "cannot be reached");
        assert!(reply.body.contains("127.0.0.1"), "error does not name the upstream: {reply:?}");
        assert_eq!(proxy.spent().requests, 0, "request counted");
    }
}

#[tokio::test]
async fn upstream_error_is_forwarded() {
    let model = MockModel::start(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    for status in [400, 401, 429, 500, 529] {
        let reply = TestClient::new(&proxy).send_message(&format!("ERR {status}"), true).await;
        assert_eq!((reply.status, &reply.json()["error"]["message"]), (status, &"scripted error".into()));
        assert_eq!(reply.json()["request_id"], "req_mock", "upstream body changed");
    }
}

#[tokio::test]
async fn broken_stream_breaks_the_client_connection() {
    let begin = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n";
    let script = Script::default().rule("break", Answer::stream(begin, BodyEnd::Broken));
    let model = MockModel::start(script).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    let mut reply = client.send(Method::POST, "/v1/messages", &[], message("break", true).to_string()).await;
    assert_eq!(next_piece(&mut reply).await.unwrap().unwrap(), begin);
    assert!(next_piece(&mut reply).await.unwrap().is_err(), "response looks complete");
}

#[tokio::test]
async fn body_shorter_than_content_length_breaks() {
    let raw = RawUpstream::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    let (reply, ()) = tokio::join!(client.send(Method::POST, "/v1/messages", &[], "{}"), async {
        let (_, mut stream) = raw.request().await;
        write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await;
    });
    assert!(read_reply(reply).await.is_err());
}

#[tokio::test]
async fn silent_upstream_times_out() {
    let raw = RawUpstream::listen().await;
    let timeout = Duration::from_millis(200);
    let proxy = create_anthropic_proxy(ProxyConfig { upstream_timeout: timeout, ..config(&raw.url()) })
        .await
        .unwrap();
    let client = TestClient::new(&proxy);
    let (reply, mut stream) =
        tokio::join!(client.send_message("hello", true), async { raw.request().await.1 });
    reply.assert_error(504, "timeout_error", "no answer within");
    assert_eq!(proxy.spent().requests, 1, "broken request not counted");
    wait_closed(&mut stream).await;
    // A timeout during a response breaks the connection.
    let (reply, _stream) =
        tokio::join!(client.send(Method::POST, "/v1/messages", &[], "{}"), raw.begin_answer());
    assert!(read_reply(reply).await.is_err());
}

#[tokio::test]
async fn non_http_upstream_is_a_502() {
    let raw = RawUpstream::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    let (reply, ()) = tokio::join!(client.send_message("hello", false), async {
        let (_, mut stream) = raw.request().await;
        write(&mut stream, "SSH-2.0-OpenSSH_9.9\r\n").await;
    });
    reply.assert_error(502, "api_error", "closed the connection");
}

#[tokio::test]
async fn https_upstream_gets_only_tls() {
    let raw = RawUpstream::listen().await;
    let upstream = raw.url().replace("http://", "https://");
    let proxy = create_anthropic_proxy(config(&upstream)).await.unwrap();
    let client = TestClient::new(&proxy);
    let (reply, first) = tokio::join!(client.send_message("hello", false), raw.first_byte());
    reply.assert_error(502, "api_error", "cannot be reached");
    assert_eq!(first, 0x16, "no TLS handshake");
}

#[tokio::test]
async fn shutdown_completes_answers_in_flight() {
    let clients: [fn(&Proxy) -> TestClient; 2] = [TestClient::new, TestClient::http2];
    for connect in clients {
        let raw = RawUpstream::listen().await;
        let timeout = Duration::from_secs(15);
        let proxy = create_anthropic_proxy(ProxyConfig { shutdown_timeout: timeout, ..config(&raw.url()) })
            .await
            .unwrap();
        let (client, address) = (connect(&proxy), proxy.address());
        let (reply, mut stream) =
            tokio::join!(client.send(Method::POST, "/v1/messages", &[], "{}"), raw.begin_answer());
        let shutdown = tokio::spawn(proxy.shutdown());
        eventually("a closed port", async || TcpStream::connect(address).await.is_err()).await;
        write(&mut stream, "5\r\n ends\r\n0\r\n\r\n").await;
        assert_eq!(read_reply(reply).await.unwrap().body, "hello ends");
        assert_eq!(within_deadline("the end", shutdown).await.unwrap().requests, 1);
    }
}

#[tokio::test]
async fn shutdown_times_out() {
    let raw = RawUpstream::listen().await;
    let timeout = Duration::from_millis(100);
    let proxy = create_anthropic_proxy(ProxyConfig { shutdown_timeout: timeout, ..config(&raw.url()) })
        .await
        .unwrap();
    let url = proxy.url();
    let client_side = tokio::spawn(async move { TestClient::at(url).client_error().await });
    let (_, mut stream) = raw.request().await;
    within_deadline("the end", proxy.shutdown()).await;
    wait_closed(&mut stream).await;
    assert!(within_deadline("the client", client_side).await.unwrap(), "client connection not broken");
}

#[tokio::test]
async fn incomplete_requests_do_not_block_others() {
    let model = MockModel::start(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let mut partial_requests = Vec::new();
    for half in
        ["POST /v1/mess", "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{", ""]
    {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        write(&mut stream, half).await;
        partial_requests.push(stream);
    }
    assert_eq!(TestClient::new(&proxy).send_message("hello", false).await.status, 200);
    assert_eq!(within_deadline("the end", proxy.shutdown()).await.requests, 1);
}
