//! Graphs in the engine: named runs, their status, and resuming them.

use std::path::Path;
use std::time::Duration;

use nerve_core::command::{Command, GraphSource, Outcome, Reply, ResumeRun, RunGraph, RunInfo, RunStatus};
use nerve_core::engine::{Engine, EngineConfig};
use nerve_core::error::ErrorKind;
use nerve_core::graph::journal::{Summary, journal_path};
use nerve_core::node::factory::FactoryConfig;
use serde_json::{Value, json};

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

async fn execute(engine: &Engine, command: Command) -> Outcome {
    tokio::time::timeout(LIMIT, engine.execute(command)).await.unwrap()
}

fn run_graph(graph: Value, run: &str, detach: bool) -> Command {
    Command::RunGraph(Box::new(RunGraph {
        graph: GraphSource::Whole(graph),
        session: None,
        input: Value::Null,
        run: Some(run.to_string()),
        trace: false,
        detach,
        keep_nodes: false,
        parent: None,
    }))
}

async fn run_info(engine: &Engine, run: &str) -> RunInfo {
    match execute(engine, Command::GetRun { run: run.into() }).await.unwrap() {
        Reply::Run(info) => *info,
        other => panic!("{other:?}"),
    }
}

/// Waits until `is_so` holds for the run.
async fn wait_until(engine: &Engine, run: &str, is_so: impl Fn(&RunInfo) -> bool) -> RunInfo {
    let mut events = engine.subscribe();
    let found = async {
        loop {
            let info = run_info(engine, run).await;
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
    let session = |name: &str| Command::CreateSession {
        name: name.into(),
        description: String::new(),
        tags: Vec::new(),
    };
    execute(&engine, session("work")).await.unwrap();
    let of_nodes = json!({"graph": "g", "nodes": {"sh": {"type": "bash"}}, "steps": [{"id": "a", "node": "sh", "input": "true"}]});
    let of_none = json!({"graph": "g", "nodes": {"t": {"type": "template", "template": "x"}}, "steps": [{"id": "a", "node": "t"}]});
    for name in ["default", "work"] {
        for graph in [&of_nodes, &of_none] {
            let error = execute(&engine, run_graph(graph.clone(), name, false)).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::AlreadyExists, "{error}");
        }
    }
    let Reply::Sessions(sessions) = execute(&engine, Command::ListSessions).await.unwrap() else { panic!() };
    assert_eq!(sessions.iter().map(|session| session.name.as_str()).collect::<Vec<_>>(), ["default", "work"]);
    execute(&engine, run_graph(of_nodes, "r-1", false)).await.unwrap();
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
    let ended = execute(&engine, run_graph(graph, "r-1", false)).await.unwrap();
    let Reply::RunEnded(ended) = ended else { panic!() };
    assert_eq!(ended.info.status, RunStatus::Failed);
    let resume = ResumeRun { run: "r-1".into(), graph: None, trace: false, detach: false };
    execute(&engine, Command::ResumeRun(Box::new(resume))).await.unwrap();
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "x\n", "the first step must not run again");
    let journal = std::fs::read_to_string(journal_path(&folder.path().join("runs/test"), "r-1")).unwrap();
    assert!(!journal.contains("s3cret"));
}

#[tokio::test]
async fn run_status_is_waiting_at_a_gate() {
    let gate = json!({"id": "ask", "gate": {"question": "Go on?", "choices": ["yes", "no"]}});
    let inner = json!({"graph": "in", "steps": [gate]});
    let graph = json!({"graph": "g", "nodes": {"in": {"type": "graph", "graph": inner}}, "steps": [{"id": "outer", "node": "in"}]});
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    execute(&engine, run_graph(graph, "r-1", true)).await.unwrap();
    let waits = wait_until(&engine, "r-1", |info| !info.gates.is_empty()).await;
    assert_eq!((waits.status, waits.gates[0].step.as_str()), (RunStatus::Waiting, "outer/ask"));
    let answer = Command::AnswerGate { run: "r-1".into(), step: None, choice: "yes".into() };
    execute(&engine, answer).await.unwrap();
    let ended = wait_until(&engine, "r-1", |info| info.status.is_end()).await;
    assert_eq!(ended.status, RunStatus::Completed);
}

