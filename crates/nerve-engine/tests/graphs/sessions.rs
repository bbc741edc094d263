//! Sessions: registration and lifecycle of nodes.

use std::sync::Arc;
use std::time::Duration;

use nerve_api::DEFAULT_SESSION;
use nerve_graph::context::RunContext;
use nerve_graph::executable::Executable;
use nerve_graph::policy::{ErrorPolicy, OnError};
use nerve_graph::session::manager::SessionManager;
use nerve_graph::session::{START_STOP_TIMEOUT, Session};
use nerve_graph::{Graph, executable::Target, step::Step};
use nerve_node::context::TurnContext;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::factory::NodeFactory;
use nerve_node::{BoxFuture, Node, NodeFuture};
use nerve_testkit::harness::assert_error;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::{Notes, StatefulNode, chain, constant, echo, error};

#[test]
fn nodes_are_found_by_name() {
    let session = Session::new("s");
    assert!(session.is_empty());
    let node = echo("upper");
    session.register(node.clone(), None).unwrap();
    session.register(node.clone(), Some("loud")).unwrap();
    assert_eq!((session.len(), session.list_nodes()), (2, vec!["loud".to_string(), "upper".into()]));
    assert!(session.contains("loud") && !session.contains("missing"));
    assert!(Arc::ptr_eq(session.get("loud").unwrap().node().unwrap(), &node));
    assert!(session.get("missing").is_none());
    let error = session.find("missing").unwrap_err();
    assert_error(&error, ErrorKind::NotFound, &["loud, upper"]);
    let info = session.get_node_info("loud").unwrap();
    assert_eq!((info.node_id.as_str(), info.kind.as_str(), info.persistent), ("upper", "function", false));
    assert!(session.get_node_info("missing").is_none());
}

