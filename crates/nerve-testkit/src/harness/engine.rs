//! An engine in the test's process, and its operations on nodes by name.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use nerve_api::event::{Event, EventKind};
use nerve_api::reply::{AnswerReply, NodeInfo, ReachedState, TurnResponse};
use nerve_api::request::{
    AnswerNode, CommandLine, ExecuteInput, GetBuffer, GetHistory, NodeChoice, NodeRef, NodeSpec, States,
    WaitNode,
};
use nerve_api::value::NodeState;
use nerve_engine::{Engine, EngineConfig};
use nerve_node::dialog_answer::Choice;
use nerve_node::error::EngineError;
use nerve_node::factory::FactoryConfig;
use nerve_node::response::Response;
use tokio::sync::broadcast;

use crate::{AgentRecipe, Hermetic, wait_until_async};

/// An engine and the events it publishes.
#[derive(Debug)]
pub struct EngineHarness {
    /// The engine.
    pub engine: Engine,
    /// Its events since the harness was created.
    pub events: broadcast::Receiver<Event>,
    /// Limit for each operation.
    pub limit: Duration,
}

/// Names a node of the default session.
pub fn node_ref(node: &str) -> NodeRef {
    NodeRef { session: None, node: node.into() }
}

/// Builds a request that waits for one of the states, or for `ready` if there are none.
pub fn wait_request(node: &str, until: &[NodeState], timeout: Option<Duration>) -> WaitNode {
    let until = match until {
        [] => States::default(),
        until => States(until.to_vec()),
    };
    WaitNode { node_id: node.into(), until, timeout: timeout.map(Into::into), ..WaitNode::default() }
}

/// Describes an unrecorded program in a terminal of 100 columns and 30 rows, with `$ ` as its prompt.
pub fn terminal_spec(node: NodeRef, argv: &[&str], home: &Path, limit: Duration) -> NodeSpec {
    let variables = [("HOME", home.display().to_string()), ("PS1", "$ ".to_string())];
    NodeSpec {
        cwd: Some("/tmp".into()),
        env: variables.map(|(name, value)| (name.to_string(), value)).into(),
        cols: Some(100),
        rows: Some(30),
        ..spec(node, argv.iter().map(ToString::to_string).collect(), limit)
    }
}

fn spec(node: NodeRef, argv: Vec<String>, limit: Duration) -> NodeSpec {
    NodeSpec {
        record: false,
        ready_timeout: limit.into(),
        response_timeout: limit.into(),
        command: Some(CommandLine::Argv(argv)),
        ..NodeSpec::at(node)
    }
}

impl EngineHarness {
    /// Creates an engine.
    pub fn new(config: EngineConfig, limit: Duration) -> EngineHarness {
        let engine = Engine::new(config);
        EngineHarness { events: engine.subscribe(), engine, limit }
    }

    /// Returns the settings of a server `test` that keeps everything below `folder`.
    pub fn config(folder: &Path) -> EngineConfig {
        EngineConfig {
            nodes: FactoryConfig {
                server: "test".into(),
                history_dir: Some(folder.join("history")),
                profile_dir: Some(folder.join("profiles")),
                ..FactoryConfig::default()
            },
            conversations: Some(folder.join("conversations")),
            results_dir: Some(folder.join("results")),
            ..EngineConfig::default()
        }
    }

    /// Describes a real agent in an unrecorded terminal of 120 columns and 40 rows.
    pub fn agent_spec(&self, node: &str, home: &Hermetic, recipe: &AgentRecipe) -> NodeSpec {
        let env: BTreeMap<String, String> = home.env().into_iter().chain(recipe.env.clone()).collect();
        NodeSpec {
            cwd: Some(home.work()),
            env,
            cols: Some(120),
            rows: Some(40),
            ..spec(node_ref(node), recipe.argv.clone(), self.limit)
        }
    }

