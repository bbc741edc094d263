//! Starts programs on a terminal. A program is looked up before the fork, so that errors reach the caller.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

use nerve_types::os::set_controlling_terminal;

/// A program to start.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments; at least one.
    pub argv: Vec<String>,
    /// Working directory [default: ours].
    pub cwd: Option<PathBuf>,
    /// Variables added to our environment.
    pub env: BTreeMap<String, String>,
    /// Variables removed from our environment.
    pub env_remove: Vec<String>,
}

/// Error of starting a program. A host reports it to the process that started the host, as far as it can be encoded.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum SpawnError {
    /// The command is empty.
    #[error("the command is empty")]
    Empty,
    /// The program was not found.
    #[error("no program '{program}' {place}")]
    NoProgram {
        /// The program as given.
        program: String,
        /// Searched location, for the message.
        place: String,
    },
    /// The file exists but is not executable.
    #[error("'{program}' cannot be run: {} {why}", path.display())]
    NotExecutable {
        /// The program as given.
        program: String,
        /// Path of the file.
        path: PathBuf,
        /// The reason, to be read after the path.
        why: String,
    },
    /// The working directory does not exist.
    #[error("working directory '{0}' is not a directory")]
    NoDirectory(PathBuf),
    /// An argument contains a zero byte.
    #[error("the command contains a zero byte")]
    ZeroByte,
    /// A terminal multiplexer is missing or refuses; the message.
    #[error("{0}")]
    #[serde(skip)]
    Multiplexer(String),
    /// A terminal multiplexer has no such pane.
    #[error("no such pane: {0}")]
    #[serde(skip)]
    NoPane(String),
    /// A host process could not be started; the message.
    #[error("{0}")]
    #[serde(rename = "Failed")]
    Host(String),
    /// A system call failed.
    #[error("cannot {action}: {error}")]
    #[serde(skip)]
    System {
        /// The action that failed.
        // Without the attribute, the derive requires input that lives forever.
        #[serde(skip)]
        action: &'static str,
        /// The cause.
        error: std::io::Error,
    },
}

impl SpawnError {
    /// Returns a function that wraps the error of the system call for `what`.
    pub fn system(action: &'static str) -> impl FnOnce(std::io::Error) -> SpawnError {
        move |error| SpawnError::System { action, error }
    }

    /// Returns an error that can be serialized: only the message of one whose cause exists in this process alone.
    pub(crate) fn reportable(self) -> SpawnError {
        match self {
            error @ (SpawnError::System { .. } | SpawnError::Multiplexer(_) | SpawnError::NoPane(_)) => {
                SpawnError::Host(error.to_string())
            }
            error => error,
        }
    }
}

impl Program {
    /// Starts the program in its own session with `slave` as controlling terminal, stdout and stderr. Standard input is
    /// `stdin`, or the terminal if `None`.
    pub(super) fn spawn(&self, slave: &OwnedFd, stdin: Option<OwnedFd>) -> Result<Child, SpawnError> {
        let program = self.find()?;
        let stdio = || slave.try_clone().map(Stdio::from).map_err(SpawnError::system("share the terminal"));
        let mut command = Command::new(program);
        let stdin = stdin.map_or_else(stdio, |other| Ok(Stdio::from(other)))?;
        command.args(&self.argv[1..]).stdin(stdin).stdout(stdio()?).stderr(stdio()?).kill_on_drop(false);
        if let Some(name) = self.argv.first() {
            command.arg0(name);
        }
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        for name in self.env_remove.iter().map(String::as_str).chain(["LINES", "COLUMNS"]) {
            command.env_remove(name);
        }
        command.env("TERM", "xterm-256color").env("COLORTERM", "truecolor").envs(&self.env);
        set_controlling_terminal(&mut command);
        command.spawn().map_err(SpawnError::system("start the program"))
    }

    /// Finds the program as `execvp` would, with the child's PATH and directory.
    pub fn find(&self) -> Result<PathBuf, SpawnError> {
        let name = self.argv.first().filter(|name| !name.is_empty()).ok_or(SpawnError::Empty)?;
        if self.argv.iter().any(|word| word.contains('\0')) {
            return Err(SpawnError::ZeroByte);
        }
        let cwd = match &self.cwd {
            Some(cwd) if !cwd.is_dir() => return Err(SpawnError::NoDirectory(cwd.clone())),
            Some(cwd) => cwd.clone(),
            None => PathBuf::from("."),
        };
        let missing = |place: String| SpawnError::NoProgram { program: name.clone(), place };
        let not_executable = |path: PathBuf| {
            let why = if path.is_dir() { "is a directory" } else { "is not executable" }.to_string();
            SpawnError::NotExecutable { program: name.clone(), path, why }
        };
        if name.contains('/') {
            let path = if Path::new(name).is_absolute() { PathBuf::from(name) } else { cwd.join(name) };
            // Absolute, because the child changes its directory before exec.
            let path = std::path::absolute(&path).map_err(SpawnError::system("resolve the program"))?;
            return match is_program(&path) {
                true => Ok(path),
                false if path.exists() => Err(not_executable(path)),
                false => Err(missing("at that path".into())),
            };
        }
        let path =
            self.env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH")).unwrap_or_default();
        let places = || std::env::split_paths(&path).map(|folder| cwd.join(folder).join(name));
        match places().find(|path| is_program(path)) {
            Some(path) => std::path::absolute(path).map_err(SpawnError::system("resolve the program")),
            None => Err(places()
                .find(|path| path.is_file())
                .map_or_else(|| missing("in PATH".into()), not_executable)),
        }
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
