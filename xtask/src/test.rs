//! `cargo xtask test`: the steps that contributors and CI run.

use anyhow::bail;

use crate::project::{FEATURES, Project, cargo_program};
use crate::report::{Outcome, Report};
use crate::rust_tests::{self, Suite};
use crate::step_process::StepProcess;
use crate::{
    agents, browser, debian_packages, docs_blocks, fuzz, generated_pages, import_circles, lockfile,
    machine_paths, matrix, package_checks, programs, project, pypi_packages, python_tests, shell_scripts,
    system_calls, vendored, words,
};

/// Options of `cargo xtask test`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    quick: bool,
    only: Vec<String>,
}

/// Steps before the tests. The last of them builds what the tests run.
const BEFORE_TESTING: [&str; 10] = [
    "fmt",
    "lock",
    "no-foreign",
    "words",
    "system-calls",
    "circles",
    "capabilities",
    "vendor",
    "clippy",
    "build",
];
/// Steps that only compile or compute. They use the time that the steps above and the tests leave, with the lowest priority. The first
/// builds in a folder of its own, so it does not hold cargo's lock of the other one.
const IN_BACKGROUND: [&str; 4] = ["release", "docs", "posix-build", "fuzz"];
/// Steps that need the program and nothing of the steps above.
const AFTER_BUILD: [&str; 2] = ["python", "packages"];
/// Steps after those above that mostly wait for programs, each list in a process of its own.
const AFTER_ALL: [&[&str]; 2] = [&["posix", "doc-tests", "cli-reference"], &["blocks", "examples"]];

/// Returns all steps, in the order in which selected ones run.
fn all_steps() -> Vec<&'static str> {
    let before = ["setup"].into_iter().chain(BEFORE_TESTING);
    let after = AFTER_ALL.into_iter().flatten().copied().chain(AFTER_BUILD);
    before.chain(["test"]).chain(IN_BACKGROUND).chain(after).collect()
}

impl Options {
    /// Parses `--quick` and `--only STEP,STEP`.
    pub(crate) fn parse(args: &[String]) -> anyhow::Result<Options> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--only" => {
                    let Some(list) = args.next() else {
                        bail!("--only needs a step: {}", all_steps().join(", "))
                    };
                    options.only.extend(list.split(',').map(str::to_string));
                }
                other => bail!("unknown option '{other}' of test; there are --quick and --only STEP[,STEP]"),
            }
        }
        if let Some(unknown) = options.only.iter().find(|step| !all_steps().contains(&step.as_str())) {
            bail!("unknown step '{unknown}'; there are: {}", all_steps().join(", "));
        }
        Ok(options)
    }
}

/// Runs the steps and returns `true` if none failed. After a failed step the others still run. After a failed build, none begins but
/// those in the background.
pub(crate) fn run(options: &Options) -> anyhow::Result<bool> {
    let mut run = Run { project: Project::find()?, quick: options.quick, suite: Suite::default() };
    let mut report = Report::new(&options.only);
    if options.only.is_empty() {
        run.concurrently(&mut report)?;
    } else {
        // Selected steps run in order, with their output as it comes.
        let steps = all_steps();
        let (before, after) =
            steps.split_at(steps.iter().position(|step| *step == "test").unwrap_or_default());
        _ = run.steps(&mut report, before) && run.steps(&mut report, after);
    }
    print_summary(&report, &run.suite);
    Ok(report.all_passed())
}

/// A run of `cargo xtask test`.
struct Run {
    project: Project,
    quick: bool,
    suite: Suite,
}

impl Run {
    /// Runs steps one after another. Returns true if the last of them passed.
    fn steps(&mut self, report: &mut Report, steps: &[&'static str]) -> bool {
        steps.iter().copied().fold(true, |_, step| report.step(step, || self.step(step)))
    }

    /// Runs all steps, as many at once as the processors allow.
    fn concurrently(&mut self, report: &mut Report) -> anyhow::Result<()> {
        // Mostly waits for the network. The first checks list files with git.
        let mut setup = Some(self.start(&["setup"], false)?);
        if programs::find("git").is_none()
            && let Some(setup) = setup.take()
        {
            setup.finish(report)?;
        }
        let background = self.start(&IN_BACKGROUND, true)?;
        let has_built = self.steps(report, &BEFORE_TESTING);
        if let Some(setup) = setup {
            setup.finish(report)?;
        }
        if !has_built {
            return background.finish(report);
        }
        self.steps(report, &["test"]);
        let start = |steps| (steps, self.start(steps, false));
        let after_build = start(&AFTER_BUILD);
        background.finish(report)?;
        for (steps, process) in [after_build].into_iter().chain(AFTER_ALL.map(start)) {
            match process {
                Ok(process) => process.finish(report)?,
                // The other processes have started and end by themselves.
                Err(error) => report.fail(steps, &error),
            }
        }
        Ok(())
    }

    /// Starts steps in a process of their own, with `nice` at the lowest priority.
    fn start(&self, steps: &'static [&'static str], nice: bool) -> anyhow::Result<StepProcess> {
        StepProcess::start(&self.project, self.quick, steps, nice)
    }

