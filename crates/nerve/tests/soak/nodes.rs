//! The nodes that work during the test, and the checks that they remain.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nerve_testkit::harness::is_alive;
use nerve_testkit::wait_until;

use crate::harness::{DEADLINE, Home, NERVE, pid_in};

/// Name and kind of each node.
const NODES: [(&str, NodeKind); 4] =
    [("sh1", NodeKind::Shell), ("sh2", NodeKind::Shell), ("me1", NodeKind::Agent), ("me2", NodeKind::Agent)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// bash.
    Shell,
    /// The mock agent as Claude Code.
    Agent,
}

impl NodeKind {
    /// Returns a prompt, and its reply.
    pub(crate) fn prompt(self, number: u64) -> (String, String) {
        match self {
            NodeKind::Shell => (format!("echo reply-$(({number}))"), format!("reply-{number}\n")),
            NodeKind::Agent => (format!("hello {number}"), format!("You said: hello {number}\n")),
        }
    }
}

/// A node with its host.
#[derive(Debug)]
pub(crate) struct RunningNode {
    pub(crate) name: &'static str,
    pub(crate) kind: NodeKind,
    /// The program.
    pub(crate) pid: u32,
    pub(crate) host: u32,
    recording: PathBuf,
}

/// All nodes.
pub(crate) struct Nodes<'a> {
    home: &'a Home,
    agent: String,
    running: Vec<RunningNode>,
    /// Recordings whose hosts were killed.
    ended: Vec<PathBuf>,
}

impl<'a> Nodes<'a> {
    pub(crate) fn new(home: &'a Home) -> Nodes<'a> {
        let agent = home.hermetic.work().join("claude");
        fs::write(&agent, format!("#!/bin/sh\nexec '{NERVE}' mock-agent \"$@\"\n")).unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        Nodes { home, agent: agent.display().to_string(), running: Vec::new(), ended: Vec::new() }
    }

    pub(crate) fn running(&self) -> &[RunningNode] {
        &self.running
    }

    /// Notes that a host was killed.
    pub(crate) fn host_was_killed(&mut self, host: u32) {
        if let Some(at) = self.running.iter().position(|node| node.host == host) {
            self.ended.push(self.running.remove(at).recording);
        }
    }

    pub(crate) fn take_ended_recordings(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.ended)
    }

    /// Creates the nodes that have no host.
    pub(crate) fn create_missing(&mut self) {
        for (name, kind) in NODES {
            if self.running.iter().any(|node| node.name == name) {
                continue;
            }
            // Its definition remains in the session.
            let is_gone = || matches!(self.home.nerve(&["rm", name]).code, 0 | 3);
            assert!(wait_until(DEADLINE, is_gone), "{name}: {:?}", self.home.nerve(&["rm", name]));
            self.running.push(self.create(name, kind));
        }
    }

    fn create(&self, name: &'static str, kind: NodeKind) -> RunningNode {
        let program = match kind {
            NodeKind::Shell => "bash --norc --noprofile",
            NodeKind::Agent => self.agent.as_str(),
        };
        let mut args = vec!["new", name, "-c", program];
        if kind == NodeKind::Agent {
            args.extend(["-b", "claude"]);
        }
        self.home.ok(&args);
        let info = self.home.info(name);
        let pid = pid_in(&info["metadata"]["pid"]);
        let host = pid_in(&self.home.host_of(name)["pid"]);
        let recording = PathBuf::from(info["metadata"]["recording_path"].as_str().unwrap_or_default());
        RunningNode { name, kind, pid, host, recording }
    }

    /// Asserts that each node answers a prompt.
    pub(crate) fn assert_all_answer(&self) {
        for (node, number) in self.running.iter().zip(1_000_000..) {
            let (prompt, reply) = node.kind.prompt(number);
            let answers = || self.home.nerve(&["send", node.name, &prompt]).stdout == reply;
            assert!(wait_until(DEADLINE, answers), "{} does not answer: {}", node.name, self.describe(node));
        }
    }

    /// Returns what the server knows of a node.
    pub(crate) fn describe(&self, node: &RunningNode) -> String {
        self.home.nerve(&["node", "info", node.name, "--json"]).stdout
    }

    pub(crate) fn stop_all(&mut self) {
        for node in self.running.drain(..) {
            self.home.ok(&["stop", node.name]);
            assert!(
                wait_until(DEADLINE, || !is_alive(node.host) && !is_alive(node.pid)),
                "{} survives",
                node.name
            );
            self.ended.push(node.recording);
        }
    }
}
