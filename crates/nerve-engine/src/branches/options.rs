//! The user's choices for a branch.

use std::path::PathBuf;

use super::environment::NodeOverrides;

/// The user's choices for a branch.
#[derive(Debug, Clone, Default)]
pub struct BranchOptions {
    /// Name of the node.
    pub node: Option<String>,
    /// Target directory of the files.
    pub to: Option<PathBuf>,
    /// Work in the recorded directory with its current files.
    pub in_place: bool,
    /// Git work tree that has the snapshots.
    pub dir: Option<PathBuf>,
    /// Name of the server; `default` if empty.
    pub server: String,
    /// Session of the node.
    pub session: Option<String>,
    /// Environment and proxy of the node.
    pub overrides: NodeOverrides,
}
