//! Graphs in the engine: named runs, their status, and resuming them.

use std::path::Path;
use std::time::Duration;

use nerve_api::reply::{RunEnded, RunInfo, RunReply};
use nerve_api::request::{
    AnswerGate, CancelGraph, CreateGraph, CreateSession, DeleteGraph, ExecuteGraph, GetRun, ListSessions,
    ResumeRun, RunGraph, RunOptions, StopSession,
};
use nerve_api::value::RunStatus;
use nerve_api::value::StepState;
use nerve_engine::{Engine, EngineConfig};
use nerve_graph::journal::{Summary, journal_path};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::factory::FactoryConfig;
use nerve_testkit::harness::assert_error;
use serde_json::{Map, Value, json};

use crate::harness::LIMIT;

/// Creates an engine with journals and histories in `folder`.
fn engine(folder: &Path) -> Engine {
    Engine::new(EngineConfig {
        nodes: FactoryConfig {
            server: "test".into(),
            history_dir: Some(folder.join("history")),
            ..FactoryConfig::default()
        },
        runs_dir: Some(folder.join("runs")),
        sessions_file: Some(folder.join("sessions.json")),
        ..EngineConfig::default()
    })
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work).await.unwrap()
}

fn object(graph: Value) -> Map<String, Value> {
    graph.as_object().unwrap().clone()
}

async fn execute(engine: &Engine, graph: Value, run: &str, detach: bool) -> Result<RunReply, EngineError> {
    let run_id = Some(run.to_string());
    let options = RunOptions { run_id, ..RunOptions::default() };
    let request = ExecuteGraph { definition: object(graph), options, detach };
    within(engine.execute_graph(request, Default::default())).await
}

async fn resume(engine: &Engine, run: &str) -> Result<RunReply, EngineError> {
    let request = ResumeRun { run_id: run.into(), ..ResumeRun::default() };
    within(engine.resume_run(request, Default::default())).await
}

async fn cancel(engine: &Engine, id: &str) -> Result<Vec<String>, EngineError> {
    let request = CancelGraph { run_id: Some(id.into()), graph_id: None };
    within(engine.cancel_graph(request, Default::default())).await.map(|cancelled| cancelled.runs)
}

async fn create_graph(engine: &Engine, graph: Value) -> Result<(), EngineError> {
    let request = CreateGraph { definition: object(graph), session_id: None };
    within(engine.create_graph(request, Default::default())).await.map(drop)
}

/// A run that has ended, and its error.
fn ended(reply: Result<RunReply, EngineError>) -> (RunEnded, Option<EngineError>) {
    match reply {
        Ok(RunReply::Ended(run)) => (*run, None),
        Err(mut error) => (*error.details.as_mut().unwrap().ended.take().unwrap(), Some(error)),
        other => panic!("{other:?}"),
    }
}

async fn info(engine: &Engine, run: &str) -> RunInfo {
    within(engine.get_run(GetRun { run_id: run.into(), ..GetRun::default() }, Default::default()))
        .await
        .unwrap()
}

fn has_ended(run: &RunInfo) -> bool {
    ["completed", "failed", "cancelled"].contains(&run.status.as_str())
}

/// Waits until `is_so` holds for the run.
async fn wait_until(engine: &Engine, run: &str, is_so: impl Fn(&RunInfo) -> bool) -> RunInfo {
    let mut events = engine.subscribe();
    let found = async {
        loop {
            let info = info(engine, run).await;
            if is_so(&info) {
                return info;
            }
            // An event has arrived since the last check, or arrives now.
            let _ = tokio::time::timeout(Duration::from_millis(50), events.recv()).await;
        }
    };
    tokio::time::timeout(LIMIT, found).await.unwrap()
}

