//! Processes that a test started.

use std::fs::{self, DirEntry};
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::output::CommandOutput;
use crate::{DEADLINE, wait_for, wait_until};

/// A child process that is killed and reaped on drop.
#[derive(Debug)]
pub struct KillOnDrop(pub Child);

impl KillOnDrop {
    /// Starts a command without input; its output is piped.
    ///
    /// # Panics
    /// It does not start.
    #[track_caller]
    pub fn spawn(mut command: Command) -> KillOnDrop {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        KillOnDrop(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// It does not end within [`DEADLINE`].
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        let ended = wait_for(DEADLINE, || self.0.try_wait().ok().flatten());
        ended.unwrap_or_else(|| panic!("process {} does not end", self.0.id()))
    }

    /// Waits for the end of the process and returns its piped output, which must fit into the pipes (pipe(7): 64 KiB).
    ///
    /// # Panics
    /// It does not end within [`DEADLINE`], or its output is not UTF-8.
    #[track_caller]
    pub fn output(mut self) -> CommandOutput {
        let ended = wait_for(DEADLINE, || self.0.try_wait().ok().flatten());
        if ended.is_none() {
            // Its output may say why.
            let _ = self.0.kill();
        }
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let out = self.0.stdout.take().map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut stdout));
        let err = self.0.stderr.take().map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut stderr));
        let status = out.and(err).and_then(|_| self.0.wait()).unwrap_or_else(|error| panic!("{error}"));
        let output = CommandOutput::new(&Output { status, stdout, stderr });
        assert!(ended.is_some(), "the process does not end: {output:?}");
        output
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns true if the process exists and is no zombie (proc_pid_stat(5)).
pub fn is_alive(pid: u32) -> bool {
    state(&format!("/proc/{pid}/stat")).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Sends a signal to a process of this test.
///
/// # Panics
/// There is no such process.
#[track_caller]
pub fn signal(pid: u32, signal: Signal) {
    let sent = i32::try_from(pid).ok().and_then(Pid::from_raw).map(|pid| kill_process(pid, signal));
    assert!(matches!(sent, Some(Ok(()))), "{signal:?} to process {pid}: {sent:?}");
}

/// Stops a process and waits until all its threads have stopped: a running thread could still answer the test's next
/// step.
///
/// # Panics
/// It does not stop within [`DEADLINE`].
#[track_caller]
pub fn freeze(pid: u32) {
    signal(pid, Signal::STOP);
    let is_stopped = |thread: io::Result<DirEntry>| {
        let stat = thread.map(|thread| thread.path().join("stat").display().to_string());
        stat.is_ok_and(|stat| state(&stat).is_none_or(|state| state == 'T'))
    };
    let is_frozen = || fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|mut all| all.all(is_stopped));
    assert!(wait_until(DEADLINE, is_frozen), "process {pid} does not stop");
}

/// Returns the CPU time that a process has used, in steps of 10 ms (proc_pid_stat(5)).
///
/// # Panics
/// There is no such process.
#[track_caller]
pub fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    // Fields 14 and 15, user and system time, in hundredths of a second; the state is field 3.
    let ticks: Vec<u64> = fields.skip(11).take(2).flat_map(str::parse).collect();
    assert_eq!(ticks.len(), 2, "process {pid}: {stat:?}");
    Duration::from_millis(ticks.iter().sum::<u64>() * 10)
}

/// Returns a memory figure of a process, such as `VmRSS`, in KiB (proc_pid_status(5)); 0 if the process has ended.
pub fn memory_kib(pid: u32, figure: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Returns the child processes of all threads of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<u32>>()).collect()
}

/// Returns true if a descendant of the process runs a program of this name.
pub fn has_descendant(pid: u32, name: &str) -> bool {
    let is_named =
        |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name);
    children(pid).into_iter().any(|child| is_named(child) || has_descendant(child, name))
}

/// Returns the state in a `stat` file. The name before it may contain anything and ends with the last parenthesis.
fn state(stat: &str) -> Option<char> {
    fs::read_to_string(stat).ok()?.rsplit_once(") ")?.1.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_process_lives_until_killed() {
        let child = KillOnDrop(Command::new("sleep").arg("1000").spawn().unwrap());
        let pid = child.0.id();
        freeze(pid);
        assert!(is_alive(pid) && has_descendant(std::process::id(), "sleep"));
        assert!(memory_kib(pid, "VmHWM") > 0 && cpu_time(pid) < DEADLINE);
        drop(child);
        assert!(!is_alive(pid));
    }

    #[test]
    fn output_and_status_of_a_process_are_collected() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let mut child = KillOnDrop::spawn(command);
        assert_eq!(child.wait_for_exit().code(), Some(3));
        let output = child.output();
        assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (3, "out\n", "err\n"));
    }
}
