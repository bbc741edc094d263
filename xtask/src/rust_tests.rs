//! Runs the workspace's tests, passes their output through and parses the runner's summary.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::agent_rotation;
use crate::programs;
use crate::project::{FEATURES, Project, cargo_program};
use crate::report::Outcome;

/// Test counts from the runner's summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

/// Counts and skipped tests of a run.
#[derive(Default)]
pub(crate) struct Suite {
    /// Counts; `None` if the runner printed no summary.
    pub(crate) counts: Option<Counts>,
    /// Lines `test: reason` of skipped tests.
    pub(crate) skips: Vec<String>,
}

impl Suite {
    /// Runs all tests, with `quick` all except those with real agents.
    pub(crate) fn run(&mut self, project: &Project, quick: bool) -> anyhow::Result<Outcome> {
        let skips = project.target.join("skips.txt");
        fs::create_dir_all(&project.target)?;
        fs::write(&skips, "").with_context(|| format!("cannot empty {}", skips.display()))?;
        let (mut command, summary) = runner(project, quick);
        environment(project, quick, &skips, &mut command);
        let (success, counts) = run_and_count(&mut command, summary)?;
        self.counts = counts;
        self.skips = read_skips(&skips)?;
        if !success {
            bail!("tests failed");
        }
        if counts.is_none_or(|counts| counts.passed == 0) {
            bail!("no test ran");
        }
        if project.ci && !self.skips.is_empty() {
            bail!("{} tests were skipped, and in CI none may be", self.skips.len());
        }
        Ok(Outcome::passed())
    }
}

/// Tests the calls of `nerve_types::os` and the hosts with the implementation for systems other than Linux.
pub(crate) fn test_posix_implementation(project: &Project) -> anyhow::Result<Outcome> {
    run_posix_tests(project, &[])
}

/// Builds the tests of [`test_posix_implementation`].
pub(crate) fn build_posix_tests(project: &Project) -> anyhow::Result<Outcome> {
    run_posix_tests(project, &["--no-run"])
}

fn run_posix_tests(project: &Project, options: &[&str]) -> anyhow::Result<Outcome> {
    let mut command = project.command(cargo_program());
    match programs::find("cargo-nextest") {
        Some(_) => command.args(["nextest", "run", "--profile", "ci"]),
        None => command.args(["test", "--no-fail-fast"]),
    };
    command.args(["--locked", "-p", "nerve-types", "-p", "nerve-host", "--features", "nerve-types/posix-os"]);
    command.args(options).env("NERVE_TEST_SKIPS", project.target.join("skips-posix.txt"));
    match command.status().context("cannot start cargo")?.success() {
        true => Ok(Outcome::passed()),
        false => bail!("tests failed"),
    }
}

/// Parses the counts of a summary line.
type Summary = fn(&str) -> Option<Counts>;

/// Returns the test command and its summary parser: cargo-nextest if installed, otherwise `cargo test`. nextest
/// repeats the output of failed test programs, which may contain summaries of cargo, so only the runner's own
/// format counts.
fn runner(project: &Project, quick: bool) -> (Command, Summary) {
    let mut command = project.command(cargo_program());
    if programs::find("cargo-nextest").is_none() {
        command.args(["test", "--workspace", "--locked", "--no-fail-fast", "--lib", "--bins", "--tests"]);
        command.args(FEATURES);
        return (command, cargo_summary);
    }
    command.args(["nextest", "run", "--workspace", "--locked", "--profile", "ci"]).args(FEATURES);
    command.args(["--test-threads", &test_threads().to_string()]);
    // nextest rejects rules and filters that match no binary.
    if has_real_agent_tests(project) {
        let rules = project.root.join(".config/nextest-agents.toml");
        command.arg("--tool-config-file").arg(format!("xtask:{}", rules.display()));
        if quick {
            command.args(["--filterset", "not binary(/^real_agent/)"]);
        } else if let Some(filter) = agent_rotation::filter() {
            command.args(["--filterset", &filter]);
        }
    }
    (command, nextest_summary)
}

/// Returns the number of tests that run at once. Most tests wait for programs, so one more than the processors leaves none idle.
fn test_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) + 1
}

/// Returns true if a crate has tests named `tests/real_agent*`.
fn has_real_agent_tests(project: &Project) -> bool {
    let names = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let crates = names(&project.root.join("crates"));
    crates
        .iter()
        .flat_map(|folder| names(&folder.join("tests")))
        .any(|test| test.file_name().is_some_and(|name| name.to_string_lossy().starts_with("real_agent")))
}

fn environment(project: &Project, quick: bool, skips: &Path, command: &mut Command) {
    command.env("NERVE_TEST_SKIPS", skips);
    // The folder does not exist, so tests with real agents are skipped.
    let agents = if quick { project.target.join("no-agents") } else { project.agents_bin() };
    command.env("NERVE_TEST_AGENTS", agents);
    command.env("NERVE_TEST_PYPI", project.pypi());
    if project.ci {
        command.env("NERVE_TEST_NO_SKIP", "1");
    }
}

/// Runs the tests and passes both streams through unchanged, line by line.
fn run_and_count(command: &mut Command, summary: Summary) -> anyhow::Result<(bool, Option<Counts>)> {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cannot start cargo")?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut counts = None;
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let stdout_reader = scope.spawn(|| match stdout {
            Some(stdout) => pass_through(stdout, io::stdout(), summary),
            None => Ok(None),
        });
        if let Some(stderr) = stderr {
            counts = pass_through(stderr, io::stderr(), summary)?;
        }
        // nextest prints its summary on stderr, cargo on stdout.
        let from_stdout = stdout_reader
            .join()
            .map_err(|_| anyhow::anyhow!("the reader of the tests' output panicked"))??;
        counts = counts.or(from_stdout);
        Ok(())
    })?;
    Ok((child.wait()?.success(), counts))
}

