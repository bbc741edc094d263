//! Upstreams that speak HTTP/2, and such that an authority of one's own vouches for.

use std::time::Duration;

use h2::{Reason, SendStream};
use hyper::body::Bytes;
use hyper::{Method, Version};
use nerve_proxy::{Authorities, Proxy, ProxyConfig, create_anthropic_proxy, create_openai_proxy};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::harness::{Front, config, message, piece, soon, whole};
use crate::tls_upstream::{Authority, Http2, Order, end_with, send};

const BEGIN: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n";

async fn behind() -> (Http2, Proxy) {
    let authority = Authority::new();
    let upstream = Http2::listen(&authority).await;
    let proxy = create_anthropic_proxy(authority.config(&upstream.url())).await.unwrap();
    (upstream, proxy)
}

#[tokio::test]
async fn pieces_go_on_as_they_come_whatever_the_client_speaks() {
    let (mut upstream, proxy) = behind().await;
    for front in [Front::of(&proxy), Front::http2(&proxy)] {
        let headers = [("te", "trailers"), ("anthropic-beta", "x"), ("cookie", "a=b")];
        let body = message("hello", true).to_string();
        let (mut reply, mut stream) =
            tokio::join!(front.send(Method::POST, "/v1/messages?beta=true", &headers, body.clone()), async {
                let mut asked = upstream.asked().await;
                assert_eq!(asked.request.version(), Version::HTTP_2);
                assert_eq!(
                    asked.request.uri().to_string(),
                    format!("{}/v1/messages?beta=true", upstream.url())
                );
                assert_eq!(asked.request.headers()["anthropic-beta"], "x");
                for gone in ["host", "te", "connection", "transfer-encoding"] {
                    assert!(!asked.request.headers().contains_key(gone), "{gone}");
                }
                assert_eq!(asked.body().await, body);
                let mut stream = asked.begin();
                send(&mut stream, BEGIN);
                stream
            });
        assert_eq!(piece(&mut reply).await.unwrap().unwrap(), BEGIN, "before there is more");
        send(&mut stream, "data: 2\n\n");
        assert_eq!(piece(&mut reply).await.unwrap().unwrap(), "data: 2\n\n");
        end_with(&mut stream, "x-sum", "7");
        assert_eq!(whole(reply).await.unwrap().body, "");
    }
    assert_eq!(proxy.shutdown().await.requests, 2);
}

#[tokio::test]
async fn trailers_reach_a_client_that_knows_them() {
    let (mut upstream, proxy) = behind().await;
    let front = Front::http2(&proxy);
    let (reply, ()) = tokio::join!(front.send(Method::GET, "/v1/models", &[], ""), async {
        let mut stream = upstream.asked().await.begin();
        send(&mut stream, "x");
        end_with(&mut stream, "x-sum", "7");
    });
    let body = soon("a body", http_body_util::BodyExt::collect(reply.into_body())).await.unwrap();
    assert_eq!(body.trailers().unwrap()["x-sum"], "7");
}

#[tokio::test]
async fn half_an_answer_never_looks_whole() {
    let resets = [Reason::INTERNAL_ERROR, Reason::CANCEL, Reason::NO_ERROR].map(Some);
    // What happens to its connection is told to all of the upstream: one after the other.
    let orders = [Order::GoAway(Reason::NO_ERROR), Order::GoAway(Reason::ENHANCE_YOUR_CALM), Order::Close];
    let (mut upstream, proxy) = behind().await;
    for (reset, order) in
        resets.map(|reset| (reset, None)).into_iter().chain(orders.map(|order| (None, Some(order))))
    {
        for front in [Front::of(&proxy), Front::http2(&proxy)] {
            let (mut reply, mut stream) =
                tokio::join!(front.send(Method::POST, "/v1/messages", &[], "{}"), async {
                    let mut stream = upstream.asked().await.begin();
                    send(&mut stream, BEGIN);
                    stream
                });
            assert_eq!(piece(&mut reply).await.unwrap().unwrap(), BEGIN);
            reset.into_iter().for_each(|reason| stream.send_reset(reason));
            order.into_iter().for_each(|order| upstream.order(order));
            assert!(whole(reply).await.is_err(), "{reset:?} {order:?}");
        }
    }
}

