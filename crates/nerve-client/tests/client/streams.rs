use nerve_api::EventType;
use nerve_api::request::Subscribe;
use nerve_client::{ExecuteStream, StreamItem};
use serde_json::json;

use super::connected_client;

/// Returns the chunks joined by `|`, and the response's text.
async fn collect(mut stream: ExecuteStream) -> (String, String) {
    let mut chunks = Vec::new();
    loop {
        match stream.next().await.unwrap().unwrap() {
            StreamItem::Chunk(chunk) => chunks.push(chunk),
            StreamItem::Missed(missed) => chunks.push(format!("missed {missed}")),
            StreamItem::Response(data) => {
                assert!(stream.next().await.is_none());
                return (chunks.join("|"), data.response.text);
            }
        }
    }
}

#[tokio::test]
async fn chunks_precede_the_response() {
    let (client, mut peer) = connected_client().await;
    let server = async {
        let request = peer.request().await;
        assert_eq!(request["params"]["stream"], true);
        for chunk in ["one ", "two ", "three"] {
            peer.send_chunk("a", json!({"turn": 4, "chunk": chunk})).await;
        }
        peer.answer(&request, json!({"response": {"text": "one two three"}, "node_id": "a", "turn": 4}))
            .await;
        // A chunk of the next turn, directly after the response.
        peer.send_chunk("a", json!({"turn": 5, "chunk": "later"})).await;
    };
    let client_side = async {
        let node = client.node("a", None);
        let stream = node.execute_stream("count").await.unwrap();
        collect(stream).await
    };
    let ((chunks, text), ()) = tokio::join!(client_side, server);
    assert_eq!((chunks.as_str(), text.as_str()), ("one |two |three", "one two three"));
}

#[tokio::test]
async fn chunks_of_other_turns_are_excluded() {
    let (client, mut peer) = connected_client().await;
    let server = async {
        let request = peer.request().await;
        let ours = request["request_id"].clone();
        peer.send_chunk("b", json!({"chunk": "another node"})).await;
        peer.send_chunk("a", json!({"chunk": "another request", "request_id": "77"})).await;
        peer.send(json!({"type": "event", "event_type": "OUTPUT_CHUNK", "node_id": "a", "session_id": "other", "data": {"chunk": "another session"}}))
            .await;
        peer.send(json!({"type": "event", "event_type": "NODE_BUSY", "node_id": "a", "data": {"chunk": "no chunk"}})).await;
        peer.send_chunk("a", json!({"chunk": "ours", "request_id": ours})).await;
        peer.answer(&request, json!({"response": {"text": "done"}})).await;
    };
    let client_side = async {
        let node = client.node("a", Some("work"));
        collect(node.execute_stream("x").await.unwrap()).await
    };
    let ((chunks, text), ()) = tokio::join!(client_side, server);
    assert_eq!((chunks.as_str(), text.as_str()), ("ours", "done"));
}

#[tokio::test]
async fn stream_outlives_client_and_node() {
    let (client, mut peer) = connected_client().await;
    let stream = client.node("a", None).execute_stream("x").await.unwrap();
    drop(client);
    let server = async {
        let request = peer.request().await;
        peer.send_chunk("a", json!({"chunk": "c"})).await;
        peer.answer(&request, json!({"response": {"text": "t"}})).await;
    };
    let (result, ()) = tokio::join!(collect(stream), server);
    assert_eq!(result, ("c".into(), "t".into()));
}

#[tokio::test]
async fn late_reader_misses_chunks_and_is_notified() {
    let (client, mut peer) = connected_client().await;
    let node = client.node("a", None);
    let stream = node.execute_stream("x").await.unwrap();
    let request = peer.request().await;
    for number in 0..3_000 {
        peer.send_chunk("a", json!({"chunk": number.to_string()})).await;
    }
    peer.answer(&request, json!({"response": {"text": "whole"}})).await;
    super::wait_until("the answer is read", || client.in_flight() == 0).await;
    let (chunks, text) = collect(stream).await;
    assert!(chunks.starts_with("0|1|") && chunks.ends_with("|1023|missed 1976"), "{chunks}");
    assert_eq!(text, "whole");
}

#[tokio::test]
async fn lost_chunks_are_reported_where_they_were() {
    let (client, mut peer) = connected_client().await;
    let node = client.node("a", None);
    let mut stream = node.execute_stream("x").await.unwrap();
    let request = peer.request().await;
    for number in 0..1_030 {
        peer.send_chunk("a", json!({"chunk": number.to_string()})).await;
    }
    let (pong, ()) = tokio::join!(client.ping(), async {
        peer.expect("PING", json!({}), json!({"pong": true})).await;
    });
    pong.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), StreamItem::Chunk("0".into()));
    peer.send_chunk("a", json!({"chunk": "end"})).await;
    peer.answer(&request, json!({"response": {"text": "whole"}})).await;
    let (chunks, _) = collect(stream).await;
    assert!(chunks.starts_with("1|2|") && chunks.ends_with("|1023|missed 6|end"), "{chunks}");
}

#[tokio::test]
async fn errors_end_a_stream() {
    let (client, mut peer) = connected_client().await;
    let server = async {
        let request = peer.request().await;
        peer.send_chunk("a", json!({"chunk": "begun"})).await;
        peer.send(json!({"type": "result", "success": false, "error": "timed out", "data": {"error_type": "timeout"}, "request_id": request["request_id"]}))
            .await;
        peer.request().await;
        drop(peer);
    };
    let client_side = async {
        let node = client.node("a", None);
        let mut stream = node.execute_stream("x").await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap(), StreamItem::Chunk("begun".into()));
        let error = stream.next().await.unwrap().unwrap_err();
        assert_eq!(error.server().unwrap().details.error_type.as_str(), "timeout");
        assert!(stream.next().await.is_none());

        let mut stream = node.execute_stream("x").await.unwrap();
        let error = stream.next().await.unwrap().unwrap_err();
        assert!(matches!(error, nerve_client::ClientError::Closed(_)), "{error}");
        assert!(stream.next().await.is_none());
    };
    tokio::join!(server, client_side);
}

