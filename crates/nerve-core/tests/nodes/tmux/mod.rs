//! Nodes in panes of a real tmux. Each test has its own tmux server.

mod attached_panes;
mod created_panes;
mod errors;
mod foreign_input;
mod restart;

use std::path::{Path, PathBuf};
use std::process::Command as Process;

use nerve_core::command::{BackendKind, NodeInfo, NodeSpec, PanePlace};
use nerve_core::engine::{Engine, EngineConfig};
use nerve_core::error::EngineError;
use nerve_core::node::factory::FactoryConfig;
use nerve_mux::pane::Panes;
use nerve_record::ahr::{Body, Mark, Part, Reader};
use nerve_testkit::{skip, wait_for};

use crate::harness::{Harness, LIMIT, at, mock_agent};

pub(crate) const BASH: [&str; 3] = ["bash", "--norc", "--noprofile"];

/// A tmux server, and an engine with its own directories.
pub(crate) struct Tmux {
    pub(crate) nodes: Harness,
    pub(crate) home: tempfile::TempDir,
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

fn config(home: &Path) -> EngineConfig {
    EngineConfig {
        nodes: FactoryConfig {
            server: "test".into(),
            history_dir: Some(home.join("history")),
            profile_dir: Some(home.join("profiles")),
            hook_relay: None,
            hosting: None,
            panes: Panes {
                registry: Some(home.join("registry")),
                claims: home.join("claims"),
                recordings: Some(home.join("recordings")),
                ..Panes::default()
            },
            proxies: Default::default(),
        },
        ..EngineConfig::default()
    }
}

impl Tmux {
    /// Returns `None`, and records a skip of `test`, without tmux.
    pub(crate) fn new(test: &str) -> Option<Tmux> {
        if Process::new("tmux").arg("-V").output().is_err() {
            skip(test, "tmux is not installed");
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let engine = Engine::new(config(home.path()));
        let events = engine.subscribe();
        let nodes = Harness { engine, events, folder: tempfile::tempdir().unwrap() };
        Some(Tmux { nodes, home })
    }

    /// Replaces the engine with a new one in the same directories, as after a server restart.
    pub(crate) fn restart_engine(&mut self) {
        self.nodes.engine = Engine::new(config(self.home.path()));
        self.nodes.events = self.nodes.engine.subscribe();
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.home.path().join("tmux.sock")
    }

    /// Runs a tmux command; returns its output or its error message.
    pub(crate) fn tmux(&self, args: &[&str]) -> Result<String, String> {
        let output = self.command(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_string();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Process {
        let mut command = Process::new("tmux");
        command.arg("-u").arg("-f").arg("/dev/null").arg("-S").arg(self.socket()).args(args);
        command.env_remove("TMUX").env_remove("TMUX_PANE");
        command
    }

    /// Attaches a user's terminal to a session: a client of this tmux in a pane of another tmux.
    pub(crate) fn attach_viewer(&self, session: &str) -> Viewer {
        let socket = self.home.path().join("viewer.sock");
        let attach = format!(
            "env -u TMUX tmux -u -S {} attach-session -t ={session}",
            shell_words::quote(&self.socket().display().to_string())
        );
        let viewer = Viewer { socket };
        viewer.tmux(&["new-session", "-d", "-s", "p", "-x", "90", "-y", "25", &attach]).unwrap();
        let attached = wait_for(LIMIT, || {
            let clients = self.tmux(&["list-clients", "-F", "#{client_control_mode}"]).unwrap_or_default();
            clients.lines().any(|line| line == "0").then_some(())
        });
        assert!(attached.is_some(), "the viewer did not attach: {:?}", viewer.tmux(&["capture-pane", "-p"]));
        viewer
    }

    pub(crate) fn place(&self) -> PanePlace {
        PanePlace { socket: Some(self.socket().display().to_string()), ..PanePlace::default() }
    }

    pub(crate) fn spec(&self, node: &str, argv: &[&str]) -> NodeSpec {
        NodeSpec { backend: BackendKind::Tmux, place: self.place(), ..self.nodes.spec(node, argv) }
    }

    pub(crate) async fn create(&self, spec: NodeSpec) -> Result<NodeInfo, EngineError> {
        self.nodes.engine.create(spec).await
    }

    pub(crate) async fn start(&self, node: &str, argv: &[&str]) -> NodeInfo {
        self.create(self.spec(node, argv)).await.unwrap()
    }

    pub(crate) async fn start_mock(&self, node: &str, options: &[&str]) -> NodeInfo {
        let program = mock_agent().display().to_string();
        let mut argv = vec![program.as_str()];
        argv.extend(options);
        let spec = NodeSpec { profile: Some("claude".into()), ..self.spec(node, &argv) };
        self.create(spec).await.unwrap()
    }

    /// Returns the spec of a node in an existing pane.
    pub(crate) fn attached_spec(&self, node: &str, pane: &str) -> NodeSpec {
        let place = PanePlace { pane: Some(pane.into()), ..self.place() };
        NodeSpec { place, profile: Some("shell".into()), ..self.spec(node, &[]) }
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
        self.nodes.engine.node_info(&at(node)).unwrap()
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

/// A user's terminal. See [`Tmux::attach_viewer`].
pub(crate) struct Viewer {
    socket: PathBuf,
}

impl Viewer {
    pub(crate) fn tmux(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Process::new("tmux");
        command.args(["-u", "-f", "/dev/null", "-S"]).arg(&self.socket).args(args);
        let output = command.env_remove("TMUX").output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_string();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    pub(crate) fn type_keys(&self, keys: &[&str]) {
        let mut args = vec!["send-keys", "-t", "p"];
        args.extend(keys);
        self.tmux(&args).unwrap();
    }

    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "p"]).unwrap()
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}
