//! Nodes in panes of a real tmux. Each test has its own tmux server.

mod attached_panes;
mod errors;
mod foreign_input;
mod restart;

use std::path::{Path, PathBuf};

use nerve_api::reply::NodeInfo;
use nerve_api::request::NodeSpec;
use nerve_api::value::BackendKind;
use nerve_engine::{Engine, EngineConfig};
use nerve_mux::pane::Panes;
use nerve_node::error::EngineError;
use nerve_node::factory::FactoryConfig;
use nerve_record::ahr::{Body, Mark, Part, Reader};
use nerve_testkit::harness::{TmuxServer, node_ref};
use nerve_testkit::{Hermetic, wait_until};

use crate::harness::{Harness, LIMIT, mock_agent};

pub(crate) const BASH: [&str; 3] = ["bash", "--norc", "--noprofile"];

/// A tmux server, and an engine with its own directories.
pub(crate) struct Tmux {
    // Before the home, which has its socket.
    server: TmuxServer,
    pub(crate) nodes: Harness,
    pub(crate) home: Hermetic,
}

fn config(home: &Path) -> EngineConfig {
    EngineConfig {
        nodes: FactoryConfig {
            server: "test".into(),
            history_dir: Some(home.join("history")),
            profile_dir: Some(home.join("profiles")),
            panes: Panes {
                registry: Some(home.join("registry")),
                claims: home.join("claims"),
                recordings: Some(home.join("recordings")),
                ..Panes::default()
            },
            ..FactoryConfig::default()
        },
        ..EngineConfig::default()
    }
}

impl Tmux {
    /// Returns `None`, and records a skip of `test`, without tmux.
    pub(crate) fn new(test: &str) -> Option<Tmux> {
        let home = Hermetic::new().unwrap();
        let server = TmuxServer::new(test, &home, "tmux.sock")?;
        let nodes = Harness::with(config(home.root()), tempfile::tempdir().unwrap());
        Some(Tmux { server, nodes, home })
    }

    /// Replaces the engine with a new one in the same directories, as after a server restart.
    pub(crate) fn restart_engine(&mut self) {
        self.nodes.engine = Engine::new(config(self.home.root()));
        self.nodes.events = self.nodes.engine.subscribe();
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.server.socket().to_path_buf()
    }

    /// Runs a tmux command; returns its output or its error message.
    pub(crate) fn tmux(&self, args: &[&str]) -> Result<String, String> {
        self.server.run(args)
    }

    /// Attaches a user's terminal to a session: a client of this tmux in a pane of another tmux.
    pub(crate) fn attach_viewer(&self, session: &str) -> TmuxServer {
        let attach = format!(
            "env -u TMUX tmux -u -S {} attach-session -t ={session}",
            shell_words::quote(&self.socket().display().to_string())
        );
        let viewer = TmuxServer::new("attach_viewer", &self.home, "viewer.sock").unwrap();
        viewer.ok(&["new-session", "-d", "-s", "p", "-x", "90", "-y", "25", &attach]);
        let is_attached = || {
            let clients = self.tmux(&["list-clients", "-F", "#{client_control_mode}"]).unwrap_or_default();
            clients.lines().any(|line| line == "0")
        };
        assert!(wait_until(LIMIT, is_attached), "the viewer did not attach: {}", viewer.screen());
        viewer
    }

    /// Starts a program in a session of its own, named like the node, and attaches the node to its pane.
    pub(crate) async fn start(&self, node: &str, argv: &[&str]) -> NodeInfo {
        let pane = self.new_pane(node, &self.with_env(argv));
        self.create(self.attached_spec(node, &pane)).await.unwrap()
    }

    /// Starts the mock agent, as [`Tmux::start`] does.
    pub(crate) async fn start_mock(&self, node: &str, options: &[&str]) -> NodeInfo {
        let pane = self.new_mock_pane(node, options);
        self.create(self.mock_spec(node, &pane)).await.unwrap()
    }

    /// Creates a foreign pane in which the mock agent runs.
    pub(crate) fn new_mock_pane(&self, session: &str, options: &[&str]) -> String {
        let program = mock_agent().display().to_string();
        self.new_pane(session, &self.with_env(&[&[program.as_str()], options].concat()))
    }

    /// Returns the spec of a node over a pane in which the mock agent runs.
    pub(crate) fn mock_spec(&self, node: &str, pane: &str) -> NodeSpec {
        NodeSpec { profile: Some("claude".into()), ..self.attached_spec(node, pane) }
    }

    fn with_env(&self, argv: &[&str]) -> String {
        let home = format!("HOME={}", self.home.root().display());
        shell_words::join([&["env", "PS1=$ ", &home], argv].concat())
    }

    pub(crate) async fn create(&self, spec: NodeSpec) -> Result<NodeInfo, EngineError> {
        self.nodes.engine.create(spec).await
    }

    /// Returns the spec of a node in an existing pane.
    pub(crate) fn attached_spec(&self, node: &str, pane: &str) -> NodeSpec {
        NodeSpec {
            backend: BackendKind::Tmux,
            socket: Some(self.socket().display().to_string()),
            pane_id: Some(pane.into()),
            profile: Some("shell".into()),
            ..self.nodes.spec(node, &[])
        }
    }

    /// Creates a foreign pane and returns its id.
    pub(crate) fn new_pane(&self, session: &str, command: &str) -> String {
        let args =
            ["new-session", "-d", "-P", "-F", "#{pane_id}", "-s", session, "-x", "100", "-y", "30", command];
        self.tmux(&args).unwrap()
    }

    pub(crate) fn query(&self, pane: &str, format: &str) -> String {
        self.tmux(&["display-message", "-p", "-t", pane, format]).unwrap()
    }

    pub(crate) async fn info(&self, node: &str) -> NodeInfo {
        self.nodes.engine.node_info(&node_ref(node)).unwrap()
    }

    pub(crate) async fn stop(&self, node: &str) {
        self.nodes.stop(node).await;
    }
}

/// Returns the output in a recording, ignoring gaps.
pub(crate) fn output(recording: &Path) -> Vec<u8> {
    let mut output = Vec::new();
    records(recording, |body| {
        if let Body::Data { off, bytes } = body {
            assert_eq!(off, output.len() as u64, "offsets are contiguous");
            output.extend_from_slice(bytes);
        }
    });
    output
}

/// Returns the marks of a recording except input marks.
pub(crate) fn marks(recording: &Path) -> Vec<Mark> {
    let mut marks = Vec::new();
    records(recording, |body| match body {
        Body::Mark(Mark::Input { .. }) => {}
        Body::Mark(mark) => marks.push(mark),
        _ => {}
    });
    marks
}

fn records(recording: &Path, mut each: impl FnMut(Body<'_>)) {
    let mut reader = Reader::open(recording).unwrap();
    while let Some(part) = reader.next().unwrap() {
        if let Part::Block(block) = part {
            block.records().for_each(|record| each(record.body));
        }
    }
}
