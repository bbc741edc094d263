//! Upstreams that are down, break off or say nothing; going down.

use std::time::Duration;

use hyper::Method;
use nerve_proxy::{ProxyConfig, create_anthropic_proxy, create_openai_proxy};
use nerve_testkit::mock_model::{Answer, Ending, Script};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Front, Raw, closed, config, message, model, piece, say, soon, whole};

/// An address where nobody listens.
async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn an_upstream_that_is_down_is_a_502() {
    let (anthropic, openai) = (
        create_anthropic_proxy(config(&nobody().await)).await.unwrap(),
        create_openai_proxy(config(&nobody().await)).await.unwrap(),
    );
    for proxy in [anthropic, openai] {
        let told = Front::of(&proxy).ask("hello", true).await;
        told.says(502, "api_error", "cannot be reached");
        assert!(told.body.contains("127.0.0.1"), "it says who: {told:?}");
        assert_eq!(proxy.spent().requests, 0, "it does not count");
    }
}

#[tokio::test]
async fn an_upstreams_error_is_passed_on() {
    let model = model(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    for status in [400, 401, 429, 500, 529] {
        let told = Front::of(&proxy).ask(&format!("ERR {status}"), true).await;
        assert_eq!((told.status, &told.json()["error"]["message"]), (status, &"scripted error".into()));
        assert_eq!(told.json()["request_id"], "req_mock", "the body is the upstream's own");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_breaks_off_here_too() {
    let begin = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n";
    let script = Script::default().rule("break", Answer::stream(begin, Ending::Broken));
    let model = model(script).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let front = Front::of(&proxy);
    let mut reply = front.send(Method::POST, "/v1/messages", &[], message("break", true).to_string()).await;
    assert_eq!(piece(&mut reply).await.unwrap().unwrap(), begin);
    assert!(piece(&mut reply).await.unwrap().is_err(), "it must not look whole");
}

#[tokio::test]
async fn a_body_shorter_than_announced_breaks_off() {
    let raw = Raw::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    let front = Front::of(&proxy);
    let (reply, ()) = tokio::join!(front.send(Method::POST, "/v1/messages", &[], "{}"), async {
        let (_, mut stream) = raw.request().await;
        say(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await;
    });
    assert!(whole(reply).await.is_err());
}

#[tokio::test]
async fn an_upstream_that_says_nothing_is_given_up() {
    let raw = Raw::listen().await;
    let patience = Duration::from_millis(200);
    let proxy = create_anthropic_proxy(ProxyConfig { patience, ..config(&raw.url()) }).await.unwrap();
    let front = Front::of(&proxy);
    let (told, mut stream) = tokio::join!(front.ask("hello", true), async { raw.request().await.1 });
    told.says(504, "timeout_error", "said nothing");
    assert_eq!(proxy.spent().requests, 1, "it may have cost something");
    closed(&mut stream).await;
    // In the middle of a reply: it breaks off.
    let (reply, _stream) = tokio::join!(front.send(Method::POST, "/v1/messages", &[], "{}"), async {
        let (_, mut stream) = raw.request().await;
        say(&mut stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
        stream
    });
    assert!(whole(reply).await.is_err());
}

#[tokio::test]
async fn an_upstream_that_speaks_no_http_is_a_502() {
    let raw = Raw::listen().await;
    let proxy = create_anthropic_proxy(config(&raw.url())).await.unwrap();
    let front = Front::of(&proxy);
    let (told, ()) = tokio::join!(front.ask("hello", false), async {
        let (_, mut stream) = raw.request().await;
        say(&mut stream, "SSH-2.0-OpenSSH_9.9\r\n").await;
    });
    told.says(502, "api_error", "broke off");
}

#[tokio::test]
async fn an_upstream_with_https_is_talked_to_in_tls_only() {
    let raw = Raw::listen().await;
    let upstream = raw.url().replace("http://", "https://");
    let proxy = create_anthropic_proxy(config(&upstream)).await.unwrap();
    let front = Front::of(&proxy);
    let (told, first) = tokio::join!(front.ask("hello", false), raw.first_byte());
    told.says(502, "api_error", "cannot be reached");
    assert_eq!(first, 0x16, "a handshake");
}

#[tokio::test]
async fn a_shutdown_lets_an_answer_end_and_takes_no_more() {
    let raw = Raw::listen().await;
    let patience = Duration::from_secs(15);
    let proxy = create_anthropic_proxy(ProxyConfig { shutdown_patience: patience, ..config(&raw.url()) })
        .await
        .unwrap();
    let (front, address) = (Front::of(&proxy), proxy.address());
    let (reply, mut stream) = tokio::join!(front.send(Method::POST, "/v1/messages", &[], "{}"), async {
        let (_, mut stream) = raw.request().await;
        say(&mut stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
        stream
    });
    let down = tokio::spawn(proxy.shutdown());
    soon("a closed port", async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await
        }
    })
    .await;
    say(&mut stream, "5\r\n ends\r\n0\r\n\r\n").await;
    assert_eq!(whole(reply).await.unwrap().body, "hello ends");
    assert_eq!(soon("the end", down).await.unwrap().requests, 1);
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_ever() {
    let raw = Raw::listen().await;
    let patience = Duration::from_millis(100);
    let proxy = create_anthropic_proxy(ProxyConfig { shutdown_patience: patience, ..config(&raw.url()) })
        .await
        .unwrap();
    let url = proxy.url();
    let asking = tokio::spawn(async move { Front::at(url).client_error().await });
    let (_, mut stream) = raw.request().await;
    soon("the end", proxy.shutdown()).await;
    closed(&mut stream).await;
    assert!(soon("the client", asking).await.unwrap(), "the client is told by its connection");
}

#[tokio::test]
async fn a_client_that_sends_half_a_request_holds_nobody_up() {
    let model = model(Script::default()).await;
    let proxy = create_anthropic_proxy(config(&model.url())).await.unwrap();
    let mut halves = Vec::new();
    for half in
        ["POST /v1/mess", "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{", ""]
    {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        say(&mut stream, half).await;
        halves.push(stream);
    }
    assert_eq!(Front::of(&proxy).ask("hello", false).await.status, 200);
    assert_eq!(soon("the end", proxy.shutdown()).await.requests, 1);
}
