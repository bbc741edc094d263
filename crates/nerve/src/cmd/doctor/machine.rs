//! Checks what nerve needs from this machine.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use nerve_server::error::ServerError;
use nerve_server::paths::{MAX_SOCKET_PATH, ServerPaths, private_directory};
use nerve_types::os;

use super::check::Check;
use super::{hosts, servers};

/// Checks terminals, processes, directories, and the files of hosts and servers.
pub(super) fn check_machine(paths: &ServerPaths) -> Vec<Check> {
    let home = std::env::var_os("NERVE_HOME").filter(|home| !home.is_empty());
    let home = home.map_or_else(|| "not set".to_string(), |home| Path::new(&home).display().to_string());
    let profiles = &paths.data.profiles;
    let count = fs::read_dir(profiles).map(|entries| entries.flatten().count()).unwrap_or(0);
    vec![
        check_terminals(),
        check_processes(),
        check_runtime_directory(paths),
        check_socket_length(paths),
        check_state_directory(paths),
        check_writable("history directory", &paths.data.history),
        hosts::check_entries(paths),
        hosts::check_files(paths),
        servers::check_files(paths),
        Check::new("profiles", Ok(format!("{count} custom profiles in {}", profiles.display()))),
        Check::new("NERVE_HOME", Ok(home)),
    ]
}

fn check_terminals() -> Check {
    let device = OpenOptions::new().read(true).write(true).open("/dev/ptmx");
    let result = match device {
        Ok(_) => Ok("/dev/ptmx can be opened".to_string()),
        Err(error) => Err(format!("cannot open /dev/ptmx: {error}")),
    };
    Check::new("pseudo-terminals", result).essential().hint("in a container, mount devpts on /dev/pts")
}

fn check_processes() -> Check {
    let result = os::check().map(|()| "are recognised by their start time".to_string());
    Check::new("processes", result.map_err(|error| error.to_string())).essential().hint(os::REQUIREMENT)
}

fn check_runtime_directory(paths: &ServerPaths) -> Check {
    let result = private_directory(&paths.runtime).map(|()| paths.runtime.display().to_string());
    new_server_check("runtime directory", result)
}

/// Checks that the path of a server's socket is short enough.
fn check_socket_length(paths: &ServerPaths) -> Check {
    let room = MAX_SOCKET_PATH.saturating_sub(paths.runtime.as_os_str().len() + "/.sock".len());
    let result = paths.socket("default");
    let result = result.map(|_| format!("server names can have up to {} characters", room.min(32)));
    new_server_check("socket path", result)
}

/// Creates an essential check whose error has its own hint.
fn new_server_check(name: &str, result: Result<String, ServerError>) -> Check {
    let hint = result.as_ref().err().and_then(ServerError::hint);
    let check = Check::new(name, result.map_err(|error| error.to_string())).essential();
    Check { hint, ..check }
}

/// Checks the state directory as the start of a server does.
fn check_state_directory(paths: &ServerPaths) -> Check {
    let name = "state directory";
    let check = check_writable(name, &paths.state);
    match paths.check_directories() {
        Err(error) if check.is_ok => new_server_check(name, Err(error)),
        _ => check,
    }
}

/// Checks that a directory can be written, or created in the nearest one that exists.
fn check_writable(name: &str, dir: &Path) -> Check {
    let existing = dir.ancestors().find(|path| path.exists()).unwrap_or(dir);
    let access = rustix::fs::access(existing, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    let result = match access {
        Ok(()) => Ok(dir.display().to_string()),
        Err(error) => Err(format!("{} is not writable: {}", existing.display(), io::Error::from(error))),
    };
    Check::new(name, result).essential().hint("set NERVE_HOME to a writable directory")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn missing_directory_is_writable_if_parent_is() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check_writable("x", &dir.path().join("a/b")).is_ok);
        assert!(!dir.path().join("a").exists());
    }

    #[test]
    fn state_directory_open_to_others_fails() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ServerPaths::under(dir.path());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(check_state_directory(&paths).is_ok);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let check = check_state_directory(&paths);
        assert!(!check.is_ok && check.is_essential && check.detail.contains("0755"), "{}", check.detail);
    }
}
