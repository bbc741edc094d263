//! The operations of the node library, each with real programs and without an engine. Server and SDK have their own tests.

mod graphs;
mod patterns;
mod sessions;
mod terminals;

use std::path::PathBuf;

use nerve_api::value::NodeState;
use nerve_graph::context::RunContext;
use nerve_graph::session::Session;
use nerve_node::Node;
use nerve_node::context::TurnContext;
use nerve_node::factory::{FactoryConfig, NodeFactory};
use nerve_node::terminal::TerminalNode;

use crate::harness::{Harness, LIMIT, mock_agent};

const BASH: [&str; 3] = ["bash", "--norc", "--noprofile"];

/// A session and a factory without an engine, as used by programs that embed the library.
pub(crate) struct Fixture {
    pub(crate) session: Session,
    pub(crate) factory: NodeFactory,
    harness: Harness,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let harness = Harness::new();
        let factory = NodeFactory::new(FactoryConfig {
            server: "test".into(),
            history_dir: Some(harness.folder.path().join("history")),
            ..FactoryConfig::default()
        });
        Fixture { session: Session::new("fixture"), factory, harness }
    }

    pub(crate) fn context(&self) -> RunContext {
        RunContext::new(&self.session).with_timeout(LIMIT)
    }

    pub(crate) fn turn_context(&self) -> TurnContext {
        self.session.turn_context().with_timeout(LIMIT)
    }

    /// Starts a program in a terminal and waits until it is ready.
    pub(crate) async fn terminal(&self, id: &str, argv: &[&str]) -> TerminalNode {
        let mut spec = self.harness.spec(id, argv);
        (spec.session_id, spec.node_id) = (Some("fixture".into()), id.into());
        if argv != BASH {
            spec.profile = argv[0].ends_with("mock_agent").then(|| "claude".to_string());
        }
        let node = self.factory.create_terminal(spec).await.unwrap();
        node.wait(&[NodeState::Ready], Some(LIMIT)).await.unwrap();
        node
    }

    pub(crate) async fn bash(&self, id: &str) -> TerminalNode {
        self.terminal(id, &BASH).await
    }

    /// Starts the mock agent.
    pub(crate) async fn agent(&self, id: &str) -> TerminalNode {
        self.terminal(id, &[&mock_agent().display().to_string()]).await
    }

    /// Returns a path in the temporary directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.harness.folder.path().join(name)
    }
}
