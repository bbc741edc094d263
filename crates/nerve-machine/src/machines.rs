//! The user's list of machines, and the time of the last contact with each.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nerve_api::ErrorKind;
use nerve_client::{MAX_CONTROL_DIRECTORY, SshTarget};
use nerve_types::files::{self, Lock};
use nerve_types::suggestion::nearest;
use serde::{Deserialize, Serialize};

use crate::error::MachineError;
use crate::machine::{Machine, Route};

/// Name of the list in the directory of the settings.
const FILE: &str = "machines.json";
/// Maximum size of the list, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Maximum number of machines in the list.
const MAX_MACHINES: usize = 1000;
/// Time limit for taking the lock of the list.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for connecting in a command that makes no connection.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Variable that makes each connection log in if it is 0.
const SHARE: &str = "NERVE_SSH_SHARE";

/// The list of machines.
#[derive(Debug, Clone)]
pub struct Machines {
    config: PathBuf,
    contacts: PathBuf,
    /// Directory of the sockets of master connections. `None`: each connection logs in.
    control_directory: Option<PathBuf>,
}

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineList {
    machines: Vec<Machine>,
}

impl Machines {
    /// Creates the list of the directories of settings and state. They need not exist.
    pub fn new(config: &Path, state: &Path) -> Machines {
        let (config, contacts) = (config.to_path_buf(), state.join("machines"));
        Machines { config, contacts, control_directory: None }
    }

    /// Lets connections through ssh share one login for each machine, unless `NERVE_SSH_SHARE` is 0. `runtime`: directory of sockets; if
    /// its path is too long, a private one in `/tmp` takes its place.
    pub fn share_logins(self, runtime: &Path) -> Machines {
        if std::env::var_os(SHARE).is_some_and(|value| value == "0") {
            return self;
        }
        let (directory, uid) = (runtime.join("ssh"), rustix::process::getuid().as_raw());
        let is_short = directory.as_os_str().len() <= MAX_CONTROL_DIRECTORY;
        let directory = if is_short { directory } else { format!("/tmp/nerve-{uid}/ssh").into() };
        Machines { control_directory: Some(directory), ..self }
    }

    /// Returns the target of a machine that is reached through ssh. `timeout`: limit for connecting.
    pub fn ssh_target(&self, machine: &Machine, timeout: Duration) -> Option<SshTarget> {
        let mut target = machine.ssh_target(timeout)?;
        let directory = self.control_directory.as_ref();
        target.control_directory = directory.filter(|path| is_private(path)).cloned();
        Some(target)
    }

    /// Returns the route to a machine, with the token and the certificates.
    pub(crate) fn route(&self, machine: &Machine, timeout: Duration) -> Result<Route, MachineError> {
        match self.ssh_target(machine, timeout) {
            Some(target) => Ok(Route::Ssh(Box::new(target))),
            None => machine.tls_route(),
        }
    }

    /// Ends the connection that commands share. Returns false if there is none.
    pub async fn disconnect(&self, machine: &Machine) -> bool {
        match self.ssh_target(machine, DISCONNECT_TIMEOUT) {
            Some(target) => target.end_master().await,
            None => false,
        }
    }

    /// Returns the path of the file.
    pub fn file(&self) -> PathBuf {
        self.config.join(FILE)
    }

    /// Returns all machines, by name.
    ///
    /// # Errors
    /// The file exists and cannot be read, or its content is invalid.
    pub fn list(&self) -> Result<Vec<Machine>, MachineError> {
        let list: MachineList = match files::read_json(&self.file(), MAX_FILE) {
            Ok(list) => list,
            Err(error) if error.kind() == io::ErrorKind::NotFound => MachineList::default(),
            Err(error) => return Err(self.damaged(&error.to_string())),
        };
        let mut machines = list.machines;
        machines.sort_by(|a, b| a.name.cmp(&b.name));
        for pair in machines.windows(2) {
            if pair[0].name == pair[1].name {
                return Err(self.damaged(&format!("machine '{}' is there twice", pair[0].name)));
            }
        }
        for machine in &machines {
            machine.check().map_err(|error| self.damaged(&error.message))?;
        }
        Ok(machines)
    }

    /// Returns the machine of a name.
    ///
    /// # Errors
    /// There is none: the hint lists the machines. See also [`Machines::list`].
    pub fn find(&self, name: &str) -> Result<Machine, MachineError> {
        let machines = self.list()?;
        position(&machines, name).map(|at| machines[at].clone())
    }