#[tokio::test]
async fn an_upstream_that_goes_before_it_answers_is_a_502() {
    let (mut upstream, proxy) = behind().await;
    let front = Front::of(&proxy);
    for order in [Order::GoAway(Reason::NO_ERROR), Order::Close] {
        let (told, _asked) = tokio::join!(front.ask("hello", true), async {
            let asked = upstream.asked().await;
            upstream.order(order);
            asked
        });
        told.says(502, "api_error", "broke off");
    }
    let (told, _asked) = tokio::join!(front.ask("hello", true), async {
        let mut asked = upstream.asked().await;
        asked.refuse(Reason::INTERNAL_ERROR);
        asked
    });
    told.says(502, "api_error", "broke off");
    assert_eq!(proxy.spent().requests, 3, "they may have cost something");
}

#[tokio::test]
async fn a_request_that_was_not_looked_at_is_sent_again() {
    let (mut upstream, proxy) = behind().await;
    let front = Front::of(&proxy);
    let (told, ()) = tokio::join!(front.ask("hello", true), async {
        upstream.asked().await.refuse(Reason::REFUSED_STREAM);
        let mut again = upstream.asked().await;
        assert!(again.body().await.contains("hello"));
        again.say(BEGIN);
    });
    assert_eq!((told.status, told.body.as_str()), (200, BEGIN));
    assert_eq!(proxy.spent().requests, 1);
    // Not for ever.
    let (told, ()) = tokio::join!(front.ask("hello", true), async {
        for _ in 0..3 {
            upstream.asked().await.refuse(Reason::REFUSED_STREAM);
        }
    });
    told.says(502, "api_error", "refused the request");
    assert_eq!(proxy.spent().requests, 1, "it cost nothing");
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_request_behind() {
    let (mut upstream, proxy) = behind().await;
    for front in [Front::of(&proxy), Front::http2(&proxy)] {
        let (mut reply, mut stream) =
            tokio::join!(front.send(Method::POST, "/v1/messages", &[], "{}"), async {
                let mut stream = upstream.asked().await.begin();
                send(&mut stream, BEGIN);
                stream
            });
        piece(&mut reply).await.unwrap().unwrap();
        drop((reply, front));
        let reason = soon("a reset", std::future::poll_fn(|context| stream.poll_reset(context))).await;
        assert_eq!(reason.unwrap(), Reason::CANCEL);
    }
}

#[tokio::test]
async fn more_at_once_than_an_upstream_takes_on_a_connection() {
    let (mut upstream, proxy) = behind().await;
    let front = std::sync::Arc::new(Front::of(&proxy));
    let mut asking = JoinSet::new();
    for _ in 0..150 {
        let front = front.clone();
        asking.spawn(async move { front.ask("hello", true).await.status });
    }
    let mut all = Vec::new();
    for _ in 0..150 {
        all.push(upstream.asked().await);
    }
    all.iter_mut().for_each(|asked| asked.say(BEGIN));
    while let Some(status) = asking.join_next().await {
        assert_eq!(status.unwrap(), 200);
    }
}

/// Sends until nothing goes on any more: all windows and sockets on the way are full.
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
async fn clients_that_do_not_read_keep_no_other_waiting() {
    let (mut upstream, proxy) = behind().await;
    let front = Front::of(&proxy);
    let mut unread = Vec::new();
    for _ in 0..4 {
        let (reply, mut stream) = tokio::join!(front.send(Method::POST, "/v1/messages", &[], "{}"), async {
            upstream.asked().await.begin()
        });
        soon("a full way", fill(&mut stream)).await;
        unread.push((reply, stream));
    }
    let (told, ()) = tokio::join!(front.ask("hello", true), async { upstream.asked().await.say(BEGIN) });
    assert_eq!(told.body, BEGIN);
}

#[tokio::test]
async fn an_upstream_with_tls_that_knows_only_http1_is_spoken_to_so() {
    let authority = Authority::new();
    for protocols in [&["http/1.1"][..], &[]] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = format!("https://{}", listener.local_addr().unwrap());
        let proxy = create_anthropic_proxy(authority.config(&upstream)).await.unwrap();
        let front = Front::http2(&proxy);
        let (reply, ()) = tokio::join!(front.send(Method::GET, "/v1/models", &[], ""), async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = authority.acceptor(protocols).accept(stream).await.unwrap();
            let mut asked = vec![0; 24];
            stream.read_exact(&mut asked).await.unwrap();
            assert_eq!(asked, b"GET /v1/models HTTP/1.1\r");
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
                .await
                .unwrap();
            stream.shutdown().await.unwrap();
        });
        let told = whole(reply).await.unwrap();
        assert_eq!((told.body.as_str(), told.headers.get("connection")), ("ok", None));
    }
}

