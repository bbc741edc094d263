//! The state of fan-outs: one JSON file each in the state directory.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use nerve_commands::failure::{FAILED, Failure, NOT_FOUND};
use nerve_types::files::{Lock, private_folder};
use nerve_types::name;

use crate::fan_out::{Attempt, FanOut};

/// Time to wait for another process that writes a file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The directory of the state files.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    worktrees: PathBuf,
}

impl Store {
    /// Uses the user's state directory.
    pub fn open(state: &Path) -> Store {
        Store { dir: state.join("fan-outs"), worktrees: state.join("worktrees") }
    }

    /// Returns the directory of the worktrees of a fan-out.
    pub fn worktree_root(&self, common_dir: &Path, repository: &Path, name: &str) -> PathBuf {
        let repository = repository.file_name().unwrap_or_default().to_string_lossy();
        let hash = nerve_graph::journal::key(0, None, &common_dir.to_string_lossy().into());
        // git names worktrees by their real paths.
        let _ = fs::create_dir_all(&self.worktrees);
        let root = self.worktrees.canonicalize().unwrap_or_else(|_| self.worktrees.clone());
        root.join(format!("{repository}-{:08x}", hash & 0xffff_ffff)).join(name)
    }

    /// Returns all fan-outs, oldest first. `report` gets the unreadable files.
    pub fn list(&self, report: impl Fn(&Path, &anyhow::Error)) -> Vec<FanOut> {
        let files = fs::read_dir(&self.dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let read = |path: PathBuf| read(&path).inspect_err(|error| report(&path, error)).ok();
        let mut fan_outs: Vec<FanOut> = files.filter_map(read).collect();
        fan_outs.sort_by(|a, b| (&a.created_at, &a.name).cmp(&(&b.created_at, &b.name)));
        fan_outs
    }

    /// Returns true if a fan-out of this name exists.
    pub fn contains(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// Returns the time at which the state of a fan-out was last written.
    pub fn written(&self, name: &str) -> Option<SystemTime> {
        self.file(name).metadata().ok()?.modified().ok()
    }

    /// Reserves a name for the command that starts or removes its fan-out; `None` if another command does.
    ///
    /// # Errors
    /// The lock file cannot be written.
    pub fn reserve(&self, name: &str) -> Result<Option<Lock>> {
        // Under this lock, because the file of the other one is removed with its fan-out.
        let _lock = self.lock()?;
        let path = self.reservation(name);
        match Lock::take(&path, Duration::ZERO) {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    /// Reserves a fan-out and reads it again.
    ///
    /// # Errors
    /// Exit code 1 if another command starts or removes it; 3 if it is gone.
    pub fn reserve_current(&self, fan_out: &mut FanOut) -> Result<Lock> {
        let name = &fan_out.name;
        let Some(lock) = self.reserve(name)? else {
            let message = format!("fan-out '{name}' is in use: another command starts or removes it");
            let hint = "wait until that command has done it, or end it";
            return Err(Failure::new(FAILED, message).hint(hint).into());
        };
        let Some(current) = self.read_current(fan_out)? else {
            return Err(Failure::new(NOT_FOUND, format!("fan-out '{name}' was removed meanwhile")).into());
        };
        *fan_out = current;
        Ok(lock)
    }

    /// Stores a new fan-out; returns false if its name is taken.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(&self, fan_out: &FanOut) -> Result<bool> {
        private_folder(&self.dir).with_context(|| format!("cannot create {}", self.dir.display()))?;
        let path = self.file(&fan_out.name);
        match self.write(fan_out)?.persist_noclobber(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error.error).with_context(|| format!("cannot write {}", path.display())),
        }
    }

    /// Stores the progress of a fan-out in addition to what other commands have stored meanwhile. Stores nothing if one of them
    /// has removed it.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn save(&self, fan_out: &FanOut) -> Result<()> {
        let _lock = self.lock()?;
        let Some(mut current) = self.read_current(fan_out)? else { return Ok(()) };
        current.run_id = current.run_id.or_else(|| fan_out.run_id.clone());
        for (current, attempt) in current.attempts.iter_mut().zip(&fan_out.attempts) {
            current.outcome = current.outcome.take().or_else(|| attempt.outcome.clone());
            current.is_removed |= attempt.is_removed;
        }
        let path = self.file(&fan_out.name);
        self.write(&current)?.persist(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(())
    }

    /// Reads a fan-out again; `None` if it was removed, even if another one has its name now.
    fn read_current(&self, fan_out: &FanOut) -> Result<Option<FanOut>> {
        let path = self.file(&fan_out.name);
        if !path.exists() {
            return Ok(None);
        }
        let current = read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Some(current).filter(|current| current.created_at == fan_out.created_at))
    }

    /// Waits for other processes that change the files.
    fn lock(&self) -> Result<Lock> {
        private_folder(&self.dir).with_context(|| format!("cannot create {}", self.dir.display()))?;
        let path = self.dir.join("lock");
        Lock::take(&path, LOCK_TIMEOUT).with_context(|| format!("cannot lock {}", path.display()))
    }

    /// Forgets a fan-out, and removes the output of its tests and its empty directories.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, fan_out: &FanOut) -> Result<()> {
        let _lock = self.lock()?;
        for attempt in &fan_out.attempts {
            let _ = fs::remove_file(self.test_log(&fan_out.name, attempt));
            let _ = fs::remove_file(self.test_exit(&fan_out.name, attempt));
            // Only empty directories are removed.
            let parents = attempt.worktree.ancestors().skip(1).take(2);
            parents.for_each(|parent| drop(fs::remove_dir(parent)));
        }
        let _ = fs::remove_file(self.reservation(&fan_out.name));
        let path = self.file(&fan_out.name);
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
    }