    /// Returns true if the list has this entry, or cannot be read now.
    pub(crate) fn contains(&self, machine: &Machine) -> bool {
        self.list().map_or(true, |machines| machines.contains(machine))
    }

    /// Adds a machine.
    ///
    /// # Errors
    /// The entry is invalid, the name is taken, the list is full or damaged, or the file cannot be written.
    pub fn add(&self, machine: Machine) -> Result<(), MachineError> {
        machine.check()?;
        self.change(|machines| {
            if let Some(other) = machines.iter().find(|other| other.name == machine.name) {
                let message = format!("machine '{}' exists already: {}", other.name, other.address);
                return Err(MachineError::new(ErrorKind::AlreadyExists, message).hint(format!(
                    "choose another name, or remove it first: nerve machine remove {}",
                    other.name
                )));
            }
            if machines.len() >= MAX_MACHINES {
                let message = format!("the list has {MAX_MACHINES} machines, which is the maximum");
                return Err(MachineError::new(ErrorKind::TooLarge, message));
            }
            self.forget_contact(&machine.name);
            machines.push(machine);
            Ok(())
        })
    }

    /// Removes a machine and returns its entry.
    ///
    /// # Errors
    /// There is none of this name; see also [`Machines::add`].
    pub fn remove(&self, name: &str) -> Result<Machine, MachineError> {
        self.change(|machines| {
            let machine = machines.remove(position(machines, name)?);
            self.forget_contact(name);
            Ok(machine)
        })
    }

    /// Returns the time of the last contact with a machine; `None` if there was none.
    pub fn last_contact(&self, machine: &Machine) -> Option<SystemTime> {
        fs::metadata(self.contact_file(&machine.name)).and_then(|meta| meta.modified()).ok()
    }

    /// Records that a machine replies now. A failure only makes the displayed age of a contact older.
    pub(crate) fn record_contact(&self, machine: &Machine) {
        if !machine.name.is_empty() && files::private_folder(&self.contacts).is_ok() {
            let _ = fs::write(self.contact_file(&machine.name), b"");
        }
    }

    fn forget_contact(&self, name: &str) {
        // It need not exist.
        let _ = fs::remove_file(self.contact_file(name));
    }

    /// Returns the file whose time of modification is that of the last contact.
    fn contact_file(&self, name: &str) -> PathBuf {
        self.contacts.join(name)
    }

    /// Changes the list while no other process does.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<Machine>) -> Result<T, MachineError>,
    ) -> Result<T, MachineError> {
        let file = self.file();
        let write_error = |error: io::Error| {
            MachineError::new(ErrorKind::Process, format!("cannot write {}: {error}", file.display()))
        };
        files::private_folder(&self.config).map_err(write_error)?;
        let _lock = Lock::take(&file.with_extension("lock"), LOCK_TIMEOUT).map_err(write_error)?;
        let mut machines = self.list()?;
        let result = change(&mut machines)?;
        machines.sort_by(|a, b| a.name.cmp(&b.name));
        let mut text = serde_json::to_vec_pretty(&MachineList { machines })
            .map_err(|error| write_error(error.into()))?;
        text.push(b'\n');
        files::replace(&file, &text).map_err(write_error)?;
        Ok(result)
    }

    fn damaged(&self, why: &str) -> MachineError {
        let file = self.file();
        let message = format!("the list of machines in {} cannot be read: {why}", file.display());
        MachineError::new(ErrorKind::Process, message)
            .hint("repair the file, or move it away and add the machines again: nerve machine add --help")
    }
}

/// Creates a directory that only this user can enter. Returns false if others can enter or replace it: they could take over
/// connections.
fn is_private(directory: &Path) -> bool {
    let has_only = |path: &Path, others: u32| {
        let is_own = |meta: fs::Metadata| {
            meta.is_dir() && meta.uid() == rustix::process::getuid().as_raw() && meta.mode() & others == 0
        };
        fs::symlink_metadata(path).is_ok_and(is_own)
    };
    let is_created = files::private_folder(directory).is_ok();
    is_created
        && has_only(directory, 0o077)
        && directory.parent().is_some_and(|parent| has_only(parent, 0o022))
}

