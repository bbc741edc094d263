//! The successive runs under one id, in any session.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use crate::EXECUTION;
use crate::registry::{Entry, entries};
use serde_json::Value;

use nerve_types::os::FolderWatcher;

/// Waits for the next run of an id. Nothing is polled: the folder of the hosts' entries is watched.
#[derive(Debug)]
pub struct Runs {
    id: String,
    registry: PathBuf,
    /// Ids of hosts that existed before or were returned already.
    seen: BTreeSet<String>,
    watcher: FolderWatcher,
}

impl Runs {
    /// Watches for runs that begin from now on. `registry` is the folder of the hosts' entries. Must be called on a runtime.
    ///
    /// # Errors
    /// The folder cannot be watched.
    pub fn watch(id: &str, registry: PathBuf) -> io::Result<Runs> {
        let watcher = FolderWatcher::new()?;
        // Watched before it is read, so that no change is missed.
        watcher.watch_folder(&registry)?;
        let mut runs = Runs { id: id.to_string(), registry, seen: BTreeSet::new(), watcher };
        runs.seen = runs.matching_hosts().map(|entry| entry.id).collect();
        Ok(runs)
    }

    /// Waits for a new running host and returns it; if there are several, the one that began last. Cancel safe.
    ///
    /// # Errors
    /// The I/O error of the watch.
    pub async fn next(&mut self) -> io::Result<Entry> {
        loop {
            let new: Vec<Entry> =
                self.matching_hosts().filter(|entry| !self.seen.contains(&entry.id)).collect();
            self.seen.extend(new.iter().map(|entry| entry.id.clone()));
            if let Some(entry) = new.into_iter().rfind(Entry::is_alive) {
                return Ok(entry);
            }
            self.watcher.changed().await?;
            // The folder may have been created just now.
            self.watcher.watch_folder(&self.registry)?;
        }
    }

    /// Returns the hosts of the id, oldest first.
    fn matching_hosts(&self) -> impl Iterator<Item = Entry> + use<> {
        let id = self.id.clone();
        let is_it = move |entry: &Entry| entry.label.get(EXECUTION).and_then(Value::as_str) == Some(&id);
        entries(&self.registry).into_iter().filter(is_it)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use nerve_testkit::harness::host_entry;

    const DEADLINE: Duration = Duration::from_secs(20);

    /// Lists a host. An alive one refers to this process.
    fn host(registry: &Path, id: &str, execution: &str, alive: bool) {
        let mut entry = host_entry(id, "s", std::process::id());
        entry["label"] = json!({ EXECUTION: execution });
        if !alive {
            entry["start"] = json!(1);
        }
        let entry: Entry = serde_json::from_value(entry).unwrap();
        entry.store(registry).unwrap();
    }

    #[tokio::test]
    async fn next_run_is_returned_once_and_earlier_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let registry = dir.path().join("hosts");
        let mut runs = Runs::watch("build", registry.clone()).unwrap();
        // The folder does not exist yet.
        std::fs::create_dir(&registry).unwrap();
        host(&registry, "aa", "build", true);
        let first = tokio::time::timeout(DEADLINE, runs.next()).await.unwrap().unwrap();
        assert_eq!(first.id, "aa");
        let mut later = Runs::watch("build", registry.clone()).unwrap();
        host(&registry, "bb", "other", true);
        host(&registry, "cc", "build", false);
        let nothing = Duration::from_millis(20);
        assert!(tokio::time::timeout(nothing, later.next()).await.is_err());
        host(&registry, "dd", "build", true);
        for runs in [&mut runs, &mut later] {
            assert_eq!(tokio::time::timeout(DEADLINE, runs.next()).await.unwrap().unwrap().id, "dd");
        }
    }
}
