//! Published events.

use nerve_api::RunIds;
use nerve_api::event::EventKind;
use nerve_api::request::NodeRef;
use nerve_host::clock::Clock;
use nerve_node::events::Publisher;

#[test]
fn events_have_the_session_and_node_that_they_concern() {
    let publisher = Publisher::new(Clock::start());
    let mut events = publisher.subscribe();
    let node = NodeRef { session: None, node: "a".to_string() };
    publisher.publish(Some(&node), EventKind::NodeReady { evidence: String::new() });
    publisher.publish(None, EventKind::ServerShutdown { keep_nodes: false });
    for node_id in ["b", ""] {
        let (run, step_id) = (RunIds::default(), "s".to_string());
        let (attempt, queued, node_id) = (1, false, node_id.to_string());
        let kind = EventKind::StepStarted { run, step_id, node_id, attempt, queued };
        publisher.publish_in("work", kind);
    }
    for expected in [
        (1, Some("a"), Some("default")),
        (2, None, None),
        (3, Some("b"), Some("work")),
        (4, None, Some("work")),
    ] {
        let event = events.try_recv().unwrap();
        assert_eq!((event.seq, event.node_id.as_deref(), event.session_id.as_deref()), expected);
    }
}