    /// Returns the file with the output of an attempt's test.
    pub fn test_log(&self, name: &str, attempt: &Attempt) -> PathBuf {
        self.dir.join(format!("{name}.{}.log", attempt.label))
    }

    /// Returns the file with the exit code of an attempt's test.
    pub fn test_exit(&self, name: &str, attempt: &Attempt) -> PathBuf {
        self.dir.join(format!("{name}.{}.exit", attempt.label))
    }

    fn write(&self, fan_out: &FanOut) -> Result<tempfile::NamedTempFile> {
        let failed = || format!("cannot write the state of fan-out '{}'", fan_out.name);
        let mut file = tempfile::NamedTempFile::new_in(&self.dir).with_context(failed)?;
        let text = serde_json::to_string_pretty(fan_out)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).with_context(failed)?;
        Ok(file)
    }

    fn reservation(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.lock"))
    }

    fn file(&self, name: &str) -> PathBuf {
        debug_assert!(name::check("fan-out", name).is_ok(), "{name}");
        self.dir.join(format!("{name}.json"))
    }
}

fn read(path: &Path) -> Result<FanOut> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fan_out::{Outcome, example};

    /// Creates a store with a fan-out of two attempts.
    fn fixture() -> (tempfile::TempDir, Store, FanOut) {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path());
        let fan_out = example("login", &["claude", "codex"], &home.path().join("w"));
        assert!(store.create(&fan_out).unwrap());
        (home, store, fan_out)
    }

    fn stored(store: &Store) -> Vec<FanOut> {
        store.list(|path, error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn waiting_command_does_not_store_a_removed_fan_out() {
        let (_home, store, mut waiting) = fixture();
        let removing = waiting.clone();
        store.remove(&removing).unwrap();
        waiting.attempts[0].outcome = Some(Outcome::default());
        store.save(&waiting).unwrap();
        assert_eq!(stored(&store).len(), 0);
        // Another fan-out of the same name stays as it is.
        let next = FanOut { created_at: "2026-01-31T11:00:00Z".to_string(), ..removing };
        assert!(store.create(&next).unwrap());
        store.save(&waiting).unwrap();
        assert!(stored(&store)[0].attempts[0].outcome.is_none());
    }

    #[test]
    fn progress_of_several_commands_is_kept() {
        let (_home, store, mut waiting) = fixture();
        let mut removing = waiting.clone();
        removing.attempts[1].is_removed = true;
        store.save(&removing).unwrap();
        waiting.run_id = Some("run".to_string());
        waiting.attempts[0].outcome = Some(Outcome::default());
        store.save(&waiting).unwrap();
        store.save(&removing).unwrap();
        let current = &stored(&store)[0];
        assert!(current.run_id.is_some() && current.attempts[0].outcome.is_some());
        assert!(current.attempts[1].is_removed);
    }

    #[test]
    fn name_is_reserved_by_one_command() {
        let (_home, store, mut fan_out) = fixture();
        let reserved = store.reserve("login").unwrap();
        assert!(reserved.is_some() && store.reserve("login").unwrap().is_none());
        let refused = store.reserve_current(&mut fan_out).unwrap_err();
        assert_eq!(Failure::from_error(&refused).code, FAILED);
        drop(reserved);
        let mut stale = fan_out.clone();
        fan_out.attempts[0].is_removed = true;
        store.save(&fan_out).unwrap();
        let reserved = store.reserve_current(&mut stale).unwrap();
        assert!(stale.attempts[0].is_removed, "it is read again");
        store.remove(&stale).unwrap();
        drop(reserved);
        let gone = store.reserve_current(&mut fan_out).unwrap_err();
        assert_eq!(Failure::from_error(&gone).code, NOT_FOUND);
    }
}
