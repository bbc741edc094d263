//! Where the project is, and commands that run in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The checkout and its target folder.
pub(crate) struct Project {
    /// The folder of the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
    /// Nothing may be skipped or missing (`CI=true`).
    pub(crate) ci: bool,
}

impl Project {
    /// Finds the checkout this xtask was built from and asks cargo for the target folder.
    pub(crate) fn find() -> anyhow::Result<Project> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().context("xtask has no parent folder")?.to_path_buf();
        let target = target_directory(&root)?;
        Ok(Project { root, target, ci: std::env::var("CI").is_ok_and(|value| value == "true") })
    }

    /// A command that starts in the root of the checkout.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// Runs cargo with its output passed through.
    pub(crate) fn cargo(&self, args: &[&str]) -> anyhow::Result<()> {
        run(self.command(cargo_program()).args(args))
    }

    /// The program as the `build` step leaves it.
    pub(crate) fn nerve(&self) -> PathBuf {
        self.target.join("debug/nerve")
    }

    /// Where the packages of PyPI are.
    pub(crate) fn pypi(&self) -> PathBuf {
        self.target.join("pypi")
    }

    /// Where npm puts the commands of the pinned agents.
    pub(crate) fn agents_bin(&self) -> PathBuf {
        self.target.join("agents/node_modules/.bin")
    }
}

/// The cargo that runs us, so that a `+toolchain` chosen by the caller stays chosen.
pub(crate) fn cargo_program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs a command to its end; an error names the command when it cannot start or fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", words(command)))?;
    if !status.success() {
        bail!("{}: {status}", words(command));
    }
    Ok(())
}

/// Runs a command and gives its standard output; its standard error is passed through.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", words(command)))?;
    if !output.status.success() {
        bail!("{}: {}", words(command), output.status);
    }
    Ok(output.stdout)
}

/// A command as a person would type it.
fn words(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    std::iter::once(name)
        .chain(command.get_args().map(|arg| arg.to_string_lossy().into_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Asks cargo, because `CARGO_TARGET_DIR` and configuration files can move the folder.
fn target_directory(root: &Path) -> anyhow::Result<PathBuf> {
    let mut command = Command::new(cargo_program());
    command.current_dir(root).args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata = String::from_utf8(output(&mut command)?)?;
    let found =
        string_field(&metadata, "target_directory").context("cargo metadata names no target folder")?;
    Ok(PathBuf::from(found))
}

/// The value of a top-level string field. A path with a quote or a backslash is not understood; neither exists in a
/// target folder anyone has.
pub(crate) fn string_field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let key = format!("\"{name}\":\"");
    let start = json.find(&key)? + key.len();
    let length = json[start..].find('"')?;
    Some(&json[start..start + length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_field_among_others() {
        let json = r#"{"packages":[],"target_directory":"/a/target","version":1}"#;
        assert_eq!(string_field(json, "target_directory"), Some("/a/target"));
        assert_eq!(string_field(json, "root"), None);
    }

    #[test]
    fn a_failed_command_is_named_with_its_arguments() {
        let error = run(Command::new("/bin/sh").args(["-c", "exit 3"])).unwrap_err().to_string();
        assert!(error.contains("sh -c exit 3") && error.contains('3'), "{error}");
        let error = run(Command::new("/nonexistent/tool").arg("x")).unwrap_err().to_string();
        assert_eq!(error, "cannot start tool x");
    }
}
