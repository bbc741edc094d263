//! Runs the `git` program: with an argument list, never through a shell, and without user settings that could run
//! programs or change the result.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nerve_types::os::ProcessHandle;
use rustix::process::Signal;

use super::super::{FilesError, SkippedFiles, SnapshotRequest};

/// Interval of the checks for cancellation while git runs.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Settings that override those of the user and the repository.
const SETTINGS: [&str; 11] = [
    // Disables hooks; `post-index-change` and `reference-transaction` would run.
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "commit.gpgSign=false",
    "maintenance.auto=false",
    "gc.auto=0",
    // These would make `git add` fail or ignore changes.
    "core.safecrlf=false",
    "core.ignoreStat=false",
    // Keeps the index in a single file.
    "core.splitIndex=false",
    "core.logAllRefUpdates=false",
    "i18n.commitEncoding=UTF-8",
    "advice.addEmbeddedRepo=false",
];

/// The `GIT_*` variables that are passed on: they locate settings and programs. The others locate a repository or an
/// index and, inside a hook, would select the wrong one.
const KEPT_VARIABLES: [&str; 6] = [
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_EXEC_PATH",
];

/// Git with a working directory.
#[derive(Debug, Clone)]
pub(super) struct Git {
    dir: PathBuf,
    index: Option<PathBuf>,
    git_dir: Option<PathBuf>,
}

/// One invocation of git.
#[derive(Debug)]
pub(super) struct GitCommand<'a> {
    action: &'static str,
    command: Command,
    /// The process is killed when this is set.
    stop: Option<&'a AtomicBool>,
}

impl Git {
    pub(super) fn new(dir: &Path) -> Git {
        Git { dir: dir.to_path_buf(), index: None, git_dir: None }
    }

    /// Uses a separate index file.
    pub(super) fn with_index(&self, index: &Path) -> Git {
        Git { index: Some(index.to_path_buf()), ..self.clone() }
    }

    /// Uses the directory as a work tree of this repository.
    pub(super) fn with_work_tree(&self, git_dir: &Path) -> Git {
        Git { git_dir: Some(git_dir.to_path_buf()), ..self.clone() }
    }

    /// Prepares an invocation. `action` completes "git cannot …".
    pub(super) fn command<'a>(&self, action: &'static str) -> GitCommand<'a> {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            if name_text.starts_with("GIT_") && !KEPT_VARIABLES.contains(&&*name_text) {
                command.env_remove(&name);
            }
        }
        command.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0");
        command.current_dir(&self.dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        if let Some(git_dir) = &self.git_dir {
            command.env("GIT_DIR", git_dir).env("GIT_WORK_TREE", &self.dir);
        }
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        GitCommand { action, command, stop: None }
    }

    /// Returns messages about nested repositories, of which the index has only a commit id.
    pub(super) fn inner_repositories(&self) -> Result<Vec<String>, FilesError> {
        let mut messages = SkippedFiles::default();
        let list = self.command("list the files").args(["ls-files", "--stage", "-z"]).bytes()?;
        for entry in list.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 ")) {
            let name = entry.splitn(2, |byte| *byte == b'\t').nth(1).unwrap_or_default();
            messages.push(|| {
                let name = String::from_utf8_lossy(name);
                format!("{name}: nested repository, empty until 'git submodule update --init' is run")
            });
        }
        Ok(messages.into_messages())
    }

    /// Returns the root of the surrounding work tree; `None` outside of one and without git.
    pub(super) fn work_tree(&self) -> Result<Option<PathBuf>, FilesError> {
        let mut call = self.command("look for a work tree").args(["rev-parse", "--is-inside-work-tree"]);
        let output = match call.command.output() {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.dir.is_dir() => return Ok(None),
            output => output.map_err(|error| call.failed(&error.to_string()))?,
        };
        if !output.status.success() {
            let nothing_here = stderr_text(&output).contains("not a git repository");
            return if nothing_here { Ok(None) } else { Err(call.failed(&stderr_text(&output))) };
        }
        if output.stdout != b"true\n" {
            return Ok(None);
        }
        self.command("find the work tree").args(["rev-parse", "--show-toplevel"]).path().map(Some)
    }
}

