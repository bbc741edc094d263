//! An isolated home directory: no settings, keys or sessions of the user enter a test, and nothing leaves it.

use std::ffi::OsStr;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A directory tree for one test, removed on drop. All directories have mode 0700.
///
/// The path is short, `/tmp/nvXXXXXX` if possible: a Unix socket path is limited to 107 bytes (`sun_path`, unix(7)).
#[derive(Debug)]
pub struct Hermetic {
    root: TempDir,
}

/// Names of the directories and the variables that point to them.
const DIRECTORIES: [(&str, &str); 8] = [
    ("HOME", "home"),
    ("XDG_CONFIG_HOME", "home/.config"),
    ("XDG_DATA_HOME", "home/.local/share"),
    ("XDG_STATE_HOME", "home/.local/state"),
    ("XDG_CACHE_HOME", "home/.cache"),
    ("XDG_RUNTIME_DIR", "run"),
    ("TMPDIR", "tmp"),
    ("NERVE_HOME", "nerve"),
];

impl Hermetic {
    /// Creates the tree.
    ///
    /// # Errors
    /// The temporary directory cannot be written.
    pub fn new() -> io::Result<Hermetic> {
        let make = |parent: &Path| {
            tempfile::Builder::new()
                .prefix("nv")
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(parent)
        };
        let root = make(Path::new("/tmp")).or_else(|_| make(&std::env::temp_dir()))?;
        for (_, path) in DIRECTORIES.iter().chain(&[("", "work")]) {
            DirBuilder::new().recursive(true).mode(0o700).create(root.path().join(path))?;
        }
        Ok(Hermetic { root })
    }

    /// Returns the root of the tree.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns `HOME`.
    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// Returns an empty working directory.
    pub fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// Returns `XDG_CONFIG_HOME`.
    pub fn config(&self) -> PathBuf {
        self.home().join(".config")
    }

    /// Returns `XDG_STATE_HOME`.
    pub fn state(&self) -> PathBuf {
        self.home().join(".local/state")
    }

    /// Returns `XDG_RUNTIME_DIR`.
    pub fn runtime(&self) -> PathBuf {
        self.root().join("run")
    }

    /// Returns `NERVE_HOME`.
    pub fn nerve_home(&self) -> PathBuf {
        self.root().join("nerve")
    }

    /// Returns the complete environment. Only `PATH` and the settings of the tests themselves come from outside; there
    /// is no tmux and no API key.
    pub fn env(&self) -> Vec<(String, String)> {
        let names = ["PATH", "NERVE_TEST_SKIPS", "NERVE_TEST_NO_SKIP", "NERVE_TEST_AGENTS"];
        let inherited =
            names.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
        let directories =
            DIRECTORIES.into_iter().map(|(name, path)| (name.to_owned(), text(&self.root().join(path))));
        let fixed = [
            ("LANG", "C.UTF-8"),
            ("TERM", "xterm-256color"),
            ("COLORTERM", "truecolor"),
            ("SHELL", "/bin/sh"),
        ];
        inherited
            .chain(directories)
            .chain(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect()
    }

    /// Prepares a command with exactly this environment, in [`work`](Hermetic::work).
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.env()).current_dir(self.work());
        command
    }

    /// Runs git in `folder` with a made-up author; returns its output.
    ///
    /// # Panics
    /// It fails.
    #[track_caller]
    pub fn git(&self, folder: &Path, args: &[&str]) -> String {
        let author = ["-c", "user.name=Me", "-c", "user.email=me@example.org"];
        let mut command = self.command("git");
        let output =
            command.env("GIT_CONFIG_NOSYSTEM", "1").current_dir(folder).args(author).args(args).output();
        match output {
            Ok(output) if output.status.success() => {
                String::from_utf8_lossy(&output.stdout).trim_end().to_string()
            }
            failed => panic!("git {args:?}: {failed:?}"),
        }
    }

    /// Writes a file in the home and creates its directories.
    pub(crate) fn write_home(&self, path: &str, content: &str) -> io::Result<()> {
        let path = self.home().join(path);
        if let Some(parent) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        std::fs::write(path, content)
    }
}

/// Converts a path to text. Temporary paths are ASCII.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_is_complete_and_isolated() {
        let hermetic = Hermetic::new().unwrap();
        let output = hermetic.command("env").output().unwrap();
        let seen = String::from_utf8(output.stdout).unwrap();
        let value = |name: &str| {
            let line = seen.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.unwrap_or_default().to_owned()
        };
        for (name, _) in DIRECTORIES {
            let path = PathBuf::from(value(name));
            assert!(path.starts_with(hermetic.root()), "{name}={}", path.display());
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700, "{name}");
        }
        assert_eq!(value("PATH"), std::env::var("PATH").unwrap());
        assert_eq!(value("TERM"), "xterm-256color");
        for name in ["TMUX", "CARGO", "ANTHROPIC_API_KEY", "USER"] {
            assert_eq!(value(name), "", "{name}");
        }
    }

    #[test]
    fn a_socket_path_fits() {
        let hermetic = Hermetic::new().unwrap();
        let deepest =
            hermetic.home().join(".local/state/nerve/hosts/00000000-0000-0000-0000-000000000000.sock");
        assert!(deepest.as_os_str().len() <= 107, "{}", deepest.display());
    }

    #[test]
    fn tree_is_removed_on_drop() {
        let hermetic = Hermetic::new().unwrap();
        let root = hermetic.root().to_owned();
        assert!(root.join("work").is_dir());
        drop(hermetic);
        assert!(!root.exists());
    }
}
