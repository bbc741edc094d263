//! The regression matrix of seed node-refactoring §8.3, each row by its name, on real programs. Rows of server and SDK are in the
//! tests of those crates.

mod graphs;
mod patterns;
mod sessions;
mod terminals;

use std::path::PathBuf;
use std::time::Duration;

use nerve_core::command::{NodeRef, StateName};
use nerve_core::context::ExecutionContext;
use nerve_core::node::factory::{FactoryConfig, NodeFactory};
use nerve_core::node::terminal::TerminalNode;
use nerve_core::session::Session;

use crate::harness::{LIMIT, Stage, mock_agent};

const BASH: [&str; 3] = ["bash", "--norc", "--noprofile"];

/// Nodes that are made without an engine, as a program that uses the library makes them.
pub(crate) struct Bench {
    pub(crate) session: Session,
    pub(crate) factory: NodeFactory,
    stage: Stage,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let stage = Stage::new();
        let factory = NodeFactory::new(FactoryConfig {
            server: "test".into(),
            history_dir: Some(stage.folder.path().join("history")),
            ..FactoryConfig::default()
        });
        Bench { session: Session::new("bench"), factory, stage }
    }

    pub(crate) fn context(&self) -> ExecutionContext {
        ExecutionContext::new(&self.session).with_timeout(LIMIT)
    }

    /// A program on a terminal, ready.
    pub(crate) async fn terminal(&self, id: &str, argv: &[&str]) -> TerminalNode {
        let mut spec = self.stage.spec(id, argv);
        spec.node = NodeRef { session: Some("bench".into()), node: id.into() };
        if argv != BASH {
            spec.profile = argv[0].ends_with("mock_agent").then(|| "claude".to_string());
        }
        let node = self.factory.create_terminal(spec).await.unwrap();
        node.wait(&[StateName::Ready], Some(LIMIT)).await.unwrap();
        node
    }

    pub(crate) async fn bash(&self, id: &str) -> TerminalNode {
        self.terminal(id, &BASH).await
    }

    /// The mock agent.
    pub(crate) async fn agent(&self, id: &str) -> TerminalNode {
        self.terminal(id, &[&mock_agent().display().to_string()]).await
    }

    /// A file of that name for a command to wait for.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.stage.folder.path().join(name)
    }
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, waiting).await.is_ok(), "never: {what}");
}
