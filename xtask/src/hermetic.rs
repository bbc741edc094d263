//! A home of its own for what the steps run: nothing of the user's is read or written.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// A fresh folder that is removed at the end.
pub(crate) struct Hermetic {
    root: PathBuf,
}

/// What a build needs of the outer environment, and nothing else.
const KEPT: [&str; 6] =
    ["PATH", "CARGO_TARGET_DIR", "RUSTUP_TOOLCHAIN", "RUSTUP_AUTO_INSTALL", "LD_LIBRARY_PATH", "CI"];

impl Hermetic {
    /// Makes the folder. Its path is short, because a socket's path may not be long.
    pub(crate) fn new(name: &str) -> anyhow::Result<Hermetic> {
        let root = std::env::temp_dir().join(format!("nerve-{name}-{}", std::process::id()));
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700);
        builder.create(&root).with_context(|| format!("cannot make {}", root.display()))?;
        let hermetic = Hermetic { root };
        for folder in ["home", "run", "tmp"] {
            builder.create(hermetic.root.join(folder))?;
        }
        Ok(hermetic)
    }

    /// The folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Replaces the environment of a command.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.env_clear();
        for name in KEPT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // Cargo and rustup find their things from the home folder, which we are about to move.
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

impl Drop for Hermetic {
    fn drop(&mut self) {
        // A folder that stays behind under the temporary folder harms nobody.
        let _ = fs::remove_dir_all(&self.root);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_sees_its_own_home_and_no_key() {
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
}