#[tokio::test]
async fn run_cannot_have_the_name_of_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let session = CreateSession { name: "work".into(), ..CreateSession::default() };
    engine.create_session(session, Default::default()).await.unwrap();
    let of_nodes = json!({"graph": "g", "nodes": {"sh": {"type": "bash"}}, "steps": [{"id": "a", "node": "sh", "input": "true"}]});
    let of_none = json!({"graph": "g", "nodes": {"t": {"type": "template", "template": "x"}}, "steps": [{"id": "a", "node": "t"}]});
    for name in ["default", "work"] {
        for graph in [&of_nodes, &of_none] {
            let error = execute(&engine, graph.clone(), name, false).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::AlreadyExists, "{error}");
        }
    }
    let sessions = engine.list_sessions(ListSessions::default(), Default::default()).await.unwrap().sessions;
    assert_eq!(sessions.iter().map(|session| session.name.as_str()).collect::<Vec<_>>(), ["default", "work"]);
    execute(&engine, of_nodes, "r-1", false).await.unwrap();
}

#[tokio::test]
async fn first_subscriber_since_start_receives_earlier_events() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let graph = json!({"graph": "g", "nodes": {"t": {"type": "template", "template": "x"}}, "steps": [{"id": "a", "node": "t"}]});
    execute(&engine, graph, "r-1", false).await.unwrap();
    let (mut first, mut second) = (engine.subscribe_since_start(), engine.subscribe_since_start());
    assert_eq!(first.try_recv().unwrap().seq, 1);
    assert!(second.try_recv().ok().is_none_or(|event| event.seq > 1));
}

#[tokio::test]
async fn secret_does_not_change_step_keys() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let mark = folder.path().join("mark");
    let graph = json!({
        "graph": "g",
        "nodes": {"sh": {"type": "bash", "env": {"API_TOKEN": "s3cret", "PLAIN": "p"}}},
        "steps": [
            {"id": "once", "node": "sh", "input": format!("echo x >> {}", mark.display())},
            {"id": "fails", "node": "sh", "input": "exit 3", "depends_on": ["once"]},
        ],
    });
    let (run, _) = ended(execute(&engine, graph, "r-1", false).await);
    assert_eq!(run.status.as_str(), "failed");
    ended(resume(&engine, "r-1").await);
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "x\n", "the first step was done again");
    let journal = std::fs::read_to_string(journal_path(&folder.path().join("runs/test"), "r-1")).unwrap();
    assert!(!journal.contains("s3cret"));
}

#[tokio::test]
async fn run_status_is_waiting_at_a_gate() {
    let gate = json!({"id": "ask", "gate": {"question": "Continue?", "choices": ["yes", "no"]}});
    let inner = json!({"graph": "in", "steps": [gate]});
    let graph = json!({"graph": "g", "nodes": {"in": {"type": "graph", "graph": inner}}, "steps": [{"id": "outer", "node": "in"}]});
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let mut events = engine.subscribe();
    execute(&engine, graph, "r-1", true).await.unwrap();
    let waits = wait_until(&engine, "r-1", |info| !info.gates.is_empty()).await;
    assert_eq!((waits.status.as_str(), waits.gates[0].step_id.as_str()), ("waiting", "outer/ask"));
    let answer = AnswerGate { run_id: "r-1".into(), step_id: None, choice: "yes".into() };
    engine.answer_gate(answer, Default::default()).await.unwrap();
    let ended = wait_until(&engine, "r-1", has_ended).await;
    assert_eq!(ended.status.as_str(), "completed");
    let nodes: Vec<&str> = ended.steps.iter().map(|step| step.node_id.as_str()).collect();
    assert_eq!(nodes, ["in", ""], "a gate is no node");
    while let Ok(event) = events.try_recv() {
        let step = event.kind.step();
        assert!(step != Some("outer/ask") || event.node_id.is_none(), "{event:?}");
    }
}

