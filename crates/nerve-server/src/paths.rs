//! Where a server's files are: sockets, locks, logs, histories, profiles (design section 4).

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nerve_core::backend::pane::Panes;
use nerve_core::host::hosting::Hosting;
use nerve_record::name;

use crate::daemon::{LOCK_POLL, LOCK_TIMEOUT};
use crate::error::ServerError;

/// The longest path `sun_path` holds beside its closing zero (unix(7)).
pub const MAX_SOCKET_PATH: usize = 107;

/// The directories of one user, found from the environment and not yet made.
///
/// | | `NERVE_HOME` set | else |
/// |---|---|---|
/// | runtime | `$NERVE_HOME/run` | `$XDG_RUNTIME_DIR/nerve`, or `<tmp>/nerve-<uid>` |
/// | state | `$NERVE_HOME` | `$XDG_STATE_HOME/nerve`, or `~/.local/state/nerve` |
/// | config | `$NERVE_HOME` | `$XDG_CONFIG_HOME/nerve`, or `~/.config/nerve` |
/// | sessions | `$NERVE_HOME/sessions.json` | `~/.nerve/sessions.json` |
/// | history | `$NERVE_HOME/history` | `.nerve/history` under the current directory (seed channel-history §4.3) |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Sockets and locks.
    pub runtime: PathBuf,
    /// Logs and what outlives a server.
    pub state: PathBuf,
    /// The user's settings.
    pub config: PathBuf,
    /// Base of the audit logs: `<history>/<server>/<node>.jsonl`.
    pub history: PathBuf,
    /// What the user's servers keep of their sessions.
    sessions: PathBuf,
}

impl Places {
    /// From this process's environment.
    pub fn from_env() -> Places {
        let uid = rustix::process::getuid().as_raw();
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        Places::resolve(|name| std::env::var_os(name), uid, &cwd)
    }

    /// Everything under one directory, as `NERVE_HOME` has it.
    pub fn under(home: &Path) -> Places {
        Places {
            runtime: home.join("run"),
            history: home.join("history"),
            sessions: home.join("sessions.json"),
            config: home.to_path_buf(),
            state: home.to_path_buf(),
        }
    }

    /// From any environment; `get` is asked for variables. Relative and empty values of XDG variables do not count (XDG Base
    /// Directory Specification), nor does an `XDG_RUNTIME_DIR` of another user, as `su` leaves behind.
    pub fn resolve(get: impl Fn(&str) -> Option<OsString>, uid: u32, cwd: &Path) -> Places {
        let absolute = |name: &str| get(name).map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(home) = get("NERVE_HOME").filter(|home| !home.is_empty()) {
            return Places::under(&cwd.join(home));
        }
        let tmp = absolute("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
        let private = tmp.join(format!("nerve-{uid}"));
        let home = absolute("HOME").unwrap_or_else(|| private.clone());
        let owned = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid);
        let under =
            |name: &str, fallback: &str| absolute(name).unwrap_or_else(|| home.join(fallback)).join("nerve");
        Places {
            runtime: absolute("XDG_RUNTIME_DIR").filter(owned).map_or(private, |dir| dir.join("nerve")),
            state: under("XDG_STATE_HOME", ".local/state"),
            config: under("XDG_CONFIG_HOME", ".config"),
            history: cwd.join(".nerve/history"),
            sessions: home.join(".nerve/sessions.json"),
        }
    }

