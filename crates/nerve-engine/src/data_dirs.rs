//! Locations of one user's recordings and of the data that belongs to them.

use std::path::PathBuf;

/// The directories and files that requests for recordings and nodes use. They need not exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataDirs {
    /// Recordings.
    pub recordings: PathBuf,
    /// Audit logs: `<history>/<server>/<node>.jsonl`.
    pub history: PathBuf,
    /// Files of snapshots.
    pub snapshots: PathBuf,
    /// Work trees of branches: `<branches>/<session>-<n>/`.
    pub branches: PathBuf,
    /// Entries of hosts.
    pub hosts: PathBuf,
    /// Logs of the nodes' proxies in `<proxies>/log/<server>/<session>/<node>.jsonl`, and their settings for a restart.
    pub proxies: PathBuf,
    /// The user's own prices.
    pub prices: PathBuf,
    /// The user's own profiles.
    pub profiles: PathBuf,
    /// The search index.
    pub search: PathBuf,
    /// Definitions of sessions and their nodes.
    pub sessions_file: PathBuf,
}