#[test]
fn names_are_unique_across_nodes_and_graphs() {
    let session = Session::new("s");
    session.register(Arc::new(Graph::new("work")), None).unwrap();
    let duplicate = session.register(echo("work"), None).unwrap_err();
    assert_error(&duplicate, ErrorKind::AlreadyExists, &["graph 'work'", "'s'"]);
    for bad in ["", "-a", "a-", "A", "a b", "a/b", &"x".repeat(33)] {
        assert_eq!(
            session.register(echo("e"), Some(bad)).unwrap_err().kind,
            ErrorKind::InvalidRequest,
            "{bad:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn removed_node_is_not_stopped() {
    let (session, notes) = (Session::new("s"), Notes::default());
    session.register(StatefulNode::new("desk", &notes), None).unwrap();
    assert_eq!(session.unregister("desk").unwrap().id(), "desk");
    assert!(session.unregister("desk").is_none());
    session.stop().await;
    assert_eq!(notes.all(), [""; 0]);
}

#[tokio::test]
async fn stopped_nodes_release_their_names() {
    let test_env = crate::harness::TestEnv::new();
    let bash =
        test_env.factory.create_bash(test_env.spec("check", nerve_api::value::BackendKind::Bash)).unwrap();
    test_env.session.register(Arc::new(bash.clone()), None).unwrap();
    test_env.session.register(echo("echo"), None).unwrap();
    assert_eq!(test_env.session.list_ready_nodes(), ["check", "echo"]);
    bash.stop("enough").await;
    assert_eq!(test_env.session.list_ready_nodes(), ["echo"]);
    assert_eq!(test_env.session.list_nodes(), ["check", "echo"]);
    test_env.session.register(echo("check"), None).unwrap();
}

#[test]
fn session_dict_has_all_fields() {
    let session = Session::new("work");
    session.describe("of today".into(), vec!["a".into(), "b".into()]);
    session.register(echo("upper"), Some("loud")).unwrap();
    let mut dict = session.to_dict();
    let created = dict["created_at"].take();
    assert!(created.as_str().unwrap() > "2024", "{created}");
    assert_eq!(
        dict,
        json!({
            "id": "work", "name": "work", "description": "of today", "tags": ["a", "b"], "created_at": null,
            "nodes": [{
                "name": "loud", "id": "upper", "type": "function", "state": "ready", "persistent": false, "metadata": {}
            }]
        })
    );
}

/// Creates a session with stateful nodes: directly, in a graph, in a nested graph and as a fallback; `one` several times.
fn session_with_nodes(notes: &Notes) -> Session {
    let session = Session::new("s");
    let one = StatefulNode::new("one", notes);
    let inner =
        chain("inner", [("x", Executable::from(StatefulNode::new("two", notes))), ("y", one.clone().into())]);
    let policy = ErrorPolicy {
        on_error: OnError::Fallback,
        fallback_node: Some(Target::Executable(StatefulNode::new("three", notes).into())),
        ..ErrorPolicy::default()
    };
    let mut outer = Graph::new("outer");
    outer.add_step(Arc::new(inner), Step::new("in")).unwrap();
    outer.add_step(echo("e"), Step::new("f").error_policy(policy)).unwrap();
    session.register(one, None).unwrap();
    session.register(Arc::new(outer), None).unwrap();
    session.register(echo("echo"), None).unwrap();
    session
}

#[tokio::test(start_paused = true)]
async fn nodes_start_and_stop_once_and_concurrently() {
    let notes = Notes::default();
    let session = session_with_nodes(&notes);
    let started = Instant::now();
    session.start().await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 1);
    session.stop().await;
    assert_eq!(started.elapsed().as_secs(), 2);
    let mut all = notes.all();
    all.sort();
    let stop = "stops: its session was stopped";
    assert_eq!(
        all,
        [
            "one starts".to_string(),
            format!("one {stop}"),
            "three starts".into(),
            format!("three {stop}"),
            "two starts".into(),
            format!("two {stop}")
        ]
    );
    assert_eq!(session.len(), 3, "nodes must stay registered");
}

/// A node that fails to start, or hangs.
#[derive(Debug)]
struct Broken {
    id: &'static str,
    hangs: bool,
}

impl Node for Broken {
    fn id(&self) -> &str {
        self.id
    }

    fn kind(&self) -> &'static str {
        "broken"
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn execute<'a>(&'a self, _: &'a TurnContext) -> NodeFuture<'a> {
        Box::pin(async { Err(error("broken")) })
    }

    fn start(&self) -> NodeFuture<'_, ()> {
        Box::pin(async {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            Err(error("cannot start"))
        })
    }

    fn stop<'a>(&'a self, _: &'a str) -> BoxFuture<'a> {
        Box::pin(async {
            assert!(self.hangs, "does not stop either");
            std::future::pending().await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_start_or_stop_is_bounded() {
    let (session, notes) = (Session::new("s"), Notes::default());
    session.register(Arc::new(Broken { id: "bad", hangs: false }), None).unwrap();
    session.register(Arc::new(Broken { id: "stuck", hangs: true }), None).unwrap();
    session.register(StatefulNode::new("good", &notes), None).unwrap();
    let started = Instant::now();
    let failed: Vec<(String, EngineError)> = session.start().await.unwrap_err();
    assert_eq!(started.elapsed().as_secs(), START_STOP_TIMEOUT.as_secs());
    assert_eq!(failed.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["bad", "stuck"]);
    assert_error(&failed[0].1, ErrorKind::Process, &[]);
    assert_error(&failed[1].1, ErrorKind::Timeout, &["60s"]);
    session.stop().await;
    assert_eq!(started.elapsed().as_secs(), 2 * START_STOP_TIMEOUT.as_secs());
    assert_eq!(notes.all(), ["good starts", "good stops: its session was stopped"]);
}

#[tokio::test(start_paused = true)]
#[expect(deprecated, reason = "tests the deprecated names")]
async fn deprecated_names_still_work() {
    let (session, notes) = (Session::new("s"), Notes::default());
    session.add("desk", StatefulNode::new("first", &notes)).unwrap();
    session.add("other", StatefulNode::new("second", &notes)).unwrap();
    assert_eq!(session.get_channel("desk").unwrap().id(), "first");
    assert_eq!(session.list_channels(), ["desk", "other"]);
    assert_eq!(
        session.send("desk", "hello", None, Some(Duration::from_secs(1))).await.unwrap(),
        json!("hello")
    );
    assert_eq!(session.send("missing", "hello", None, None).await.unwrap_err().kind, ErrorKind::NotFound);
    session.close(Some("desk")).await.unwrap();
    assert_eq!(session.close(Some("desk")).await.unwrap_err().kind, ErrorKind::NotFound);
    session.close(None).await.unwrap();
    assert!(session.is_empty());
    assert_eq!(notes.all(), ["first works", "first stops: closed", "second stops: closed"]);
}

#[tokio::test(start_paused = true)]
async fn manager_finds_sessions_by_name() {
    let (manager, notes) = (SessionManager::new(NodeFactory::default()), Notes::default());
    let work = manager.create("work", "of today".into(), vec!["x".into()]).unwrap();
    work.register(StatefulNode::new("desk", &notes), None).unwrap();
    let duplicate = manager.create("work", String::new(), Vec::new()).unwrap_err();
    assert_error(&duplicate, ErrorKind::AlreadyExists, &["session 'work'"]);
    assert_eq!(
        manager.create("No Name", String::new(), Vec::new()).unwrap_err().kind,
        ErrorKind::InvalidRequest
    );
    let names: Vec<String> = manager.list().iter().map(|session| session.name().to_string()).collect();
    assert_eq!(names, [DEFAULT_SESSION, "work"]);
    assert_eq!(manager.get(None).unwrap().name(), DEFAULT_SESSION);
    assert!(manager.find_by_name("work").unwrap().contains("desk"));
    assert!(manager.find_by_name("play").is_none());
    let unknown = manager.get(Some("play")).unwrap_err();
    assert_error(&unknown, ErrorKind::NotFound, &["'play'", "default, work"]);

    manager.close("work").await.unwrap();
    assert_eq!(notes.all(), ["desk stops: its session was deleted"]);
    assert_eq!(manager.close("work").await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(manager.close(DEFAULT_SESSION).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert!(work.register(echo("late"), None).is_err(), "a closed session must reject nodes");
    assert!(!work.contains("late"));
}

#[tokio::test(start_paused = true)]
async fn close_all_stops_sessions_concurrently() {
    let (manager, notes) = (SessionManager::new(NodeFactory::default()), Notes::default());
    for (name, desk) in [("one", "a"), ("two", "b"), ("three", "c")] {
        manager
            .create(name, String::new(), Vec::new())
            .unwrap()
            .register(StatefulNode::new(desk, &notes), None)
            .unwrap();
    }
    // Only in a graph: nothing else would stop it.
    let graph = chain("g", [("x", StatefulNode::new("d", &notes))]);
    manager.get(None).unwrap().register(Arc::new(graph), None).unwrap();
    let started = Instant::now();
    manager.close_all().await;
    assert_eq!(started.elapsed().as_secs(), 1);
    let mut all = notes.all();
    all.sort();
    let stops: Vec<String> =
        ["a", "b", "c", "d"].map(|id| format!("{id} stops: all sessions were closed")).to_vec();
    assert_eq!(all, stops);
}

#[tokio::test]
async fn graphs_use_their_session() {
    let (one, two) = (Session::new("one"), Session::new("two"));
    one.register(constant("n", json!(1)), None).unwrap();
    two.register(constant("n", json!(2)), None).unwrap();
    let mut graph = Graph::new("g");
    graph.add_step_ref("n", Step::new("a")).unwrap();
    assert_eq!(graph.run(&RunContext::new(&one)).await.results["a"], json!(1));
    assert_eq!(graph.run(&RunContext::new(&two)).await.results["a"], json!(2));
}
