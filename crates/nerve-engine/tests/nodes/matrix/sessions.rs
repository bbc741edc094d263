//! Sessions, their manager and their store.

use std::sync::Arc;

use nerve_agent::parse::ParserKind;
use nerve_api::request::{CommandLine, NodeSpec};
use nerve_api::value::NodeState;
use nerve_graph::session::manager::SessionManager;
use nerve_graph::session::store::{NodeRecord, SessionMetadata, SessionStore};
use nerve_node::Node;
use nerve_node::error::ErrorKind;
use nerve_types::TsNs;

use super::{Fixture, LIMIT};

#[tokio::test]
#[expect(deprecated, reason = "the deprecated API is under test")]
async fn deprecated_add_registers_node() {
    let fixture = Fixture::new();
    let node = fixture.bash("sh").await;
    fixture.session.add("shell", Arc::new(node)).unwrap();
    assert_eq!(
        fixture.session.list_channels(),
        ["shell"],
        "the given name takes precedence over the node's id"
    );
    assert_eq!(fixture.session.get_channel("shell").unwrap().id(), "sh");
    assert!(fixture.session.contains("shell") && fixture.session.len() == 1);
    fixture.session.close(None).await.unwrap();
    assert!(fixture.session.is_empty());
}

#[tokio::test]
async fn registered_node_is_found() {
    let fixture = Fixture::new();
    let node = fixture.bash("sh").await;
    fixture.session.register(Arc::new(node.clone()), None).unwrap();
    let found = fixture.session.get("sh").unwrap();
    assert_eq!((found.id(), found.info().state), ("sh", NodeState::Ready));
    let context = fixture.context().with_input("echo same node");
    assert_eq!(found.execute(&context).await.unwrap()["text"], "same node");
    assert!(node.read(None).await.unwrap().contains("same node"));
    assert!(fixture.session.get("other").is_none());
    fixture.session.stop().await;
    assert_eq!(fixture.session.get_node_info("sh").unwrap().state, NodeState::Stopped);
}

#[tokio::test]
#[expect(deprecated, reason = "the deprecated API is under test")]
async fn deprecated_send_executes_on_node() {
    let fixture = Fixture::new();
    let node = fixture.bash("sh").await;
    fixture.session.add("shell", Arc::new(node)).unwrap();
    let sent = fixture.session.send("shell", "echo sent", Some(ParserKind::None), Some(LIMIT)).await.unwrap();
    assert_eq!((sent["text"].as_str(), sent["success"].as_bool()), (Some("sent"), Some(true)), "{sent:#}");
    let error = fixture.session.send("other", "echo x", None, None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    fixture.session.close(Some("shell")).await.unwrap();
    assert_eq!(
        fixture.session.send("shell", "echo x", None, None).await.unwrap_err().kind,
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn session_is_created_and_closed() {
    let fixture = Fixture::new();
    let manager = SessionManager::new(fixture.factory.clone());
    let session = manager.create("review", "code review".into(), vec!["rust".into()]).unwrap();
    session.register(Arc::new(fixture.bash("sh").await), None).unwrap();
    let info = manager.get(Some("review")).unwrap().info();
    assert_eq!(
        (info.description.as_str(), &info.tags[..], &info.nodes[..]),
        ("code review", &["rust".to_string()][..], &["sh".to_string()][..])
    );
    assert_eq!(
        manager.create("review", String::new(), Vec::new()).unwrap_err().kind,
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        manager.create("Not A Name", String::new(), Vec::new()).unwrap_err().kind,
        ErrorKind::InvalidRequest
    );
    let node = session.get("sh").unwrap();
    manager.close("review").await.unwrap();
    assert_eq!(node.info().state, NodeState::Stopped, "the node survived its session");
    assert!(manager.find_by_name("review").is_none());
}

#[tokio::test]
async fn sessions_are_listed() {
    let fixture = Fixture::new();
    let manager = SessionManager::new(fixture.factory.clone());
    let names = |manager: &SessionManager| -> Vec<String> {
        manager.list().iter().map(|session| session.name().to_string()).collect()
    };
    assert_eq!(names(&manager), ["default"]);
    for name in ["two", "one"] {
        let session = manager.create(name, String::new(), Vec::new()).unwrap();
        session.register(Arc::new(fixture.bash("sh").await), None).unwrap();
    }
    assert_eq!(names(&manager), ["default", "one", "two"]);
    let nodes: Vec<_> = manager.list().iter().filter_map(|session| session.get("sh")).collect();
    assert_eq!(nodes.len(), 2, "names are scoped to sessions");
    manager.close_all().await;
    assert!(nodes.iter().all(|node| node.info().state == NodeState::Stopped));
}

fn metadata(id: &str, tags: &[&str]) -> SessionMetadata {
    let spec = NodeSpec {
        command: Some(CommandLine::Argv(super::BASH.map(String::from).to_vec())),
        cols: Some(100),
        ..NodeSpec::new("sh")
    };
    SessionMetadata {
        id: id.into(),
        name: format!("name-of-{id}"),
        server: "test".into(),
        description: "größer".into(),
        tags: tags.iter().map(ToString::to_string).collect(),
        created_at: TsNs(1_790_000_000_000_000_000),
        updated_at: TsNs(1_790_000_001_000_000_000),
        nodes: vec![NodeRecord { spec, env_omitted: Vec::new(), last: None }],
        ledger: Default::default(),
        graphs: Vec::new(),
    }
}

#[test]
fn store_is_saved_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nerve/sessions.json");
    let (mut store, report) = SessionStore::load(&path).unwrap();
    assert!(store.list().is_empty() && report.problem.is_none(), "{report:?}");
    store.add(metadata("one", &[])).unwrap();
    store.add(metadata("two", &[])).unwrap();
    store.save().unwrap();
    let (mut reloaded, _) = SessionStore::load(&path).unwrap();
    assert_eq!(reloaded.get("one"), Some(&metadata("one", &[])));
    assert_eq!(reloaded.list().len(), 2);
    reloaded.remove("one");
    reloaded.save().unwrap();
    let (remaining, _) = SessionStore::load(&path).unwrap();
    assert_eq!(remaining.list().iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["two"]);
}

#[test]
fn store_finds_sessions_by_tag_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.json");
    let (mut store, _) = SessionStore::load(&path).unwrap();
    store.add(metadata("one", &["rust", "work"])).unwrap();
    store.add(metadata("two", &["play"])).unwrap();
    store.save().unwrap();
    let (store, _) = SessionStore::load(&path).unwrap();
    let ids = |found: Vec<&SessionMetadata>| -> Vec<String> {
        found.iter().map(|found| found.id.clone()).collect()
    };
    assert_eq!(ids(store.find_by_tag("work")), ["one"]);
    assert_eq!(ids(store.find_by_tag("none")), Vec::<String>::new());
    assert_eq!(store.find_by_name("name-of-two").unwrap().id, "two");
    let one = store.get("one").unwrap();
    assert_eq!(
        (one.description.as_str(), one.created_at, one.nodes[0].spec.cols),
        ("größer", TsNs(1_790_000_000_000_000_000), Some(100))
    );
}
