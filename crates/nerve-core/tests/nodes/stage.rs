//! An engine with its own folders, and short words for what the tests ask of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use nerve_core::command::{
    BackendKind, Choice, Command, CommandLine, EngineEvent, EventKind, Execute, HistoryQuery, NodeInfo,
    NodeRef, NodeSpec, Outcome, Reply, Response, StateName,
};
use nerve_core::engine::{Engine, EngineConfig};
use nerve_core::error::EngineError;
use nerve_core::node::factory::FactoryConfig;
use nerve_term::event::Size;
use tokio::sync::broadcast;

pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) events: broadcast::Receiver<EngineEvent>,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) fn at(node: &str) -> NodeRef {
    NodeRef { session: None, node: node.into() }
}

impl Stage {
    pub(crate) fn new() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::new(EngineConfig {
            nodes: FactoryConfig {
                server: "test".into(),
                history_dir: Some(folder.path().join("history")),
                profile_dir: Some(folder.path().join("profiles")),
                hook_relay: None,
                hosting: None,
                panes: Default::default(),
                proxies: Default::default(),
            },
            conversations: Some(folder.path().join("conversations")),
            results_dir: Some(folder.path().join("results")),
            ..EngineConfig::default()
        });
        let events = engine.subscribe();
        Stage { engine, events, folder }
    }

    pub(crate) fn spec(&self, node: &str, argv: &[&str]) -> NodeSpec {
        NodeSpec {
            cwd: Some(PathBuf::from("/tmp")),
            env: BTreeMap::from([
                ("HOME".to_string(), self.folder.path().display().to_string()),
                ("PS1".to_string(), "$ ".to_string()),
            ]),
            size: Size::new(100, 30),
            record: false,
            ready_timeout: LIMIT,
            response_timeout: LIMIT,
            ..NodeSpec::new(
                at(node),
                BackendKind::Pty,
                CommandLine::Argv(argv.iter().map(ToString::to_string).collect()),
            )
        }
    }

    pub(crate) async fn start(&self, node: &str, argv: &[&str]) -> NodeInfo {
        match self.engine.execute(Command::CreateNode(self.spec(node, argv))).await {
            Ok(Reply::Created(info)) => info,
            other => panic!("{other:?}"),
        }
    }

    /// Starts the mock agent of the testkit in a process of its own.
    pub(crate) async fn start_mock(&self, node: &str, options: &[&str]) -> NodeInfo {
        let program = mock_agent().display().to_string();
        let mut argv = vec![program.as_str()];
        argv.extend(options);
        let mut spec = self.spec(node, &argv);
        spec.profile = Some("claude".into());
        match self.engine.execute(Command::CreateNode(spec)).await {
            Ok(Reply::Created(info)) => info,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn execute(&self, node: &str, text: &str) -> Execute {
        Execute { timeout: Some(LIMIT), ..Execute::new(at(node), text) }
    }

    pub(crate) async fn send(&self, node: &str, text: &str) -> Result<Response, EngineError> {
        self.run(self.execute(node, text)).await
    }

    pub(crate) async fn run(&self, execute: Execute) -> Result<Response, EngineError> {
        match self.engine.execute(Command::ExecuteInput(execute)).await? {
            Reply::Response(response) => Ok(*response),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn ask(&self, node: &str, text: &str) -> Response {
        match self.send(node, text).await {
            Ok(response) => response,
            Err(error) => panic!("{text:?}: {error}\n{}", self.screen(node).await),
        }
    }

    pub(crate) async fn wait(&self, node: &str, state: StateName) -> Outcome {
        let command = Command::WaitNode { node: at(node), until: vec![state], timeout: Some(LIMIT) };
        self.engine.execute(command).await
    }

    pub(crate) async fn answer(&self, node: &str, choice: Choice) -> Result<Option<Response>, EngineError> {
        let command = Command::AnswerNode { node: at(node), choice, wait: true, timeout: Some(LIMIT) };
        match self.engine.execute(command).await? {
            Reply::Response(response) => Ok(Some(*response)),
            _ => Ok(None),
        }
    }

    pub(crate) async fn screen(&self, node: &str) -> String {
        match self.engine.execute(Command::ExplainNode(at(node))).await {
            Ok(Reply::Explained(explained)) => {
                format!("{}: {}\n{}", explained.source, explained.evidence, explained.screen)
            }
            other => format!("{other:?}"),
        }
    }

    pub(crate) async fn buffer(&self, node: &str, lines: Option<usize>) -> String {
        match self.engine.execute(Command::GetBuffer { node: at(node), lines }).await {
            Ok(Reply::Buffer { text }) => text,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the node's text holds `text`.
    pub(crate) async fn shows(&self, node: &str, text: &str) {
        let seen = async {
            while !self.buffer(node, None).await.contains(text) {
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::time::timeout(LIMIT, seen).await.is_ok(), "no '{text}':\n{}", self.screen(node).await);
    }

    pub(crate) async fn history(&self, node: &str) -> Vec<String> {
        let query = HistoryQuery { node: node.into(), ..HistoryQuery::default() };
        match self.engine.execute(Command::GetHistory(query)).await {
            Ok(Reply::History { entries, .. }) => entries,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn stop(&self, node: &str) {
        self.engine.execute(Command::StopNode(at(node))).await.unwrap();
    }

    /// Waits for an event that fits.
    pub(crate) async fn event(&mut self, fits: impl Fn(&EventKind) -> bool) -> EventKind {
        let found = async {
            loop {
                let event = self.events.recv().await.unwrap();
                if fits(&event.kind) {
                    return event.kind;
                }
            }
        };
        tokio::time::timeout(LIMIT, found).await.unwrap()
    }
}

/// The mock agent as a program: the testkit's example, built beside this test.
pub(crate) fn mock_agent() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(|deps| deps.parent()).unwrap();
    let program = target.join("examples/mock_agent");
    assert!(program.exists(), "{} is missing: cargo build -p nerve-testkit --examples", program.display());
    program
}

/// The `op`s of history entries.
pub(crate) fn ops(entries: &[String]) -> Vec<String> {
    let op = |entry: &String| {
        serde_json::from_str::<serde_json::Value>(entry).unwrap()["op"].as_str().unwrap().to_string()
    };
    entries.iter().map(op).collect()
}
