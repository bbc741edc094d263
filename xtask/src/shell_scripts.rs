//! Runs the shell scripts of the documentation: README blocks and the files in `examples/`.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};

use crate::hermetic::Hermetic;
use crate::project::Project;
use crate::report::Outcome;

/// Time limit of an example in seconds.
const LIMIT: u32 = 900;

/// Stops servers that a script left running, even if it failed.
const CLEAN_UP: &str = "trap 'nerve server stop --all --force >/dev/null 2>&1 || true' EXIT\n";

/// Commands for bash.
pub(crate) struct Script<'a> {
    /// Name in errors and in the path of the isolated home.
    pub(crate) name: &'a str,
    pub(crate) commands: &'a str,
    /// Folder of `nerve`, first in `PATH`.
    pub(crate) bin: &'a Path,
    pub(crate) limit_seconds: u32,
    /// Texts that the output must contain.
    pub(crate) prints: &'a [String],
}

/// Runs a script with bash in the root of the checkout, with an isolated home. Kills the processes that it leaves.
pub(crate) fn run(project: &Project, script: &Script) -> anyhow::Result<()> {
    let Script { name, bin, prints, .. } = script;
    let hermetic = Hermetic::new(name)?;
    let file = hermetic.root().join("script.sh");
    fs::write(&file, format!("set -euo pipefail\n{CLEAN_UP}{}", script.commands))?;
    // A file, because a leftover process could keep a pipe open.
    let printed = hermetic.root().join("stdout");
    let mut command = project.command("timeout");
    hermetic.apply(&mut command);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin.to_path_buf()).chain(std::env::split_paths(&path)))?;
    command.env("PATH", path).env("CARGO_NET_OFFLINE", "true");
    // A program that a page installs, and the commits that it makes, stay in the isolated home.
    command.env("CARGO_INSTALL_ROOT", hermetic.root().join("home/.cargo"));
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "docs").env(format!("GIT_{role}_EMAIL"), "docs@localhost");
    }
    command.args(["--kill-after=10", &script.limit_seconds.to_string(), "bash"]).arg(&file);
    command.stdin(Stdio::null()).stdout(fs::File::create(&printed)?);
    let status = command.status().context("cannot start timeout (Debian package coreutils)")?;
    hermetic.kill_processes();
    let printed = String::from_utf8_lossy(&fs::read(&printed)?).into_owned();
    print!("{printed}");
    match status.code() {
        Some(0) => {}
        Some(124 | 137) => bail!("{name}: not done after {} s", script.limit_seconds),
        _ => bail!("{name}: {status}"),
    }
    match prints.iter().find(|text| !printed.contains(text.as_str())) {
        Some(missing) => bail!("{name} did not print '{missing}'"),
        None => Ok(()),
    }
}

/// Runs every script in `examples/`; each must print the texts of its `# prints: …` lines.
pub(crate) fn examples(project: &Project) -> anyhow::Result<Outcome> {
    let folder = project.root.join("examples");
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).context("cannot list examples/")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sh") {
            files.push(path);
        }
    }
    files.sort();
    let bin = project.target.join("debug");
    let mut failed = Vec::new();
    for file in &files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        println!("-- examples/{name}.sh");
        let text = fs::read_to_string(file)?;
        let prints = text.lines().filter_map(|line| line.strip_prefix("# prints: ")).map(str::to_string);
        // Not in the checkout, where the end of an agent would leave a snapshot of the files.
        let call = format!("cp -R examples \"$HOME\"\ncd \"$HOME\"\nbash examples/{name}.sh\n");
        let prints = prints.collect::<Vec<_>>();
        let script =
            Script { name: &name, commands: &call, bin: &bin, limit_seconds: LIMIT, prints: &prints };
        if let Err(error) = run(project, &script) {
            failed.push(format!("{error:#}"));
        }
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(Outcome::Passed(format!("{} scripts", files.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> Project {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf();
        Project { target: root.join("target"), root, ci: false }
    }

    fn run_script(name: &str, commands: &str, prints: &[String]) -> anyhow::Result<()> {
        let bin = Path::new("/our/bin");
        run(&project(), &Script { name, commands, bin, limit_seconds: 60, prints })
    }

    #[test]
    fn script_gets_isolated_home_and_built_program() {
        let script = "test -f Cargo.toml\ntest -z \"$(ls -A \"$HOME\")\"\ncase $PATH in /our/bin:*) ;; *) exit 9 ;; esac\n";
        run_script("script-ok", script, &[]).unwrap();
    }

    #[test]
    fn missing_output_fails() {
        let prints = |text: &str| run_script("script-prints", "echo one two\n", &[text.into()]);
        prints("one two").unwrap();
        let error = prints("three").unwrap_err();
        assert_eq!(error.to_string(), "script-prints did not print 'three'");
    }

    #[test]
    fn first_failing_command_ends_script() {
        let error = run_script("script-bad", "false\nexit 0\n", &[]).unwrap_err();
        assert!(error.to_string().contains("script-bad"), "{error}");
        let error = run_script("script-pipe", "false | true\n", &[]).unwrap_err();
        assert!(error.to_string().contains("script-pipe"), "{error}");
    }
}
