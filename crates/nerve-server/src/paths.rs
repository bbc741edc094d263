//! Locations of a server's files: sockets, locks, logs, histories, profiles.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nerve_engine::data_dirs::DataDirs;
use nerve_host::manager::HostManager;
use nerve_mux::pane::Panes;
use nerve_types::files::private_folder;
use nerve_types::name;
pub use nerve_types::os::MAX_SOCKET_PATH;

use crate::error::ServerError;

/// The directories of one user, resolved from the environment. They need not exist.
///
/// | | `NERVE_HOME` set | else |
/// |---|---|---|
/// | runtime | `$NERVE_HOME/run` | `$XDG_RUNTIME_DIR/nerve`, or `<tmp>/nerve-<uid>` |
/// | state | `$NERVE_HOME` | `$XDG_STATE_HOME/nerve`, or `~/.local/state/nerve` |
/// | cache | `$NERVE_HOME/cache` | `$XDG_CACHE_HOME/nerve`, or `~/.cache/nerve` |
/// | config | `$NERVE_HOME` | `$XDG_CONFIG_HOME/nerve`, or `~/.config/nerve` |
/// | sessions | `$NERVE_HOME/sessions.json` | `sessions.json` in the state directory; `~/.nerve/sessions.json` if only that exists |
/// | recordings | `$NERVE_HOME/recordings` | `$AH_HOME/recordings`, or `recordings` in the state directory |
/// | history | `$NERVE_HOME/history` | `history` in the state directory |
///
/// Older versions wrote histories to `.nerve/history` under the current directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPaths {
    /// Sockets and locks.
    pub runtime: PathBuf,
    /// Logs, and data that outlives a server.
    pub state: PathBuf,
    /// The user's settings.
    pub config: PathBuf,
    /// Copies of data that is elsewhere, which may be deleted at any time.
    pub cache: PathBuf,
    /// Base directory of the audit logs that older versions wrote for servers started in this directory.
    pub old_history: PathBuf,
    /// Recordings, and the data that belongs to them and to nodes.
    pub data: DataDirs,
}

impl ServerPaths {
    /// Resolves the directories from this process's environment.
    pub fn from_env() -> ServerPaths {
        let uid = rustix::process::getuid().as_raw();
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        ServerPaths::resolve(|name| std::env::var_os(name), uid, &cwd)
    }

    /// Returns the layout with everything under one directory, as with `NERVE_HOME`.
    pub fn under(home: &Path) -> ServerPaths {
        ServerPaths {
            runtime: home.join("run"),
            old_history: PathBuf::from(".nerve/history"),
            data: data_dirs(home, home),
            config: home.to_path_buf(),
            cache: home.join("cache"),
            state: home.to_path_buf(),
        }
    }

    /// Resolves the directories; `get` returns the value of an environment variable. Ignores relative and
    /// empty values of XDG variables (XDG Base Directory Specification), and an `XDG_RUNTIME_DIR` of another
    /// user, as `su` leaves behind.
    pub fn resolve(get: impl Fn(&str) -> Option<OsString>, uid: u32, cwd: &Path) -> ServerPaths {
        let absolute = |name: &str| get(name).map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(home) = get("NERVE_HOME").filter(|home| !home.is_empty()) {
            return ServerPaths::under(&cwd.join(home));
        }
        let tmp = absolute("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
        let private = tmp.join(format!("nerve-{uid}"));
        let home = absolute("HOME").unwrap_or_else(|| private.clone());
        let owned = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid);
        let under =
            |name: &str, fallback: &str| absolute(name).unwrap_or_else(|| home.join(fallback)).join("nerve");
        let state = under("XDG_STATE_HOME", ".local/state");
        let old_sessions = home.join(".nerve/sessions.json");
        let sessions =
            Some(state.join("sessions.json")).filter(|path| path.exists() || !old_sessions.exists());
        let config = under("XDG_CONFIG_HOME", ".config");
        ServerPaths {
            runtime: absolute("XDG_RUNTIME_DIR").filter(owned).map_or(private, |dir| dir.join("nerve")),
            old_history: cwd.join(".nerve/history"),
            data: DataDirs {
                recordings: absolute("AH_HOME").as_ref().unwrap_or(&state).join("recordings"),
                sessions_file: sessions.unwrap_or(old_sessions),
                ..data_dirs(&state, &config)
            },
            state,
            config,
            cache: under("XDG_CACHE_HOME", ".cache"),
        }
    }

