//! The harness of the testkit with an engine in a temporary directory.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::time::Duration;

use nerve_api::reply::NodeInfo;
use nerve_api::request::NodeSpec;
use nerve_engine::EngineConfig;
use nerve_testkit::harness::{EngineHarness, node_ref, terminal_spec};

pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Harness {
    nodes: EngineHarness,
    pub(crate) folder: tempfile::TempDir,
}

impl Deref for Harness {
    type Target = EngineHarness;

    fn deref(&self) -> &EngineHarness {
        &self.nodes
    }
}

impl DerefMut for Harness {
    fn deref_mut(&mut self) -> &mut EngineHarness {
        &mut self.nodes
    }
}

impl Harness {
    pub(crate) fn new() -> Harness {
        let folder = tempfile::tempdir().unwrap();
        Harness::with(EngineHarness::config(folder.path()), folder)
    }

    pub(crate) fn with(config: EngineConfig, folder: tempfile::TempDir) -> Harness {
        Harness { nodes: EngineHarness::new(config, LIMIT), folder }
    }

    pub(crate) fn spec(&self, node: &str, argv: &[&str]) -> NodeSpec {
        terminal_spec(node_ref(node), argv, self.folder.path(), LIMIT)
    }

    pub(crate) async fn start(&self, node: &str, argv: &[&str]) -> NodeInfo {
        self.create(self.spec(node, argv)).await
    }

    /// Starts the mock agent of the testkit.
    pub(crate) async fn start_mock(&self, node: &str, options: &[&str]) -> NodeInfo {
        let program = mock_agent().display().to_string();
        let argv: Vec<&str> = [program.as_str()].iter().chain(options).copied().collect();
        self.create(NodeSpec { profile: Some("claude".into()), ..self.spec(node, &argv) }).await
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
