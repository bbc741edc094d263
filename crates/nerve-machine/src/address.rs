//! Long addresses: `MACHINE/SESSION/NODE`, and servers named by a URL.

use nerve_api::{DEFAULT_SESSION, ErrorKind};
use nerve_types::name::{self, DEFAULT_SERVER};

use crate::error::MachineError;
use crate::machine::{LOCAL, Machine};
use crate::machines::Machines;

/// Prefix of a server that is named by its machine.
const MACHINE: &str = "machine://";
/// Prefix of a server on a machine that is not in the list.
const SSH: &str = "ssh://";

/// Returns true if a server is named by its machine, `machine://NAME` or `ssh://[USER@]HOST[:PORT]`.
pub fn is_on_machine(server: &str) -> bool {
    server.starts_with(MACHINE) || server.starts_with(SSH)
}

/// Splits `MACHINE/SESSION/NODE` into the machine and the rest. Returns `None` for a node of this machine, and for a path: each part
/// follows the rule for names.
pub fn split_machine(node: &str) -> Option<(&str, &str)> {
    let (machine, rest) = node.split_once('/')?;
    let (session, name) = rest.split_once('/')?;
    let is_address = [machine, session, name].iter().all(|part| name::check("node", part).is_ok());
    is_address.then_some((machine, rest))
}

