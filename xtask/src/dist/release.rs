//! Version, time, program and folders that the packages of a release share.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::binary::{self, Platform};
use super::options::Options;
use super::tools;
use crate::project::{self, Project};

pub(crate) struct Release<'a> {
    pub(crate) project: &'a Project,
    pub(crate) options: &'a Options,
    pub(crate) version: String,
    /// Time of all files in seconds since the Unix epoch.
    pub(crate) epoch: u64,
    /// The program without symbols.
    pub(crate) program: PathBuf,
    pub(crate) platform: Platform,
    /// Folder for the packages.
    pub(crate) out: PathBuf,
    /// Folder for intermediate files, removed at the end.
    pub(crate) stage: PathBuf,
}

impl Release<'_> {
    /// Builds the program unless there is one, and creates empty folders.
    pub(crate) fn prepare<'a>(project: &'a Project, options: &'a Options) -> anyhow::Result<Release<'a>> {
        let version = env!("CARGO_PKG_VERSION").to_string();
        check_python_version(project, &version)?;
        let missing = tools::missing(project);
        if !missing.is_empty() {
            bail!("missing: {}", missing.join(", "));
        }
        let built = match &options.binary {
            Some(binary) => binary.clone(),
            None => binary::build(project, options.target.as_deref())?,
        };
        let out = options.out.clone().unwrap_or_else(|| project.target.join("packages"));
        let stage = out.join("stage");
        remove_old_packages(&out)?;
        fs::create_dir_all(&stage)?;
        let program = stage.join("nerve");
        project::run(Command::new("strip").arg("-o").args([&program, &built]))?;
        let platform = Platform::of(&program)?;
        Ok(Release { epoch: epoch(project)?, project, options, version, program, platform, out, stage })
    }

    /// Creates an empty folder for intermediate files.
    pub(crate) fn stage(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.stage.join(name);
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    /// Returns a command that gives files the time of the release.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("SOURCE_DATE_EPOCH", self.epoch.to_string()).env("LC_ALL", "C.UTF-8");
        command
    }

    /// Returns the text of a file in `packaging/` with the values of its `@NAMES@`.
    ///
    /// # Errors
    /// Fails if a name has no value.
    pub(crate) fn template(&self, file: &str, values: &[(&str, &str)]) -> anyhow::Result<String> {
        let path = self.project.root.join("packaging").join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        fill(&text, values).with_context(|| path.display().to_string())
    }
}

/// Writes a file, and the folders above it.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Copies a file, and creates the folders above its copy.
pub(crate) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

fn fill(template: &str, values: &[(&str, &str)]) -> anyhow::Result<String> {
    let mut text = template.to_string();
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    let is_name = |text: &&str| !text.is_empty() && text.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let missing = text.split('@').skip(1).find(is_name);
    match missing {
        Some(name) => bail!("@{name}@ has no value"),
        None => Ok(text),
    }
}

/// Removes packages of an earlier run. A folder without the checksums of packages may have other files, so it must be empty.
fn remove_old_packages(out: &Path) -> anyhow::Result<()> {
    if out.join("SHA256SUMS").is_file() {
        return match fs::remove_dir_all(out) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        };
    }
    match fs::read_dir(out).map(|mut entries| entries.next().is_none()) {
        Ok(false) => bail!("{} is not empty", out.display()),
        _ => Ok(()),
    }
}

/// Returns `SOURCE_DATE_EPOCH` or else the time of the commit.
fn epoch(project: &Project) -> anyhow::Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            let mut git = project.command("git");
            let time = project::output(git.args(["log", "-1", "--format=%ct"]));
            String::from_utf8(time.context("without git, set SOURCE_DATE_EPOCH")?)?
        }
    };
    text.trim().parse().with_context(|| format!("SOURCE_DATE_EPOCH is '{}', not a number", text.trim()))
}

/// The client has its version in its own source file.
fn check_python_version(project: &Project, version: &str) -> anyhow::Result<()> {
    let init = fs::read_to_string(project.root.join("python/nerve_sdk/__init__.py"))?;
    if !init.contains(&format!("__version__ = \"{version}\"\n")) {
        bail!("python/nerve_sdk/__init__.py has another version than Cargo.toml, which has {version}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_without_a_value_is_an_error() {
        assert_eq!(fill("a @B@ me@c", &[("B", "x")]).unwrap(), "a x me@c");
        assert!(fill("a @B@ @C@", &[("B", "x")]).unwrap_err().to_string().contains("@C@"));
    }
}