    /// The socket of a server. Says nothing about whether it exists.
    ///
    /// # Errors
    /// A bad name, or a path the kernel would not take.
    pub fn socket(&self, server: &str) -> Result<PathBuf, ServerError> {
        let path = self.in_runtime(server, "sock")?;
        if path.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(ServerError::PathTooLong { path, max: MAX_SOCKET_PATH });
        }
        Ok(path)
    }

    /// The lock file that a live server holds.
    ///
    /// # Errors
    /// A bad name.
    pub fn lock(&self, server: &str) -> Result<PathBuf, ServerError> {
        self.in_runtime(server, "lock")
    }

    /// Where a daemon's standard output and error go.
    ///
    /// # Errors
    /// A bad name.
    pub fn log(&self, server: &str) -> Result<PathBuf, ServerError> {
        name::check("server", server)?;
        Ok(self.state.join("logs").join(format!("{server}.log")))
    }

    /// The folder with the user's own profiles.
    pub fn profiles(&self) -> PathBuf {
        self.config.join("profiles")
    }

    /// The file with the token that clients over TCP and HTTP must know.
    pub fn token(&self) -> PathBuf {
        self.config.join("token")
    }

    /// The folder of recordings.
    pub fn recordings(&self) -> PathBuf {
        self.state.join("recordings")
    }

    /// The folder of the files that snapshots keep.
    pub fn snapshots(&self) -> PathBuf {
        self.state.join("snapshots")
    }

    /// The folder of the work trees of branches: `<branches>/<session>-<n>/`.
    pub fn branches(&self) -> PathBuf {
        self.state.join("branches")
    }

    /// The folder of the journals of graph runs: `<runs>/<server>/<run>.jsonl`.
    pub fn runs(&self) -> PathBuf {
        self.state.join("runs")
    }

    /// The folder of conversations: `<conversations>/<workspace>/<chat>.json`.
    pub fn conversations(&self) -> PathBuf {
        self.state.join("conversations")
    }

    /// The folder of results of executions that nobody waits for: `<results>/<server>/<id>.json`.
    pub fn results(&self) -> PathBuf {
        self.state.join("results")
    }

    /// The folder of nodes' proxies: `<proxies>/log/<server>/<session>/<node>.jsonl`, and what is needed to start them again.
    pub fn proxies(&self) -> PathBuf {
        self.state.join("proxies")
    }

    /// The file in which sessions and their nodes' definitions are kept.
    pub fn sessions_file(&self) -> PathBuf {
        self.sessions.clone()
    }

    /// The folder with the entries of hosts.
    pub fn hosts(&self) -> PathBuf {
        self.state.join("hosts")
    }

    /// What an engine needs to give its nodes hosts. `program` is this program. The folders are made.
    ///
    /// # Errors
    /// See [`private_directory`].
    pub fn hosting(&self, program: PathBuf) -> Result<Hosting, ServerError> {
        let hosting = Hosting {
            program,
            runtime: self.runtime.join("hosts"),
            registry: self.hosts(),
            recordings: self.recordings(),
            snapshots: self.snapshots(),
        };
        // The longest socket of a host.
        let deepest = hosting.runtime.join("0123456789ab/hooks/socket");
        if deepest.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(ServerError::PathTooLong { path: deepest, max: MAX_SOCKET_PATH });
        }
        private_directory(&self.runtime)?;
        private_directory(&hosting.runtime)?;
        private_directory(&hosting.registry)?;
        Ok(hosting)
    }

    /// What an engine needs to find its panes of tmux and WezTerm again. Claims of panes are in a folder that does not depend on
    /// `NERVE_HOME`: two servers of one user must not type into one pane. The folders are made.
    ///
    /// # Errors
    /// See [`private_directory`].
    pub fn panes(&self) -> Result<Panes, ServerError> {
        let panes = Panes {
            registry: Some(self.state.join("panes")),
            claims: Panes::default().claims,
            recordings: Some(self.recordings()),
            tmux: None,
            wezterm: None,
        };
        private_directory(&self.state)?;
        private_directory(&self.state.join("panes"))?;
        Ok(panes)
    }

    /// Takes a server's hosts for this process: a server of the same name with another runtime directory would drive them too.
    /// Given back with the file.
    ///
    /// # Errors
    /// Another process has them, or the file cannot be made.
    pub fn claim_hosts(&self, server: &str) -> Result<fs::File, ServerError> {
        name::check("server", server)?;
        private_directory(&self.hosts())?;
        let path = self.hosts().join(format!("{server}.lock"));
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(ServerError::io("open", &path))?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                // A server that was just killed lets go of its files one by one.
                Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(LOCK_POLL);
                }
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(ServerError::AlreadyRunning { name: server.to_string(), pid: None });
                }
                Err(fs::TryLockError::Error(source)) => {
                    return Err(ServerError::Io { what: "lock", path, source });
                }
            }
        }
    }

    /// Names of servers that have left a socket or a lock, sorted; they need not be alive.
    pub fn servers(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.runtime) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| {
                let path = entry.path();
                let ours = path.extension().is_some_and(|ext| ext == "sock");
                let name = path.file_stem()?.to_str()?.to_string();
                (ours && name::check("server", &name).is_ok()).then_some(name)
            })
            .collect();
        names.sort();
        names
    }

    fn in_runtime(&self, server: &str, extension: &str) -> Result<PathBuf, ServerError> {
        name::check("server", server)?;
        Ok(self.runtime.join(format!("{server}.{extension}")))
    }
}