    /// Creates a node and starts it.
    ///
    /// # Panics
    /// The engine refuses.
    pub async fn create(&self, spec: NodeSpec) -> NodeInfo {
        self.engine.create(spec).await.unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// Builds the request of a turn.
    pub fn execute(&self, node: &str, text: &str) -> ExecuteInput {
        ExecuteInput { timeout: Some(self.limit.into()), ..ExecuteInput::new(node, text) }
    }

    /// Runs a turn.
    ///
    /// # Errors
    /// Those of the turn.
    pub async fn run(&self, request: ExecuteInput) -> Result<Response, EngineError> {
        self.engine.run_turn(request, Default::default()).await
    }

    /// Runs a turn with this text.
    ///
    /// # Errors
    /// Those of the turn.
    pub async fn send(&self, node: &str, text: &str) -> Result<Response, EngineError> {
        self.run(self.execute(node, text)).await
    }

    /// Runs a turn that must succeed.
    ///
    /// # Panics
    /// It fails; shows the screen.
    pub async fn ask(&self, node: &str, text: &str) -> Response {
        match self.send(node, text).await {
            Ok(response) => response,
            Err(error) => panic!("{text:?}: {error}\n{}", self.screen(node).await),
        }
    }

    /// Waits until the node has the state.
    ///
    /// # Errors
    /// The node does not reach it within the limit.
    pub async fn wait(&self, node: &str, state: NodeState) -> Result<ReachedState, EngineError> {
        self.wait_within(node, state, self.limit).await
    }

    /// Waits until the node has the state.
    ///
    /// # Errors
    /// The node does not reach it within `limit`.
    pub async fn wait_within(
        &self,
        node: &str,
        state: NodeState,
        limit: Duration,
    ) -> Result<ReachedState, EngineError> {
        self.engine.wait_node(wait_request(node, &[state], Some(limit)), Default::default()).await
    }

    /// Waits until the node is ready.
    ///
    /// # Panics
    /// It does not become ready within the limit; shows the screen.
    pub async fn wait_ready(&self, node: &str) {
        let reached = self.wait(node, NodeState::Ready).await;
        assert!(reached.is_ok(), "{reached:?}\n{}", self.screen(node).await);
    }

    /// Answers the dialog of a blocked node. Returns the response of the turn that it belongs to, if there is one.
    ///
    /// # Errors
    /// The node is not blocked or has no such choice, or the turn fails.
    pub async fn answer(&self, node: &str, choice: Choice) -> Result<Option<TurnResponse>, EngineError> {
        let (choice, cancel) = match choice {
            Choice::Number(number) => (Some(NodeChoice::Number(number)), false),
            Choice::Label(label) => (Some(NodeChoice::Label(label)), false),
            Choice::Cancel => (None, true),
        };
        let timeout = Some(self.limit.into());
        let node_id = node.into();
        let request = AnswerNode { node_id, choice, cancel, wait: true, timeout, ..AnswerNode::default() };
        match self.engine.answer_node(request, Default::default()).await? {
            AnswerReply::Turn(turn) => Ok(Some(turn.response)),
            AnswerReply::Done(_) => Ok(None),
        }
    }

    /// Interrupts the turn of a node.
    ///
    /// # Errors
    /// The node cannot be interrupted.
    pub async fn interrupt(&self, node: &str) -> Result<(), EngineError> {
        self.engine.send_interrupt(node_ref(node).into(), Default::default()).await.map(drop)
    }

    /// Returns the state of a node with its evidence, and the screen.
    pub async fn screen(&self, node: &str) -> String {
        match self.engine.explain_node(node_ref(node).into(), Default::default()).await {
            Ok(found) => format!("{} ({}: {})\n{}", found.state, found.source, found.evidence, found.screen),
            other => format!("{other:?}"),
        }
    }

    /// Returns the last lines of a node's output; all if `lines` is `None`.
    ///
    /// # Panics
    /// There is no such node.
    pub async fn buffer(&self, node: &str, lines: Option<usize>) -> String {
        let request = GetBuffer { node_id: node.into(), lines, ..GetBuffer::default() };
        let reply = self.engine.get_buffer(request, Default::default()).await;
        reply.unwrap_or_else(|error| panic!("{error}")).buffer
    }

    /// Waits until the node's output contains `text`.
    ///
    /// # Panics
    /// It does not within the limit; shows the screen.
    pub async fn wait_for_output(&self, node: &str, text: &str) {
        let shown = async || self.buffer(node, None).await.contains(text);
        assert!(wait_until_async(self.limit, shown).await, "no '{text}':\n{}", self.screen(node).await);
    }

    /// Returns the entries of a node's history, as JSON.
    ///
    /// # Panics
    /// There is no such node.
    pub async fn history(&self, node: &str) -> Vec<String> {
        let request = GetHistory { node_id: node.into(), ..GetHistory::default() };
        let history = self.engine.get_history(request, Default::default()).await;
        let history = history.unwrap_or_else(|error| panic!("{error}"));
        history.entries.iter().map(ToString::to_string).collect()
    }

    /// Returns what the engine knows of a node.
    ///
    /// # Panics
    /// There is no such node.
    pub fn info(&self, node: &str) -> NodeInfo {
        self.engine.node_info(&node_ref(node)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Stops a node.
    ///
    /// # Panics
    /// There is no such node.
    pub async fn stop(&self, node: &str) {
        let stopped = self.engine.stop_node(node_ref(node).into(), Default::default()).await;
        assert!(stopped.is_ok(), "{stopped:?}");
    }

    /// Waits for an event for which `is_wanted` returns true; earlier ones are skipped.
    ///
    /// # Panics
    /// There is none within the limit.
    pub async fn wait_for_event(&mut self, is_wanted: impl Fn(&EventKind) -> bool) -> EventKind {
        let received = async {
            loop {
                match self.events.recv().await {
                    Ok(event) if is_wanted(&event.kind) => return event.kind,
                    Ok(_) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let received = tokio::time::timeout(self.limit, received).await;
        received.unwrap_or_else(|_| panic!("no such event within {:?}", self.limit))
    }

    /// Returns the events published since the last call, without those that were dropped because there were too many.
    pub fn take_events(&mut self) -> Vec<EventKind> {
        std::iter::from_fn(|| self.events.try_recv().ok()).map(|event| event.kind).collect()
    }
}