#[tokio::test]
async fn an_upstream_that_nobody_vouches_for_gets_nothing() {
    let (ours, other) = (Authority::new(), Authority::new());
    let upstream = Http2::listen(&ours).await;
    for authorities in [None, Some(Authorities::read(other.file()).unwrap())] {
        let proxy =
            create_anthropic_proxy(ProxyConfig { authorities, ..config(&upstream.url()) }).await.unwrap();
        Front::of(&proxy).ask("hello", false).await.says(502, "api_error", "certificate");
        assert_eq!(proxy.spent().requests, 0);
    }
}

#[tokio::test]
async fn authorities_are_for_tls_only() {
    let authority = Authority::new();
    let error = create_anthropic_proxy(authority.config("http://127.0.0.1:1")).await.unwrap_err().to_string();
    assert!(error.contains("http://127.0.0.1:1") && error.contains("use https"), "{error}");
}

/// Chat Completions in pieces of any size: what comes of them is the same.
#[tokio::test]
async fn a_translated_stream_is_the_same_however_it_is_cut() {
    let authority = Authority::new();
    let mut upstream = Http2::listen(&authority).await;
    let proxy = create_openai_proxy(authority.config(&upstream.url())).await.unwrap();
    let delta = |delta| json!({ "id": "c", "model": "m", "choices": [{ "index": 0, "delta": delta }] });
    let call = |arguments: &str| json!({ "tool_calls": [{ "index": 0, "id": "call_1", "type": "function", "function": { "name": "Read", "arguments": arguments } }] });
    let mut text = String::new();
    for said in [
        json!({ "role": "assistant", "content": "ä 日本 " }),
        json!({ "content": "\"x\"\n" }),
        call("{\"file\":"),
        call("\"日\"}"),
    ] {
        text.push_str(&format!("data: {}\r\n\r\n: ping\n\n", delta(said)));
    }
    text.push_str(
        "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    );
    text.push_str("data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n");
    let front = Front::http2(&proxy);
    let mut first = None;
    for step in [text.len(), 1, 2, 3, 7, 31, 64, 200] {
        let (told, ()) = tokio::join!(front.ask("hello", true), async {
            let mut asked = upstream.asked().await;
            let mut stream = asked.begin();
            for piece in text.as_bytes().chunks(step) {
                stream.send_data(piece.to_vec().into(), false).unwrap();
            }
            stream.send_data(Default::default(), true).unwrap();
        });
        assert_eq!(told.joined("/delta/text"), "ä 日本 \"x\"\n");
        assert_eq!(told.joined("/delta/partial_json"), "{\"file\":\"日\"}");
        // The id of a message is made up for each.
        let events: Vec<_> =
            told.events().into_iter().filter(|event| event["type"] != "message_start").collect();
        assert_eq!(first.get_or_insert_with(|| events.clone()), &events, "in pieces of {step}");
    }
    assert_eq!(proxy.spent().usage.output, 7 * 8);
}

#[tokio::test]
async fn a_translated_stream_that_breaks_off_does_so_here() {
    let authority = Authority::new();
    let mut upstream = Http2::listen(&authority).await;
    let proxy = create_openai_proxy(authority.config(&upstream.url())).await.unwrap();
    let front = Front::of(&proxy);
    for reason in [Reason::NO_ERROR, Reason::INTERNAL_ERROR] {
        let body = message("hello", true).to_string();
        let (mut reply, mut stream) =
            tokio::join!(front.send(Method::POST, "/v1/messages", &[], body), async {
                let mut stream = upstream.asked().await.begin();
                send(
                    &mut stream,
                    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"he\"}}]}\n\n",
                );
                stream
            });
        assert!(
            String::from_utf8_lossy(&piece(&mut reply).await.unwrap().unwrap()).contains("message_start")
        );
        stream.send_reset(reason);
        assert!(whole(reply).await.is_err(), "{reason:?}");
    }
}