    fn step(&mut self, name: &str) -> anyhow::Result<Outcome> {
        let (project, quick) = (&self.project, self.quick);
        match name {
            "setup" if quick => left_out_if_quick(),
            "setup" => install(project),
            "fmt" => cargo(project, &["fmt", "--all", "--check"]),
            "lock" => lockfile::check(project),
            "no-foreign" => machine_paths::check(project),
            "words" => words::check(project),
            "system-calls" => system_calls::check(project),
            "circles" => import_circles::check(project),
            "capabilities" => matrix::check(project),
            "vendor" => vendored::check(project, quick),
            "clippy" => clippy(project),
            "build" => build(project),
            "test" => self.suite.run(project, quick),
            "release" => cargo(project, &["build", "--release", "--locked", "--package", "nerve"]),
            "docs" => docs(project),
            "posix-build" => rust_tests::build_posix_tests(project),
            "fuzz" if quick => left_out_if_quick(),
            "fuzz" => fuzz::check(project),
            "posix" => rust_tests::test_posix_implementation(project),
            "doc-tests" => cargo(project, &with_all(&["test", "--doc", "--workspace", "--locked"])),
            "cli-reference" => generated_pages::check(project),
            "blocks" => docs_blocks::check(project),
            "examples" => shell_scripts::examples(project),
            "python" => python_tests::test(project),
            "packages" => package_checks::check(project),
            other => bail!("unknown step '{other}'"),
        }
    }
}

/// Runs `cargo xtask setup`: only the first step.
pub(crate) fn setup(project: &Project) -> anyhow::Result<bool> {
    let mut report = Report::new(&[]);
    report.step("setup", || install(project));
    print!("\n{}", report.table());
    Ok(report.all_passed())
}

/// Prints the table, the skipped tests, and as the last line the test counts.
fn print_summary(report: &Report, suite: &Suite) {
    print!("\n{}", report.table());
    for skip in &suite.skips {
        println!("skipped: {skip}");
    }
    if let Some(counts) = suite.counts {
        println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
    }
}

fn left_out_if_quick() -> anyhow::Result<Outcome> {
    Ok(Outcome::LeftOut("--quick".to_string()))
}

/// Installs missing tools. Lists those that cannot be installed, whose tests are skipped; in CI this fails.
fn install(project: &Project) -> anyhow::Result<Outcome> {
    let mut missing = missing_rust_tools();
    missing.extend(debian_packages::install_missing());
    if let Err(error) = agents::install(project) {
        missing.push(format!("{error:#}"));
    }
    if let Err(error) = browser::install(project) {
        missing.push(format!("{error:#}"));
    }
    if let Err(error) = pypi_packages::install(project) {
        missing.push(format!("{error:#}"));
    }
    for line in &missing {
        eprintln!("missing: {line}");
    }
    match missing.len() {
        0 => Ok(Outcome::passed()),
        count if project.ci => {
            bail!("{count} things are missing, and in CI nothing may be: {}", missing.join("; "))
        }
        count => Ok(Outcome::Passed(format!("{count} things are missing, see above"))),
    }
}

/// Returns missing rustup components. nextest is optional: without it `cargo test` runs the tests.
fn missing_rust_tools() -> Vec<String> {
    if programs::find("cargo-nextest").is_none() {
        println!("cargo-nextest: not there, so cargo test runs the tests and a hang is not cut off");
    }
    let cargo = cargo_program();
    [("fmt", "rustfmt"), ("clippy", "clippy")]
        .iter()
        .filter(|(command, _)| !programs::succeeds(&cargo.to_string_lossy(), &[command, "--version"]))
        .map(|(_, component)| format!("{component}; rustup component add {component}"))
        .collect()
}

fn cargo(project: &Project, args: &[&str]) -> anyhow::Result<Outcome> {
    project.cargo(args)?;
    Ok(Outcome::passed())
}

/// Runs clippy with and without the optional features, which affect only one small crate, and on the multiplexers' crate without
/// its default features.
fn clippy(project: &Project) -> anyhow::Result<Outcome> {
    let lints = ["clippy", "--workspace", "--all-targets", "--locked"];
    for lints in [with_all(&lints), lints.to_vec()] {
        project.cargo(&[&lints[..], &["--", "-D", "warnings"]].concat())?;
    }
    project.cargo(&[
        "clippy",
        "-p",
        "nerve-mux",
        "--no-default-features",
        "--locked",
        "--",
        "-D",
        "warnings",
    ])?;
    Ok(Outcome::passed())
}

/// Builds the program and all tests. Benchmarks are left out: clippy checks them, and `cargo xtask bench` builds them.
fn build(project: &Project) -> anyhow::Result<Outcome> {
    let targets = ["--workspace", "--lib", "--bins", "--examples", "--tests"];
    cargo(project, &with_all(&[&["build", "--locked"], &targets[..]].concat()))
}

/// Returns a cargo command with the features added.
fn with_all<'a>(command: &[&'a str]) -> Vec<&'a str> {
    command.iter().copied().chain(FEATURES).collect()
}

fn docs(project: &Project) -> anyhow::Result<Outcome> {
    let mut command = project.command(cargo_program());
    command
        .args(["doc", "--no-deps", "--workspace", "--locked"])
        .args(FEATURES)
        .env("RUSTDOCFLAGS", "-D warnings");
    project::run(&mut command)?;
    Ok(Outcome::passed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> anyhow::Result<Options> {
        Options::parse(&args.iter().map(|arg| (*arg).to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn parses_options() {
        assert_eq!(parse(&[]).unwrap(), Options::default());
        let options = parse(&["--quick", "--only", "fmt,clippy"]).unwrap();
        assert_eq!(options, Options { quick: true, only: vec!["fmt".into(), "clippy".into()] });
    }

    #[test]
    fn each_step_runs_once() {
        let steps = all_steps();
        let unique: std::collections::BTreeSet<&str> = steps.iter().copied().collect();
        assert_eq!(steps.len(), unique.len(), "{steps:?}");
    }

    #[test]
    fn error_names_unknown_option_or_step() {
        assert!(parse(&["--fast"]).unwrap_err().to_string().contains("--fast"));
        assert!(parse(&["--only", "clipy"]).unwrap_err().to_string().contains("clipy"));
        assert!(parse(&["--only"]).unwrap_err().to_string().contains("needs a step"));
    }
}
