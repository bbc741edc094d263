//! Checks programs: agents, tools and multiplexers.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nerve_agent::profile::Profiles;
use nerve_host::backend::PaneError;
use nerve_mux::tmux::Tmux;

use super::check::Check;
use crate::out;

/// Time limit for a program to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Debian packages to look for, whose programs have the same name.
const DEBIAN_PACKAGES: [&str; 2] = ["git", "bash"];

/// Returns the names of the agents with built-in profiles, and their npm packages.
pub(super) fn known_agents() -> Vec<(String, String)> {
    let profiles = Profiles::builtin();
    let package = |name: &str| profiles.get(name)?.versions.as_ref()?.package.clone();
    profiles.names().into_iter().filter_map(|name| Some((name.to_string(), package(name)?))).collect()
}

/// Checks that agents and other programs are installed, and reads their versions.
pub(super) async fn check_programs() -> Vec<Check> {
    let agents = known_agents();
    let agents = agents.into_iter().map(|(name, package)| (name, format!("npm install -g {package}")));
    let others = DEBIAN_PACKAGES.map(|name| (name.to_string(), format!("apt-get install {name}")));
    let jobs = agents.chain(others).map(|(name, install)| {
        tokio::spawn(async move {
            let path = find_program(&name, std::env::var_os("PATH").as_deref());
            let result = match path {
                Some(path) => {
                    let version = read_version(&path).await.unwrap_or("version unknown".to_string());
                    Ok(format!("{version} ({})", path.display()))
                }
                None => Err("not found".to_string()),
            };
            let check = Check::new(&name, result).hint(&install);
            if name == "bash" { check.essential() } else { check }
        })
    });
    // All run at once.
    let jobs: Vec<_> = jobs.collect();
    let mut checks = Vec::new();
    for check in jobs {
        checks.extend(check.await);
    }
    checks
}

/// Checks tmux, including its version, and WezTerm.
pub(super) async fn check_multiplexers() -> [Check; 2] {
    let path = std::env::var_os("PATH");
    let tmux = Tmux::new(None).version().await;
    let location = find_program("tmux", path.as_deref())
        .map(|path| format!(" ({})", path.display()))
        .unwrap_or_default();
    let tmux = check_tmux(tmux, &location);
    if !cfg!(feature = "wezterm") {
        return [tmux, unsupported_check("wezterm", &PaneError::NotBuilt("WezTerm"))];
    }
    let program = std::env::var_os("NERVE_WEZTERM").filter(|program| !program.is_empty());
    let program = program.map(PathBuf::from).or_else(|| find_program("wezterm", path.as_deref()));
    let version = match &program {
        Some(program) => read_version(program).await,
        None => None,
    };
    let result = match (program, version) {
        (Some(program), Some(version)) => {
            let text = format!("{version} ({})", program.display());
            if version.starts_with("wezterm") { Ok(text) } else { Err(text) }
        }
        (Some(program), None) => Err(format!("{} does not print its version", program.display())),
        (None, _) => Err("not found".to_string()),
    };
    let hint = "for nodes in WezTerm panes: https://wezterm.org/installation";
    [tmux, Check::new("wezterm", result).hint(hint)]
}

/// Checks tmux by its version. `location`: its path, for the result.
fn check_tmux(version: Result<String, PaneError>, location: &str) -> Check {
    if let Err(error @ PaneError::NotBuilt(_)) = &version {
        return unsupported_check("tmux", error);
    }
    let result = match version {
        Ok(version) => Ok(format!("tmux {version}{location}")),
        Err(PaneError::NotInstalled(_)) => Err("not found".to_string()),
        Err(error) => Err(format!("{error}{location}")),
    };
    Check::new("tmux", result).hint("for nodes in tmux panes: apt-get install tmux (3.2 or newer)")
}

/// Returns the check of a multiplexer that this build does not support. Installing it would not help.
fn unsupported_check(name: &str, error: &PaneError) -> Check {
    Check::new(name, Err(error.to_string()))
}

/// Finds an executable in the directories of `path`.
pub(super) fn find_program(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let is_executable = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path?).map(|dir| dir.join(program)).find(is_executable)
}

/// Returns the first line that `PROGRAM --version` prints.
pub(super) async fn read_version(program: &Path) -> Option<String> {
    let output = tokio::process::Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(VERSION_TIMEOUT, output).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().find(|line| !line.trim().is_empty())?;
    Some(out::preview(first, 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_requires_executable_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("claude");
        fs::write(&file, "").unwrap();
        assert_eq!(find_program("claude", Some(dir.path().as_os_str())), None);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_program("claude", Some(dir.path().as_os_str())), Some(file));
        assert_eq!(find_program("claude", None), None);
    }

    #[test]
    fn tmux_is_suggested_only_if_the_build_supports_it() {
        let missing = check_tmux(Err(PaneError::NotInstalled("tmux")), "");
        assert!(missing.hint.unwrap().contains("apt-get install tmux"));
        let unsupported = check_tmux(Err(PaneError::NotBuilt("tmux")), " (/usr/bin/tmux)");
        assert_eq!((unsupported.detail.as_str(), unsupported.hint), ("this build has no tmux support", None));
    }
}