#[tokio::test]
async fn cancelled_step_is_not_failed() {
    let graph = json!({"graph": "g", "nodes": {"sh": {"type": "bash"}}, "steps": [{"id": "long", "node": "sh", "input": "sleep 600"}]});
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    execute(&engine, run_graph(graph, "r-1", true)).await.unwrap();
    wait_until(&engine, "r-1", |info| info.steps.iter().any(|step| step.state == "running")).await;
    execute(&engine, Command::CancelGraph { id: "r-1".into() }).await.unwrap();
    let ended = wait_until(&engine, "r-1", |info| info.status.is_end()).await;
    assert_eq!(ended.status, RunStatus::Cancelled);
    assert_eq!(ended.steps.iter().map(|step| step.state).collect::<Vec<_>>(), ["cancelled"]);
    let path = journal_path(&folder.path().join("runs/test"), "r-1");
    assert_eq!(Summary::read(&path).unwrap().status(), "cancelled");
}

#[tokio::test]
async fn graph_cannot_have_the_name_of_a_defined_node() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let name = "worker".to_string();
    let node = nerve_core::command::NodeSpec {
        backend: nerve_core::command::BackendKind::Bash,
        ..crate::harness::TestEnv::new().spec(&name, nerve_core::command::BackendKind::Bash)
    };
    let node = nerve_core::command::NodeSpec {
        node: nerve_core::command::NodeRef { session: None, node: name.clone() },
        cwd: None,
        ..node
    };
    execute(&engine, Command::CreateNode(node)).await.unwrap();
    execute(&engine, Command::StopSession { name: "default".into() }).await.unwrap();
    let graph = json!({"graph": name, "nodes": {"t": {"type": "template", "template": "x"}}, "steps": [{"id": "a", "node": "t"}]});
    let error = execute(&engine, Command::CreateGraph { session: None, graph }).await.unwrap_err();
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
        execute(&engine, Command::CreateGraph { session: None, graph }).await.unwrap();
    }
    let top = json!({"graph": "top", "nodes": {"sh": {"type": "bash"}}, "steps": [say("own", "sh"), {"id": "t", "node": "middle"}]});
    let Reply::RunEnded(ended) = execute(&engine, run_graph(top, "r-1", false)).await.unwrap() else {
        panic!()
    };
    assert_eq!(ended.error.map(|error| error.to_string()), None);
    assert_eq!(ended.results["t"]["m"]["a"]["text"], "said");
    // The journal has all steps.
    for id in ["middle", "bottom"] {
        let node = nerve_core::command::NodeRef { session: None, node: id.into() };
        execute(&engine, Command::DeleteGraph(node)).await.unwrap();
    }
    let journal = std::fs::read_to_string(journal_path(&folder.path().join("runs/test"), "r-1")).unwrap();
    let cut = journal.lines().take(2).map(|line| format!("{line}\n")).collect::<String>();
    std::fs::write(journal_path(&folder.path().join("runs/test"), "r-1"), cut).unwrap();
    let resume = ResumeRun { run: "r-1".into(), graph: None, trace: false, detach: false };
    let resumed = execute(&engine, Command::ResumeRun(Box::new(resume))).await.unwrap();
    let Reply::RunEnded(resumed) = resumed else { panic!() };
    assert_eq!(resumed.results["t"]["m"]["a"]["text"], "said");
}

#[tokio::test]
async fn circular_registered_graphs_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    for (id, next) in [("one", "two"), ("two", "one")] {
        let graph = json!({"graph": id, "steps": [{"id": "go", "node": next}]});
        execute(&engine, Command::CreateGraph { session: None, graph }).await.unwrap();
    }
    let run = RunGraph {
        graph: GraphSource::Named("one".into()),
        session: None,
        input: Value::Null,
        run: None,
        trace: false,
        detach: false,
        keep_nodes: false,
        parent: None,
    };
    let ended = execute(&engine, Command::RunGraph(Box::new(run))).await.unwrap();
    let Reply::RunEnded(ended) = ended else { panic!() };
    assert!(ended.error.unwrap().to_string().contains("a graph runs inside itself"));
}

#[tokio::test]
async fn orphaned_run_can_be_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let first = engine(folder.path());
    let gate = json!({"graph": "g", "steps": [{"id": "ask", "gate": {"question": "Go on?"}}]});
    execute(&first, run_graph(gate, "r-1", true)).await.unwrap();
    wait_until(&first, "r-1", |info| info.status == RunStatus::Waiting).await;
    execute(&first, Command::Shutdown { keep_nodes: false }).await.unwrap();

    let second = engine(folder.path());
    assert_eq!(run_info(&second, "r-1").await.status, RunStatus::Interrupted);
    let cancelled = execute(&second, Command::CancelGraph { id: "r-1".into() }).await.unwrap();
    assert!(matches!(cancelled, Reply::Cancelled { runs } if runs == ["r-1"]));
    assert_eq!(run_info(&second, "r-1").await.status, RunStatus::Cancelled);
    let again = execute(&second, Command::CancelGraph { id: "r-1".into() }).await.unwrap_err();
    assert_eq!(again.kind, ErrorKind::NotFound, "{again}");
}
