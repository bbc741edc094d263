//! Information about a pane of a multiplexer, and errors of calls to it.

use std::io;
use std::path::PathBuf;

use serde::Serialize;

use super::SpawnError;

/// A pane as reported by its multiplexer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PaneInfo {
    /// `%3` in tmux, a number in WezTerm.
    #[serde(rename = "pane_id")]
    pub pane: String,
    /// tmux session or WezTerm workspace.
    pub session: String,
    /// Name or id of the window.
    pub window: String,
    /// Title of the pane.
    pub title: String,
    /// The program running in it, if reported.
    pub command: Option<String>,
    /// Its working directory, if reported.
    pub cwd: Option<PathBuf>,
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// Cursor as column and row of the screen, 0-based.
    pub cursor: (u16, u16),
    /// Process id of the program, if reported.
    pub pid: Option<i32>,
    /// The terminal's device, if reported.
    pub tty: Option<PathBuf>,
    /// True if the pane has the focus of its window.
    pub active: bool,
}

/// Error of a call to a multiplexer.
#[derive(Debug, thiserror::Error)]
pub enum PaneError {
    /// The multiplexer's feature is disabled in this build.
    #[error("this build has no {0} support")]
    NotBuilt(&'static str),
    /// The program is not installed.
    #[error("no program '{0}' in PATH")]
    NotInstalled(&'static str),
    /// No server is running.
    #[error("no {0} server is running")]
    NoServer(&'static str),
    /// The version is too old.
    #[error("{found} is too old: {needed} or newer is needed")]
    TooOld {
        /// Name and version found.
        found: String,
        /// Minimum version.
        needed: &'static str,
    },
    /// No such pane.
    #[error("no such pane: {0}")]
    NoPane(String),
    /// The call timed out; the command may still take effect.
    #[error("{0} timed out after {1:?}; the command may still take effect")]
    Timeout(&'static str, std::time::Duration),
    /// The multiplexer refused, with its message.
    #[error("{0}")]
    Refused(String),
    /// A system call failed.
    #[error("cannot {action}: {error}")]
    System {
        /// The action that failed.
        action: &'static str,
        /// The cause.
        error: io::Error,
    },
}

impl From<PaneError> for SpawnError {
    fn from(error: PaneError) -> SpawnError {
        match error {
            PaneError::NoPane(pane) => SpawnError::NoPane(pane),
            error => SpawnError::Multiplexer(error.to_string()),
        }
    }
}