/// Makes `path` and what is missing above it, all for this user alone.
///
/// # Errors
/// It cannot be made, is not a directory, belongs to somebody else or lets others in. A symbolic link as the last part is refused:
/// in a shared temporary directory it could lead anywhere.
pub fn private_directory(path: &Path) -> Result<(), ServerError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(ServerError::io("create the directory", path))?;
    let meta = fs::symlink_metadata(path).map_err(ServerError::io("look at", path))?;
    let unsafe_because = |problem: String| Err(ServerError::UnsafeDirectory { path: path.into(), problem });
    let uid = rustix::process::getuid().as_raw();
    if !meta.is_dir() {
        return unsafe_because("it is not a directory".to_string());
    }
    if meta.uid() != uid {
        return unsafe_because(format!("it belongs to uid {}, not to {uid}", meta.uid()));
    }
    if meta.mode() & 0o077 != 0 {
        return unsafe_because(format!("its mode {:04o} lets others in", meta.mode() & 0o7777));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn places(vars: &[(&str, &str)]) -> Places {
        let vars: HashMap<String, OsString> =
            vars.iter().map(|(key, value)| (key.to_string(), OsString::from(value))).collect();
        Places::resolve(|name| vars.get(name).cloned(), 1234, Path::new("/here"))
    }

    #[test]
    fn nerve_home_moves_everything() {
        let places = places(&[("NERVE_HOME", "/n"), ("HOME", "/home/u"), ("XDG_RUNTIME_DIR", "/run/user/1")]);
        assert_eq!(places.socket("default").unwrap(), Path::new("/n/run/default.sock"));
        assert_eq!(places.log("default").unwrap(), Path::new("/n/logs/default.log"));
        assert_eq!(places.history, Path::new("/n/history"));
        assert_eq!(places.profiles(), Path::new("/n/profiles"));
        assert_eq!(places.runs(), Path::new("/n/runs"));
        assert_eq!(places.sessions_file(), Path::new("/n/sessions.json"));
    }

    #[test]
    fn without_nerve_home_the_xdg_directories_count() {
        let places =
            places(&[("HOME", "/home/u"), ("XDG_STATE_HOME", "/s"), ("XDG_CONFIG_HOME", "relative")]);
        assert_eq!(places.runtime, Path::new("/tmp/nerve-1234"));
        assert_eq!(places.state, Path::new("/s/nerve"));
        assert_eq!(places.config, Path::new("/home/u/.config/nerve"));
        assert_eq!(places.history, Path::new("/here/.nerve/history"));
        assert_eq!(places.runs(), Path::new("/s/nerve/runs"));
        assert_eq!(places.sessions_file(), Path::new("/home/u/.nerve/sessions.json"));
    }

    #[test]
    fn a_runtime_directory_of_another_user_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let owner = fs::metadata(dir.path()).unwrap().uid();
        let get = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| OsString::from(path));
        let own = Places::resolve(get, owner, Path::new("/"));
        assert_eq!(own.runtime, dir.path().join("nerve"));
        let other = Places::resolve(get, owner + 1, Path::new("/"));
        assert_eq!(other.runtime, PathBuf::from(format!("/tmp/nerve-{}", owner + 1)));
    }

    #[test]
    fn bad_names_are_refused() {
        for name in ["", "../x", "a/b", "A", "-a", "a-", "a.b", &"a".repeat(33), "ä"] {
            assert!(matches!(places(&[]).socket(name), Err(ServerError::Name(_))), "{name}");
        }
        assert!(places(&[]).socket(&"a".repeat(32)).is_ok());
    }

    #[test]
    fn a_path_of_108_bytes_is_too_long_and_of_107_is_not() {
        let room = MAX_SOCKET_PATH - "/run/a.sock".len();
        let home = format!("/{}", "h".repeat(room - 1));
        assert!(places(&[("NERVE_HOME", &home)]).socket("a").is_ok());
        assert!(matches!(
            places(&[("NERVE_HOME", &home)]).socket("ab"),
            Err(ServerError::PathTooLong { max: 107, .. })
        ));
    }

    #[test]
    fn a_directory_open_to_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("a/b");
        private_directory(&made).unwrap();
        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&made, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(matches!(private_directory(&made), Err(ServerError::UnsafeDirectory { .. })));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(matches!(private_directory(&link), Err(ServerError::UnsafeDirectory { .. })));
    }
}