/// Splits the name of a recording into its machine and the rest: `MACHINE/SESSION/NODE[@N]`, or `machine://MACHINE/NAME` for an id or a
/// path there. Returns `None` for a recording of this machine.
pub fn split_recording(name: &str) -> Option<(&str, &str)> {
    if let Some(address) = name.strip_prefix(MACHINE) {
        let (machine, rest) = address.split_once('/')?;
        return (name::check("machine", machine).is_ok() && !rest.is_empty()).then_some((machine, rest));
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let node = match name.rsplit_once('@') {
        Some((node, number)) if is_number(number) => node,
        _ => name,
    };
    let (machine, _) = split_machine(node)?;
    Some((machine, name.split_once('/')?.1))
}

/// Checks that a server that the user names is on the machine of a long address. Other names of nodes and recordings are on any server.
///
/// # Errors
/// The address names another machine.
pub fn check_server(node: &str, server: &str) -> Result<(), MachineError> {
    let Some((machine, _)) = split_recording(node) else { return Ok(()) };
    let is_there = match machine {
        LOCAL => !server.contains("://"),
        machine => server.strip_prefix(MACHINE) == Some(machine),
    };
    if is_there {
        return Ok(());
    }
    let message = format!("node '{node}' is not on server '{server}'");
    Err(MachineError::new(ErrorKind::InvalidRequest, message)
        .hint("name the machine once: MACHINE/SESSION/NODE without --server"))
}

impl Machines {
    /// Returns the machine of a server that is named by its machine; `None` for another name.
    ///
    /// # Errors
    /// The machine is not in the list, the list is damaged, or the address is invalid.
    pub fn find_server(&self, server: &str) -> Result<Option<Machine>, MachineError> {
        if let Some(name) = server.strip_prefix(MACHINE) {
            return self.find(name).map(Some);
        }
        if !server.starts_with(SSH) {
            return Ok(None);
        }
        let machine = Machine::unnamed(server);
        let checked = Machine { name: "unnamed".to_string(), ..machine.clone() };
        checked.check().map(|()| Some(machine))
    }

    /// Resolves `MACHINE/SESSION/NODE`: `node` becomes `SESSION/NODE`, and `server` one on that machine. Other names stay. A server on
    /// another machine comes from the environment and is replaced: [`check_server`] refuses one that the user names.
    ///
    /// # Errors
    /// The machine is not in the list.
    pub fn resolve_node(&self, node: &mut String, server: &mut String) -> Result<(), MachineError> {
        self.resolve(split_machine, node, server)
    }

    /// Refuses `MACHINE/NAME` for a new node: two parts are a session of this machine and a node.
    ///
    /// # Errors
    /// The first part is a machine in the list.
    pub fn check_new_node(&self, name: &str) -> Result<(), MachineError> {
        let Some((machine, node)) = name.split_once('/') else { return Ok(()) };
        if node.contains('/') || self.find(machine).is_err() {
            return Ok(());
        }
        let message = format!("'{name}' names no session, and '{machine}' is a machine");
        let hint =
            format!("name the session too: {machine}/{DEFAULT_SESSION}/{node}; or use --session {machine}");
        Err(MachineError::new(ErrorKind::InvalidRequest, message).hint(hint))
    }

    /// Resolves the name of a recording as [`Machines::resolve_node`], see [`split_recording`].
    ///
    /// # Errors
    /// The machine is not in the list.
    pub fn resolve_recording(&self, name: &mut String, server: &mut String) -> Result<(), MachineError> {
        self.resolve(split_recording, name, server)
    }

    fn resolve(
        &self,
        split: fn(&str) -> Option<(&str, &str)>,
        node: &mut String,
        server: &mut String,
    ) -> Result<(), MachineError> {
        let Some((machine, rest)) = split(node) else { return Ok(()) };
        let rest = rest.to_string();
        if machine != LOCAL {
            *server = format!("{MACHINE}{}", self.find(machine)?.name);
        } else if server.contains("://") {
            *server = DEFAULT_SERVER.to_string();
        }
        *node = rest;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_is_split_only_from_whole_addresses() {
        assert_eq!(split_machine("work/night/me"), Some(("work", "night/me")));
        for other in
            ["me", "night/me", "/night/me", "work//me", "work/night/", "a/b/c/d", "a/b/c.ahr", "../a/b", ""]
        {
            assert_eq!(split_machine(other), None, "{other}");
        }
    }

    #[test]
    fn recording_has_number_id_or_path_behind_its_machine() {
        for (name, rest) in [
            ("lab/night/me", "night/me"),
            ("lab/night/me@2", "night/me@2"),
            ("machine://lab/0195e3a1", "0195e3a1"),
            ("machine://lab//data/a.ahr", "/data/a.ahr"),
        ] {
            assert_eq!(split_recording(name), Some(("lab", rest)), "{name}");
        }
        for other in
            ["me@2", "night/me@2", "work/night/me@", "work/night/me@x", "machine://work", "machine:///x"]
        {
            assert_eq!(split_recording(other), None, "{other}");
        }
    }

    #[test]
    fn long_address_selects_the_server_of_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let machines = Machines::new(folder.path(), folder.path());
        machines.add(Machine { name: "work".to_string(), ..Machine::unnamed("ssh://h") }).unwrap();
        let resolve = |node: &str, server: &str| {
            let (mut node, mut server) = (node.to_string(), server.to_string());
            machines.resolve_node(&mut node, &mut server).map(|()| (node, server)).map_err(|error| error.kind)
        };
        let same = |node: &str, server: &str| Ok((node.to_string(), server.to_string()));
        assert_eq!(resolve("me", "default"), same("me", "default"));
        assert_eq!(resolve("night/me", "x"), same("night/me", "x"));
        assert_eq!(resolve("work/night/me", "default"), same("night/me", "machine://work"));
        assert_eq!(resolve("work/night/me", "machine://work"), same("night/me", "machine://work"));
        assert_eq!(resolve("work/night/me", "tls://h:1"), same("night/me", "machine://work"));
        assert_eq!(resolve("local/night/me", "x"), same("night/me", "x"));
        // A server of the environment on another machine is not that of this machine's node.
        for server in ["machine://work", "ssh://h", "tls://h:1", "tcp://h:1"] {
            assert_eq!(resolve("local/night/me", server), same("night/me", "default"), "{server}");
        }
        assert_eq!(resolve("home/night/me", "default"), Err(ErrorKind::NotFound));
        let is_valid = |name| machines.check_new_node(name).is_ok();
        assert!(is_valid("me") && is_valid("night/me") && is_valid("work/night/me") && !is_valid("work/me"));
    }

    #[test]
    fn named_server_must_be_on_the_machine_of_the_address() {
        let is_there = |node, server| check_server(node, server).is_ok();
        for (node, server) in [("me", "x"), ("night/me", "tls://h:1"), ("local/night/me", "x")] {
            assert!(is_there(node, server), "{node} {server}");
        }
        assert!(is_there("work/night/me", "machine://work"));
        for server in ["default", "staging", "machine://home", "ssh://work", "tls://h:1"] {
            assert!(!is_there("work/night/me", server), "{server}");
        }
        assert!(!is_there("local/night/me", "machine://work") && !is_there("local/night/me", "tcp://h:1"));
    }

    #[test]
    fn servers_are_named_by_machine_or_url() {
        let folder = tempfile::tempdir().unwrap();
        let machines = Machines::new(folder.path(), folder.path());
        assert_eq!(machines.find_server("default"), Ok(None));
        assert_eq!(machines.find_server("tls://h:1"), Ok(None));
        assert_eq!(machines.find_server("ssh://h"), Ok(Some(Machine::unnamed("ssh://h"))));
        assert_eq!(machines.find_server("ssh://-h").unwrap_err().kind, ErrorKind::InvalidRequest);
        assert_eq!(machines.find_server("machine://x").unwrap_err().kind, ErrorKind::NotFound);
    }
}
