//! Nodes and helpers for graph tests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nerve_api::request::{NodeRef, NodeSpec};
use nerve_api::value::BackendKind;
use nerve_graph::context::RunContext;
use nerve_graph::executable::Executable;
use nerve_graph::function::FunctionNode;
use nerve_graph::session::Session;
use nerve_graph::{Graph, GraphRun, step::Step};
use nerve_node::context::TurnContext;
use nerve_node::error::EngineError;
use nerve_node::factory::{FactoryConfig, NodeFactory};
use nerve_node::terminal::TerminalNode;
use nerve_node::{BoxFuture, Node, NodeFuture, NodeHandle};
use nerve_testkit::harness::terminal_spec;
use serde_json::{Value, json};

/// Longer than any test takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn context() -> RunContext {
    RunContext::new(&Session::new("test"))
}

/// Runs a graph in a plain context.
pub(crate) async fn run(graph: &Graph) -> GraphRun {
    graph.run(&context()).await
}

/// A node that returns its input.
pub(crate) fn echo(id: &str) -> NodeHandle {
    Arc::new(FunctionNode::new(id, |context| Ok(context.input.clone())))
}

/// A node that returns a constant.
pub(crate) fn constant(id: &str, value: Value) -> NodeHandle {
    Arc::new(FunctionNode::new(id, move |_| Ok(value.clone())))
}

pub(crate) fn error(message: &str) -> EngineError {
    EngineError::process(message)
}

/// A node that always fails.
pub(crate) fn failing(id: &str, message: &'static str) -> NodeHandle {
    Arc::new(FunctionNode::new(id, move |_| Err(error(message))))
}

/// A node that fails `times` times, and then returns its number of calls.
pub(crate) fn failing_first(id: &str, times: usize) -> NodeHandle {
    let calls = AtomicUsize::new(0);
    Arc::new(FunctionNode::new(id, move |_| {
        let call = calls.fetch_add(1, Ordering::Relaxed) + 1;
        if call <= times { Err(error(&format!("failure {call}"))) } else { Ok(json!(call)) }
    }))
}

/// A node that returns its input after a delay.
pub(crate) fn delayed_echo(id: &str, time: Duration) -> NodeHandle {
    Arc::new(FunctionNode::asynchronous(id, move |context| async move {
        tokio::time::sleep(time).await;
        Ok(context.input)
    }))
}

/// A node that never ends.
pub(crate) fn endless(id: &str) -> NodeHandle {
    Arc::new(FunctionNode::asynchronous(id, |_| std::future::pending()))
}

/// A graph with a chain of steps, one for each node.
pub(crate) fn chain(
    id: &str,
    steps: impl IntoIterator<Item = (&'static str, impl Into<Executable>)>,
) -> Graph {
    let mut graph = Graph::new(id);
    for (step, node) in steps {
        graph.add_step(node, Step::new(step)).unwrap();
    }
    let ids = graph.list_steps();
    graph.chain(ids.iter().map(String::as_str)).unwrap();
    graph
}

/// A log of events in order.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(crate) fn add(&self, note: impl Into<String>) {
        self.0.lock().unwrap().push(note.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// A node that logs its id and returns its input.
    pub(crate) fn node(&self, id: &'static str) -> NodeHandle {
        let notes = self.clone();
        Arc::new(FunctionNode::new(id, move |context| {
            notes.add(id);
            Ok(context.input.clone())
        }))
    }

    /// A node that logs its start and, a second later, its end.
    pub(crate) fn slow(&self, id: &'static str) -> NodeHandle {
        let notes = self.clone();
        Arc::new(FunctionNode::asynchronous(id, move |context| {
            let notes = notes.clone();
            async move {
                notes.add(format!("{id} begins"));
                tokio::time::sleep(Duration::from_secs(1)).await;
                notes.add(format!("{id} ends"));
                Ok(context.input)
            }
        }))
    }
}

/// A stateful node that logs the calls it gets.
#[derive(Clone)]
pub(crate) struct StatefulNode {
    pub(crate) id: &'static str,
    pub(crate) notes: Notes,
}

impl StatefulNode {
    pub(crate) fn new(id: &'static str, notes: &Notes) -> Arc<StatefulNode> {
        Arc::new(StatefulNode { id, notes: notes.clone() })
    }
}

impl std::fmt::Debug for StatefulNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

impl Node for StatefulNode {
    fn id(&self) -> &str {
        self.id
    }

    fn kind(&self) -> &'static str {
        "desk"
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn execute<'a>(&'a self, context: &'a TurnContext) -> NodeFuture<'a> {
        Box::pin(async move {
            self.notes.add(format!("{} works", self.id));
            Ok(context.input.clone())
        })
    }

    fn start(&self) -> NodeFuture<'_, ()> {
        Box::pin(async {
            self.notes.add(format!("{} starts", self.id));
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(())
        })
    }

    fn stop<'a>(&'a self, reason: &'a str) -> BoxFuture<'a> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.notes.add(format!("{} stops: {reason}", self.id));
        })
    }

    fn interrupt(&self) -> NodeFuture<'_, ()> {
        Box::pin(async {
            self.notes.add(format!("{} is interrupted", self.id));
            Ok(())
        })
    }
}

/// A fixture for real programs.
pub(crate) struct TestEnv {
    pub(crate) session: Session,
    pub(crate) factory: NodeFactory,
    folder: tempfile::TempDir,
}

impl TestEnv {
    pub(crate) fn new() -> TestEnv {
        let folder = tempfile::tempdir().unwrap();
        let factory = NodeFactory::new(FactoryConfig {
            history_dir: Some(folder.path().join("history")),
            ..FactoryConfig::default()
        });
        TestEnv { session: Session::new("shop"), factory, folder }
    }

    pub(crate) fn context(&self) -> RunContext {
        RunContext::new(&self.session)
    }

    pub(crate) fn spec(&self, id: &str, backend: BackendKind) -> NodeSpec {
        let (node, home) = (NodeRef { session: Some("shop".into()), node: id.into() }, self.folder.path());
        NodeSpec {
            backend,
            cwd: Some(home.into()),
            history: false,
            ..terminal_spec(node, &["bash", "--norc", "--noprofile"], home, LIMIT)
        }
    }

    /// Starts a bash in a terminal, registered under its id.
    pub(crate) async fn shell(&self, id: &str) -> TerminalNode {
        let node = self.factory.create_terminal(self.spec(id, BackendKind::Pty)).await.unwrap();
        self.session.register(Arc::new(node.clone()), None).unwrap();
        node
    }
}
