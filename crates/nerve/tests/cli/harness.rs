//! `nerve` in a hermetic environment.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

pub(crate) use nerve_testkit::DEADLINE;
use nerve_testkit::harness::{CommandOutput, KillOnDrop, is_alive, signal};
use nerve_testkit::{Hermetic, wait_until};
use rustix::process::Signal;
use serde_json::Value;

pub(crate) const NERVE: &str = env!("CARGO_BIN_EXE_nerve");

/// A hermetic home directory. Dropping it ends its servers and hosts.
pub(crate) struct Home {
    pub(crate) hermetic: Hermetic,
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.command(&["server", "stop", "--all", "--force", "--timeout", "5"]).output();
        let _ = self.command(&["host", "stop", "--all", "--timeout", "5"]).output();
    }
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { hermetic: Hermetic::new().unwrap() }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.hermetic.command(NERVE);
        command.args(args);
        command
    }

    /// Runs a command to its end.
    pub(crate) fn nerve(&self, args: &[&str]) -> CommandOutput {
        self.nerve_with(args, "")
    }

    /// Runs a prepared command to its end.
    pub(crate) fn run(&self, command: Command) -> CommandOutput {
        CommandOutput::new(&assert_cmd::Command::from_std(command).timeout(DEADLINE).output().unwrap())
    }

    /// Starts a command in the background.
    pub(crate) fn start(&self, args: &[&str]) -> KillOnDrop {
        KillOnDrop::spawn(self.command(args))
    }

    /// Runs a command with this text on stdin.
    pub(crate) fn nerve_with(&self, args: &[&str], stdin: &str) -> CommandOutput {
        let mut command = assert_cmd::Command::from_std(self.command(args));
        CommandOutput::new(&command.timeout(DEADLINE).write_stdin(stdin).output().unwrap())
    }

    /// Runs a command that must succeed and returns its stdout.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let done = self.nerve(args);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        done.stdout
    }

    /// Starts a server with a shell named `sh`.
    pub(crate) fn with_shell() -> Home {
        let home = Home::new();
        home.ok(&["server", "start"]);
        home.ok(&["server", "node", "create", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
        home
    }

    /// Starts a server with a scripted Claude Code named `m`.
    pub(crate) fn with_agent() -> Home {
        let home = Home::new();
        home.ok(&["server", "start"]);
        home.ok(&["new", "m", "-c", &format!("{NERVE} mock-agent"), "--profile", "claude"]);
        home
    }

    /// Returns the pid of a server.
    pub(crate) fn pid(&self, server: &str) -> u32 {
        let status = self.nerve(&["server", "status", server, "--json"]).json();
        u32::try_from(status["pid"].as_u64().unwrap()).unwrap()
    }

    /// Kills a server with SIGKILL and waits until it is gone.
    pub(crate) fn kill_server(&self, server: &str) {
        let pid = self.pid(server);
        signal(pid, Signal::KILL);
        // A killed process holds its lock until its last thread is gone.
        let gone = || !is_alive(pid) && self.nerve(&["server", "status", server]).code == 3;
        assert!(wait_until(DEADLINE, gone), "server {pid} survives SIGKILL");
    }

    /// Returns `node info` of a node in the default session.
    pub(crate) fn info(&self, node: &str) -> Value {
        self.nerve(&["server", "node", "info", node, "--json"]).json()
    }

    /// Returns a metadata value of a node as text, or an empty string.
    pub(crate) fn metadata(&self, node: &str, name: &str) -> String {
        let info = self.info(node);
        match &info["metadata"][name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            value => value.to_string(),
        }
    }

    /// Returns all text of a node's terminal.
    pub(crate) fn read(&self, node: &str) -> String {
        self.ok(&["server", "node", "read", node])
    }

    /// Returns the hosts in `nerve host list`, including dead ones.
    pub(crate) fn hosts(&self) -> Vec<Value> {
        self.nerve(&["host", "list", "--json"]).json()["hosts"].as_array().unwrap().clone()
    }

    /// Returns the host of a node of the default session.
    pub(crate) fn host_of(&self, node: &str) -> Value {
        let id = self.metadata(node, "host_id");
        self.hosts()
            .into_iter()
            .find(|host| host["host_id"] == id)
            .unwrap_or_else(|| panic!("no host of {node}"))
    }

    /// Writes a file that only the user can read, and returns its path.
    pub(crate) fn write_private(&self, name: &str, text: &str) -> String {
        let path = self.hermetic.nerve_home().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_string()
    }

    /// Writes a new certificate for loopback, and returns the paths of the certificate and of its key.
    pub(crate) fn write_certificate(&self) -> (String, String) {
        let names = ["localhost", "127.0.0.1"].map(str::to_string);
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let key = made.key_pair.serialize_pem();
        (self.write_private("cert.pem", &made.cert.pem()), self.write_private("key.pem", &key))
    }

    /// Returns the recording of a node of the default session.
    pub(crate) fn recording_of(&self, node: &str) -> PathBuf {
        PathBuf::from(self.metadata(node, "recording_path"))
    }
}

/// Parses a process id from JSON.
pub(crate) fn pid_in(value: &Value) -> u32 {
    let pid = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or_else(|| panic!("{value} is no pid"))
}
