//! Rows of sessions, their manager and their persistence.

use std::sync::Arc;

use nerve_agent::parse::ParserKind;
use nerve_core::command::{CommandLine, StateName};
use nerve_core::error::ErrorKind;
use nerve_core::session::manager::SessionManager;
use nerve_core::session::store::{NodeRecord, SessionMetadata, SessionStore};
use nerve_types::TsNs;

use super::{Bench, LIMIT};

/// Row: Session.add() → test_session_add_compat.
#[tokio::test]
#[expect(deprecated, reason = "the older words are what is tested")]
async fn test_session_add_compat() {
    let bench = Bench::new();
    let node = bench.bash("sh").await;
    bench.session.add("shell", Arc::new(node)).unwrap();
    assert_eq!(bench.session.list_channels(), ["shell"], "the name given counts, not the node's id");
    assert_eq!(bench.session.get_channel("shell").unwrap().id(), "sh");
    assert!(bench.session.contains("shell") && bench.session.len() == 1);
    bench.session.close(None).await.unwrap();
    assert!(bench.session.is_empty());
}

/// Row: Session.get() → test_session_get.
#[tokio::test]
async fn test_session_get() {
    let bench = Bench::new();
    let node = bench.bash("sh").await;
    bench.session.register(Arc::new(node.clone()), None).unwrap();
    let found = bench.session.get("sh").unwrap();
    assert_eq!((found.id(), found.info().state), ("sh", StateName::Ready));
    let context = bench.context().with_input("echo same node");
    assert_eq!(found.execute(&context).await.unwrap()["text"], "same node");
    assert!(node.read().await.unwrap().contains("same node"));
    assert!(bench.session.get("other").is_none());
    bench.session.stop().await;
    assert_eq!(bench.session.get_node_info("sh").unwrap().state, StateName::Stopped);
}

/// Row: Session.send() → test_session_send_compat.
#[tokio::test]
#[expect(deprecated, reason = "the older words are what is tested")]
async fn test_session_send_compat() {
    let bench = Bench::new();
    let node = bench.bash("sh").await;
    bench.session.add("shell", Arc::new(node)).unwrap();
    let sent = bench.session.send("shell", "echo sent", Some(ParserKind::None), Some(LIMIT)).await.unwrap();
    assert_eq!((sent["text"].as_str(), sent["success"].as_bool()), (Some("sent"), Some(true)), "{sent:#}");
    let nobody = bench.session.send("other", "echo x", None, None).await.unwrap_err();
    assert_eq!(nobody.kind, ErrorKind::NotFound);
    bench.session.close(Some("shell")).await.unwrap();
    assert_eq!(
        bench.session.send("shell", "echo x", None, None).await.unwrap_err().kind,
        ErrorKind::NotFound
    );
}

/// Row: SessionManager.create_session() → test_managers.
#[tokio::test]
async fn test_create_session() {
    let bench = Bench::new();
    let manager = SessionManager::new(bench.factory.clone());
    let session = manager.create("review", "code review".into(), vec!["rust".into()]).unwrap();
    session.register(Arc::new(bench.bash("sh").await), None).unwrap();
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
    assert_eq!(node.info().state, StateName::Stopped, "its nodes end with it");
    assert!(manager.find_by_name("review").is_none());
}

/// Row: SessionManager.list_sessions() → test_managers.
#[tokio::test]
async fn test_list_sessions() {
    let bench = Bench::new();
    let manager = SessionManager::new(bench.factory.clone());
    let names = |manager: &SessionManager| -> Vec<String> {
        manager.list().iter().map(|session| session.name().to_string()).collect()
    };
    assert_eq!(names(&manager), ["default"]);
    for name in ["two", "one"] {
        let session = manager.create(name, String::new(), Vec::new()).unwrap();
        session.register(Arc::new(bench.bash("sh").await), None).unwrap();
    }
    assert_eq!(names(&manager), ["default", "one", "two"]);
    let nodes: Vec<_> = manager.list().iter().filter_map(|session| session.get("sh")).collect();
    assert_eq!(nodes.len(), 2, "one name in two sessions");
    manager.close_all().await;
    assert!(nodes.iter().all(|node| node.info().state == StateName::Stopped));
}

fn metadata(id: &str, tags: &[&str]) -> SessionMetadata {
    SessionMetadata {
        id: id.into(),
        name: format!("name-of-{id}"),
        server: "test".into(),
        description: "größer".into(),
        tags: tags.iter().map(ToString::to_string).collect(),
        created_at: TsNs(1_790_000_000_000_000_000),
        updated_at: TsNs(1_790_000_001_000_000_000),
        nodes: vec![NodeRecord {
            name: "sh".into(),
            backend: Some("pty".into()),
            command: Some(CommandLine::Argv(super::BASH.map(String::from).to_vec())),
            cols: Some(100),
            ..NodeRecord::default()
        }],
        graphs: Vec::new(),
    }
}

/// Row: SessionStore.save/load → test_persistence.
#[test]
fn test_session_store_save_load() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nerve/sessions.json");
    let (mut store, report) = SessionStore::load(&path).unwrap();
    assert!(store.list().is_empty() && report.problem.is_none(), "{report:?}");
    store.add(metadata("one", &[])).unwrap();
    store.add(metadata("two", &[])).unwrap();
    store.save().unwrap();
    let (mut again, _) = SessionStore::load(&path).unwrap();
    assert_eq!(again.get("one"), Some(&metadata("one", &[])));
    assert_eq!(again.list().len(), 2);
    again.remove("one");
    again.save().unwrap();
    let (last, _) = SessionStore::load(&path).unwrap();
    assert_eq!(last.list().iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["two"]);
}

/// Row: SessionMetadata → test_persistence.
#[test]
fn test_session_metadata() {
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
        (one.description.as_str(), one.created_at, one.nodes[0].cols),
        ("größer", TsNs(1_790_000_000_000_000_000), Some(100))
    );
}
