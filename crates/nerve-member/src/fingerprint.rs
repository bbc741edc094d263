//! Versions of the files of the configuration, to notice changes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_types::os::FolderWatcher;
use tokio::time::{MissedTickBehavior, interval};

/// Interval at which the files of a configuration are checked.
const INTERVAL: Duration = Duration::from_secs(1);

/// The versions of a configuration and of the files that it names.
#[derive(Debug)]
pub(crate) struct Fingerprint(Vec<(PathBuf, Option<FileVersion>)>);

/// The version of a file: inode, modification in seconds and nanoseconds, size, mode and owner.
type FileVersion = (u64, i64, i64, u64, u32, u32);

impl Fingerprint {
    /// Reads the versions of the files. The first is the configuration.
    pub(crate) fn read(files: Vec<PathBuf>) -> Fingerprint {
        let with_version = |path: PathBuf| {
            let version = version(&path);
            (path, version)
        };
        Fingerprint(files.into_iter().map(with_version).collect())
    }

    /// Adds the versions of further files.
    pub(crate) fn extend(&mut self, files: Vec<PathBuf>) {
        self.0.extend(Fingerprint::read(files).0);
    }

    /// Waits until a file has another version, appears or disappears. A missing configuration costs nothing while nothing changes.
    pub(crate) async fn changed(&self) {
        let missing = match self.0.first() {
            Some((config, None)) => config.parent(),
            _ => None,
        };
        let watcher = missing.and_then(|folder| Some((FolderWatcher::new().ok()?, folder)));
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Again after each change: the folder may be new too.
            let watched = watcher.as_ref().filter(|(watcher, folder)| watcher.watch_folder(folder).is_ok());
            if self.has_changed() {
                return;
            }
            let is_notified = match watched {
                Some((watcher, _)) => watcher.changed().await.is_ok(),
                None => false,
            };
            if !is_notified {
                ticks.tick().await;
            }
        }
    }

    fn has_changed(&self) -> bool {
        self.0.iter().any(|(path, known)| version(path) != *known)
    }
}

fn version(path: &Path) -> Option<FileVersion> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.size(), meta.mode(), meta.uid()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use nerve_testkit::within_deadline;

    use super::*;

    #[tokio::test]
    async fn changes_of_files_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (config, other) = (folder.path().join("a/b/cluster.toml"), folder.path().join("key"));
        let read = || Fingerprint::read(vec![config.clone(), other.clone()]);
        let missing = read();
        tokio::join!(within_deadline("it appears", missing.changed()), async {
            for folder in [folder.path().join("a"), folder.path().join("a/b")] {
                fs::create_dir(folder).unwrap();
                // The watcher receives the event before the next change.
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
            }
            fs::write(&config, "").unwrap();
        });
        let change = |what: &'static str, change: &dyn Fn()| {
            let before = read();
            change();
            async move { within_deadline(what, before.changed()).await }
        };
        change("another mode", &|| fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap())
            .await;
        change("another size", &|| fs::write(&config, "x").unwrap()).await;
        change("the other file", &|| fs::write(&other, "x").unwrap()).await;
        change("it disappears", &|| fs::remove_file(&config).unwrap()).await;
        assert!(!read().has_changed());
    }
}
