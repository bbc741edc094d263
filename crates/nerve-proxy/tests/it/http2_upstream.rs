//! Upstreams with HTTP/2, and with a private certificate authority.

use std::time::Duration;

use h2::{Reason, SendStream};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Response, Version};
use nerve_proxy::{Proxy, ProxyConfig, RootCerts, create_anthropic_proxy, create_openai_proxy};
use nerve_testkit::within_deadline;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::harness::{TestClient, config, message, next_piece, read_reply};
use crate::tls_upstream::{CertAuthority, ConnectionCommand, Http2Upstream, end_with, send};

const BEGIN: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n";

async fn start_upstream() -> (Http2Upstream, Proxy) {
    let authority = CertAuthority::new();
    let upstream = Http2Upstream::listen(&authority).await;
    let proxy = create_anthropic_proxy(authority.config(&upstream.url())).await.unwrap();
    (upstream, proxy)
}

/// Sends a request, to which the upstream begins an answer.
async fn begin_answer(
    client: &TestClient,
    upstream: &mut Http2Upstream,
) -> (Response<Incoming>, SendStream<Bytes>) {
    tokio::join!(client.send(Method::POST, "/v1/messages", &[], "{}"), async {
        let mut stream = upstream.next_request().await.begin();
        send(&mut stream, BEGIN);
        stream
    })
}

#[tokio::test]
async fn pieces_are_streamed_to_http1_and_http2_clients() {
    let (mut upstream, proxy) = start_upstream().await;
    for client in [TestClient::new(&proxy), TestClient::http2(&proxy)] {
        let headers = [("te", "trailers"), ("anthropic-beta", "x"), ("cookie", "a=b")];
        let body = message("hello", true).to_string();
        let (mut reply, mut stream) = tokio::join!(
            client.send(Method::POST, "/v1/messages?beta=true", &headers, body.clone()),
            async {
                let mut exchange = upstream.next_request().await;
                assert_eq!(exchange.request.version(), Version::HTTP_2);
                assert_eq!(
                    exchange.request.uri().to_string(),
                    format!("{}/v1/messages?beta=true", upstream.url())
                );
                assert_eq!(exchange.request.headers()["anthropic-beta"], "x");
                for gone in ["host", "te", "connection", "transfer-encoding"] {
                    assert!(!exchange.request.headers().contains_key(gone), "{gone}");
                }
                assert_eq!(exchange.body().await, body);
                let mut stream = exchange.begin();
                send(&mut stream, BEGIN);
                stream
            }
        );
        assert_eq!(next_piece(&mut reply).await.unwrap().unwrap(), BEGIN, "first piece was held back");
        send(&mut stream, "data: 2\n\n");
        assert_eq!(next_piece(&mut reply).await.unwrap().unwrap(), "data: 2\n\n");
        end_with(&mut stream, "x-sum", "7");
        assert_eq!(read_reply(reply).await.unwrap().body, "");
    }
    assert_eq!(proxy.shutdown().await.requests, 2);
}

#[tokio::test]
async fn trailers_reach_http2_clients() {
    let (mut upstream, proxy) = start_upstream().await;
    let client = TestClient::http2(&proxy);
    let (reply, ()) = tokio::join!(client.send(Method::GET, "/v1/models", &[], ""), async {
        let mut stream = upstream.next_request().await.begin();
        send(&mut stream, "x");
        end_with(&mut stream, "x-sum", "7");
    });
    let body = within_deadline("a body", http_body_util::BodyExt::collect(reply.into_body())).await.unwrap();
    assert_eq!(body.trailers().unwrap()["x-sum"], "7");
}

#[tokio::test]
async fn incomplete_answer_breaks_the_response() {
    let resets = [Reason::INTERNAL_ERROR, Reason::CANCEL, Reason::NO_ERROR].map(Some);
    // A connection command affects all streams, so the cases run one after the other.
    let commands = [
        ConnectionCommand::GoAway(Reason::NO_ERROR),
        ConnectionCommand::GoAway(Reason::ENHANCE_YOUR_CALM),
        ConnectionCommand::Close,
    ];
    let (mut upstream, proxy) = start_upstream().await;
    for (reset, command) in
        resets.map(|reset| (reset, None)).into_iter().chain(commands.map(|command| (None, Some(command))))
    {
        for client in [TestClient::new(&proxy), TestClient::http2(&proxy)] {
            let (mut reply, mut stream) = begin_answer(&client, &mut upstream).await;
            assert_eq!(next_piece(&mut reply).await.unwrap().unwrap(), BEGIN);
            reset.into_iter().for_each(|reason| stream.send_reset(reason));
            command.into_iter().for_each(|command| upstream.command(command));
            assert!(read_reply(reply).await.is_err(), "{reset:?} {command:?}");
        }
    }
}

