//! What a chat node is made with, its environment included.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::request::Api;
use super::spec::ChatSpec;
use crate::error::EngineError;
use crate::events::Publisher;
use crate::node::factory::NodeFactory;

/// What a node is made with.
#[derive(Clone)]
pub(crate) struct Setup {
    /// The model.
    pub(crate) spec: ChatSpec,
    /// Where relative paths begin.
    pub(crate) cwd: Option<PathBuf>,
    /// Variables on top of this process's own; the key may be among them.
    pub(crate) env: BTreeMap<String, String>,
    /// Limit of a turn that names none.
    pub(crate) timeout: Duration,
    /// Where events go.
    pub(crate) events: Publisher,
    /// Makes the audit logs of forks; `None` where this node keeps none.
    pub(crate) journals: Option<NodeFactory>,
}

impl Setup {
    /// Can a node be made of it?
    ///
    /// # Errors
    /// As of a node that is made of it.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        self.spec.check()?;
        self.api().map(drop)
    }

    /// Whom it asks, with the key as it is now.
    pub(super) fn api(&self) -> Result<Api, EngineError> {
        let variable = |name: &str| self.env.get(name).cloned().or_else(|| std::env::var(name).ok());
        Api::new(&self.spec, variable)
    }

    /// The file that keeps its conversation.
    pub(super) fn keep(&self) -> Option<PathBuf> {
        self.spec.keep.as_deref().map(|path| self.absolute(path))
    }

    pub(super) fn absolute(&self, path: &Path) -> PathBuf {
        self.cwd.as_deref().map_or_else(|| path.to_path_buf(), |cwd| cwd.join(path))
    }
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("spec", &self.spec).finish_non_exhaustive()
    }
}
