//! The identity of this machine in clusters: an id, and a counter of starts.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use nerve_cluster::{Instance, MachineId};
use nerve_types::files::{self, Lock};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::MemberError;
use crate::paths::MemberPaths;

/// Maximum size of the file, in bytes.
const MAX_FILE: u64 = 4096;

/// The identity in use by this process.
#[derive(Debug)]
pub(crate) struct Identity {
    /// This process.
    pub(crate) instance: Instance,
    _lock: Lock,
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredIdentity {
    machine_id: MachineId,
    /// Number of starts.
    boot: u64,
}

impl Identity {
    /// Takes the identity and counts this start, which is durable on return. Waits for at most `timeout` for another process that uses
    /// it. Blocking.
    ///
    /// # Errors
    /// [`MemberError::IdentityInUse`], or the file is damaged or cannot be written.
    pub(crate) fn take(paths: &MemberPaths, timeout: Duration) -> Result<Identity, MemberError> {
        let (lock, path) = (take_lock(paths, timeout)?, paths.identity());
        // A crashed process leaves its status.
        let _ = std::fs::remove_file(paths.status());
        let stored = read(&path)?;
        let (machine_id, starts) =
            stored.map_or_else(|| (new_id(), 0), |stored| (stored.machine_id, stored.boot));
        let boot = starts.checked_add(1).ok_or_else(|| MemberError::invalid(path.display(), "boot"))?;
        write(paths, &StoredIdentity { machine_id, boot })
            .map_err(|error| MemberError::write(&path, &error))?;
        let nonce = Uuid::new_v4().as_u64_pair().1;
        Ok(Identity { instance: Instance { machine: machine_id, boot, nonce }, _lock: lock })
    }

    /// Returns true if a process uses the identity now.
    pub(crate) fn is_in_use(paths: &MemberPaths) -> bool {
        let lock = paths.lock();
        let is_locked = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        lock.exists() && Lock::take(&lock, Duration::ZERO).is_err_and(is_locked)
    }
}

/// Returns the id of this machine; `None` before its first start as a member.
///
/// # Errors
/// The file is damaged or cannot be read.
pub(crate) fn machine_id(paths: &MemberPaths) -> Result<Option<MachineId>, MemberError> {
    Ok(read(&paths.identity())?.map(|stored| stored.machine_id))
}

/// Returns the id of this machine. Creates it if the machine was never a member. Blocking, for at most `timeout`.
///
/// # Errors
/// The file is damaged or cannot be written.
pub(crate) fn ensure_machine_id(paths: &MemberPaths, timeout: Duration) -> Result<MachineId, MemberError> {
    if let Some(id) = machine_id(paths)? {
        return Ok(id);
    }
    let _lock = take_lock(paths, timeout)?;
    if let Some(id) = machine_id(paths)? {
        return Ok(id);
    }
    let stored = StoredIdentity { machine_id: new_id(), boot: 0 };
    write(paths, &stored).map_err(|error| MemberError::write(&paths.identity(), &error))?;
    Ok(stored.machine_id)
}

fn new_id() -> MachineId {
    MachineId(Uuid::new_v4().as_u128())
}

fn take_lock(paths: &MemberPaths, timeout: Duration) -> Result<Lock, MemberError> {
    let path = paths.lock();
    files::private_folder(paths.state()).map_err(|error| MemberError::write(paths.state(), &error))?;
    Lock::take(&path, timeout).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => MemberError::IdentityInUse(path),
        _ => MemberError::write(&path, &error),
    })
}

fn read(path: &Path) -> Result<Option<StoredIdentity>, MemberError> {
    match files::read_json(path, MAX_FILE) {
        Ok(stored) => Ok(Some(stored)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(MemberError::read(path, &error)),
    }
}

/// Writes the file and waits for the disk, for the names in the directories too.
fn write(paths: &MemberPaths, stored: &StoredIdentity) -> io::Result<()> {
    files::replace(&paths.identity(), &serde_json::to_vec(stored)?)?;
    let folders = [Some(paths.state()), paths.state().parent()];
    folders.into_iter().flatten().try_for_each(|folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn paths() -> (tempfile::TempDir, MemberPaths) {
        let folder = tempfile::tempdir().unwrap();
        let paths = MemberPaths::new(folder.path(), &folder.path().join("state"));
        (folder, paths)
    }

    #[test]
    fn each_start_has_the_same_id_and_a_higher_counter() {
        let (_folder, paths) = paths();
        assert_eq!(machine_id(&paths), Ok(None));
        let first = Identity::take(&paths, Duration::ZERO).unwrap().instance;
        let second = Identity::take(&paths, Duration::ZERO).unwrap().instance;
        assert_eq!((first.boot, second.boot), (1, 2));
        assert_eq!((first.machine, machine_id(&paths)), (second.machine, Ok(Some(first.machine))));
        assert_ne!(first.nonce, second.nonce);
    }

    #[test]
    fn id_before_the_first_start_is_that_of_the_start() {
        let (_folder, paths) = paths();
        let id = ensure_machine_id(&paths, Duration::ZERO).unwrap();
        assert_eq!(ensure_machine_id(&paths, Duration::ZERO), Ok(id));
        let first = Identity::take(&paths, Duration::ZERO).unwrap().instance;
        assert_eq!((first.machine, first.boot), (id, 1));
    }

    #[test]
    fn one_process_uses_the_identity_at_a_time() {
        let (_folder, paths) = paths();
        assert!(!Identity::is_in_use(&paths));
        let held = Identity::take(&paths, Duration::ZERO).unwrap();
        assert!(Identity::is_in_use(&paths));
        let error = Identity::take(&paths, Duration::ZERO).unwrap_err();
        assert!(matches!(error, MemberError::IdentityInUse(_)), "{error:?}");
        drop(held);
        assert!(!Identity::is_in_use(&paths));
        assert_eq!(Identity::take(&paths, Duration::ZERO).unwrap().instance.boot, 2);
    }

    #[test]
    fn damaged_identity_is_an_error_and_stays() {
        let (_folder, paths) = paths();
        drop(Identity::take(&paths, Duration::ZERO).unwrap());
        let full = format!(r#"{{"machine_id":"{}","boot":{}}}"#, MachineId(7), u64::MAX);
        for text in ["", "{}", r#"{"machine_id":"7","boot":1}"#, &full] {
            fs::write(paths.identity(), text).unwrap();
            assert!(Identity::take(&paths, Duration::ZERO).is_err(), "{text}");
            assert_eq!(fs::read_to_string(paths.identity()).unwrap(), text);
        }
    }
}
