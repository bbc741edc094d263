//! The report of a server in the background to the process that starts it: one line of JSON on its standard output.

use std::io::{self, BufRead, BufReader, Write};

use nerve_server::error::ServerError;
use serde::{Deserialize, Serialize};

use crate::exit::{FAILED, Failure};

/// The outcome of the start of a server.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StartReport {
    listening: bool,
    /// Problems that did not prevent the start.
    pub(super) warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl StartReport {
    pub(super) fn listening(warnings: Vec<String>) -> StartReport {
        StartReport { listening: true, warnings, ..StartReport::default() }
    }

    pub(super) fn failed(error: &ServerError) -> StartReport {
        StartReport { error: Some(error.to_string()), hint: error.hint(), ..StartReport::default() }
    }

    /// Sends the report to the parent, which may have exited.
    pub(super) fn send(&self) {
        if let Ok(line) = serde_json::to_string(self) {
            let _ = writeln!(io::stdout().lock(), "{line}");
        }
    }

    /// Reads the report of a child; `None` if it ended without one.
    ///
    /// # Errors
    /// The output cannot be read.
    pub(super) fn read(output: impl io::Read) -> io::Result<Option<StartReport>> {
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        Ok((!line.is_empty()).then(|| serde_json::from_str(&line).unwrap_or_default()))
    }

    /// Returns why the start failed, if it did.
    pub(super) fn failure(&self) -> Option<Failure> {
        let error = self.error.as_ref()?;
        Some(Failure { hint: self.hint.clone(), ..Failure::new(FAILED, error) })
    }
}
