//! Names of signals. Their numbers differ between systems.

const NAMES: [(&str, i32); 18] = [
    ("SIGHUP", libc::SIGHUP),
    ("SIGINT", libc::SIGINT),
    ("SIGQUIT", libc::SIGQUIT),
    ("SIGILL", libc::SIGILL),
    ("SIGTRAP", libc::SIGTRAP),
    ("SIGABRT", libc::SIGABRT),
    ("SIGBUS", libc::SIGBUS),
    ("SIGFPE", libc::SIGFPE),
    ("SIGKILL", libc::SIGKILL),
    ("SIGUSR1", libc::SIGUSR1),
    ("SIGSEGV", libc::SIGSEGV),
    ("SIGUSR2", libc::SIGUSR2),
    ("SIGPIPE", libc::SIGPIPE),
    ("SIGALRM", libc::SIGALRM),
    ("SIGTERM", libc::SIGTERM),
    ("SIGXCPU", libc::SIGXCPU),
    ("SIGXFSZ", libc::SIGXFSZ),
    ("SIGSYS", libc::SIGSYS),
];

/// Returns the name of a signal of this system, such as `SIGHUP`, or `signal N` without a standard name.
pub fn signal_name(number: i32) -> String {
    let name = NAMES.iter().find(|(_, value)| *value == number);
    name.map_or_else(|| format!("signal {number}"), |(name, _)| (*name).to_string())
}
