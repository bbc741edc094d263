//! Nodes in panes of a real tmux, each test with a tmux server of its own.

mod attached_panes;
mod created_panes;
mod errors;
mod foreign_input;
mod restart;

use std::path::{Path, PathBuf};
use std::process::Command as Process;

use nerve_core::backend::pane::Panes;
use nerve_core::command::{BackendKind, NodeInfo, NodeSpec, PanePlace};
use nerve_core::engine::{Engine, EngineConfig};
use nerve_core::error::EngineError;
use nerve_core::node::factory::FactoryConfig;
use nerve_record::ahr::{Body, Mark, Part, Reader};
use nerve_testkit::{skip, wait_for};

use crate::harness::{LIMIT, Stage, at, mock_agent};

pub(crate) const BASH: [&str; 3] = ["bash", "--norc", "--noprofile"];

/// A tmux server: its socket, and an engine with folders of its own.
pub(crate) struct Tmux {
    pub(crate) stage: Stage,
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
    /// `None`, and told, where there is no tmux.
    pub(crate) fn new(test: &str) -> Option<Tmux> {
        if Process::new("tmux").arg("-V").output().is_err() {
            skip(test, "tmux is not installed");
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let engine = Engine::new(config(home.path()));
        let events = engine.subscribe();
        let stage = Stage { engine, events, folder: tempfile::tempdir().unwrap() };
        Some(Tmux { stage, home })
    }

    /// Another engine over the same folders, as a server after a restart. The one before must be gone.
    pub(crate) fn restarted(&mut self) {
        self.stage.engine = Engine::new(config(self.home.path()));
        self.stage.events = self.stage.engine.subscribe();
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.home.path().join("tmux.sock")
    }

    /// Runs tmux for this server and gives what it printed, or its complaint.
    pub(crate) fn tmux(&self, words: &[&str]) -> Result<String, String> {
        let done = self.process(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_string();
        if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
    }

    pub(crate) fn process(&self, words: &[&str]) -> Process {
        let mut process = Process::new("tmux");
        process.arg("-u").arg("-f").arg("/dev/null").arg("-S").arg(self.socket()).args(words);
        process.env_remove("TMUX").env_remove("TMUX_PANE");
        process
    }

    /// A person at a terminal of their own who looks at a session: a client of this tmux in a pane of another one.
    pub(crate) fn person(&self, session: &str) -> Person {
        let socket = self.home.path().join("person.sock");
        let attach = format!(
            "env -u TMUX tmux -u -S {} attach-session -t ={session}",
            shell_words::quote(&self.socket().display().to_string())
        );
        let person = Person { socket };
        person.tmux(&["new-session", "-d", "-s", "p", "-x", "90", "-y", "25", &attach]).unwrap();
        let seen = wait_for(LIMIT, || {
            let clients = self.tmux(&["list-clients", "-F", "#{client_control_mode}"]).unwrap_or_default();
            clients.lines().any(|line| line == "0").then_some(())
        });
        assert!(seen.is_some(), "the person does not come: {:?}", person.tmux(&["capture-pane", "-p"]));
        person
    }

    pub(crate) fn place(&self) -> PanePlace {
        PanePlace { socket: Some(self.socket().display().to_string()), ..PanePlace::default() }
    }

    pub(crate) fn spec(&self, node: &str, argv: &[&str]) -> NodeSpec {
        NodeSpec { backend: BackendKind::Tmux, place: self.place(), ..self.stage.spec(node, argv) }
    }

    pub(crate) async fn create(&self, spec: NodeSpec) -> Result<NodeInfo, EngineError> {
        self.stage.engine.create(spec).await
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

    /// A node over a pane that is there.
    pub(crate) fn over(&self, node: &str, pane: &str) -> NodeSpec {
        let place = PanePlace { pane: Some(pane.into()), ..self.place() };
        NodeSpec { place, profile: Some("shell".into()), ..self.spec(node, &[]) }
    }

    /// A pane of somebody's, and its id.
    pub(crate) fn pane(&self, session: &str, command: &str) -> String {
        let words =
            ["new-session", "-d", "-P", "-F", "#{pane_id}", "-s", session, "-x", "100", "-y", "30", command];
        self.tmux(&words).unwrap()
    }

    pub(crate) fn ask(&self, pane: &str, format: &str) -> String {
        self.tmux(&["display-message", "-p", "-t", pane, format]).unwrap()
    }

    pub(crate) async fn info(&self, node: &str) -> NodeInfo {
        self.stage.engine.node_info(&at(node)).unwrap()
    }

    pub(crate) async fn stop(&self, node: &str) {
        self.stage.stop(node).await;
    }
}

/// The output that a recording has so far, whatever is missing in it.
pub(crate) fn output(recording: &Path) -> Vec<u8> {
    let mut output = Vec::new();
    records(recording, |body| {
        if let Body::Data { off, bytes } = body {
            assert_eq!(off, output.len() as u64, "offsets go on");
            output.extend_from_slice(bytes);
        }
    });
    output
}

/// The marks of a recording, but who typed what.
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

/// See [`Tmux::person`].
pub(crate) struct Person {
    socket: PathBuf,
}

impl Person {
    pub(crate) fn tmux(&self, words: &[&str]) -> Result<String, String> {
        let mut process = Process::new("tmux");
        process.args(["-u", "-f", "/dev/null", "-S"]).arg(&self.socket).args(words);
        let done = process.env_remove("TMUX").output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_string();
        if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
    }

    pub(crate) fn types(&self, keys: &[&str]) {
        let mut words = vec!["send-keys", "-t", "p"];
        words.extend(keys);
        self.tmux(&words).unwrap();
    }

    pub(crate) fn sees(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "p"]).unwrap()
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}
