//! `cargo xtask fuzz`: builds the targets in `fuzz/` with libFuzzer and runs them from their seeds.
//!
//! The stable toolchain suffices: LLVM inserts the counters. No sanitizer is used, because nerve has almost no unsafe
//! code; a finding is a panic, a failed assertion, a hang or too much memory.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

use crate::project::{self, Project, cargo_program};
use crate::report::Outcome;

/// A fuzz target.
struct Target {
    name: &'static str,
    /// Fixtures of tests that are seeds too, in addition to `fuzz/corpus/NAME`.
    fixtures: Option<&'static str>,
    /// Maximum length of an input in bytes; longer seeds are cut.
    max_len: u32,
    /// The feature of `fuzz/` that the target needs: it depends on a large crate, so CI leaves it out.
    feature: Option<&'static str>,
}

const TARGETS: [Target; 15] = [
    target("ahr", Some("crates/nerve-record/tests/fixtures/ahr"), 4096),
    target("cast", None, 4096),
    Target { feature: Some("graph"), ..target("graph", Some("examples"), 4096) },
    Target { feature: Some("server"), ..target("http", None, 4096) },
    target("index", None, 16384),
    target("keys", None, 512),
    target("markdown", None, 1024),
    target("profile", Some("crates/nerve-agent/profiles"), 8192),
    target("screens", Some("crates/nerve-vt/tests/fixtures/screens"), 8192),
    target("session_files", Some("crates/nerve-agent/tests/fixtures/transcripts"), 12288),
    target("ssz", None, 1024),
    Target { feature: Some("graph"), ..target("template", None, 1024) },
    target("terminal", Some("crates/nerve-vt/tests/fixtures/recordings"), 4096),
    target("tmux", None, 2048),
    target("wire", None, 4096),
];

const fn target(name: &'static str, fixtures: Option<&'static str>, max_len: u32) -> Target {
    Target { name, fixtures, max_len, feature: None }
}

/// Time per target in CI, in seconds. Before that, all seeds are run.
const CI_SECONDS: u32 = 2;

/// Options of `cargo xtask fuzz`.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    /// Time per target.
    seconds: u32,
    /// Names of targets; all if empty.
    targets: Vec<String>,
}

impl Options {
    fn parse(args: &[String]) -> anyhow::Result<Options> {
        let mut options = Options { seconds: 60, targets: Vec::new() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--seconds" => {
                    let seconds = args.next().and_then(|number| number.parse().ok());
                    options.seconds = seconds.context("--seconds needs a number")?;
                }
                name if TARGETS.iter().any(|target| target.name == name) => options.targets.push(arg.clone()),
                other => {
                    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
                    bail!("unknown target '{other}'; there are: {}", names.join(", "));
                }
            }
        }
        Ok(options)
    }
}

/// Fuzzes the given targets, or all. Returns `false` if an input fails.
pub(crate) fn run(project: &Project, args: &[String]) -> anyhow::Result<bool> {
    let Options { seconds, targets } = Options::parse(args)?;
    let is_chosen = |target: &&Target| targets.is_empty() || targets.iter().any(|name| name == target.name);
    let chosen: Vec<&Target> = TARGETS.iter().filter(is_chosen).collect();
    Ok(fuzz(project, &chosen, seconds)?.is_empty())
}

/// Runs the seeds of the targets that are built quickly, and fuzzes each briefly.
pub(crate) fn check(project: &Project) -> anyhow::Result<Outcome> {
    let quick: Vec<&Target> = TARGETS.iter().filter(|target| target.feature.is_none()).collect();
    let failed = fuzz(project, &quick, CI_SECONDS)?;
    if !failed.is_empty() {
        bail!("inputs fail in {}; see fuzz/artifacts", failed.join(", "));
    }
    Ok(Outcome::Passed(format!("{} targets, {CI_SECONDS} s each", quick.len())))
}

/// Returns the names of the targets in which an input fails.
fn fuzz(project: &Project, targets: &[&Target], seconds: u32) -> anyhow::Result<Vec<&'static str>> {
    build(project, targets)?;
    let mut failed = Vec::new();
    for target in targets {
        eprintln!("\n== fuzz {}", target.name);
        let status = target.command(project, seconds)?.status().context("cannot start a target")?;
        if !status.success() {
            eprintln!("{}: {status}", target.name);
            failed.push(target.name);
        }
    }
    Ok(failed)
}

/// Returns the target folder of the fuzz crate.
fn target_folder(project: &Project) -> PathBuf {
    project.target.join("fuzz")
}

fn build(project: &Project, targets: &[&Target]) -> anyhow::Result<()> {
    let folder = project.root.join("fuzz");
    let mut command = project.command(cargo_program());
    command.current_dir(&folder).args(["build", "--locked", "--no-default-features"]);
    for target in targets {
        command.args(["--bin", target.name]);
        command.args(target.feature.iter().flat_map(|feature| ["--features", feature]));
    }
    command.env("CARGO_TARGET_DIR", target_folder(project)).env("RUSTC_WRAPPER", folder.join("rustc"));
    project::run(&mut command)
}

impl Target {
    /// Returns the command that runs the seeds and then new inputs. New inputs that reach new code are kept in the target
    /// folder, so that a later run continues from there.
    fn command(&self, project: &Project, seconds: u32) -> anyhow::Result<Command> {
        let folder = target_folder(project);
        let (new_inputs, artifacts) =
            (folder.join("corpus").join(self.name), project.root.join("fuzz/artifacts"));
        for folder in [&new_inputs, &artifacts] {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let mut command = project.command(folder.join("debug").join(self.name));
        command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={}", self.max_len));
        command.args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"]);
        command.arg(format!("-artifact_prefix={}/{}-", artifacts.display(), self.name));
        // The first folder receives new inputs.
        command.arg(new_inputs);
        let seeds = [Some(format!("fuzz/corpus/{}", self.name)), self.fixtures.map(str::to_string)];
        let seeds = seeds.into_iter().flatten().map(|seeds| project.root.join(seeds));
        command.args(seeds.filter(|seeds| seeds.exists()));
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> anyhow::Result<Options> {
        Options::parse(&args.iter().map(|arg| (*arg).to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn parses_seconds_and_targets() {
        assert_eq!(parse(&[]).unwrap(), Options { seconds: 60, targets: Vec::new() });
        let options = parse(&["--seconds", "3", "ahr", "wire"]).unwrap();
        assert_eq!(options, Options { seconds: 3, targets: vec!["ahr".into(), "wire".into()] });
        assert!(parse(&["ahx"]).unwrap_err().to_string().contains("ahr"));
        assert!(parse(&["--seconds"]).is_err());
    }

    #[test]
    fn every_target_has_a_file_and_seeds() {
        let project = Project::find().unwrap();
        let count = fs::read_dir(project.root.join("fuzz/fuzz_targets")).unwrap().count();
        assert_eq!(count, TARGETS.len());
        for target in &TARGETS {
            assert!(project.root.join(format!("fuzz/fuzz_targets/{}.rs", target.name)).exists());
            let seeds = project.root.join(format!("fuzz/corpus/{}", target.name));
            assert!(target.fixtures.is_some() || seeds.exists(), "{} has no seeds", target.name);
        }
    }
}