impl<'a> GitCommand<'a> {
    pub(super) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> GitCommand<'a> {
        self.command.args(args);
        self
    }

    /// Kills the process when the request is cancelled.
    pub(super) fn cancel_with<'b>(self, request: &SnapshotRequest<'b>) -> GitCommand<'b> {
        GitCommand { stop: request.stop, action: self.action, command: self.command }
    }

    pub(super) fn env(mut self, name: &str, value: &str) -> GitCommand<'a> {
        self.command.env(name, value);
        self
    }

    /// Returns the output of a successful run.
    pub(super) fn bytes(self) -> Result<Vec<u8>, FilesError> {
        let (call, output) = self.output(b"")?;
        if output.status.success() { Ok(output.stdout) } else { Err(call.failed(&stderr_text(&output))) }
    }

    /// Returns the output line of a successful run.
    pub(super) fn line(self) -> Result<String, FilesError> {
        self.bytes().map(|bytes| String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_string())
    }

    /// Returns the path printed by a successful run.
    pub(super) fn path(self) -> Result<PathBuf, FilesError> {
        let mut bytes = self.bytes()?;
        bytes.pop_if(|last| *last == b'\n');
        Ok(OsString::from_vec(bytes).into())
    }

    /// Returns the output line; `None` for exit code 1.
    pub(super) fn optional_line(self) -> Result<Option<String>, FilesError> {
        let (call, output) = self.output(b"")?;
        match output.status.code() {
            Some(0) => Ok(Some(String::from_utf8_lossy(&output.stdout).trim_end().to_string())),
            Some(1) => Ok(None),
            _ => Err(call.failed(&stderr_text(&output))),
        }
    }

    /// Returns the output line of a successful run with `input` on standard input.
    pub(super) fn line_with_input(self, input: &[u8]) -> Result<String, FilesError> {
        let (call, output) = self.output(input)?;
        if !output.status.success() {
            return Err(call.failed(&stderr_text(&output)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_string())
    }

    /// Returns the complaints of a run that may be partially successful: exit code 0 or 1.
    pub(super) fn complaints(self) -> Result<Vec<String>, FilesError> {
        let (call, output) = self.output(b"")?;
        let stderr = stderr_text(&output);
        let lines: Vec<String> = stderr.lines().filter_map(parse_complaint).collect();
        match output.status.code() {
            Some(0) => Ok(lines),
            Some(1) if !lines.is_empty() => Ok(lines),
            _ => Err(call.failed(&stderr)),
        }
    }

    /// Passes each name of a NUL-separated list to `take` as it arrives.
    pub(super) fn each_name(mut self, mut take: impl FnMut(&Path)) -> Result<(), FilesError> {
        // Standard error would not be drained while the list is read.
        self.command.stderr(Stdio::null());
        let stop = self.stop;
        let mut run = || -> io::Result<bool> {
            let mut child = self.command.spawn()?;
            kill_on_stop(stop, child.id(), || {
                if let Some(list) = child.stdout.take() {
                    for name in BufReader::new(list).split(0) {
                        take(Path::new(&OsString::from_vec(name?)));
                    }
                }
                Ok(child.wait()?.success())
            })
        };
        match run() {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.failed("failed")),
            Err(error) => Err(self.failed(&error.to_string())),
        }
    }

    fn output(mut self, input: &[u8]) -> Result<(GitCommand<'a>, Output), FilesError> {
        let stop = self.stop;
        let run = |command: &mut Command| -> io::Result<Output> {
            if !input.is_empty() {
                command.stdin(Stdio::piped());
            }
            let mut child = command.spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // The input fits a pipe, so this cannot block. If git has already exited, its status explains why.
                let _ = stdin.write_all(input);
            }
            kill_on_stop(stop, child.id(), || child.wait_with_output())
        };
        match run(&mut self.command) {
            Ok(output) => Ok((self, output)),
            Err(error) => Err(self.failed(&error.to_string())),
        }
    }

    fn failed(&self, reason: &str) -> FilesError {
        if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return FilesError::Stopped;
        }
        let reason = reason.trim();
        let reason = reason.strip_prefix("fatal: ").unwrap_or(reason);
        let message = if reason.is_empty() { "no reason given" } else { reason }.to_string();
        FilesError::Git { action: self.action, message }
    }
}

/// Runs `wait` and kills the child if `stop` is set meanwhile.
fn kill_on_stop<T>(
    stop: Option<&AtomicBool>,
    child: u32,
    wait: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let Some(stop) = stop else { return wait() };
    // The child is not reaped yet, so the pid still refers to it.
    let process = ProcessHandle::open(child)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    // Fails only if the process has already exited.
                    let _ = process.signal(Signal::KILL);
                    return;
                }
                std::thread::park_timeout(POLL_INTERVAL);
            }
        });
        let waited = wait();
        done.store(true, Ordering::Relaxed);
        watch.thread().unpark();
        waited
    })
}

fn stderr_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Extracts the message about a file from a line of standard error.
fn parse_complaint(line: &str) -> Option<String> {
    if let Some(inner) = line.strip_prefix("warning: adding embedded git repository: ") {
        return Some(format!("{inner}: nested repository, only its commit is kept"));
    }
    line.strip_prefix("error: ").map(str::to_string)
}
