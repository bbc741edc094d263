//! Clients that work on the nodes, and the outcomes of their requests.

use std::process::Child;

use nerve_testkit::Random;
use nerve_testkit::harness::KillOnDrop;
use nerve_types::Size;
use rustix::process::Signal;

use crate::harness::Home;
use crate::nodes::Nodes;
use crate::tty::Tty;

/// A graph of steps that no other client disturbs.
const GRAPH: &str = "graph: soak
nodes:
  one: {type: bash}
steps:
  - {id: a, node: one, input: 'echo a'}
  - {id: b, node: one, input: 'echo {{ steps.a.text }}b', depends_on: [a]}
  - {id: c, node: one, input: 'echo {{ steps.b.text }}c', depends_on: [b]}
";

/// The output of a run of the graph.
const RESULTS: &str = "== a\na\n== b\nab\n== c\nabc\n";

/// Writes the graph that clients run.
pub(crate) fn write_graph(home: &Home) {
    std::fs::write(home.hermetic.work().join("soak.yaml"), GRAPH).unwrap();
}

/// A client process.
pub(crate) enum Client {
    /// A command with the output that it prints if it succeeds.
    Command { process: KillOnDrop, args: Vec<String>, expected: Option<String>, is_killed: bool },
    /// A viewer on a terminal.
    Viewer(Box<Tty>),
}

/// The outcome of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The command succeeded, and its output is right.
    Delivered,
    /// The command failed and said why.
    Reported,
    /// The test killed the client.
    Killed,
    /// A viewer.
    Viewed,
}

impl Client {
    /// Starts a random client.
    pub(crate) fn start(home: &Home, nodes: &Nodes<'_>, random: &mut Random, number: u64) -> Client {
        let Some(node) = random.pick(nodes.running()) else { return Client::list(home) };
        match random.below(8) {
            0 => Client::Viewer(Box::new(Tty::new(home, Size::new(90, 20), &["attach", node.name]))),
            1 => Client::list(home),
            2 => Client::command(home, &["server", "graph", "run", "soak.yaml"], Some(RESULTS.to_string())),
            _ => {
                let (prompt, reply) = node.kind.prompt(number);
                Client::command(home, &["send", node.name, &prompt], Some(reply))
            }
        }
    }

    fn list(home: &Home) -> Client {
        Client::command(home, &["ls"], None)
    }

    fn command(home: &Home, args: &[&str], expected: Option<String>) -> Client {
        let process = home.start(args);
        Client::Command {
            process,
            args: args.iter().map(ToString::to_string).collect(),
            expected,
            is_killed: false,
        }
    }

    fn process(&mut self) -> &mut Child {
        match self {
            Client::Command { process, .. } => &mut process.0,
            Client::Viewer(tty) => &mut tty.child,
        }
    }

    /// Returns the process id if the client has not ended.
    pub(crate) fn pid(&mut self) -> Option<u32> {
        let process = self.process();
        matches!(process.try_wait(), Ok(None)).then(|| process.id())
    }

    /// Returns true while a command runs. A viewer does not end by itself.
    pub(crate) fn is_working(&mut self) -> bool {
        matches!(self, Client::Command { .. }) && self.pid().is_some()
    }

    /// Kills the client. Returns false if it has ended.
    pub(crate) fn kill(&mut self) -> bool {
        let Some(pid) = self.pid() else { return false };
        nerve_testkit::harness::signal(pid, Signal::KILL);
        if let Client::Command { is_killed, .. } = self {
            *is_killed = true;
        }
        true
    }

    /// Waits for the end of a command and checks that it delivered or reported. A viewer is ended.
    pub(crate) fn outcome(self) -> Outcome {
        let (process, args, expected) = match self {
            Client::Command { is_killed: true, .. } => return Outcome::Killed,
            Client::Command { process, args, expected, .. } => (process, args, expected),
            Client::Viewer(_) => return Outcome::Viewed,
        };
        let output = process.output();
        if output.code == 0 {
            let is_right = expected.as_ref().is_none_or(|expected| output.stdout == *expected);
            assert!(is_right, "{args:?}: expected {expected:?}: {output:?}");
            return Outcome::Delivered;
        }
        assert!(output.stderr.contains("error: "), "{args:?} failed without a reason: {output:?}");
        Outcome::Reported
    }
}