    /// Returns the path of a server's socket, whether or not it exists.
    ///
    /// # Errors
    /// Returns an error if the name is invalid or the path too long for the kernel.
    pub fn socket(&self, server: &str) -> Result<PathBuf, ServerError> {
        let path = self.in_runtime(server, "sock")?;
        if path.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(ServerError::PathTooLong { path, max: MAX_SOCKET_PATH });
        }
        Ok(path)
    }

    /// Returns the path of a server's lock file.
    ///
    /// # Errors
    /// Returns an error if the name is invalid.
    pub fn lock(&self, server: &str) -> Result<PathBuf, ServerError> {
        self.in_runtime(server, "lock")
    }

    /// Returns the file that receives a daemon's standard output and error.
    ///
    /// # Errors
    /// Returns an error if the name is invalid.
    pub fn log(&self, server: &str) -> Result<PathBuf, ServerError> {
        name::check("server", server)?;
        Ok(self.state.join("logs").join(format!("{server}.log")))
    }

    /// Returns the directory of the claims of notifications.
    pub fn notification_claims(&self) -> PathBuf {
        self.runtime.join("notified")
    }

    /// Returns the file with the settings of the interface for clients of OpenAI's API.
    pub fn openai(&self) -> PathBuf {
        self.config.join("openai.toml")
    }

    /// Returns the file with the token for clients over TCP and HTTP.
    pub fn token(&self) -> PathBuf {
        self.config.join("token")
    }

    /// Returns the directory of the web console's logins: `<web>/<server>/{codes,sessions}/`.
    pub fn web(&self) -> PathBuf {
        self.state.join("web")
    }

    /// Returns the directory of the graph runs' journals: `<runs>/<server>/<run>.jsonl`.
    pub fn runs(&self) -> PathBuf {
        self.state.join("runs")
    }

    /// Returns the directory of conversations: `<conversations>/<workspace>/<chat>.json`.
    pub fn conversations(&self) -> PathBuf {
        self.state.join("conversations")
    }

    /// Returns the directory of results of asynchronous executions: `<results>/<server>/<id>.json`.
    pub fn results(&self) -> PathBuf {
        self.state.join("results")
    }

    /// Creates the directories of hosts and returns the configuration for them. `program`: this executable.
    ///
    /// # Errors
    /// Returns an error if a socket path would be too long; see also [`private_directory`].
    pub fn hosting(&self, program: PathBuf) -> Result<HostManager, ServerError> {
        let hosting = HostManager {
            program,
            runtime: self.runtime.join("hosts"),
            registry: self.data.hosts.clone(),
            recordings: self.data.recordings.clone(),
            snapshots: self.data.snapshots.clone(),
        };
        // The longest socket path of a host.
        let deepest = hosting.runtime.join("0123456789ab/hooks/socket");
        if deepest.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(ServerError::PathTooLong { path: deepest, max: MAX_SOCKET_PATH });
        }
        private_directory(&self.runtime)?;
        private_directory(&hosting.runtime)?;
        private_directory(&hosting.registry)?;
        Ok(hosting)
    }

    /// Creates the directories for panes of tmux and WezTerm and returns their configuration. Claims are in a
    /// directory that does not depend on `NERVE_HOME`: two servers of one user must not type into the same
    /// pane.
    ///
    /// # Errors
    /// See [`private_directory`].
    pub fn panes(&self) -> Result<Panes, ServerError> {
        let panes = Panes {
            registry: Some(self.state.join("panes")),
            claims: Panes::default().claims,
            recordings: Some(self.data.recordings.clone()),
            tmux: None,
            wezterm: None,
        };
        private_directory(&self.state)?;
        private_directory(&self.state.join("panes"))?;
        Ok(panes)
    }

    /// Checks the existing directories that a server creates or checks when it starts. Creates none.
    ///
    /// # Errors
    /// See [`private_directory`].
    pub fn check_directories(&self) -> Result<(), ServerError> {
        let paths = [
            self.runtime.clone(),
            self.runtime.join("hosts"),
            self.state.clone(),
            self.data.hosts.clone(),
            self.state.join("panes"),
        ];
        paths.iter().filter(|path| path.symlink_metadata().is_ok()).try_for_each(|path| check_private(path))
    }

    /// Returns true if `HOME` is needed and not set: the state is then kept in a temporary directory.
    pub fn lacks_home(get: impl Fn(&str) -> Option<OsString>) -> bool {
        let is_absolute = |name: &str| get(name).is_some_and(|path| Path::new(&path).is_absolute());
        get("NERVE_HOME").is_none_or(|home| home.is_empty()) && !is_absolute("HOME")
    }

    /// Returns the file with which a server claims its hosts.
    ///
    /// # Errors
    /// Returns an error if the name is invalid.
    pub(crate) fn hosts_claim(&self, server: &str) -> Result<PathBuf, ServerError> {
        name::check("server", server)?;
        Ok(self.data.hosts.join(format!("{server}.lock")))
    }

    /// Returns the names of servers that have a socket, a lock file or a claim on hosts, sorted. They need not
    /// be alive.
    pub fn servers(&self) -> Vec<String> {
        let files = [&self.runtime, &self.data.hosts].into_iter().flat_map(fs::read_dir).flatten();
        let mut names: Vec<String> = files
            .flatten()
            .filter_map(|entry| {
                let path = entry.path();
                let is_ours = path.extension().is_some_and(|ext| ext == "sock" || ext == "lock");
                let name = path.file_stem()?.to_str()?.to_string();
                (is_ours && name::check("server", &name).is_ok()).then_some(name)
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn in_runtime(&self, server: &str, extension: &str) -> Result<PathBuf, ServerError> {
        name::check("server", server)?;
        Ok(self.runtime.join(format!("{server}.{extension}")))
    }
}

/// Returns the locations of data below the directories of state and settings.
fn data_dirs(state: &Path, config: &Path) -> DataDirs {
    DataDirs {
        recordings: state.join("recordings"),
        history: state.join("history"),
        snapshots: state.join("snapshots"),
        branches: state.join("branches"),
        hosts: state.join("hosts"),
        proxies: state.join("proxies"),
        prices: config.join("prices.toml"),
        profiles: config.join("profiles"),
        search: state.join("search"),
        sessions_file: state.join("sessions.json"),
    }
}

/// Creates `path` and its missing parents with access for this user only.
///
/// # Errors
/// Returns an error if the directory cannot be created, is not a directory, belongs to another user or is
/// accessible to others. A symbolic link as the last component is rejected: in a shared temporary directory
/// it could lead anywhere.
pub fn private_directory(path: &Path) -> Result<(), ServerError> {
    private_folder(path).map_err(ServerError::io("create the directory", path))?;
    check_private(path)
}

/// Checks an existing directory as [`private_directory`] does.
///
/// # Errors
/// See [`private_directory`].
pub fn check_private(path: &Path) -> Result<(), ServerError> {
    let meta = fs::symlink_metadata(path).map_err(ServerError::io("look at", path))?;
    let unsafe_file = |problem: String| Err(ServerError::UnsafeDirectory { path: path.into(), problem });
    let uid = rustix::process::getuid().as_raw();
    if !meta.is_dir() {
        return unsafe_file("it is not a directory".to_string());
    }
    if meta.uid() != uid {
        return unsafe_file(format!("it belongs to uid {}, not to {uid}", meta.uid()));
    }
    if meta.mode() & 0o077 != 0 {
        return unsafe_file(format!("its mode {:04o} lets others in", meta.mode() & 0o7777));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
