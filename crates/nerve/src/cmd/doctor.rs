//! `nerve doctor`: checks this machine for nerve's requirements.

mod agents;
mod hosts;
mod report;
mod servers;

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;
use nerve_host::backend::PaneError;
use nerve_mux::tmux::Tmux;
use nerve_server::error::ServerError;
use nerve_server::paths::{MAX_SOCKET_PATH, ServerPaths, private_directory};
use nerve_types::os;
use serde_json::json;

use crate::exit::{FAILED, Failure};
use crate::out;
use nerve_cli::local_commands::DoctorArgs;

/// Time limit for a program to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Programs to look for, with the command that installs them.
const PROGRAMS: [(&str, &str); 6] = [
    ("claude", "npm install -g @anthropic-ai/claude-code"),
    ("codex", "npm install -g @openai/codex"),
    ("gemini", "npm install -g @google/gemini-cli"),
    ("opencode", "npm install -g opencode-ai"),
    ("git", "apt-get install git"),
    ("bash", "apt-get install bash"),
];

/// Result of one check.
struct Check {
    name: String,
    ok: bool,
    /// nerve does not work if the check fails.
    essential: bool,
    /// Result of the check, or the reason why it failed.
    detail: String,
    hint: Option<String>,
}

impl Check {
    /// Creates a check. `result`: the result, or the reason why the check failed.
    fn new(name: &str, result: Result<String, String>) -> Check {
        let ok = result.is_ok();
        let detail = result.unwrap_or_else(|reason| reason);
        Check { name: name.to_string(), ok, essential: false, detail, hint: None }
    }

    /// Marks the check as essential.
    fn essential(self) -> Check {
        Check { essential: true, ..self }
    }

    fn hint(self, hint: &str) -> Check {
        Check { hint: Some(hint.to_string()), ..self }
    }
}

/// Runs all checks and prints the results.
pub(crate) async fn run(args: &DoctorArgs) -> Result<()> {
    if args.agents {
        return agents::run(args.json, args.timeout.0).await;
    }
    let paths = ServerPaths::from_env();
    if args.fix {
        hosts::repair(&paths).await;
        servers::repair(&paths).await;
    }
    let mut checks = machine(&paths);
    checks.extend(out::progress("checking versions", programs()).await);
    checks.extend(multiplexers().await);
    let running = super::server::status::running(&paths).await;
    let running = if running.is_empty() { "none running".to_string() } else { running.join(", ") };
    checks.push(Check::new("servers", Ok(running)));
    checks.extend(super::cluster::diagnose(&paths).await.map(cluster_check));
    if args.report {
        return report::run(args, &checks).await;
    }
    let missing: Vec<&str> =
        checks.iter().filter(|check| check.essential && !check.ok).map(|check| check.name.as_str()).collect();
    if args.json {
        let list: Vec<_> = checks.iter().map(as_json).collect();
        out::json(
            &json!({ "ok": missing.is_empty(), "version": env!("CARGO_PKG_VERSION"), "checks": list }),
        )?;
    } else {
        print(&checks)?;
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(FAILED, format!("essential checks failed: {}", missing.join(", "))).into())
}

fn print(checks: &[Check]) -> Result<()> {
    out::line(format_args!("nerve {}", env!("CARGO_PKG_VERSION")))?;
    for check in checks {
        let mark = out::mark(check.ok, check.essential);
        out::line(format_args!("{mark} {:<18} {}", check.name, check.detail))?;
        if let Some(hint) = check.hint.as_deref().filter(|_| !check.ok) {
            out::line(format_args!("     {:<18} {}{hint}{:#}", "", out::FAINT, out::FAINT))?;
        }
    }
    Ok(())
}

fn as_json(check: &Check) -> serde_json::Value {
    json!({
        "name": check.name, "ok": check.ok, "essential": check.essential,
        "found": check.detail, "hint": check.hint.as_deref().filter(|_| !check.ok),
    })
}

fn machine(paths: &ServerPaths) -> Vec<Check> {
    let home = std::env::var_os("NERVE_HOME").filter(|home| !home.is_empty());
    let home = home.map_or_else(|| "not set".to_string(), |home| Path::new(&home).display().to_string());
    let profiles = paths.profiles();
    let count = fs::read_dir(&profiles).map(|entries| entries.flatten().count()).unwrap_or(0);
    vec![
        terminals(),
        processes(),
        runtime_directory(paths),
        socket_length(paths),
        state_directory(paths),
        writable("history directory", &paths.history),
        hosts::entries(paths),
        hosts::files(paths),
        servers::files(paths),
        Check::new("profiles", Ok(format!("{count} custom profiles in {}", profiles.display()))),
        Check::new("NERVE_HOME", Ok(home)),
    ]
}

/// Creates the check of the brokers of this machine's cluster, from its result or the problem and what helps.
fn cluster_check(result: Result<String, Failure>) -> Check {
    match result {
        Ok(detail) => Check::new("cluster", Ok(detail)),
        Err(failure) => {
            Check { hint: failure.hint.clone(), ..Check::new("cluster", Err(failure.to_string())) }
        }
    }
}

fn terminals() -> Check {
    let device = OpenOptions::new().read(true).write(true).open("/dev/ptmx");
    let result = match device {
        Ok(_) => Ok("/dev/ptmx can be opened".to_string()),
        Err(error) => Err(format!("cannot open /dev/ptmx: {error}")),
    };
    Check::new("pseudo-terminals", result).essential().hint("in a container, mount devpts on /dev/pts")
}

