use nerve_api::request::{NodeRef, NodeSpec};
use nerve_host::environment::Environment;
use nerve_node::bash::BashNode;
use nerve_node::error::ErrorKind;
use nerve_node::events::Publisher;
use nerve_node::terminal::AuditLog;
use nerve_node::usage_ledger::UsageLedger;

use super::entry::{EndCause, NodeEntry, ProcessEnd};
use super::*;

fn node() -> Executable {
    let events = Publisher::new(Clock::start());
    let at = NodeRef { session: None, node: "n".to_string() };
    let ledger = UsageLedger::unlimited();
    Executable::from(Arc::new(BashNode::new(
        at,
        None,
        Environment::default(),
        AuditLog::disabled(),
        events,
        ledger,
    )))
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
    assert_eq!(old.state(), NodeState::Stopped);
    let reservation = session.reserve("n").unwrap();
    assert!(!session.forget("n", &old));
    assert!(session.fill("n", reservation, new.clone()), "the reservation is not the old node's");
    assert!(!session.forget("n", &old));
    assert!(is(&session, &new));
    assert!(session.forget("n", &new));
    assert_eq!(session.find("n").unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn only_the_holder_fills_or_releases_a_reservation() {
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

fn entry() -> NodeEntry {
    NodeEntry::new(NodeSpec::at(NodeRef { session: None, node: "n".to_string() }))
}

/// Returns an entry whose process has ended.
fn ended(cause: EndCause) -> NodeEntry {
    let mut entry = entry();
    entry.last.end = Some(ProcessEnd { cause, ..ProcessEnd::lost(TsNs(1), "test") });
    entry
}

fn cause(session: &Session) -> Option<EndCause> {
    session.entry("n")?.last.end.map(|end| end.cause)
}

fn request() -> ProcessEnd {
    ProcessEnd::requested(TsNs(2), "stopped")
}

#[test]
fn starting_node_is_not_stopped() {
    let session = Session::new("s");
    session.set_entry("n", Some(entry()));
    assert_eq!(session.info().stopped, ["n"]);
    let reservation = session.reserve("n").unwrap();
    assert!(session.is_starting("n") && session.stopped().is_empty());
    assert_eq!((session.info().nodes, session.info().stopped), (vec!["n".to_string()], Vec::new()));
    let error = session.remove_stopped("n").unwrap_err();
    assert!(error.kind == ErrorKind::InvalidRequest && error.message.contains("starting"), "{error}");
    session.set_end("n", request());
    assert_eq!(cause(&session), None, "only the end of a node that does not start is set");

    session.release("n", reservation);
    let hint = session.find("n").unwrap_err().hint.unwrap_or_default();
    assert!(hint.contains("`nerve start n --session s`"), "{hint}");
    let hint = session.find("other").unwrap_err().hint.unwrap_or_default();
    assert_eq!(hint, "stopped nodes: n");
    session.remove_stopped("n").unwrap();
    assert_eq!(session.remove_stopped("n").unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn failed_start_does_not_undo_requests() {
    let session = Session::new("s");
    let start = || {
        session.set_entry("n", Some(ended(EndCause::Lost)));
        let (node, reservation) = (node(), session.reserve("n").unwrap());
        assert!(session.fill_with_entry("n", reservation, node.clone(), Some(entry())));
        node
    };
    let node = start();
    assert_eq!(session.remove_stopped("n").unwrap_err().kind, ErrorKind::InvalidRequest, "it runs");
    node.stop("it failed").await;
    assert!(session.restore_entry("n", &node, ended(EndCause::Lost)));
    assert_eq!(cause(&session), Some(EndCause::Lost));
    session.retire("n", &node, request());
    assert_eq!(cause(&session), Some(EndCause::Requested), "the request came before the end of the start");

    let node = start();
    session.request_stop("n", &node);
    node.stop("stopped").await;
    assert!(!session.restore_entry("n", &node, ended(EndCause::Lost)));
    session.retire("n", &node, request());
    assert_eq!(cause(&session), Some(EndCause::Requested));

    let node = start();
    node.stop("it failed").await;
    session.remove_stopped("n").unwrap();
    assert!(!session.restore_entry("n", &node, ended(EndCause::Lost)));
    assert!(session.entry("n").is_none(), "it was removed meanwhile");
}

#[test]
fn request_changes_only_the_end_of_lost_nodes() {
    let session = Session::new("s");
    for (before, after) in [(EndCause::Lost, EndCause::Requested), (EndCause::Exited, EndCause::Exited)] {
        session.set_entry("n", Some(ended(before)));
        session.set_end("n", request());
        assert_eq!(cause(&session), Some(after));
    }
}

#[tokio::test]
async fn oldest_entries_over_the_limit_are_dropped() {
    let session = Session::new("s");
    for at in 0..=entry::MAX_STOPPED as u64 {
        let mut entry = entry();
        entry.last.end = Some(ProcessEnd::lost(TsNs(at), "test"));
        session.set_entry(&format!("n{at}"), Some(entry));
    }
    session.limit_entries();
    assert_eq!(session.stopped().len(), entry::MAX_STOPPED);
    assert!(session.entry("n0").is_none());
    let (node, reservation) = (node(), session.reserve("n").unwrap());
    assert!(session.fill_with_entry("n", reservation, node.clone(), Some(entry())));
    assert_eq!(session.retire("n", &node, request()), ["n1"]);
}
