//! The checkout, its target folder, and commands that run in it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Features of all builds but packages. Using the same features everywhere avoids building crates twice.
pub(crate) const FEATURES: [&str; 2] = ["--features", "nerve/otel,nerve/cluster"];

/// Features of packages. The client of NATS would make the program larger for the few who need it.
pub(crate) const PACKAGE_FEATURES: [&str; 2] = ["--features", "nerve/otel"];

/// Settings of cargo in CI, which builds everything once: no incremental state, and no debug information.
const SINGLE_BUILD: [(&str, &str); 2] = [("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")];

/// The checkout and its target folder.
pub(crate) struct Project {
    /// Folder of the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Cargo's target folder.
    pub(crate) target: PathBuf,
    /// `CI=true`: no test may be skipped and no tool missing.
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

    /// Returns a command that starts in the root of the checkout.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        // These variables describe xtask. Build scripts that read them would run again whenever cargo runs with and
        // without xtask, and with them almost all crates would be built again.
        let describes_xtask = |name: &OsString| {
            name.to_str()
                .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        };
        for name in std::env::vars_os().map(|(name, _)| name).filter(describes_xtask) {
            command.env_remove(name);
        }
        if self.ci {
            command.envs(SINGLE_BUILD);
        }
        command
    }

    /// Runs cargo with its output passed through.
    pub(crate) fn cargo(&self, args: &[&str]) -> anyhow::Result<()> {
        run(self.command(cargo_program()).args(args))
    }

    /// Returns the path of the program that the `build` step creates.
    pub(crate) fn nerve(&self) -> PathBuf {
        self.target.join("debug/nerve")
    }

    /// Returns the virtual environment of the PyPI packages.
    pub(crate) fn pypi(&self) -> PathBuf {
        self.target.join("pypi")
    }

    /// Returns the folder of the pinned agents' commands.
    pub(crate) fn agents_bin(&self) -> PathBuf {
        self.target.join("agents/node_modules/.bin")
    }
}

/// Returns the cargo that runs xtask, which keeps a `+toolchain` chosen by the caller.
pub(crate) fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs a command to its end. The error names the command.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", words(command)))?;
    if !status.success() {
        bail!("{}: {status}", words(command));
    }
    Ok(())
}

/// Runs a command and returns its standard output; its standard error is passed through.
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

/// Returns the command line as typed in a shell.
fn words(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    std::iter::once(name)
        .chain(command.get_args().map(|arg| arg.to_string_lossy().into_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Asks cargo for the target folder, because `CARGO_TARGET_DIR` and configuration files can move it.
fn target_directory(root: &Path) -> anyhow::Result<PathBuf> {
    let mut command = Command::new(cargo_program());
    command.current_dir(root).args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata = String::from_utf8(output(&mut command)?)?;
    let folder =
        string_field(&metadata, "target_directory").context("cargo metadata names no target folder")?;
    Ok(PathBuf::from(folder))
}

/// Returns the value of a top-level string field. Values with quotes or backslashes are not supported.
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
    fn finds_field_among_others() {
        let json = r#"{"packages":[],"target_directory":"/a/target","version":1}"#;
        assert_eq!(string_field(json, "target_directory"), Some("/a/target"));
        assert_eq!(string_field(json, "root"), None);
    }

    #[test]
    fn error_names_failed_command_with_arguments() {
        let error = run(Command::new("/bin/sh").args(["-c", "exit 3"])).unwrap_err().to_string();
        assert!(error.contains("sh -c exit 3") && error.contains('3'), "{error}");
        let error = run(Command::new("/nonexistent/tool").arg("x")).unwrap_err().to_string();
        assert_eq!(error, "cannot start tool x");
    }
}