#[tokio::test]
async fn subscription_misses_no_event_before_its_answer() {
    let (client, mut peer) = connected_client().await;
    let server = async {
        let request = peer.request().await;
        assert_eq!(
            request["params"],
            json!({"node_id": "a", "types": ["NODE_READY"], "since": 5, "aliases": false})
        );
        peer.send(json!({"type": "event", "event_type": "NODE_READY", "node_id": "a", "data": {}, "emitted_at": "1970-01-01T00:00:01.000Z", "seq": 6})).await;
        peer.answer(&request, json!({"subscribed": true, "seq": 6})).await;
        peer.send(json!({"type": "event", "event_type": "CHANNEL_READY", "node_id": "a", "channel_id": "a", "seq": 7})).await;
    };
    let client_side = async {
        let filter = Subscribe {
            node_id: Some("a".into()),
            types: Some(vec!["NODE_READY".into()]),
            since: Some(5),
            ..Subscribe::default()
        };
        client.subscribe(&filter).await.unwrap()
    };
    let (mut events, ()) = tokio::join!(client_side, server);
    drop((client, peer));
    let seqs =
        [events.next().await.unwrap(), events.next().await.unwrap()].map(|event| (event.seq, event.kind()));
    assert_eq!(seqs, [(6, Some(EventType::NodeReady)), (7, Some(EventType::NodeReady))]);
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn subscription_excludes_events_from_before_its_filter() {
    let (client, mut peer) = connected_client().await;
    let filter = Subscribe { types: Some(vec!["NODE_READY".into()]), ..Subscribe::default() };
    let (events, ()) = tokio::join!(client.subscribe(&filter), async {
        let request = peer.request().await;
        peer.send_event("NODE_BUSY", 3).await;
        peer.answer(&request, json!({"subscribed": true, "seq": 3})).await;
        peer.send_event("NODE_READY", 4).await;
    });
    let event = events.unwrap().next().await.unwrap();
    assert_eq!((event.seq, event.kind()), (4, Some(EventType::NodeReady)));
}

#[tokio::test]
async fn slow_event_reader_gets_number_of_lost_events() {
    let (client, mut peer) = connected_client().await;
    let mut events = client.events();
    for seq in 0..2_000 {
        peer.send(json!({"type": "event", "event_type": "NODE_BUSY", "node_id": "a", "seq": seq})).await;
    }
    let (pong, ()) = tokio::join!(client.ping(), async {
        peer.expect("SUBSCRIBE", json!({}), json!({"subscribed": true, "seq": 2_000})).await;
        peer.expect("PING", json!({}), json!({"pong": true})).await;
    });
    pong.unwrap();
    let first = events.next().await.unwrap();
    assert_eq!((first.kind(), &first.data["dropped"]), (Some(EventType::EventsDropped), &json!(976)));
    assert_eq!(events.next().await.unwrap().seq, 976);
}

#[tokio::test]
async fn first_event_stream_subscribes_to_all_events() {
    let (client, mut peer) = connected_client().await;
    let (mut first, second) = (client.events(), client.events());
    assert_eq!(client.in_flight(), 0);
    let (pong, ()) = tokio::join!(client.ping(), async {
        peer.expect("SUBSCRIBE", json!({}), json!({"subscribed": true, "seq": 4, "server": "x"})).await;
        peer.expect("PING", json!({}), json!({"pong": true})).await;
        peer.send_event("NODE_ACTIVITY", 5).await;
    });
    pong.unwrap();
    assert_eq!(first.next().await.unwrap().kind(), Some(EventType::NodeActivity));
    assert_eq!(client.unmatched_replies(), 0);
    drop((first, second));
    // A selection of the user replaces it.
    let filter = Subscribe { node_id: Some("a".into()), ..Subscribe::default() };
    let (selected, ()) = tokio::join!(client.subscribe(&filter), async {
        let params = json!({"node_id": "a", "aliases": false});
        peer.expect("SUBSCRIBE", params, json!({"subscribed": true, "seq": 5, "server": "x"})).await;
    });
    selected.unwrap();
}

#[tokio::test]
async fn event_stream_keeps_selected_events() {
    let (client, mut peer) = connected_client().await;
    let refused = json!({"type": "result", "success": false, "error": "unknown event", "request_id": "1"});
    let filter = Subscribe { types: Some(vec!["NODE_REDY".to_string()]), ..Subscribe::default() };
    let (outcome, ()) = tokio::join!(client.subscribe(&filter), async {
        assert_eq!(peer.request().await["request_id"], "1");
        peer.send(refused).await;
    });
    assert!(outcome.is_err());
    let filter = Subscribe { node_id: Some("a".into()), ..Subscribe::default() };
    let (selected, ()) = tokio::join!(client.subscribe(&filter), async {
        peer.expect(
            "SUBSCRIBE",
            json!({"node_id": "a", "aliases": false}),
            json!({"subscribed": true, "seq": 5}),
        )
        .await;
    });
    let (_selected, _more) = (selected.unwrap(), client.events());
    let (pong, ()) = tokio::join!(client.ping(), async {
        peer.expect("PING", json!({}), json!({"pong": true})).await;
    });
    pong.unwrap();
}
