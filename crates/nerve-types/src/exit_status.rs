//! Exit statuses of programs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Exit status of a child process. In JSON `{"code": n}`, `{"signal": n}` or `{}` if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Record", into = "Record")]
pub enum ExitStatus {
    /// Returned this exit code, 0–255.
    Code(i32),
    /// Was terminated by this signal.
    Signal(i32),
    /// Unknown: the process is gone and its status is not available.
    Unknown,
}

impl ExitStatus {
    /// Returns the exit code that a shell reports: 128 plus the number of a signal. `None` if the status is unknown.
    pub fn shell_code(self) -> Option<i32> {
        match self {
            ExitStatus::Code(code) => Some(code),
            ExitStatus::Signal(signal) => Some(128 + signal),
            ExitStatus::Unknown => None,
        }
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitStatus::Code(code) => write!(f, "exit code {code}"),
            ExitStatus::Signal(signal) => write!(f, "signal {signal}"),
            ExitStatus::Unknown => f.write_str("unknown status"),
        }
    }
}

impl FromStr for ExitStatus {
    type Err = UnknownForm;

    /// Parses the text that [`fmt::Display`] makes.
    fn from_str(text: &str) -> Result<ExitStatus, UnknownForm> {
        let number = |text: &str| text.parse().map_err(|_| UnknownForm);
        match (text.strip_prefix("exit code "), text.strip_prefix("signal ")) {
            (Some(code), _) => number(code).map(ExitStatus::Code),
            (None, Some(signal)) => number(signal).map(ExitStatus::Signal),
            (None, None) if text == "unknown status" => Ok(ExitStatus::Unknown),
            (None, None) => Err(UnknownForm),
        }
    }
}

/// The error of a text that is not an exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownForm;

impl fmt::Display for UnknownForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an exit status")
    }
}

impl std::error::Error for UnknownForm {}

/// The form of an exit status in JSON.
#[derive(Serialize, Deserialize)]
struct Record {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
}

impl From<ExitStatus> for Record {
    fn from(status: ExitStatus) -> Record {
        let (code, signal) = match status {
            ExitStatus::Code(code) => (Some(code), None),
            ExitStatus::Signal(signal) => (None, Some(signal)),
            ExitStatus::Unknown => (None, None),
        };
        Record { code, signal }
    }
}

impl From<Record> for ExitStatus {
    fn from(record: Record) -> ExitStatus {
        match (record.code, record.signal) {
            (Some(code), _) => ExitStatus::Code(code),
            (None, Some(signal)) => ExitStatus::Signal(signal),
            (None, None) => ExitStatus::Unknown,
        }
    }
}
