//! The order of replies and events, and slow clients.

use nerve_api::{Event, EventKind};
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::{Semaphore, broadcast};

use super::*;

struct Fixture {
    engine: broadcast::Sender<Event>,
    hub: Hub,
    out: SendQueue,
    client: DuplexStream,
}

/// Creates a client whose stream holds `room` bytes.
fn fixture(room: usize) -> Fixture {
    let (engine, receiver) = broadcast::channel(8192);
    let hub = Hub::new(receiver);
    let (client, server) = tokio::io::duplex(room);
    let out = SendQueue::new(Box::new(server), hub.subscribe(Filter::default(), None));
    Fixture { engine, hub, out, client }
}

impl Fixture {
    fn publish(&self, kind: EventKind) {
        let event = Event {
            kind,
            node_id: Some("n".into()),
            session_id: None,
            emitted_at: Default::default(),
            seq: 1,
        };
        self.engine.send(event).unwrap();
        self.hub.publish_pending();
    }

    fn ready(&self) {
        self.publish(EventKind::NodeReady { evidence: String::new() });
    }

    fn push(&mut self, line: &str, after_send: AfterSend) {
        self.out.push(Reply {
            line: format!("{line}\n").into_bytes(),
            permits: Permits::default(),
            after_send,
        });
    }

    /// Returns what the client receives of all queued lines, one word per line.
    async fn received(mut self) -> Vec<String> {
        let written = async {
            self.out.write_all().await.unwrap();
            self.out.finish().await.unwrap();
        };
        let mut text = String::new();
        let (_, read) = tokio::join!(written, self.client.read_to_string(&mut text));
        read.unwrap();
        let word = |line: &str| match serde_json::from_str::<serde_json::Value>(line) {
            Ok(event) => {
                let request = event["data"]["request_id"].as_str().unwrap_or_default();
                format!("{}{request}", event["event_type"].as_str().unwrap())
            }
            Err(_) => line.to_string(),
        };
        text.lines().map(word).collect()
    }
}

#[tokio::test]
async fn events_precede_the_reply_they_led_to() {
    let mut fixture = fixture(7);
    fixture.ready();
    fixture.push("first", AfterSend::Nothing);
    fixture.push("second", AfterSend::Nothing);
    fixture.out.gather();
    fixture.ready();
    fixture.push("third", AfterSend::Nothing);
    assert_eq!(fixture.received().await, ["NODE_READY", "first", "second", "NODE_READY", "third"]);
}

#[tokio::test]
async fn reply_does_not_wait_for_later_events() {
    let mut fixture = fixture(1 << 20);
    for _ in 0..2 * MAX_BATCH_LINES {
        fixture.ready();
    }
    fixture.push("reply", AfterSend::Nothing);
    fixture.out.gather();
    assert!(!fixture.out.has_room() && fixture.out.queued_replies() == 1);
    for _ in 0..500 {
        fixture.ready();
    }
    let received = fixture.received().await;
    assert_eq!(received.iter().position(|line| line == "reply"), Some(2 * MAX_BATCH_LINES));
}

#[tokio::test]
async fn permit_is_held_until_reply_is_written() {
    let mut fixture = fixture(10);
    let permits = Arc::new(Semaphore::new(2));
    for line in ["12345678\n", "123456789012\n"] {
        let in_flight = permits.clone().try_acquire_owned().ok();
        let line = line.as_bytes().to_vec();
        fixture.out.push(Reply {
            line,
            permits: Permits { in_flight, large: None },
            after_send: AfterSend::Nothing,
        });
    }
    fixture.out.gather();
    let stuck = tokio::time::timeout(std::time::Duration::from_millis(1), fixture.out.write()).await;
    assert!(stuck.is_err());
    assert_eq!(permits.available_permits(), 1, "the first is written, the second is not");
    let (written, mut left) = (fixture.out.write(), [0; 22]);
    let (written, read) = tokio::join!(written, fixture.client.read_exact(&mut left));
    assert!(written.is_ok() && read.is_ok());
    assert_eq!(permits.available_permits(), 2);
    assert_eq!(&left, b"12345678\n123456789012\n");
}

#[tokio::test]
async fn chunks_carry_request_id_until_reply() {
    let mut fixture = fixture(1 << 20);
    let chunk = |tag| EventKind::OutputChunk { turn: 1, chunk: "x".to_string(), request_id: None, tag };
    fixture.out.tag(7, RequestId::Number(3));
    for tag in [Some(7), Some(8), None] {
        fixture.publish(chunk(tag));
    }
    fixture.push("answer", AfterSend::EndTurn(7));
    fixture.out.gather();
    fixture.publish(chunk(Some(7)));
    let received = fixture.received().await;
    assert_eq!(received, ["OUTPUT_CHUNK3", "OUTPUT_CHUNK", "OUTPUT_CHUNK", "answer", "OUTPUT_CHUNK"]);
}

#[tokio::test]
async fn subscribe_reply_switches_event_queue() {
    let mut fixture = fixture(1 << 20);
    fixture.ready();
    let filter = Filter { node: Some("other".into()), ..Filter::default() };
    let other = fixture.out.resubscribe(&fixture.hub, filter, None);
    fixture.push("subscribed", AfterSend::Subscribe(other));
    fixture.out.gather();
    assert!(fixture.out.is_listening());
    fixture.ready();
    assert_eq!(fixture.received().await, ["NODE_READY", "subscribed"]);
}

#[tokio::test]
async fn no_event_is_sent_before_and_after_subscribe_reply() {
    let mut fixture = fixture(1 << 20);
    let first = fixture.out.resubscribe(&fixture.hub, Filter::default(), None);
    fixture.ready();
    let second = fixture.out.resubscribe(&fixture.hub, Filter::default(), None);
    fixture.ready();
    fixture.push("first", AfterSend::Subscribe(first));
    fixture.push("second", AfterSend::Subscribe(second));
    assert_eq!(fixture.received().await, ["first", "NODE_READY", "second", "NODE_READY"]);
}