fn processes() -> Check {
    let result = os::check().map(|()| "are recognised by their start time".to_string());
    Check::new("processes", result.map_err(|error| error.to_string())).essential().hint(os::REQUIREMENT)
}

fn runtime_directory(paths: &ServerPaths) -> Check {
    let result = private_directory(&paths.runtime).map(|()| paths.runtime.display().to_string());
    server_check("runtime directory", result)
}

fn socket_length(paths: &ServerPaths) -> Check {
    let room = MAX_SOCKET_PATH.saturating_sub(paths.runtime.as_os_str().len() + "/.sock".len());
    let result = paths.socket("default");
    let result = result.map(|_| format!("server names can have up to {} characters", room.min(32)));
    server_check("socket path", result)
}

/// Creates an essential check whose error has its own hint.
fn server_check(name: &str, result: Result<String, ServerError>) -> Check {
    let hint = result.as_ref().err().and_then(ServerError::hint);
    let check = Check::new(name, result.map_err(|error| error.to_string())).essential();
    Check { hint, ..check }
}

/// Checks the state directory as the start of a server does.
fn state_directory(paths: &ServerPaths) -> Check {
    let name = "state directory";
    let check = writable(name, &paths.state);
    match paths.check_directories() {
        Err(error) if check.ok => server_check(name, Err(error)),
        _ => check,
    }
}

fn writable(name: &str, dir: &Path) -> Check {
    // Checks the nearest existing directory, without creating any.
    let existing = dir.ancestors().find(|path| path.exists()).unwrap_or(dir);
    let writable = rustix::fs::access(existing, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    let result = match writable {
        Ok(()) => Ok(dir.display().to_string()),
        Err(error) => Err(format!("{} is not writable: {}", existing.display(), io::Error::from(error))),
    };
    Check::new(name, result).essential().hint("set NERVE_HOME to a writable directory")
}

async fn programs() -> Vec<Check> {
    let jobs = PROGRAMS.map(|(name, install)| {
        tokio::spawn(async move {
            let path = find(name, std::env::var_os("PATH").as_deref());
            let result = match path {
                Some(path) => {
                    let version = version(&path).await.unwrap_or("version unknown".to_string());
                    Ok(format!("{version} ({})", path.display()))
                }
                None => Err("not found".to_string()),
            };
            let check = Check::new(name, result).hint(install);
            if name == "bash" { check.essential() } else { check }
        })
    });
    let mut checks = Vec::new();
    for check in jobs {
        checks.extend(check.await);
    }
    checks
}

/// Checks tmux, including its version, and WezTerm.
async fn multiplexers() -> [Check; 2] {
    let path = std::env::var_os("PATH");
    let tmux = Tmux::new(None).version().await;
    let location =
        find("tmux", path.as_deref()).map(|path| format!(" ({})", path.display())).unwrap_or_default();
    let tmux = tmux_check(tmux, &location);
    if !cfg!(feature = "wezterm") {
        return [tmux, without_support("wezterm", &PaneError::NotBuilt("WezTerm"))];
    }
    let program = std::env::var_os("NERVE_WEZTERM").filter(|program| !program.is_empty());
    let program = program.map(PathBuf::from).or_else(|| find("wezterm", path.as_deref()));
    let version = match &program {
        Some(program) => version(program).await,
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
fn tmux_check(version: Result<String, PaneError>, location: &str) -> Check {
    if let Err(error @ PaneError::NotBuilt(_)) = &version {
        return without_support("tmux", error);
    }
    let result = match version {
        Ok(version) => Ok(format!("tmux {version}{location}")),
        Err(PaneError::NotInstalled(_)) => Err("not found".to_string()),
        Err(error) => Err(format!("{error}{location}")),
    };
    Check::new("tmux", result).hint("for nodes in tmux panes: apt-get install tmux (3.2 or newer)")
}

/// Returns the check of a multiplexer that this build does not support. Installing it would not help.
fn without_support(name: &str, error: &PaneError) -> Check {
    Check::new(name, Err(error.to_string()))
}

fn find(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let is_executable = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path?).map(|dir| dir.join(program)).find(is_executable)
}

async fn version(program: &Path) -> Option<String> {
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
        assert_eq!(find("claude", Some(dir.path().as_os_str())), None);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find("claude", Some(dir.path().as_os_str())), Some(file));
        assert_eq!(find("claude", None), None);
    }

    #[test]
    fn missing_directory_is_writable_if_parent_is() {
        let dir = tempfile::tempdir().unwrap();
        assert!(writable("x", &dir.path().join("a/b")).ok);
        assert!(!dir.path().join("a").exists());
    }

    #[test]
    fn state_directory_open_to_others_fails() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ServerPaths::under(dir.path());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(state_directory(&paths).ok);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let check = state_directory(&paths);
        assert!(!check.ok && check.essential && check.detail.contains("0755"), "{}", check.detail);
    }

    #[test]
    fn tmux_is_suggested_only_if_the_build_supports_it() {
        let missing = tmux_check(Err(PaneError::NotInstalled("tmux")), "");
        assert!(missing.hint.unwrap().contains("apt-get install tmux"));
        let unsupported = tmux_check(Err(PaneError::NotBuilt("tmux")), " (/usr/bin/tmux)");
        assert_eq!((unsupported.detail.as_str(), unsupported.hint), ("this build has no tmux support", None));
    }
}
