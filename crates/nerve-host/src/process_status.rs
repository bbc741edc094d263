//! Status of processes on this machine.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;

/// Fields of proc_pid_stat(5).
#[derive(Debug, Clone, Copy)]
pub struct ProcessStatus {
    /// State letter, such as `S` for sleeping.
    pub state: char,
    /// Id of the session.
    pub session: i32,
    /// Device of the controlling terminal; 0 without one.
    pub tty: u64,
    /// Foreground process group of that terminal; -1 without one.
    pub foreground: i32,
    /// Start time in clock ticks since boot.
    pub started: u64,
}

impl ProcessStatus {
    /// Reads the status of a process; `None` if it does not exist.
    pub fn of(pid: impl Display) -> Option<ProcessStatus> {
        // Longer than any line: 52 numbers and a name of at most 64 bytes.
        let mut line = Vec::with_capacity(2048);
        File::open(format!("/proc/{pid}/stat")).ok()?.take(2048).read_to_end(&mut line).ok()?;
        let line = String::from_utf8_lossy(&line);
        // The name in field 2 may contain parentheses: the last one ends it.
        let mut fields = line.rsplit_once(") ")?.1.split(' ');
        // Fields 3, 6, 7, 8 and 22.
        let state = fields.next()?.chars().next()?;
        let session = fields.nth(2)?.parse().ok()?;
        let tty: i32 = fields.next()?.parse().ok()?;
        let foreground = fields.next()?.parse().ok()?;
        let started = fields.nth(13)?.parse().ok()?;
        Some(ProcessStatus { state, session, tty: u64::from(tty.cast_unsigned()), foreground, started })
    }

    /// Reads the status of a living process; `None` for a zombie too.
    pub fn of_living(pid: impl Display) -> Option<ProcessStatus> {
        ProcessStatus::of(pid).filter(|status| !matches!(status.state, 'Z' | 'X'))
    }
}

#[cfg(test)]
mod tests {
    use nerve_testkit::DEADLINE;

    use super::*;

    #[test]
    fn own_status_is_read() {
        let own = ProcessStatus::of_living(std::process::id()).unwrap();
        assert!(own.started > 0 && matches!(own.state, 'R' | 'S'), "{own:?}");
        assert!(ProcessStatus::of(u32::MAX).is_none());
    }

    /// The session of the test itself would not do: in a container it may have begun outside, where its id is 0.
    #[test]
    fn session_of_a_leader_is_its_process_id() {
        let mut leader = std::process::Command::new("setsid").args(["sleep", "60"]).spawn().unwrap();
        let pid = leader.id();
        let leads = nerve_testkit::wait_until(DEADLINE, || {
            ProcessStatus::of(pid).is_some_and(|status| status.session.cast_unsigned() == pid)
        });
        leader.kill().unwrap();
        leader.wait().unwrap();
        assert!(leads);
    }
}