#[tokio::test]
async fn upstream_closing_before_its_answer_is_a_502() {
    let (mut upstream, proxy) = start_upstream().await;
    let client = TestClient::new(&proxy);
    for command in [ConnectionCommand::GoAway(Reason::NO_ERROR), ConnectionCommand::Close] {
        let (reply, _exchange) = tokio::join!(client.send_message("hello", true), async {
            let exchange = upstream.next_request().await;
            upstream.command(command);
            exchange
        });
        reply.assert_error(502, "api_error", "closed the connection");
    }
    let (reply, _exchange) = tokio::join!(client.send_message("hello", true), async {
        let mut exchange = upstream.next_request().await;
        exchange.refuse(Reason::INTERNAL_ERROR);
        exchange
    });
    reply.assert_error(502, "api_error", "closed the connection");
    assert_eq!(proxy.spent().requests, 3, "broken request not counted");
}

#[tokio::test]
async fn refused_stream_is_retried() {
    let (mut upstream, proxy) = start_upstream().await;
    let client = TestClient::new(&proxy);
    let (reply, ()) = tokio::join!(client.send_message("hello", true), async {
        upstream.next_request().await.refuse(Reason::REFUSED_STREAM);
        let mut again = upstream.next_request().await;
        assert!(again.body().await.contains("hello"));
        again.respond(BEGIN);
    });
    assert_eq!((reply.status, reply.body.as_str()), (200, BEGIN));
    assert_eq!(proxy.spent().requests, 1);
    // Retries are limited.
    let (reply, ()) = tokio::join!(client.send_message("hello", true), async {
        for _ in 0..3 {
            upstream.next_request().await.refuse(Reason::REFUSED_STREAM);
        }
    });
    reply.assert_error(502, "api_error", "refused the request");
    assert_eq!(proxy.spent().requests, 1, "refused stream counted");
}

#[tokio::test]
async fn client_disconnect_resets_upstream_stream() {
    let (mut upstream, proxy) = start_upstream().await;
    for client in [TestClient::new(&proxy), TestClient::http2(&proxy)] {
        let (mut reply, mut stream) = begin_answer(&client, &mut upstream).await;
        next_piece(&mut reply).await.unwrap().unwrap();
        drop((reply, client));
        let reason =
            within_deadline("a reset", std::future::poll_fn(|context| stream.poll_reset(context))).await;
        assert_eq!(reason.unwrap(), Reason::CANCEL);
    }
}

#[tokio::test]
async fn more_requests_than_streams_per_connection() {
    let (mut upstream, proxy) = start_upstream().await;
    let client = std::sync::Arc::new(TestClient::new(&proxy));
    let mut requests = JoinSet::new();
    for _ in 0..150 {
        let client = client.clone();
        requests.spawn(async move { client.send_message("hello", true).await.status });
    }
    let mut all = Vec::new();
    for _ in 0..150 {
        all.push(upstream.next_request().await);
    }
    all.iter_mut().for_each(|request| request.respond(BEGIN));
    while let Some(status) = requests.join_next().await {
        assert_eq!(status.unwrap(), 200);
    }
}

/// Sends until all windows and socket buffers on the way are full.
async fn fill(stream: &mut SendStream<Bytes>) {
    let still = Duration::from_millis(300);
    loop {
        stream.reserve_capacity(64 << 10);
        let room = std::future::poll_fn(|context| stream.poll_capacity(context));
        let Ok(room) = tokio::time::timeout(still, room).await else { return };
        stream.send_data(vec![b'x'; room.unwrap().unwrap()].into(), false).unwrap();
    }
}

#[tokio::test]
async fn slow_clients_do_not_block_others() {
    let (mut upstream, proxy) = start_upstream().await;
    let client = TestClient::new(&proxy);
    let mut unread = Vec::new();
    for _ in 0..4 {
        let (reply, mut stream) = tokio::join!(client.send(Method::POST, "/v1/messages", &[], "{}"), async {
            upstream.next_request().await.begin()
        });
        within_deadline("a full way", fill(&mut stream)).await;
        unread.push((reply, stream));
    }
    let (reply, ()) = tokio::join!(client.send_message("hello", true), async {
        upstream.next_request().await.respond(BEGIN)
    });
    assert_eq!(reply.body, BEGIN);
}

