//! Nodes survive their server and recordings survive everything: what a user sees when processes die, disks fill up and
//! programs misbehave.

mod disk;
mod host_crash;
mod programs;
mod registry;
mod scale;
mod server_crash;

use std::fs;

use nerve_testkit::harness::is_alive;
use nerve_testkit::{wait_for, wait_until};
use serde_json::Value;

use crate::harness::{DEADLINE, Home, pid_in};
use crate::recording::{Recording, numbers};

impl Home {
    /// A home with a server.
    fn with_server() -> Home {
        let home = Home::new();
        home.ok(&["server", "start"]);
        home
    }

    /// Creates a node; `command` is split as by a shell.
    fn create(&self, node: &str, command: &str, more: &[&str]) {
        self.ok(&[&["server", "node", "create", node, "-c", command], more].concat());
    }

    /// A node that runs a script in bash.
    fn script(&self, node: &str, script: &str, more: &[&str]) {
        let path = self.hermetic.work().join(format!("{node}.sh"));
        fs::write(&path, script).unwrap();
        self.create(node, &format!("bash {}", path.display()), more);
    }

    /// A shell with a plain prompt.
    fn shell(&self, node: &str) {
        self.create(node, "bash --norc", &["--env", "PS1=$ "]);
        self.ok(&["server", "node", "wait", node]);
    }

    fn execute(&self, node: &str, text: &str) -> String {
        self.ok(&["server", "node", "execute", node, text])
    }

    /// Executes a command whose output is longer than an answer can be.
    fn execute_cut(&self, node: &str, text: &str) {
        self.nerve(&["server", "node", "execute", node, text]).assert_stderr(8, &["incomplete"]);
    }

    /// Starts a program that prints `line N` until the file `enough` exists, then `end N`.
    fn counter(&self, node: &str) {
        let script = "i=0\nuntil [ -e enough ]; do i=$((i+1)); echo \"line $i\"; sleep 0.002; done\necho \"end $i\"\nexec sleep 1000\n";
        self.script(node, script, &[]);
    }

    /// Ends [`Home::counter`] and returns its last number once it is recorded.
    fn end_counter(&self, node: &str) -> u64 {
        fs::write(self.hermetic.work().join("enough"), "").unwrap();
        let recording = self.recording_of(node);
        let end = wait_for(DEADLINE, || numbers(&Recording::of(&recording).text(), "end").first().copied());
        end.expect("the counter did not end")
    }

    fn state(&self, node: &str) -> String {
        self.info(node)["state"].as_str().unwrap_or_default().to_string()
    }

    fn wait_for_state(&self, node: &str, state: &str) {
        let reached = wait_until(DEADLINE, || self.state(node) == state);
        assert!(reached, "{node} is not {state}: {:#}", self.info(node));
    }

    fn wait_for_text(&self, node: &str, text: &str) {
        assert!(wait_until(DEADLINE, || self.read(node).contains(text)), "no {text:?}: {}", self.read(node));
    }

    /// Stops a program and waits until nothing of its host is left.
    fn wait_for_end(&self, host: &Value) {
        let (pid, id) = (pid_in(&host["pid"]), &host["host_id"]);
        assert!(wait_until(DEADLINE, || !is_alive(pid)), "host {id} does not end");
    }
}
