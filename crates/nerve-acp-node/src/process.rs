//! The process of an agent: its start, its standard error and its end.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nerve_host::backend::{Program, SpawnError};
use nerve_types::ExitStatus;
use nerve_types::os::kill_with_parent;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Number of bytes of the standard error that are kept.
const STDERR_BYTES: usize = 16 << 10;
/// Number of lines of it that an error shows.
const STDERR_LINES: usize = 20;
/// Time that the agent has to exit after each step of its end: the end of its input, SIGTERM, SIGKILL.
const EXIT_TIME: Duration = Duration::from_secs(2);
/// Time to read the rest of its standard error. Another process may hold the pipe open.
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// A running agent, in a process group of its own.
#[derive(Debug)]
pub(crate) struct AgentProcess {
    child: Child,
    group: ProcessGroup,
    reader: JoinHandle<()>,
}

/// A process group, killed on drop.
#[derive(Debug)]
struct ProcessGroup(Option<Pid>);

/// The end of the agent's standard error. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct StderrTail(Arc<Mutex<Vec<u8>>>);

/// A started agent with its streams.
pub(crate) struct Started {
    pub(crate) process: AgentProcess,
    pub(crate) pid: Option<u32>,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

impl AgentProcess {
    /// Starts an agent. It is killed if this process dies.
    pub(crate) fn start(program: &Program, stderr: &StderrTail) -> Result<Started, SpawnError> {
        let mut command = Command::new(program.find()?);
        command.args(&program.argv[1..]).process_group(0).kill_on_drop(true);
        if let Some(name) = program.argv.first() {
            command.arg0(name);
        }
        if let Some(cwd) = &program.cwd {
            command.current_dir(cwd);
        }
        for name in &program.env_remove {
            command.env_remove(name);
        }
        command.envs(&program.env);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        kill_with_parent(&mut command).map_err(SpawnError::system("prepare the program"))?;
        let mut child = command.spawn().map_err(SpawnError::system("start the program"))?;
        let pid = child.id();
        let group = ProcessGroup(pid.and_then(|pid| Pid::from_raw(pid.cast_signed())));
        let reader = tokio::spawn(stderr.clone().collect(child.stderr.take()));
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(SpawnError::Host("the program has no pipes".to_string()));
        };
        Ok(Started { process: AgentProcess { child, group, reader }, pid, stdin, stdout })
    }

    /// Waits for the end of the agent, whose input is closed, and ends it if necessary. Then ends the rest of its group, such as its MCP
    /// servers.
    pub(crate) async fn end(mut self) -> ExitStatus {
        let mut exit = ExitStatus::Unknown;
        for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
            if let Some(signal) = signal {
                self.group.signal(signal);
            }
            if let Ok(status) = timeout(EXIT_TIME, self.child.wait()).await {
                exit = status.map_or(ExitStatus::Unknown, exit_status);
                break;
            }
        }
        self.group.signal(Signal::KILL);
        self.group.0 = None;
        if timeout(DRAIN_TIME, &mut self.reader).await.is_err() {
            self.reader.abort();
        }
        exit
    }
}

impl ProcessGroup {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // An error means that the group is gone.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl StderrTail {
    async fn collect(self, stream: Option<ChildStderr>) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            self.push(&chunk[..read]);
        }
    }

    /// Adds output.
    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock();
        kept.extend_from_slice(bytes);
        let excess = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..excess);
    }

    /// Returns the last lines without control characters.
    pub(crate) fn last_lines(&self) -> String {
        let text = String::from_utf8_lossy(&self.0.lock()).into_owned();
        let clean = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>();
        let lines: Vec<String> = text.lines().map(clean).filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(STDERR_LINES)..].join("\n")
    }
}

fn exit_status(status: std::process::ExitStatus) -> ExitStatus {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, Some(signal)) => ExitStatus::Signal(signal),
        (None, None) => ExitStatus::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use nerve_testkit::eventually;
    use nerve_testkit::harness::is_alive;

    use super::*;

    #[test]
    fn only_the_end_of_standard_error_is_kept() {
        let tail = StderrTail::default();
        for number in 0..10_000 {
            tail.push(format!("line {number}\x1b[0m\n\n").as_bytes());
        }
        let lines = tail.last_lines();
        assert_eq!(lines.lines().count(), STDERR_LINES);
        assert_eq!(lines.lines().last(), Some("line 9999[0m"));
    }

    fn sh(script: &str) -> Program {
        let argv = ["sh", "-c", script].map(str::to_string).to_vec();
        Program { argv, cwd: None, env: Default::default(), env_remove: Vec::new() }
    }

    #[tokio::test]
    async fn agent_ends_with_its_input_and_its_group_ends_with_it() {
        let stderr = StderrTail::default();
        let started = AgentProcess::start(&sh("sleep 1000 & echo $! >&2; cat; exit 3"), &stderr).unwrap();
        drop(started.stdin);
        assert_eq!(started.process.end().await, ExitStatus::Code(3));
        let sleep: u32 = stderr.last_lines().parse().unwrap();
        eventually("the rest of the group ends", async || !is_alive(sleep)).await;
    }

    #[tokio::test]
    async fn stubborn_agent_is_killed() {
        let stderr = StderrTail::default();
        let script = "trap '' TERM; echo ready >&2; while :; do sleep 1000; done";
        let started = AgentProcess::start(&sh(script), &stderr).unwrap();
        eventually("the script runs", async || stderr.last_lines() == "ready").await;
        drop(started.stdin);
        assert_eq!(started.process.end().await, ExitStatus::Signal(Signal::KILL.as_raw()));
    }
}