#[tokio::test]
async fn tls_upstream_without_http2_gets_http1() {
    let authority = CertAuthority::new();
    for protocols in [&["http/1.1"][..], &[]] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = format!("https://{}", listener.local_addr().unwrap());
        let proxy = create_anthropic_proxy(authority.config(&upstream)).await.unwrap();
        let client = TestClient::http2(&proxy);
        let (reply, ()) = tokio::join!(client.send(Method::GET, "/v1/models", &[], ""), async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = authority.acceptor(protocols).accept(stream).await.unwrap();
            let mut request = vec![0; 24];
            stream.read_exact(&mut request).await.unwrap();
            assert_eq!(request, b"GET /v1/models HTTP/1.1\r");
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
                .await
                .unwrap();
            stream.shutdown().await.unwrap();
        });
        let reply = read_reply(reply).await.unwrap();
        assert_eq!((reply.body.as_str(), reply.headers.get("connection")), ("ok", None));
    }
}

#[tokio::test]
async fn untrusted_upstream_gets_no_request() {
    let (ours, other) = (CertAuthority::new(), CertAuthority::new());
    let upstream = Http2Upstream::listen(&ours).await;
    for root_certs in [None, Some(RootCerts::read(other.file()).unwrap())] {
        let proxy =
            create_anthropic_proxy(ProxyConfig { root_certs, ..config(&upstream.url()) }).await.unwrap();
        TestClient::new(&proxy).send_message("hello", false).await.assert_error(
            502,
            "api_error",
            "certificate",
        );
        assert_eq!(proxy.spent().requests, 0);
    }
}

#[tokio::test]
async fn root_certs_require_tls() {
    let authority = CertAuthority::new();
    let error = create_anthropic_proxy(authority.config("http://127.0.0.1:1")).await.unwrap_err().to_string();
    assert!(error.contains("http://127.0.0.1:1") && error.contains("use https"), "{error}");
}

/// The translation does not depend on how Chat Completions are cut into pieces.
#[tokio::test]
async fn translation_does_not_depend_on_piece_size() {
    let authority = CertAuthority::new();
    let mut upstream = Http2Upstream::listen(&authority).await;
    let proxy = create_openai_proxy(authority.config(&upstream.url())).await.unwrap();
    let delta = |delta| json!({ "id": "c", "model": "m", "choices": [{ "index": 0, "delta": delta }] });
    let call = |arguments: &str| json!({ "tool_calls": [{ "index": 0, "id": "call_1", "type": "function", "function": { "name": "Read", "arguments": arguments } }] });
    let mut text = String::new();
    for content in [
        json!({ "role": "assistant", "content": "ä 日本 " }),
        json!({ "content": "\"x\"\n" }),
        call("{\"file\":"),
        call("\"日\"}"),
    ] {
        text.push_str(&format!("data: {}\r\n\r\n: ping\n\n", delta(content)));
    }
    text.push_str(
        "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    );
    text.push_str("data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n");
    let client = TestClient::http2(&proxy);
    let mut first = None;
    for step in [text.len(), 1, 2, 3, 7, 31, 64, 200] {
        let (reply, ()) = tokio::join!(client.send_message("hello", true), async {
            let mut exchange = upstream.next_request().await;
            let mut stream = exchange.begin();
            for piece in text.as_bytes().chunks(step) {
                stream.send_data(piece.to_vec().into(), false).unwrap();
            }
            stream.send_data(Default::default(), true).unwrap();
        });
        assert_eq!(reply.joined("/delta/text"), "ä 日本 \"x\"\n");
        assert_eq!(reply.joined("/delta/partial_json"), "{\"file\":\"日\"}");
        // Each message has a new id.
        let events: Vec<_> =
            reply.events().into_iter().filter(|event| event["type"] != "message_start").collect();
        assert_eq!(first.get_or_insert_with(|| events.clone()), &events, "in pieces of {step}");
    }
    assert_eq!(proxy.spent().usage.output, 7 * 8);
}

#[tokio::test]
async fn broken_translated_stream_breaks_the_response() {
    let authority = CertAuthority::new();
    let mut upstream = Http2Upstream::listen(&authority).await;
    let proxy = create_openai_proxy(authority.config(&upstream.url())).await.unwrap();
    let client = TestClient::new(&proxy);
    for reason in [Reason::NO_ERROR, Reason::INTERNAL_ERROR] {
        let body = message("hello", true).to_string();
        let (mut reply, mut stream) =
            tokio::join!(client.send(Method::POST, "/v1/messages", &[], body), async {
                let mut stream = upstream.next_request().await.begin();
                send(
                    &mut stream,
                    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"he\"}}]}\n\n",
                );
                stream
            });
        assert!(
            String::from_utf8_lossy(&next_piece(&mut reply).await.unwrap().unwrap())
                .contains("message_start")
        );
        stream.send_reset(reason);
        assert!(read_reply(reply).await.is_err(), "{reason:?}");
    }
}
