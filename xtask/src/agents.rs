//! Installs the real agents for the end-to-end tests under `target/agents`, as pinned by `xtask/agents/package-lock.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::hermetic::Hermetic;
use crate::programs;
use crate::project::{self, Project};

/// Commands that the locked packages provide.
const COMMANDS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// Agents and their npm packages.
pub(crate) const PACKAGES: [(&str, &str); 4] = [
    ("claude", "@anthropic-ai/claude-code"),
    ("codex", "@openai/codex"),
    ("gemini", "@google/gemini-cli"),
    ("opencode", "opencode-ai"),
];

/// Packages whose install script runs: it links the platform's binary, which npm has downloaded. Other install scripts would compile
/// optional add-ons and do not run.
const LINKERS: [(&str, &str); 2] =
    [("@anthropic-ai/claude-code", "install.cjs"), ("opencode-ai", "postinstall.mjs")];

/// A copy of the lockfile, written after all agents have printed their version.
const STAMP: &str = "installed.lock";

/// Installs the agents unless the same lockfile is already installed.
pub(crate) fn install(project: &Project) -> anyhow::Result<()> {
    let folder = project.target.join("agents");
    let source = project.root.join("xtask/agents");
    let lock =
        fs::read(source.join("package-lock.json")).context("cannot read xtask/agents/package-lock.json")?;
    if fs::read(folder.join(STAMP)).is_ok_and(|stamp| stamp == lock) {
        println!("agents: all there");
        return Ok(());
    }
    check_npm()?;
    println!("agents: installing {} with npm", COMMANDS.join(", "));
    fs::create_dir_all(&folder)?;
    // A stamp of another lockfile must not outlive the files it was for.
    remove_if_there(&folder.join(STAMP))?;
    for file in ["package.json", "package-lock.json"] {
        fs::copy(source.join(file), folder.join(file)).with_context(|| format!("cannot copy {file}"))?;
    }
    let npm = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    project::run(Command::new("npm").current_dir(&folder).args(npm))?;
    link_binaries(&folder, |_| true)?;
    check_versions(project, &folder)?;
    fs::write(folder.join(STAMP), lock)?;
    Ok(())
}

/// Installs other versions into a separate folder and returns the folder of their programs.
pub(crate) fn install_others(project: &Project, packages: &[(String, String)]) -> anyhow::Result<PathBuf> {
    check_npm()?;
    let folder = project.target.join("agents-other");
    // An earlier call may have installed other packages.
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => fs::create_dir_all(&folder)?,
    }
    let wanted: Vec<String> =
        packages.iter().map(|(name, version)| format!("    \"{name}\": \"{version}\"")).collect();
    let manifest =
        format!("{{\n  \"private\": true,\n  \"dependencies\": {{\n{}\n  }}\n}}\n", wanted.join(",\n"));
    fs::write(folder.join("package.json"), manifest)?;
    let npm = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    project::run(Command::new("npm").current_dir(&folder).args(npm))?;
    link_binaries(&folder, |package| packages.iter().any(|(name, _)| name == package))?;
    Ok(folder.join("node_modules/.bin"))
}

fn check_npm() -> anyhow::Result<()> {
    if programs::find("npm").is_none() || programs::find("node").is_none() {
        bail!("node and npm are missing; the real agents come from the npm registry");
    }
    Ok(())
}

fn link_binaries(folder: &Path, has: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    for (package, script) in LINKERS.into_iter().filter(|(package, _)| has(package)) {
        let mut node = Command::new("node");
        node.current_dir(folder.join("node_modules").join(package)).arg(script);
        // Without its binary a linker would download one; offline it fails with an error.
        node.env("npm_config_offline", "true");
        project::run(&mut node).with_context(|| format!("cannot link the binary of {package}"))?;
    }
    Ok(())
}

/// Checks that every agent starts and has the version pinned in `package.json`.
fn check_versions(project: &Project, folder: &Path) -> anyhow::Result<()> {
    let pins = fs::read_to_string(folder.join("package.json"))?;
    let home = Hermetic::new("agents")?;
    for name in COMMANDS {
        let mut command = Command::new(project.agents_bin().join(name));
        home.apply(&mut command);
        command.arg("--version").stdin(Stdio::null());
        command.env("OPENCODE_DISABLE_MODELS_FETCH", "1").env("OPENCODE_DISABLE_AUTOUPDATE", "1");
        let version = version_in(&String::from_utf8_lossy(&project::output(&mut command)?))
            .with_context(|| format!("{name} --version prints no version"))?;
        if !pins.contains(&format!("\"{version}\"")) {
            bail!("{name} is {version}, which package.json does not pin");
        }
        println!("  {name} {version}");
    }
    Ok(())
}

/// Returns the first word that looks like `1.2.3`.
fn version_in(text: &str) -> Option<String> {
    text.split_whitespace()
        .find(|word| word.split('.').count() == 3 && word.split('.').all(|part| part.parse::<u64>().is_ok()))
        .map(str::to_string)
}

fn remove_if_there(file: &Path) -> std::io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_version_in_each_agents_output() {
        for (text, version) in [
            ("2.1.330 (Claude Code)\n", "2.1.330"),
            ("codex-cli 0.169.0\n", "0.169.0"),
            ("1.18.33\n", "1.18.33"),
        ] {
            assert_eq!(version_in(text).as_deref(), Some(version));
        }
        assert_eq!(version_in("Error: native binary not installed."), None);
    }
}
