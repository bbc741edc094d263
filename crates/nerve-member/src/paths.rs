//! Files of a membership.

use std::path::{Path, PathBuf};

/// The files of a membership. They need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberPaths {
    config: PathBuf,
    state: PathBuf,
}

impl MemberPaths {
    /// Creates the paths in the directories of settings and state.
    pub fn new(config: &Path, state: &Path) -> MemberPaths {
        MemberPaths { config: config.to_path_buf(), state: state.join("cluster") }
    }

    /// Returns the configuration.
    pub fn config(&self) -> PathBuf {
        self.config.join("cluster.toml")
    }

    /// Returns the directory of the identity.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// Returns the id of the machine and the number of starts.
    pub(crate) fn identity(&self) -> PathBuf {
        self.state.join("machine.json")
    }

    /// Returns the lock of the process that uses the identity.
    pub(crate) fn lock(&self) -> PathBuf {
        self.state.join("lock")
    }

    /// Returns the status of that process.
    pub(crate) fn status(&self) -> PathBuf {
        self.state.join("status.json")
    }
}
