//! How a program ended.

/// Exit status of a child process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// Returned this exit code, 0–255.
    Code(i32),
    /// Was terminated by this signal.
    Signal(i32),
    /// Unknown: the process is gone and its status is not available.
    Unknown,
}

impl std::fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExitStatus::Code(code) => write!(f, "exit code {code}"),
            ExitStatus::Signal(signal) => write!(f, "signal {signal}"),
            ExitStatus::Unknown => f.write_str("unknown status"),
        }
    }
}
