//! An engine in a temporary directory, and shorthands for its operations.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use nerve_api::reply::{AnswerReply, ReachedState, TurnResponse};
use nerve_api::request::{AnswerNode, ExecuteInput, GetBuffer, GetHistory, NodeChoice, States, WaitNode};
use nerve_engine::{Engine, EngineConfig};
use nerve_node::command::{
    BackendKind, Choice, CommandLine, EngineEvent, EventKind, NodeInfo, NodeRef, NodeSpec, Response,
    StateName,
};
use nerve_node::error::EngineError;
use nerve_node::factory::FactoryConfig;
use nerve_testkit::wait_until_async;
use nerve_types::Size;
use tokio::sync::broadcast;

pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Harness {
    pub(crate) engine: Engine,
    pub(crate) events: broadcast::Receiver<EngineEvent>,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) fn at(node: &str) -> NodeRef {
    NodeRef { session: None, node: node.into() }
}

/// Builds a request that waits for one of the states, or for `ready` if there are none.
pub(crate) fn wait_for(node: &str, until: &[StateName], timeout: Option<Duration>) -> WaitNode {
    let until = match until {
        [] => States::default(),
        until => States(until.to_vec()),
    };
    WaitNode { node_id: node.into(), until, timeout: timeout.map(Into::into), ..WaitNode::default() }
}

impl Harness {
    pub(crate) fn new() -> Harness {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::new(EngineConfig {
            nodes: FactoryConfig {
                server: "test".into(),
                history_dir: Some(folder.path().join("history")),
                profile_dir: Some(folder.path().join("profiles")),
                ..FactoryConfig::default()
            },
            conversations: Some(folder.path().join("conversations")),
            results_dir: Some(folder.path().join("results")),
            ..EngineConfig::default()
        });
        let events = engine.subscribe();
        Harness { engine, events, folder }
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
        match self.engine.create(self.spec(node, argv)).await {
            Ok(info) => info,
            other => panic!("{other:?}"),
        }
    }

    /// Starts the mock agent of the testkit.
    pub(crate) async fn start_mock(&self, node: &str, options: &[&str]) -> NodeInfo {
        let program = mock_agent().display().to_string();
        let mut argv = vec![program.as_str()];
        argv.extend(options);
        let mut spec = self.spec(node, &argv);
        spec.profile = Some("claude".into());
        match self.engine.create(spec).await {
            Ok(info) => info,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn execute(&self, node: &str, text: &str) -> ExecuteInput {
        ExecuteInput { timeout: Some(LIMIT.into()), ..ExecuteInput::new(node, text) }
    }

    pub(crate) async fn send(&self, node: &str, text: &str) -> Result<Response, EngineError> {
        self.run(self.execute(node, text)).await
    }

    pub(crate) async fn run(&self, request: ExecuteInput) -> Result<Response, EngineError> {
        self.engine.run_turn(request, Default::default()).await
    }

    pub(crate) async fn ask(&self, node: &str, text: &str) -> Response {
        match self.send(node, text).await {
            Ok(response) => response,
            Err(error) => panic!("{text:?}: {error}\n{}", self.screen(node).await),
        }
    }

    pub(crate) async fn wait(&self, node: &str, state: StateName) -> Result<ReachedState, EngineError> {
        self.engine.wait_node(wait_for(node, &[state], Some(LIMIT)), Default::default()).await
    }

    pub(crate) async fn answer(
        &self,
        node: &str,
        choice: Choice,
    ) -> Result<Option<TurnResponse>, EngineError> {
        let (choice, cancel) = match choice {
            Choice::Number(number) => (Some(NodeChoice::Number(number)), false),
            Choice::Label(label) => (Some(NodeChoice::Label(label)), false),
            Choice::Cancel => (None, true),
        };
        let request = AnswerNode {
            node_id: node.into(),
            choice,
            cancel,
            wait: true,
            timeout: Some(LIMIT.into()),
            ..AnswerNode::default()
        };
        match self.engine.answer_node(request, Default::default()).await? {
            AnswerReply::Turn(turn) => Ok(Some(turn.response)),
            AnswerReply::Done(_) => Ok(None),
        }
    }

    pub(crate) async fn screen(&self, node: &str) -> String {
        match self.engine.explain_node(at(node).into(), Default::default()).await {
            Ok(explained) => {
                format!("{}: {}\n{}", explained.source, explained.evidence, explained.screen)
            }
            other => format!("{other:?}"),
        }
    }

    pub(crate) async fn buffer(&self, node: &str, lines: Option<usize>) -> String {
        let request = GetBuffer { node_id: node.into(), lines, ..GetBuffer::default() };
        self.engine.get_buffer(request, Default::default()).await.unwrap().buffer
    }

    /// Waits until the node's buffer contains `text`.
    pub(crate) async fn shows(&self, node: &str, text: &str) {
        let shown = async || self.buffer(node, None).await.contains(text);
        assert!(wait_until_async(LIMIT, shown).await, "no '{text}':\n{}", self.screen(node).await);
    }

    pub(crate) async fn history(&self, node: &str) -> Vec<String> {
        let request = GetHistory { node_id: node.into(), ..GetHistory::default() };
        let history = self.engine.get_history(request, Default::default()).await.unwrap();
        history.entries.iter().map(ToString::to_string).collect()
    }

    pub(crate) async fn stop(&self, node: &str) {
        self.engine.stop_node(at(node).into(), Default::default()).await.unwrap();
    }

    /// Waits for an event that fits.
    pub(crate) async fn event(&mut self, fits: impl Fn(&EventKind) -> bool) -> EventKind {
        let received = async {
            loop {
                let event = self.events.recv().await.unwrap();
                if fits(&event.kind) {
                    return event.kind;
                }
            }
        };
        tokio::time::timeout(LIMIT, received).await.unwrap()
    }
}

/// Returns the path of the mock agent.
pub(crate) fn mock_agent() -> PathBuf {
    nerve_testkit::harness::example("mock_agent")
}

/// Returns the `op` of each history entry.
pub(crate) fn ops(entries: &[String]) -> Vec<String> {
    let op = |entry: &String| {
        serde_json::from_str::<serde_json::Value>(entry).unwrap()["op"].as_str().unwrap().to_string()
    };
    entries.iter().map(op).collect()
}
