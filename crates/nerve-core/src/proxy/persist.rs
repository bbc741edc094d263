//! What a new server needs to start a node's proxy again: a file of mode 0600 in a private folder, for each proxy that runs.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nerve_proxy::{Spent, Usage};
use serde::{Deserialize, Serialize};

use super::ProxySpec;

/// A file is read up to here.
const LIMIT: u64 = 1 << 20;

/// A proxy as it is kept.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(super) spec: ProxySpec,
    /// Where its agent looks for it.
    pub(super) port: u16,
    /// What its agent shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    #[serde(default)]
    pub(super) spent: KeptSpent,
}

/// What had passed when it was kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeptSpent {
    requests: u64,
    refused: u64,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    cost_usd: f64,
}

impl From<Spent> for KeptSpent {
    fn from(spent: Spent) -> KeptSpent {
        KeptSpent {
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

impl From<KeptSpent> for Spent {
    fn from(kept: KeptSpent) -> Spent {
        Spent {
            requests: kept.requests,
            refused: kept.refused,
            usage: Usage {
                input: kept.input,
                output: kept.output,
                cache_read: kept.cache_read,
                cache_write: kept.cache_write,
            },
            // What is kept is text, and may be anything.
            cost_usd: if kept.cost_usd.is_finite() { kept.cost_usd.max(0.0) } else { 0.0 },
        }
    }
}

impl Kept {
    /// Where the proxy of this id is kept.
    pub(super) fn path(folder: &Path, server: &str, id: &str) -> PathBuf {
        folder.join("run").join(server).join(format!("{id}.json"))
    }

    /// Reads one; only a file of this user, and no link to somewhere else.
    pub(super) fn read(path: &Path) -> io::Result<Kept> {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let file = fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() || meta.uid() != rustix::process::getuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is no file of this user"));
        }
        let mut bytes = Vec::new();
        file.take(LIMIT).read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Writes it, whole or not at all.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        private_folder(folder)?;
        // Mode 0600 from the start.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut file, self)?;
        file.flush()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    /// Removes what is kept of proxies of a server whose ids are not among these: nobody comes back for them.
    pub(crate) fn forget_others(folder: &Path, server: &str, ids: &[String]) {
        let Ok(files) = fs::read_dir(folder.join("run").join(server)) else { return };
        for path in files.flatten().map(|file| file.path()) {
            let id = path.file_stem().and_then(|stem| stem.to_str());
            if !id.is_some_and(|id| ids.iter().any(|known| known == id)) {
                // What cannot be removed is only left over.
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Makes a folder, and those above it, for this user alone.
pub(super) fn private_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::proxy::ProxyKind;

    #[test]
    fn it_is_read_as_it_was_written_and_nobody_else_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = Kept::path(dir.path(), "s", "abc");
        let spent = Spent { requests: 3, cost_usd: 0.5, ..Spent::default() };
        let kept = Kept {
            spec: ProxySpec::new(ProxyKind::Openai),
            port: 4000,
            token: Some("t0ken".into()),
            spent: spent.into(),
        };
        kept.write(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let again = Kept::read(&path).unwrap();
        assert_eq!((again.port, again.token.as_deref()), (4000, Some("t0ken")));
        assert_eq!((again.spec, Spent::from(again.spent)), (kept.spec, spent));
    }

    #[test]
    fn what_nobody_comes_back_for_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept {
            spec: ProxySpec::new(ProxyKind::Anthropic),
            port: 1,
            token: None,
            spent: KeptSpent::default(),
        };
        let at = |id: &str| Kept::path(dir.path(), "s", id);
        kept.write(&at("a")).unwrap();
        kept.write(&at("b")).unwrap();
        Kept::forget_others(dir.path(), "s", &["b".to_string()]);
        assert!(!at("a").exists() && at("b").exists());
        fs::remove_file(at("b")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("b")).unwrap();
        assert!(Kept::read(&at("b")).is_err(), "a link");
    }
}