#[tokio::test]
async fn plan_and_results_come_from_the_journal() {
    let graph = json!({
        "graph": "g",
        "nodes": {"sh": {"type": "bash"}},
        "steps": [
            {"id": "b", "node": "sh", "input": "echo two", "depends_on": ["a"]},
            {"id": "a", "node": "sh", "input": "echo one"},
            {"id": "ask", "gate": {"question": "Continue?"}, "depends_on": ["b"]},
        ],
    });
    let folder = tempfile::tempdir().unwrap();
    let running = engine(folder.path());
    execute(&running, graph, "r-1", true).await.unwrap();
    wait_until(&running, "r-1", |info| !info.gates.is_empty()).await;
    let details = async |engine: &Engine, step: &str| {
        let request = GetRun { run_id: "r-1".into(), last: None, plan: true, result_of: Some(step.into()) };
        within(engine.get_run(request, Default::default())).await.unwrap()
    };
    let later = engine(folder.path());
    for engine in [&running, &later] {
        let info = details(engine, "a").await;
        let plan = info.plan.iter();
        let plan: Vec<String> =
            plan.map(|step| format!("{} {} {:?}", step.step_id, step.node_id, step.depends_on)).collect();
        assert_eq!(plan, [r#"b sh ["a"]"#, "a sh []", r#"ask  ["b"]"#]);
        let steps: Vec<&str> = info.steps.iter().map(|step| step.step_id.as_str()).collect();
        assert_eq!(steps, ["a", "b", "ask"]);
        assert_eq!(info.result.unwrap()["text"], "one");
        assert_eq!(details(engine, "ask").await.result, None);
    }
    let plain = info(&running, "r-1").await;
    assert_eq!((plain.plan.len(), plain.result), (0, None));
    cancel(&running, "r-1").await.unwrap();
}

#[tokio::test]
async fn cancelled_step_is_not_failed() {
    let graph = json!({"graph": "g", "nodes": {"sh": {"type": "bash"}}, "steps": [{"id": "long", "node": "sh", "input": "sleep 600"}]});
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    execute(&engine, graph, "r-1", true).await.unwrap();
    wait_until(&engine, "r-1", |info| info.steps.iter().any(|step| step.state == StepState::Running)).await;
    cancel(&engine, "r-1").await.unwrap();
    let ended = wait_until(&engine, "r-1", has_ended).await;
    assert_eq!(ended.status.as_str(), "cancelled");
    assert_eq!(ended.steps.iter().map(|step| step.state.as_str()).collect::<Vec<_>>(), ["cancelled"]);
    let path = journal_path(&folder.path().join("runs/test"), "r-1");
    assert_eq!(Summary::read(&path).unwrap().outcome.unwrap().status, "cancelled");
}

#[tokio::test]
async fn graph_cannot_have_the_name_of_a_defined_node() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let name = "worker".to_string();
    let node = nerve_api::request::NodeSpec {
        node_id: name.clone(),
        session_id: None,
        cwd: None,
        ..crate::harness::TestEnv::new().spec(&name, nerve_api::value::BackendKind::Bash)
    };
    engine.create(node).await.unwrap();
    engine.stop_session(StopSession::default(), Default::default()).await.unwrap();
    let graph = json!({"graph": name, "nodes": {"t": {"type": "template", "template": "x"}}, "steps": [{"id": "a", "node": "t"}]});
    let error = create_graph(&engine, graph).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::AlreadyExists);
}

#[tokio::test]
async fn registered_graph_is_a_step_with_its_own_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let say = |id: &str, node: &str| json!({"id": id, "node": node, "input": "echo said"});
    let bottom = json!({"graph": "bottom", "nodes": {"sh": {"type": "bash"}}, "steps": [say("a", "sh")]});
    let middle = json!({"graph": "middle", "steps": [{"id": "m", "node": "bottom"}]});
    for graph in [bottom, middle] {
        create_graph(&engine, graph).await.unwrap();
    }
    let top = json!({"graph": "top", "nodes": {"sh": {"type": "bash"}}, "steps": [say("own", "sh"), {"id": "t", "node": "middle"}]});
    let (run, error) = ended(execute(&engine, top, "r-1", false).await);
    assert_eq!(error.map(|error| error.to_string()), None);
    assert_eq!(run.results["t"]["m"]["a"]["text"], "said");
    // The journal has it all.
    for id in ["middle", "bottom"] {
        engine.delete_graph(DeleteGraph::new(id, None), Default::default()).await.unwrap();
    }
    let journal = std::fs::read_to_string(journal_path(&folder.path().join("runs/test"), "r-1")).unwrap();
    let cut = journal.lines().take(2).map(|line| format!("{line}\n")).collect::<String>();
    std::fs::write(journal_path(&folder.path().join("runs/test"), "r-1"), cut).unwrap();
    let (resumed, _) = ended(resume(&engine, "r-1").await);
    assert_eq!(resumed.results["t"]["m"]["a"]["text"], "said");
}

