//! A fake WezTerm server, and an engine that uses its panes.

use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use nerve_api::reply::NodeInfo;
use nerve_api::request::NodeSpec;
use nerve_api::value::BackendKind;
use nerve_engine::EngineConfig;
use nerve_mux::pane::{NewPane, Panes};
use nerve_mux::wezterm::Wezterm;
use nerve_node::error::EngineError;
use nerve_node::factory::{FactoryConfig, NodeFactory};
use nerve_testkit::harness::{FakeWezterm, node_ref};
use nerve_testkit::{Hermetic, eventually};
use nerve_types::Size;
use serde_json::Value;

use crate::harness::{Harness, mock_agent};

pub(crate) const BASH: [&str; 3] = ["bash", "--norc", "--noprofile"];

/// Returns the path of the fake `wezterm`.
pub(crate) fn program() -> PathBuf {
    FakeWezterm::program()
}

/// A server of the fake.
pub(crate) struct Mux {
    // Before the home, which has its socket.
    server: FakeWezterm,
    home: Hermetic,
}

impl Mux {
    pub(crate) fn start() -> Mux {
        let home = Hermetic::new().unwrap();
        Mux { server: FakeWezterm::start(&home), home }
    }

    pub(crate) fn socket(&self) -> String {
        self.server.socket().display().to_string()
    }

    pub(crate) fn wezterm(&self) -> Wezterm {
        Wezterm::new(Some(self.socket())).with_program(program())
    }

    /// Runs a command of the fake.
    pub(crate) fn run(&self, args: &[&str]) -> std::process::Output {
        let mut command = Process::new(program());
        command.args(args).env("WEZTERM_UNIX_SOCKET", self.socket()).stdin(Stdio::null());
        command.output().unwrap()
    }

    pub(crate) fn fault(&self, words: &str) {
        let args: Vec<&str> = ["fault"].into_iter().chain(words.split(' ')).collect();
        assert!(self.run(&args).status.success());
    }

    /// Returns how often a subcommand was called.
    pub(crate) fn calls(&self, sub: &str) -> u64 {
        let output = self.run(&["calls"]).stdout;
        let calls: Value = serde_json::from_slice(&output).unwrap();
        calls[sub].as_u64().unwrap_or(0)
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.server.server().try_wait().unwrap().is_some()
    }

    /// Kills the server and starts another one at the same socket.
    pub(crate) fn restart(&mut self) {
        self.kill();
        std::fs::remove_file(self.server.socket()).unwrap();
        self.server = FakeWezterm::start(&self.home);
    }

    pub(crate) fn kill(&mut self) {
        self.server.server().kill().unwrap();
        self.server.server().wait().unwrap();
    }
}

/// An engine with a pane registry, which survives a restart of the engine.
pub(crate) struct WeztermHarness {
    pub(crate) nodes: Harness,
    pub(crate) mux: Mux,
}

impl WeztermHarness {
    pub(crate) fn new() -> WeztermHarness {
        let folder = tempfile::tempdir().unwrap();
        let nodes = WeztermHarness::nodes(folder);
        WeztermHarness { nodes, mux: Mux::start() }
    }

    fn nodes(folder: tempfile::TempDir) -> Harness {
        let nodes = WeztermHarness::factory_config(folder.path());
        Harness::with(EngineConfig { nodes, ..EngineConfig::default() }, folder)
    }

    pub(crate) fn factory_config(folder: &Path) -> FactoryConfig {
        let panes = Panes {
            registry: Some(folder.join("panes")),
            claims: folder.join("claims"),
            recordings: Some(folder.join("recordings")),
            wezterm: Some(program()),
            ..Panes::default()
        };
        FactoryConfig {
            server: "test".into(),
            history_dir: Some(folder.join("history")),
            profile_dir: Some(folder.join("profiles")),
            panes,
            ..FactoryConfig::default()
        }
    }

    /// Returns a factory for nodes without an engine.
    pub(crate) fn factory(&self) -> NodeFactory {
        NodeFactory::new(WeztermHarness::factory_config(self.nodes.folder.path()))
    }

    /// Creates another server of the same user, which shares only the pane claims.
    pub(crate) fn other(&self) -> WeztermHarness {
        let folder = tempfile::tempdir().unwrap();
        let mut nodes = WeztermHarness::factory_config(folder.path());
        nodes.panes.claims = self.nodes.folder.path().join("claims");
        let nodes = Harness::with(EngineConfig { nodes, ..EngineConfig::default() }, folder);
        WeztermHarness { nodes, mux: Mux::start() }
    }

    /// Replaces the engine, as a restarted server that keeps its nodes.
    pub(crate) async fn restart(mut self) -> WeztermHarness {
        self.nodes.engine.shut_down(true).await;
        self.nodes = WeztermHarness::nodes(self.nodes.folder);
        self.nodes.engine.adopt();
        self
    }

    /// Returns the spec of a node in an existing pane.
    pub(crate) fn spec(&self, node: &str, pane: &str) -> NodeSpec {
        NodeSpec {
            backend: BackendKind::Wezterm,
            socket: Some(self.mux.socket()),
            pane_id: Some(pane.to_string()),
            record: true,
            ..self.nodes.spec(node, &[])
        }
    }

    /// Starts a program in a pane of 100 columns and 30 rows. Returns the pane's id.
    pub(crate) async fn spawn(&self, argv: &[&str]) -> String {
        let home = self.nodes.folder.path().display().to_string();
        let new = NewPane {
            argv: argv.iter().map(ToString::to_string).collect(),
            cwd: Some("/tmp".into()),
            env: [("PS1", "$ ".to_string()), ("HOME", home)].map(|(name, value)| (name.into(), value)).into(),
            size: Size::new(100, 30),
            ..NewPane::default()
        };
        self.mux.wezterm().spawn(&new).await.unwrap()
    }

    pub(crate) async fn create(&self, spec: NodeSpec) -> Result<NodeInfo, EngineError> {
        self.nodes.engine.create(spec).await
    }

    /// Starts a shell in a pane, attaches a node to it and waits until it is ready.
    pub(crate) async fn bash(&self, node: &str) -> NodeInfo {
        let pane = self.spawn(&BASH).await;
        let info = self.create(self.spec(node, &pane)).await.unwrap();
        self.nodes.wait_ready(node).await;
        info
    }

    /// Starts the mock agent in a pane, attaches a node to it and waits until it is ready.
    pub(crate) async fn mock(&self, node: &str, options: &[&str]) -> NodeInfo {
        let program = mock_agent().display().to_string();
        let pane = self.spawn(&[&[program.as_str()], options].concat()).await;
        let spec = NodeSpec { profile: Some("claude".into()), ..self.spec(node, &pane) };
        let info = self.create(spec).await.unwrap();
        self.nodes.wait_ready(node).await;
        info
    }

    pub(crate) async fn info(&self, node: &str) -> NodeInfo {
        self.nodes.engine.node_info(&node_ref(node)).unwrap()
    }

    /// Waits for the pane id of a node.
    pub(crate) async fn pane(&self, node: &str) -> String {
        let mut pane = None;
        eventually("the node's pane is known", async || {
            pane = self.info(node).await.metadata.known_text("pane_id").map(str::to_string);
            pane.is_some()
        })
        .await;
        pane.unwrap()
    }
}
