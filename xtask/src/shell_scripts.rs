//! Runs the shell scripts of the documentation: README blocks and the files in `examples/`.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};

use crate::hermetic::Hermetic;
use crate::project::Project;
use crate::report::Outcome;

/// Time limit of a script in seconds. The README's first block may have to build the release.
const LIMIT: &str = "900";

/// Stops servers that a script left running, even if it failed.
const CLEAN_UP: &str = "trap 'nerve server stop --all --force >/dev/null 2>&1 || true' EXIT\n";

/// Runs a script with bash in the root of the checkout, with an isolated home and `nerve` from the folder `bin` in `PATH`. Its output must
/// contain each text of `prints`.
pub(crate) fn run(
    project: &Project,
    name: &str,
    script: &str,
    bin: &Path,
    prints: &[String],
) -> anyhow::Result<()> {
    let hermetic = Hermetic::new(name)?;
    let file = hermetic.root().join("script.sh");
    fs::write(&file, format!("set -euo pipefail\n{CLEAN_UP}{script}"))?;
    // A file, because a leftover process could keep a pipe open.
    let printed = hermetic.root().join("stdout");
    let mut command = project.command("timeout");
    hermetic.apply(&mut command);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin.to_path_buf()).chain(std::env::split_paths(&path)))?;
    command.env("PATH", path).env("CARGO_NET_OFFLINE", "true");
    command.args(["--kill-after=10", LIMIT, "bash"]).arg(&file);
    command.stdin(Stdio::null()).stdout(fs::File::create(&printed)?);
    let status = command.status().context("cannot start timeout (Debian package coreutils)")?;
    let printed = String::from_utf8_lossy(&fs::read(&printed)?).into_owned();
    print!("{printed}");
    match status.code() {
        Some(0) => {}
        Some(124 | 137) => bail!("{name}: not done after {LIMIT} s"),
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
        if let Err(error) = run(project, &name, &call, &bin, &prints.collect::<Vec<_>>()) {
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

    #[test]
    fn script_gets_isolated_home_and_built_program() {
        let script = "test -f Cargo.toml\ntest -z \"$(ls -A \"$HOME\")\"\ncase $PATH in /our/bin:*) ;; *) exit 9 ;; esac\n";
        run(&project(), "script-ok", script, Path::new("/our/bin"), &[]).unwrap();
    }

    #[test]
    fn missing_output_fails() {
        let prints = |text: &str| {
            run(&project(), "script-prints", "echo one two\n", Path::new("/our/bin"), &[text.into()])
        };
        prints("one two").unwrap();
        let error = prints("three").unwrap_err();
        assert_eq!(error.to_string(), "script-prints did not print 'three'");
    }

    #[test]
    fn first_failing_command_ends_script() {
        let error = run(&project(), "script-bad", "false\nexit 0\n", Path::new("/our/bin"), &[]).unwrap_err();
        assert!(error.to_string().contains("script-bad"), "{error}");
        let error = run(&project(), "script-pipe", "false | true\n", Path::new("/our/bin"), &[]).unwrap_err();
        assert!(error.to_string().contains("script-pipe"), "{error}");
    }
}
