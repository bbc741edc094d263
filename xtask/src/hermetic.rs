//! An isolated home folder for the steps, so that nothing of the user's is read or written.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// A temporary home folder, removed on drop.
pub(crate) struct Hermetic {
    root: PathBuf,
}

/// Maximum number of folders that earlier runs left behind.
const MAX_FOLDERS: u32 = 1000;
/// The only variables passed on from the outer environment.
const KEPT: [&str; 6] =
    ["PATH", "CARGO_TARGET_DIR", "RUSTUP_TOOLCHAIN", "RUSTUP_AUTO_INSTALL", "LD_LIBRARY_PATH", "CI"];

impl Hermetic {
    /// Creates the folder. Its path is short because socket paths are limited to about 100 bytes.
    pub(crate) fn new(name: &str) -> anyhow::Result<Hermetic> {
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700);
        let base = std::env::temp_dir().join(format!("nerve-{name}-{}", std::process::id()));
        // A process of this number may have left its folder behind.
        let mut root = base.clone();
        for number in 2.. {
            match builder.create(&root) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < MAX_FOLDERS => {
                    root = PathBuf::from(format!("{}-{number}", base.display()));
                }
                Err(error) => return Err(error).with_context(|| format!("cannot make {}", root.display())),
            }
        }
        let hermetic = Hermetic { root };
        for folder in ["home", "run", "tmp"] {
            builder.create(hermetic.root.join(folder))?;
        }
        Ok(hermetic)
    }

    /// Returns the folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Replaces a command's environment.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.env_clear();
        for name in KEPT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // Cargo and rustup locate their files through HOME, which changes below.
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let default = || std::env::home_dir().map(|home| home.join(folder).into_os_string());
            if let Some(value) = std::env::var_os(name).or_else(default) {
                command.env(name, value);
            }
        }
        command.env("HOME", self.root.join("home"));
        command.env("XDG_RUNTIME_DIR", self.root.join("run"));
        command.env("TMPDIR", self.root.join("tmp"));
        command.env("LANG", "C.UTF-8").env("TERM", "xterm-256color").env("SHELL", "/bin/bash");
    }
}

impl Hermetic {
    /// Kills the processes that were started with this environment and still run. Prints each.
    pub(crate) fn kill_processes(&self) {
        let home = format!("HOME={}", self.root.join("home").display());
        let Ok(entries) = fs::read_dir("/proc") else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            // Processes of other users and those that have just ended cannot be read.
            let Ok(variables) = fs::read(path.join("environ")) else { continue };
            let pid = path.file_name().unwrap_or_default();
            if variables.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes()) {
                let words = fs::read(path.join("cmdline")).unwrap_or_default();
                let words = String::from_utf8_lossy(&words).replace('\0', " ");
                println!("killed process {}: {}", pid.to_string_lossy(), words.trim_end());
                // The process may have ended in the meantime.
                let _ = Command::new("kill").arg("-KILL").arg(pid).status();
            }
        }
    }
}

impl Drop for Hermetic {
    fn drop(&mut self) {
        // A leftover folder below the temporary folder is harmless.
        let _ = fs::remove_dir_all(&self.root);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_gets_isolated_home_and_no_keys() {
        let hermetic = Hermetic::new("xtask-test").unwrap();
        let mut command = Command::new("/bin/sh");
        command.env("ANTHROPIC_API_KEY", "secret");
        hermetic.apply(&mut command);
        command.args(["-c", "echo $HOME; echo ${ANTHROPIC_API_KEY:-none}; echo ${CARGO_HOME:+there}"]);
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let home = hermetic.root().join("home").display().to_string();
        assert_eq!(text.lines().collect::<Vec<_>>(), [home.as_str(), "none", "there"]);
        let root = hermetic.root().to_path_buf();
        drop(hermetic);
        assert!(!root.exists());
    }
    #[test]
    fn kills_leftover_processes() {
        let hermetic = Hermetic::new("xtask-kill").unwrap();
        let mut command = Command::new("sleep");
        hermetic.apply(&mut command);
        let mut child = command.arg("600").spawn().unwrap();
        hermetic.kill_processes();
        assert!(!child.wait().unwrap().success());
    }
}
