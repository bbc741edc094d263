//! Process statistics of the kernel (proc_pid_stat(5)): CPU time, parent, liveness.

use std::ffi::OsString;
use std::fs;

use anyhow::{Context, Result};

/// Ticks per second in /proc on every Linux since 2.6 (USER_HZ).
const TICKS: f64 = 100.0;

/// Fields of `/proc/<pid>/stat` behind the name, by their numbers in the manual.
const PARENT: usize = 4;
const OWN: [usize; 2] = [14, 15];
const CHILDREN: [usize; 2] = [16, 17];

/// Returns the CPU time of a process in seconds, in steps of 10 ms.
pub(crate) fn cpu(pid: &str) -> Result<f64> {
    seconds(pid, OWN)
}

/// Returns the CPU time of the children that this process has waited for, in seconds, in steps of 10 ms.
pub(crate) fn cpu_of_ended_children() -> Result<f64> {
    cpu_of_children("self")
}

/// Returns the CPU time of the ended children of a process, in seconds, in steps of 10 ms.
pub(crate) fn cpu_of_children(pid: &str) -> Result<f64> {
    seconds(pid, CHILDREN)
}

/// Returns the CPU time of a process's live threads with a name, in seconds, to the nanosecond.
pub(crate) fn cpu_of_threads(pid: &str, name: &str) -> Result<f64> {
    Ok(threads(pid, name)?.into_iter().map(|(_, seconds)| seconds).sum())
}

/// Returns the ids of a process's live threads with a name, and the CPU time of each in seconds.
pub(crate) fn threads(pid: &str, name: &str) -> Result<Vec<(OsString, f64)>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?;
        // It may have ended since.
        let read = |file| fs::read_to_string(thread.path().join(file)).ok();
        if read("comm").is_some_and(|comm| comm.trim_end() == name)
            && let Some(times) = read("schedstat")
        {
            let on_cpu = times.split(' ').next().context("schedstat is empty")?;
            found.push((thread.file_name(), on_cpu.parse::<f64>()? / 1e9));
        }
    }
    Ok(found)
}

/// Returns the parent's pid.
pub(crate) fn parent(pid: &str) -> Result<String> {
    field(pid, PARENT)
}

/// Returns true if the process exists and is no zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    field(pid, 3).is_ok_and(|state| !matches!(state.as_str(), "Z" | "X"))
}

fn seconds(pid: &str, fields: [usize; 2]) -> Result<f64> {
    let ticks = |number| anyhow::Ok(field(pid, number)?.parse::<f64>()?);
    Ok((ticks(fields[0])? + ticks(fields[1])?) / TICKS)
}

fn field(pid: &str, number: usize) -> Result<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, field 2, may contain anything and ends with the last parenthesis.
    let (_, fields) = stat.rsplit_once(") ").context("no name in stat")?;
    Ok(fields.split(' ').nth(number - 3).context("stat is short")?.to_string())
}
