//! `nerve` in a hermetic environment.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use nerve_testkit::{Hermetic, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Limit for each command; none takes that long unless it hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

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

/// Exit code and output of a finished command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    pub(crate) fn new(output: &Output) -> CommandOutput {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("output is UTF-8");
        // A process ended by a signal has no code.
        let code = output.status.code().unwrap_or(-1);
        CommandOutput { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Parses stdout as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts the exit code and that stderr contains these words.
    pub(crate) fn assert_stderr(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{self:?} lacks {word:?}");
        }
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
        let gone = || !alive(pid) && self.nerve(&["server", "status", server]).code == 3;
        assert!(wait_until(DEADLINE, gone), "server {pid} survives SIGKILL");
    }

    /// Returns `node info` of a node in the default session.
    pub(crate) fn info(&self, node: &str) -> Value {
        self.nerve(&["server", "node", "info", node, "--json"]).json()
    }

    /// Returns a metadata value of a node, or an empty string.
    pub(crate) fn metadata(&self, node: &str, name: &str) -> String {
        let info = self.info(node);
        info["metadata"][name].as_str().unwrap_or_default().to_string()
    }

    /// Returns all text of a node's terminal.
    pub(crate) fn read(&self, node: &str) -> String {
        self.ok(&["server", "node", "read", node])
    }

    /// The hosts that `nerve host list` shows, dead ones too.
    pub(crate) fn hosts(&self) -> Vec<Value> {
        self.nerve(&["host", "list", "--json"]).json()["hosts"].as_array().unwrap().clone()
    }

    /// The host of a node of the default session.
    pub(crate) fn host_of(&self, node: &str) -> Value {
        let id = self.metadata(node, "host");
        self.hosts().into_iter().find(|host| host["id"] == id).unwrap_or_else(|| panic!("no host of {node}"))
    }

    /// The recording of a node of the default session.
    pub(crate) fn recording_of(&self, node: &str) -> PathBuf {
        PathBuf::from(self.metadata(node, "recording"))
    }
}

/// Parses a process id from JSON.
pub(crate) fn pid_in(value: &Value) -> u32 {
    let pid = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or_else(|| panic!("{value} is no pid"))
}

/// Sends a signal to a process of this test.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Stops a process and waits until all its threads have stopped: a running thread could still answer the test's next
/// step.
pub(crate) fn freeze(pid: u32) {
    signal(pid, Signal::STOP);
    let stands = |thread: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    };
    let frozen = || std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(stands);
    assert!(wait_until(DEADLINE, frozen), "process {pid} does not stop");
}

/// Returns true if the process exists and is no zombie (proc_pid_stat(5)).
pub(crate) fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
