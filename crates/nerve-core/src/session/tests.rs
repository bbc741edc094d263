use std::collections::BTreeMap;

use super::*;
use crate::command::NodeRef;
use crate::events::Publisher;
use crate::node::bash::BashNode;
use crate::node::terminal::Journal;

fn node() -> NodeHandle {
    let events = Publisher::new(Clock::start());
    let at = NodeRef { session: None, node: "n".to_string() };
    Arc::new(BashNode::new(at, None, BTreeMap::new(), Journal::off(), events))
}

fn is(session: &Session, node: &NodeHandle) -> bool {
    session.get("n").is_some_and(|there| Arc::ptr_eq(&there, node))
}

#[tokio::test]
async fn a_late_stop_does_not_take_the_name_from_a_new_node() {
    let session = Session::new("s");
    let (old, new) = (node(), node());
    let reservation = session.reserve("n").unwrap();
    assert!(session.fill("n", reservation, Arc::clone(&old)));
    assert_eq!(session.reserve("n").unwrap_err().kind, ErrorKind::AlreadyExists);
    old.stop("test").await;
    assert_eq!(state_of(&*old), StateName::Stopped);
    let reservation = session.reserve("n").unwrap();
    assert!(!session.forget("n", &old));
    assert!(session.fill("n", reservation, Arc::clone(&new)), "the reservation is not the old node's");
    assert!(!session.forget("n", &old));
    assert!(is(&session, &new));
    assert!(session.forget("n", &new));
    assert_eq!(session.find("n").unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn a_name_is_filled_and_given_back_only_by_who_reserved_it() {
    let session = Session::new("s");
    let first = session.reserve("n").unwrap();
    session.release("n", first);
    let second = session.reserve("n").unwrap();
    assert!(!session.fill("n", first, node()), "another has reserved it");
    session.release("n", first);
    let there = node();
    assert!(session.fill("n", second, Arc::clone(&there)));
    assert!(!session.fill("n", first, node()));
    session.release("n", second);
    assert!(is(&session, &there), "it is no reservation any more");
    let third = session.reserve("m").unwrap();
    session.close_names();
    assert!(!session.fill("m", third, node()), "its session is closed");
}
