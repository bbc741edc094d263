//! Stores the state from which a new server restarts a node's proxy: a file of mode 0600 in a private folder for each running
//! proxy.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nerve_proxy::{Totals, Usage};
use nerve_transcript::session_files::entries;
use nerve_types::files::{private_folder, replace_unsynced};
use nerve_types::regular_file::{Links, open_regular};
use serde::{Deserialize, Serialize};

use super::ProxySettings;

/// Maximum size of a file in bytes.
const LIMIT: u64 = 1 << 20;

/// The stored state of a proxy.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct StoredProxy {
    pub(super) spec: ProxySettings,
    /// The port that the agent connects to.
    pub(super) port: u16,
    /// The token that the agent presents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    #[serde(default)]
    pub(super) spent: StoredTotals,
}

/// The stored usage totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredTotals {
    requests: u64,
    refused: u64,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    cost_usd: f64,
}

impl From<Totals> for StoredTotals {
    fn from(spent: Totals) -> StoredTotals {
        StoredTotals {
            requests: spent.requests,
            refused: spent.refused,
            input: spent.usage.input,
            output: spent.usage.output,
            cache_read: spent.usage.cache_read,
            cache_write: spent.usage.cache_write,
            cost_usd: spent.cost_usd,
        }
    }
}

impl From<StoredTotals> for Totals {
    fn from(stored: StoredTotals) -> Totals {
        Totals {
            requests: stored.requests,
            refused: stored.refused,
            usage: Usage {
                input: stored.input,
                output: stored.output,
                cache_read: stored.cache_read,
                cache_write: stored.cache_write,
            },
            // The file is plain text and may contain any number.
            cost_usd: if stored.cost_usd.is_finite() { stored.cost_usd.max(0.0) } else { 0.0 },
        }
    }
}

impl StoredProxy {
    /// Returns the path of the file for this id.
    pub(super) fn path(folder: &Path, server: &str, id: &str) -> PathBuf {
        folder.join("run").join(server).join(format!("{id}.json"))
    }

    /// Reads a file. Accepts only regular files of this user, and no symbolic links.
    pub(super) fn read(path: &Path) -> io::Result<StoredProxy> {
        let file = open_regular(path, fs::OpenOptions::new().read(true), Links::Refuse)?;
        if file.metadata()?.uid() != rustix::process::getuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "not a file of this user"));
        }
        let mut bytes = Vec::new();
        file.take(LIMIT).read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Writes the file atomically.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        private_folder(folder)?;
        replace_unsynced(path, &serde_json::to_vec(self)?)
    }

    /// Removes the files of a server's proxies whose ids are not listed.
    pub(crate) fn prune(folder: &Path, server: &str, ids: &[String]) {
        for path in entries(&folder.join("run").join(server)) {
            let id = path.file_stem().and_then(|stem| stem.to_str());
            if !id.is_some_and(|id| ids.iter().any(|known| known == id)) {
                // A file that cannot be removed does no harm.
                let _ = fs::remove_file(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::proxy::Provider;

    #[test]
    fn stored_proxy_is_read_back_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = StoredProxy::path(dir.path(), "s", "abc");
        let spent = Totals { requests: 3, cost_usd: 0.5, ..Totals::default() };
        let stored = StoredProxy {
            spec: ProxySettings::new(Provider::Openai),
            port: 4000,
            token: Some("t0ken".into()),
            spent: spent.into(),
        };
        stored.write(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let again = StoredProxy::read(&path).unwrap();
        assert_eq!((again.port, again.token.as_deref()), (4000, Some("t0ken")));
        assert_eq!((again.spec, Totals::from(again.spent)), (stored.spec, spent));
    }

    #[test]
    fn unlisted_proxies_are_removed_and_links_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let stored = StoredProxy {
            spec: ProxySettings::new(Provider::Anthropic),
            port: 1,
            token: None,
            spent: StoredTotals::default(),
        };
        let at = |id: &str| StoredProxy::path(dir.path(), "s", id);
        stored.write(&at("a")).unwrap();
        stored.write(&at("b")).unwrap();
        StoredProxy::prune(dir.path(), "s", &["b".to_string()]);
        assert!(!at("a").exists() && at("b").exists());
        fs::remove_file(at("b")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("b")).unwrap();
        assert!(StoredProxy::read(&at("b")).is_err(), "symbolic link");
    }
}
