//! A stand-in for WezTerm's server, and an engine whose panes are there.

use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};

use nerve_core::backend::pane::Panes;
use nerve_core::backend::wezterm::Wezterm;
use nerve_core::command::{BackendKind, NodeInfo, NodeSpec, PanePlace, StateName};
use nerve_core::engine::{Engine, EngineConfig};
use nerve_core::error::EngineError;
use nerve_core::node::factory::{FactoryConfig, NodeFactory};
use nerve_types::Size;
use serde_json::Value;

use crate::harness::{LIMIT, Stage, mock_agent};

/// The fake `wezterm`: the testkit's example, built beside this test.
pub(crate) fn program() -> PathBuf {
    mock_agent().with_file_name("fake_wezterm")
}

/// A server of the fake, which ends with this.
pub(crate) struct Mux {
    server: Child,
    folder: tempfile::TempDir,
}

impl Drop for Mux {
    fn drop(&mut self) {
        // Its panes go with it.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Mux {
    pub(crate) fn start() -> Mux {
        let folder = tempfile::tempdir().unwrap();
        let server = Process::new(program())
            .arg("mux-server")
            .env("WEZTERM_UNIX_SOCKET", folder.path().join("sock"))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mux = Mux { server, folder };
        let listens = || std::os::unix::net::UnixStream::connect(mux.folder.path().join("sock")).is_ok();
        assert!(nerve_testkit::wait_until(LIMIT, listens), "the fake does not listen");
        mux
    }

    pub(crate) fn socket(&self) -> String {
        self.folder.path().join("sock").display().to_string()
    }

    pub(crate) fn wezterm(&self) -> Wezterm {
        Wezterm::new(Some(self.socket())).with_program(program())
    }

    /// Runs the fake's command line.
    pub(crate) fn run(&self, args: &[&str]) -> std::process::Output {
        let mut command = Process::new(program());
        command.args(args).env("WEZTERM_UNIX_SOCKET", self.socket()).stdin(Stdio::null());
        command.output().unwrap()
    }

    pub(crate) fn fault(&self, words: &str) {
        let args: Vec<&str> = ["fault"].into_iter().chain(words.split(' ')).collect();
        assert!(self.run(&args).status.success());
    }

    /// How often a subcommand was called so far.
    pub(crate) fn calls(&self, sub: &str) -> u64 {
        let said = self.run(&["calls"]).stdout;
        let calls: Value = serde_json::from_slice(&said).unwrap();
        calls[sub].as_u64().unwrap_or(0)
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.server.try_wait().unwrap().is_some()
    }

    pub(crate) fn kill(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

/// An engine with a registry for panes, so that another one of the same name finds them.
pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) mux: Mux,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let stage = Scene::stage(folder);
        Scene { stage, mux: Mux::start() }
    }

    fn stage(folder: tempfile::TempDir) -> Stage {
        let nodes = Scene::nodes(folder.path());
        let engine = Engine::new(EngineConfig { nodes, ..EngineConfig::default() });
        Stage { events: engine.subscribe(), engine, folder }
    }

    fn nodes(folder: &Path) -> FactoryConfig {
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

    /// Nodes that are made without an engine.
    pub(crate) fn factory(&self) -> NodeFactory {
        NodeFactory::new(Scene::nodes(self.stage.folder.path()))
    }

    /// Another server of the same user, which shares nothing but the claims.
    pub(crate) fn other(&self) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let mut nodes = Scene::nodes(folder.path());
        nodes.panes.claims = self.stage.folder.path().join("claims");
        let engine = Engine::new(EngineConfig { nodes, ..EngineConfig::default() });
        Scene { stage: Stage { events: engine.subscribe(), engine, folder }, mux: Mux::start() }
    }

    /// The engine goes away as a server does that leaves its nodes, and a new one comes.
    pub(crate) async fn restart(mut self) -> Scene {
        self.stage.engine.shut_down(true).await;
        self.stage = Scene::stage(self.stage.folder);
        self.stage.engine.adopt();
        self
    }

    pub(crate) fn spec(&self, node: &str, argv: &[&str]) -> NodeSpec {
        NodeSpec {
            backend: BackendKind::Wezterm,
            place: PanePlace { socket: Some(self.mux.socket()), ..PanePlace::default() },
            size: Size::new(100, 30),
            record: true,
            ..self.stage.spec(node, argv)
        }
    }

    pub(crate) async fn create(&self, spec: NodeSpec) -> Result<NodeInfo, EngineError> {
        self.stage.engine.create(spec).await
    }

    pub(crate) async fn bash(&self, node: &str) -> NodeInfo {
        let info = self.create(self.spec(node, &["bash", "--norc", "--noprofile"])).await.unwrap();
        self.stage.wait(node, StateName::Ready).await.unwrap();
        info
    }

    /// The mock agent, ready.
    pub(crate) async fn mock(&self, node: &str, options: &[&str]) -> NodeInfo {
        let program = mock_agent().display().to_string();
        let argv: Vec<&str> = [program.as_str()].iter().chain(options).copied().collect();
        let mut spec = self.spec(node, &argv);
        spec.profile = Some("claude".into());
        let info = self.create(spec).await.unwrap();
        self.stage.wait(node, StateName::Ready).await.unwrap();
        info
    }

    pub(crate) async fn info(&self, node: &str) -> NodeInfo {
        self.stage.engine.node_info(&crate::harness::at(node)).unwrap()
    }

    /// The pane of a node.
    pub(crate) async fn pane(&self, node: &str) -> String {
        let mut pane = None;
        crate::matrix::until("the node's pane is known", async || {
            pane = self.info(node).await.metadata.get("pane_id").cloned();
            pane.is_some()
        })
        .await;
        pane.unwrap()
    }
}
