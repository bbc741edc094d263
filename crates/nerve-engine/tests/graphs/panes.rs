//! Graphs with panes of a real tmux and of a fake WezTerm, and with a model that uses their nodes.

use std::path::Path;

use nerve_api::reply::{RunEnded, RunReply};
use nerve_api::request::ExecuteGraph;
use nerve_engine::{Engine, EngineConfig};
use nerve_mux::pane::{NewPane, Panes};
use nerve_mux::tmux::Tmux;
use nerve_mux::wezterm::Wezterm;
use nerve_node::error::EngineError;
use nerve_node::factory::FactoryConfig;
use nerve_testkit::Hermetic;
use nerve_testkit::harness::{FakeWezterm, TmuxServer};
use nerve_testkit::mock_model::{Answer, MockModel, Script, ToolCall};
use serde_json::{Value, json};

use crate::harness::LIMIT;

/// A private tmux server, and an engine.
struct TmuxEngine {
    // Before the home, which has its socket.
    _server: TmuxServer,
    home: Hermetic,
    engine: Engine,
    socket: String,
}

impl TmuxEngine {
    /// Returns `None`, and records a skip of `test`, without tmux.
    fn new(test: &str) -> Option<TmuxEngine> {
        let home = Hermetic::new().unwrap();
        let server = TmuxServer::new(test, &home, "tmux.sock")?;
        let (engine, socket) = (engine(home.root()), server.socket().display().to_string());
        Some(TmuxEngine { _server: server, home, engine, socket })
    }

    async fn run(&self, graph: Value) -> RunEnded {
        run(&self.engine, graph).await
    }

    /// Lists the panes; empty if there is no server any more.
    async fn panes(&self) -> Vec<String> {
        let panes = Tmux::new(Some(&self.socket)).list().await.unwrap_or_default();
        panes.into_iter().map(|pane| pane.pane).collect()
    }
}

fn engine(folder: &Path) -> Engine {
    Engine::new(EngineConfig {
        nodes: FactoryConfig {
            server: "test".into(),
            history_dir: Some(folder.join("history")),
            panes: Panes {
                registry: Some(folder.join("registry")),
                claims: folder.join("claims"),
                recordings: Some(folder.join("recordings")),
                wezterm: Some(FakeWezterm::program()),
                ..Panes::default()
            },
            ..FactoryConfig::default()
        },
        runs_dir: Some(folder.join("runs")),
        ..EngineConfig::default()
    })
}

async fn run(engine: &Engine, graph: Value) -> RunEnded {
    match try_run(engine, graph).await {
        Ok(RunReply::Ended(ended)) => *ended,
        other => panic!("{other:?}"),
    }
}

async fn try_run(engine: &Engine, graph: Value) -> Result<RunReply, EngineError> {
    let definition = graph.as_object().unwrap().clone();
    let request = ExecuteGraph { definition, ..ExecuteGraph::default() };
    tokio::time::timeout(LIMIT, engine.execute_graph(request, Default::default())).await.unwrap()
}

fn texts(ended: &RunEnded) -> Vec<&str> {
    ended.results.values().map(|result| result["text"].as_str().unwrap_or_default()).collect()
}

#[tokio::test]
async fn existing_pane_is_used_and_kept() {
    let Some(tmux) = TmuxEngine::new("a_pane_that_was_there_is_used_and_left") else { return };
    let new = NewPane {
        argv: ["bash", "--norc"].map(str::to_string).to_vec(),
        cwd: Some(tmux.home.root().to_path_buf()),
        ..NewPane::default()
    };
    let pane = Tmux::new(Some(&tmux.socket)).spawn(&new).await.unwrap();
    let graph = json!({
        "graph": "g",
        "nodes": {"sh": {"type": "tmux", "pane": pane, "socket": tmux.socket, "profile": "shell"}},
        "steps": [{"id": "a", "node": "sh", "input": "echo \"in $PWD\""}],
    });
    let ended = tmux.run(graph.clone()).await;
    assert_eq!(ended.status.as_str(), "completed");
    assert_eq!(texts(&ended), [format!("in {}", tmux.home.root().display())]);
    assert_eq!(tmux.panes().await, std::slice::from_ref(&pane), "the foreign pane was closed");
    // And again.
    assert_eq!(tmux.run(graph).await.status.as_str(), "completed");
    // One that is not there.
    let missing = json!({
        "graph": "g",
        "nodes": {"sh": {"type": "tmux", "pane": "%99", "socket": tmux.socket}},
        "steps": [{"id": "a", "node": "sh", "input": "true"}],
    });
    let error = try_run(&tmux.engine, missing).await.unwrap_err();
    assert!(error.message.contains("%99"), "{error}");
}

#[tokio::test]
async fn step_runs_in_fake_wezterm_pane() {
    let home = Hermetic::new().unwrap();
    let wezterm = FakeWezterm::start(&home);
    let socket = wezterm.socket().display().to_string();
    let client = Wezterm::new(Some(socket)).with_program(FakeWezterm::program());
    let argv = ["bash", "--norc"].map(str::to_string).to_vec();
    let pane = client.spawn(&NewPane { argv, ..NewPane::default() }).await.unwrap();
    let ended = run(
        &engine(home.root()),
        json!({
            "graph": "g",
            "nodes": {"sh": {"type": "wezterm", "pane": pane, "socket": wezterm.socket()}},
            "steps": [{"id": "a", "node": "sh", "input": "echo $((40 + 2))"}],
        }),
    )
    .await;
    assert_eq!(ended.status.as_str(), "completed");
    assert_eq!(texts(&ended), ["42"]);
}

#[tokio::test]
async fn model_uses_node_of_its_graph() {
    let folder = tempfile::tempdir().unwrap();
    let call = ToolCall::Own { name: "sh_run".into(), input: json!({"command": "echo from the tool"}) };
    let script = Script::default().first([Answer::tool("I look.", call)]);
    let model = MockModel::start(script).await;
    let chat = json!({
        "type": "chat", "provider": "openai", "model": "m", "base_url": model.url(), "api_key_env": "", "tools": ["sh"],
    });
    let ended = run(
        &engine(folder.path()),
        json!({
            "graph": "g",
            "nodes": {"m": chat, "sh": {"type": "bash"}},
            "steps": [{"id": "a", "node": "m", "input": "look"}],
        }),
    )
    .await;
    assert_eq!(ended.status.as_str(), "completed");
    assert!(texts(&ended)[0].contains("The tool said: from the tool"), "{:?}", ended.results);
    assert_eq!(model.requests().len(), 2);
}
