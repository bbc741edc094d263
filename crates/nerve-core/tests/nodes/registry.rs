//! The registry of nodes: a name belongs to the node that holds it, not to one that had it before.

use std::collections::BTreeMap;

use nerve_core::clock::Clock;
use nerve_core::command::StateName;
use nerve_core::error::ErrorKind;
use nerve_core::events::Publisher;
use nerve_core::node::Node;
use nerve_core::node::bash::BashNode;
use nerve_core::node::terminal::Journal;
use nerve_core::session::Sessions;
use nerve_term::event::TsNs;

use crate::stage::at;

fn node() -> Node {
    let events = Publisher::new(Clock::start());
    Node::Bash(BashNode::new(at("n"), None, BTreeMap::new(), Journal::off(), events))
}

#[tokio::test]
async fn a_late_stop_does_not_take_the_name_from_a_new_node() {
    let mut sessions = Sessions::new(TsNs(0));
    let (old, new) = (node(), node());
    let reservation = sessions.reserve(&at("n")).unwrap();
    assert!(sessions.fill(&at("n"), reservation, old.clone()));
    assert_eq!(sessions.reserve(&at("n")).unwrap_err().kind, ErrorKind::AlreadyExists);
    old.stop("test").await;
    assert_eq!(old.state(), StateName::Stopped);
    let reservation = sessions.reserve(&at("n")).unwrap();
    sessions.forget(&at("n"), &old);
    assert!(sessions.fill(&at("n"), reservation, new.clone()), "the reservation is not the old node's");
    sessions.forget(&at("n"), &old);
    assert!(sessions.node(&at("n")).unwrap().is_same(&new));
    sessions.forget(&at("n"), &new);
    assert_eq!(sessions.node(&at("n")).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn a_name_is_filled_and_given_back_only_by_who_reserved_it() {
    let mut sessions = Sessions::new(TsNs(0));
    let mut place = at("n");
    place.session = Some("s".into());
    sessions.create("s", String::new(), Vec::new(), TsNs(0)).unwrap();
    let first = sessions.reserve(&place).unwrap();
    sessions.remove("s").unwrap();
    assert!(!sessions.fill(&place, first, node()), "its session is gone");
    sessions.create("s", String::new(), Vec::new(), TsNs(0)).unwrap();
    assert!(!sessions.fill(&place, first, node()), "another session has its name");
    let second = sessions.reserve(&place).unwrap();
    assert!(!sessions.fill(&place, first, node()), "another has reserved it");
    sessions.release(&place, first);
    let there = node();
    assert!(sessions.fill(&place, second, there.clone()));
    assert!(!sessions.fill(&place, first, node()));
    sessions.release(&place, second);
    assert!(sessions.node(&place).unwrap().is_same(&there), "it is no reservation any more");
}
