//! Stores the state from which a new server restarts a node's proxy: a file of mode 0600 in a private folder for each running
//! proxy.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nerve_proxy::Totals;
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
    #[serde(rename = "spec")]
    pub(super) settings: ProxySettings,
    /// The port that the agent connects to.
    pub(super) port: u16,
    /// The token that the agent presents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    #[serde(default)]
    pub(super) spent: Totals,
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
        let mut stored: StoredProxy = serde_json::from_slice(&bytes)?;
        // The file is plain text and may contain any number.
        stored.spent.cost_usd = stored.spent.cost_usd.max(0.0);
        Ok(stored)
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
    use nerve_types::token_usage::TokenUsage;

    #[test]
    fn stored_proxy_is_read_back_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = StoredProxy::path(dir.path(), "s", "abc");
        let spent = Totals { requests: 3, cost_usd: 0.5, ..Totals::default() };
        let stored = StoredProxy {
            settings: ProxySettings::new(Provider::Openai),
            port: 4000,
            token: Some("t0ken".into()),
            spent,
        };
        stored.write(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let again = StoredProxy::read(&path).unwrap();
        assert_eq!((again.port, again.token.as_deref()), (4000, Some("t0ken")));
        assert_eq!((again.settings, again.spent), (stored.settings, spent));
    }

    #[test]
    fn totals_are_flat_and_may_be_incomplete() {
        let usage = TokenUsage { input: 3, output: 4, cache_read: 5, cache_write: 6 };
        let spent = Totals { requests: 1, refused: 2, usage, cost_usd: 0.5 };
        let json = r#"{"requests":1,"refused":2,"input":3,"output":4,"cache_read":5,"cache_write":6,"cost_usd":0.5}"#;
        assert_eq!(serde_json::to_string(&spent).unwrap(), json);
        assert_eq!(serde_json::from_str::<Totals>(json).unwrap(), spent);

        let dir = tempfile::tempdir().unwrap();
        let path = StoredProxy::path(dir.path(), "s", "abc");
        let settings = ProxySettings::new(Provider::Openai);
        StoredProxy { settings, port: 1, token: None, spent: Totals::default() }.write(&path).unwrap();
        let stored = fs::read_to_string(&path).unwrap();
        let (start, _) = stored.split_once("\"spent\":").unwrap();
        fs::write(&path, format!("{start}\"spent\":{{\"output\":4,\"cost_usd\":-1}}}}")).unwrap();
        let usage = TokenUsage { output: 4, ..TokenUsage::default() };
        assert_eq!(StoredProxy::read(&path).unwrap().spent, Totals { usage, ..Totals::default() });
    }

    #[test]
    fn unlisted_proxies_are_removed_and_links_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let stored = StoredProxy {
            settings: ProxySettings::new(Provider::Anthropic),
            port: 1,
            token: None,
            spent: Totals::default(),
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
