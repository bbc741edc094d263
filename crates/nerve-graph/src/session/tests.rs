use std::collections::BTreeMap;

use nerve_node::bash::BashNode;
use nerve_node::command::NodeRef;
use nerve_node::error::ErrorKind;
use nerve_node::events::Publisher;
use nerve_node::terminal::Journal;

use super::*;

fn node() -> Executable {
    let events = Publisher::new(Clock::start());
    let at = NodeRef { session: None, node: "n".to_string() };
    Executable::from(Arc::new(BashNode::new(at, None, BTreeMap::new(), Journal::disabled(), events)))
}

fn is(session: &Session, node: &Executable) -> bool {
    session.get("n").is_some_and(|there| there.is_same(node))
}

#[tokio::test]
async fn late_stop_does_not_take_name_from_new_node() {
    let session = Session::new("s");
    let (old, new) = (node(), node());
    let reservation = session.reserve("n").unwrap();
    assert!(session.fill("n", reservation, old.clone()));
    assert_eq!(session.reserve("n").unwrap_err().kind, ErrorKind::AlreadyExists);
    old.stop("test").await;
    assert_eq!(old.state(), StateName::Stopped);
    let reservation = session.reserve("n").unwrap();
    assert!(!session.forget("n", &old));
    assert!(session.fill("n", reservation, new.clone()), "the reservation is not the old node's");
    assert!(!session.forget("n", &old));
    assert!(is(&session, &new));
    assert!(session.forget("n", &new));
    assert_eq!(session.find("n").unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn only_the_holder_fills_or_releases_a_reservation() {
    let session = Session::new("s");
    let first = session.reserve("n").unwrap();
    session.release("n", first);
    let second = session.reserve("n").unwrap();
    assert!(!session.fill("n", first, node()), "reserved by another caller");
    session.release("n", first);
    let there = node();
    assert!(session.fill("n", second, there.clone()));
    assert!(!session.fill("n", first, node()));
    session.release("n", second);
    assert!(is(&session, &there), "the reservation was used up");
    let third = session.reserve("m").unwrap();
    session.close_registration();
    assert!(!session.fill("m", third, node()), "the session is closed");
}