/// Returns the position of a machine in the list.
fn position(machines: &[Machine], name: &str) -> Result<usize, MachineError> {
    if let Some(at) = machines.iter().position(|machine| machine.name == name) {
        return Ok(at);
    }
    let names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    let error = MachineError::new(ErrorKind::NotFound, format!("no machine '{name}'"));
    Err(error.hint(match (nearest(name, names.iter().copied()), names.is_empty()) {
        (_, true) => "add one: nerve machine add NAME ssh://HOST".to_string(),
        (Some(similar), _) => format!("did you mean '{similar}'? machines: {}", names.join(", ")),
        (None, _) => format!("machines: {}", names.join(", ")),
    }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn machine(name: &str) -> Machine {
        Machine { name: name.to_string(), ..Machine::unnamed("ssh://h") }
    }

    fn machines() -> (tempfile::TempDir, Machines) {
        let folder = tempfile::tempdir().unwrap();
        let machines = Machines::new(&folder.path().join("config"), &folder.path().join("state"));
        (folder, machines)
    }

    #[test]
    fn machines_are_kept_in_a_private_file() {
        let (_folder, machines) = machines();
        assert_eq!(machines.list(), Ok(Vec::new()));
        machines.add(machine("b")).unwrap();
        machines.add(machine("a")).unwrap();
        assert_eq!(machines.list(), Ok(vec![machine("a"), machine("b")]));
        let mode = fs::metadata(machines.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(machines.add(machine("a")).unwrap_err().kind, ErrorKind::AlreadyExists);
        assert_eq!(machines.remove("a"), Ok(machine("a")));
        assert_eq!(machines.remove("a").unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(machines.list(), Ok(vec![machine("b")]));
    }

    #[test]
    fn unknown_machine_lists_the_others() {
        let (_folder, machines) = machines();
        machines.add(machine("laptop")).unwrap();
        let error = machines.find("labtop").unwrap_err();
        assert!(error.hint.unwrap().contains("laptop"));
    }

    #[test]
    fn damaged_list_is_an_error_and_stays() {
        let (_folder, machines) = machines();
        machines.add(machine("a")).unwrap();
        let whole = fs::read_to_string(machines.file()).unwrap();
        let twice = r#"{"machines":[{"machine_name":"a","address":"ssh://h"},{"machine_name":"a","address":"ssh://h"}]}"#;
        let texts = ["", "{", "[]", &whole[..whole.len() / 2], &whole.replace("ssh:", "x:"), twice];
        for text in texts {
            fs::write(machines.file(), text).unwrap();
            assert_eq!(machines.list().unwrap_err().kind, ErrorKind::Process, "{text}");
            assert!(machines.add(machine("b")).is_err());
            assert_eq!(fs::read_to_string(machines.file()).unwrap(), *text);
        }
    }

    #[test]
    fn logins_are_shared_only_in_a_private_directory() {
        let (folder, machines) = machines();
        let directory = |machines: &Machines| {
            machines.ssh_target(&machine("a"), DISCONNECT_TIMEOUT).unwrap().control_directory
        };
        assert_eq!(directory(&machines), None);
        let long = machines.clone().share_logins(&folder.path().join("x".repeat(MAX_CONTROL_DIRECTORY)));
        assert!(long.control_directory.unwrap().starts_with("/tmp"));
        let (machines, sockets) = (machines.share_logins(folder.path()), folder.path().join("ssh"));
        assert_eq!(directory(&machines), Some(sockets.clone()));
        fs::set_permissions(&sockets, fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(directory(&machines), None);
        fs::remove_dir(&sockets).unwrap();
        std::os::unix::fs::symlink(folder.path(), &sockets).unwrap();
        assert_eq!(directory(&machines), None);
    }

    #[test]
    fn contact_is_forgotten_with_its_machine() {
        let (_folder, machines) = machines();
        machines.add(machine("a")).unwrap();
        assert_eq!(machines.last_contact(&machine("a")), None);
        machines.record_contact(&machine("a"));
        let age = machines.last_contact(&machine("a")).unwrap().elapsed().unwrap_or_default();
        assert!(age < Duration::from_secs(3600), "{age:?}");
        machines.remove("a").unwrap();
        assert_eq!(machines.last_contact(&machine("a")), None);
    }

    #[test]
    fn concurrent_additions_are_all_kept() {
        let (_folder, machines) = machines();
        std::thread::scope(|scope| {
            for number in 0..16 {
                let machines = &machines;
                scope.spawn(move || machines.add(machine(&format!("m{number}"))).unwrap());
            }
        });
        assert_eq!(machines.list().unwrap().len(), 16);
    }
}
