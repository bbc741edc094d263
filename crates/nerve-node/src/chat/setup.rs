//! Settings and environment of a chat node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::request::Api;
use super::{ChatSettings, settings};
use crate::audit_log::AuditLogs;
use crate::error::EngineError;
use crate::events::Publisher;
use crate::usage_ledger::UsageLedger;

/// The inputs of a chat node.
#[derive(Clone)]
pub(crate) struct Setup {
    /// The settings.
    pub(crate) settings: ChatSettings,
    /// Base of relative paths.
    pub(crate) cwd: Option<PathBuf>,
    /// Variables on top of this process's own. The key may be among them.
    pub(crate) env: BTreeMap<String, String>,
    /// Timeout of turns that set none.
    pub(crate) timeout: Duration,
    /// Publishes the node's events.
    pub(crate) events: Publisher,
    /// Counts the usage of the node.
    pub(crate) ledger: UsageLedger,
    /// Opens the audit logs of forks; `None` if this node has none.
    pub(crate) fork_audit_logs: Option<AuditLogs>,
}

impl Setup {
    /// Checks that a node can be created.
    ///
    /// # Errors
    /// See [`super::ChatNode::new`].
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        settings::check(&self.settings)?;
        self.api().map(drop)
    }

    /// Returns the API, with the current value of the key.
    pub(super) fn api(&self) -> Result<Api, EngineError> {
        let variable = |name: &str| self.env.get(name).cloned().or_else(|| std::env::var(name).ok());
        Api::new(&self.settings, variable)
    }

    /// Returns the file that stores the conversation.
    pub(super) fn store_path(&self) -> Option<PathBuf> {
        self.settings.keep.as_ref().map(|path| self.absolute(Path::new(path)))
    }

    pub(super) fn absolute(&self, path: &Path) -> PathBuf {
        self.cwd.as_deref().map_or_else(|| path.to_path_buf(), |cwd| cwd.join(path))
    }
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("settings", &self.settings).finish_non_exhaustive()
    }
}