/// Copies a stream and adds up its summaries: one from nextest, one per program from cargo.
fn pass_through(from: impl io::Read, mut to: impl Write, summary: Summary) -> io::Result<Option<Counts>> {
    let mut counts: Option<Counts> = None;
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        if let Some(result) = summary(&String::from_utf8_lossy(&line)) {
            let sum = counts.unwrap_or_default();
            counts = Some(Counts {
                passed: sum.passed + result.passed,
                failed: sum.failed + result.failed,
                skipped: sum.skipped + result.skipped,
            });
        }
        line.clear();
    }
    Ok(counts)
}

/// `Summary [ 0.5s] 12 tests run: 10 passed (1 slow), 1 failed, 1 timed out, 3 skipped`
fn nextest_summary(line: &str) -> Option<Counts> {
    let line = without_escapes(line);
    let (_, rest) = line.trim().strip_prefix("Summary [")?.split_once(']')?;
    let (_, results) = rest.split_once(" run:")?;
    // The number that passed is divided further in parentheses.
    let results = match (results.split_once(" ("), results.split_once(')')) {
        (Some((before, _)), Some((_, after))) => format!("{before}{after}"),
        _ => results.to_string(),
    };
    let mut counts = Counts::default();
    for part in results.split(',') {
        let (number, outcome) = part.trim().split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        match outcome {
            "passed" => counts.passed += number,
            "skipped" => counts.skipped += number,
            // failed, timed out, exec failed
            _ => counts.failed += number,
        }
    }
    Some(counts)
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`
fn cargo_summary(line: &str) -> Option<Counts> {
    let line = without_escapes(line);
    let (_, results) = line.trim().strip_prefix("test result: ")?.split_once(". ")?;
    let mut counts = Counts::default();
    for part in results.split(';') {
        match part.trim().split_once(' ') {
            Some((number, "passed")) => counts.passed = number.parse().ok()?,
            Some((number, "failed")) => counts.failed = number.parse().ok()?,
            Some((number, "ignored" | "filtered out")) => counts.skipped += number.parse::<u64>().ok()?,
            _ => {}
        }
    }
    Some(counts)
}

/// Removes colours (`ESC [ … m`).
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = escape.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        rest = rest.strip_prefix('m').unwrap_or(rest);
    }
    plain.push_str(rest);
    plain
}

fn read_skips(file: &Path) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(skip_lines(&text))
}

/// Converts lines `test<TAB>reason` to `test: reason` without duplicates.
fn skip_lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut skips: Vec<String> = lines.map(|line| line.replacen('\t', ": ", 1)).collect();
    skips.sort();
    skips.dedup();
    skips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_nextest_summaries() {
        let counts = |passed, failed, skipped| Some(Counts { passed, failed, skipped });
        for (line, expected) in [
            ("     Summary [   0.011s] 3 tests run: 3 passed, 1 skipped", counts(3, 0, 1)),
            ("Summary [ 12.4s] 1 test run: 1 passed (1 slow), 0 skipped\n", counts(1, 0, 0)),
            (
                "Summary [1s] 9 tests run: 6 passed (1 flaky), 1 failed, 2 timed out, 4 skipped",
                counts(6, 3, 4),
            ),
            ("Summary [1s] 5/9 tests run: 4 passed, 1 failed, 0 skipped", counts(4, 1, 0)),
            ("Summary [1s] 9 tests run: 9 passed (1 slow, 4 flaky), 0 skipped", counts(9, 0, 0)),
            (
                "\u{1b}[32;1m     Summary\u{1b}[0m [ 1s] \u{1b}[1m2\u{1b}[0m tests run: \u{1b}[1m2\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, 0 skipped",
                counts(2, 0, 0),
            ),
            ("        PASS [   0.004s] nerve summary", None),
            ("a test that prints Summary [1s] of 3 run: 1 passed", None),
        ] {
            assert_eq!(nextest_summary(line), expected, "{line}");
        }
    }

    #[test]
    fn adds_up_cargo_summaries() {
        let text = "running 3 tests\n\
            test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
            test result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.01s\n";
        let mut copy = Vec::new();
        let counts = pass_through(text.as_bytes(), &mut copy, cargo_summary).unwrap();
        assert_eq!(counts, Some(Counts { passed: 4, failed: 2, skipped: 5 }));
        assert_eq!(copy, text.as_bytes());
    }

    #[test]
    fn ignores_summaries_in_test_output() {
        let text = "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0s\n\
            Summary [ 1s] 10 tests run: 9 passed, 1 failed, 2 skipped\n\
            test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0s\n";
        let counts = pass_through(text.as_bytes(), io::sink(), nextest_summary).unwrap();
        assert_eq!(counts, Some(Counts { passed: 9, failed: 1, skipped: 2 }));
    }

    #[test]
    fn lists_each_skipped_test_once() {
        assert_eq!(skip_lines("b\tno tool\n\na\tno key\nb\tno tool\n"), ["a: no key", "b: no tool"]);
    }

    #[test]
    fn passes_invalid_utf8_unchanged() {
        let bytes = b"\xff\xfe\nno end of line";
        let mut copy = Vec::new();
        assert_eq!(pass_through(&bytes[..], &mut copy, nextest_summary).unwrap(), None);
        assert_eq!(copy, bytes);
    }
}
