//! `nerve` in a hermetic environment.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use nerve_testkit::{Hermetic, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// No command here takes that long, unless it hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) const NERVE: &str = env!("CARGO_BIN_EXE_nerve");

/// A home; its servers and hosts are ended when it is dropped.
pub(crate) struct Home {
    pub(crate) hermetic: Hermetic,
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.command(&["server", "stop", "--all", "--force", "--timeout", "5"]).output();
        let _ = self.command(&["host", "stop", "--all", "--timeout", "5"]).output();
    }
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn of(output: &Output) -> Done {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("output is UTF-8");
        // Ended by a signal: no code.
        let code = output.status.code().unwrap_or(-1);
        Done { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// The data on stdout.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// It ended with this code, and said these words on stderr.
    pub(crate) fn says(&self, code: i32, words: &[&str]) {
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

    /// Runs it to its end.
    pub(crate) fn nerve(&self, args: &[&str]) -> Done {
        self.nerve_with(args, "")
    }

    /// Runs a command that was made ready to its end.
    pub(crate) fn run(&self, command: Command) -> Done {
        Done::of(&assert_cmd::Command::from_std(command).timeout(DEADLINE).output().unwrap())
    }

    /// The same, with something on standard input.
    pub(crate) fn nerve_with(&self, args: &[&str], stdin: &str) -> Done {
        let mut command = assert_cmd::Command::from_std(self.command(args));
        Done::of(&command.timeout(DEADLINE).write_stdin(stdin).output().unwrap())
    }

    /// Runs it; it must succeed. Gives back stdout.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let done = self.nerve(args);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        done.stdout
    }

    /// A server with a shell named `sh`.
    pub(crate) fn with_shell() -> Home {
        let home = Home::new();
        home.ok(&["server", "start"]);
        home.ok(&["server", "node", "create", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
        home
    }

    /// The pid of a server.
    pub(crate) fn pid(&self, server: &str) -> u32 {
        let status = self.nerve(&["server", "status", server, "--json"]).json();
        u32::try_from(status["pid"].as_u64().unwrap()).unwrap()
    }

    /// Ends a server the hard way; returns when it is gone.
    pub(crate) fn kill_server(&self, server: &str) {
        let pid = self.pid(server);
        signal(pid, Signal::KILL);
        // A killed process holds its lock until its last thread is gone.
        let gone = || !alive(pid) && self.nerve(&["server", "status", server]).code == 3;
        assert!(wait_until(DEADLINE, gone), "server {pid} survives SIGKILL");
    }

    /// What `node info` says of a node of the default session.
    pub(crate) fn info(&self, node: &str) -> Value {
        self.nerve(&["server", "node", "info", node, "--json"]).json()
    }

    /// A fact about a node; empty if there is none.
    pub(crate) fn fact(&self, node: &str, name: &str) -> String {
        let info = self.info(node);
        info["metadata"][name].as_str().unwrap_or_default().to_string()
    }

    /// All text of a node's terminal.
    pub(crate) fn read(&self, node: &str) -> String {
        self.ok(&["server", "node", "read", node])
    }

    /// The hosts that `nerve host list` shows, dead ones too.
    pub(crate) fn hosts(&self) -> Vec<Value> {
        self.nerve(&["host", "list", "--json"]).json()["hosts"].as_array().unwrap().clone()
    }

    /// The host of a node of the default session.
    pub(crate) fn host_of(&self, node: &str) -> Value {
        let id = self.fact(node, "host");
        self.hosts().into_iter().find(|host| host["id"] == id).unwrap_or_else(|| panic!("no host of {node}"))
    }

    /// The recording of a node of the default session.
    pub(crate) fn recording_of(&self, node: &str) -> PathBuf {
        PathBuf::from(self.fact(node, "recording"))
    }
}

/// The process id in a piece of JSON.
pub(crate) fn pid_in(value: &Value) -> u32 {
    let pid = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or_else(|| panic!("{value} is no pid"))
}

/// Sends a signal to a process of this test.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Stops a process, and waits until every thread of it stands still: one that still runs could answer what the test does next.
pub(crate) fn freeze(pid: u32) {
    signal(pid, Signal::STOP);
    let stands = |thread: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    };
    let frozen = || std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(stands);
    assert!(wait_until(DEADLINE, frozen), "process {pid} does not stop");
}

/// The process is there, and no zombie (proc_pid_stat(5)).
pub(crate) fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