#[tokio::test]
async fn circular_registered_graphs_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    for (id, next) in [("one", "two"), ("two", "one")] {
        let graph = json!({"graph": id, "steps": [{"id": "go", "node": next}]});
        create_graph(&engine, graph).await.unwrap();
    }
    let request = RunGraph { graph_id: "one".into(), ..RunGraph::default() };
    let (_, error) = ended(within(engine.run_graph(request, Default::default())).await);
    assert_error(&error.unwrap(), ErrorKind::InvalidRequest, &["one → two → one"]);
}

#[tokio::test]
async fn orphaned_run_can_be_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let first = engine(folder.path());
    let gate = json!({"graph": "g", "steps": [{"id": "ask", "gate": {"question": "Continue?"}}]});
    execute(&first, gate, "r-1", true).await.unwrap();
    wait_until(&first, "r-1", |info| info.status == RunStatus::Waiting).await;
    within(first.shut_down(false)).await;

    let second = engine(folder.path());
    assert_eq!(info(&second, "r-1").await.status.as_str(), "interrupted");
    let cancelled = cancel(&second, "r-1").await.unwrap();
    assert_eq!(cancelled, ["r-1"]);
    assert_eq!(info(&second, "r-1").await.status.as_str(), "cancelled");
    let second_cancel = cancel(&second, "r-1").await.unwrap_err();
    assert_eq!(second_cancel.kind, ErrorKind::NotFound, "{second_cancel}");
}

/// Returns the stored session of that name.
fn stored_session(folder: &Path, name: &str) -> Value {
    let stored = std::fs::read_to_string(folder.join("sessions.json")).unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    let sessions = stored["sessions"].as_array().unwrap();
    sessions.iter().find(|session| session["name"] == name).cloned().unwrap_or_default()
}

#[tokio::test]
async fn definitions_that_cannot_be_restored_stay_stored() {
    let folder = tempfile::tempdir().unwrap();
    let node = json!({"node_id": "rev", "command": "bash", "backend": "pty", "cwd": "/tmp"});
    let old = json!({"id": "My_Project", "name": "My_Project", "server": "test", "nodes": [node]});
    let steps = json!([{"id": "a", "node": "rev", "input": "x", "new_field": 1}]);
    let newer = json!({"name": "newer", "definition": {"id": "newer", "steps": steps}});
    let good = json!({"id": "test/good", "name": "good", "server": "test", "graphs": [newer]});
    let file = json!({"version": "1.0", "sessions": [old, good]}).to_string();
    std::fs::write(folder.path().join("sessions.json"), file).unwrap();
    for _ in 0..2 {
        let engine = engine(folder.path());
        engine.adopt();
        within(engine.shut_down(false)).await;
        assert_eq!(engine.warnings().len(), 2, "{:?}", engine.warnings());
        assert_eq!(stored_session(folder.path(), "My_Project"), old);
        assert_eq!(stored_session(folder.path(), "good")["graphs"], json!([newer]));
    }
    // A new graph of this name replaces the stored one.
    let engine = engine(folder.path());
    let definition = json!({"graph": "newer", "steps": [{"id": "a", "node": "rev", "input": "x"}]});
    let request = CreateGraph { definition: object(definition.clone()), session_id: Some("good".into()) };
    within(engine.create_graph(request, Default::default())).await.unwrap();
    within(engine.shut_down(false)).await;
    let graphs = stored_session(folder.path(), "good")["graphs"].clone();
    assert_eq!(graphs.as_array().unwrap().len(), 1, "{graphs}");
    assert_eq!(graphs[0]["definition"]["steps"][0].get("new_field"), None, "{graphs}");
}
