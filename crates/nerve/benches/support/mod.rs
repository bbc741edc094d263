//! Shared by the benchmarks: samples, the report table, and a fresh process for each memory measurement.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Measured values, sorted.
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Sorts the values.
    pub(crate) fn new(mut values: Vec<f64>) -> Samples {
        values.sort_by(f64::total_cmp);
        Samples(values)
    }

    /// Returns the value that the share `q` (0–1) of all values does not exceed (nearest rank).
    pub(crate) fn quantile(&self, q: f64) -> f64 {
        let rank = (self.0.len() as f64 * q).ceil() as usize;
        self.0.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
    }

    /// Returns the median with the smallest and the largest value.
    pub(crate) fn median(&self, unit: &'static str) -> Figure {
        Figure { value: self.quantile(0.5), range: Some((self.quantile(0.0), self.quantile(1.0))), unit }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A number for the table.
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) range: Option<(f64, f64)>,
    pub(crate) unit: &'static str,
}

impl Figure {
    /// Creates a figure from a single measurement or count.
    pub(crate) fn one(value: f64, unit: &'static str) -> Figure {
        Figure { value, range: None, unit }
    }
}

/// Goal of a figure.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

/// A section of the report: a title, what was done, a table.
pub(crate) struct Report {
    text: String,
}

impl Report {
    /// Creates a section. `about` describes the measurement.
    pub(crate) fn new(title: &str, about: &str) -> Report {
        let head = "| what | median | min – max | goal | |\n|---|--:|--:|--:|---|\n";
        Report { text: format!("## {title}\n\n{about}\n\n{head}") }
    }

    /// Adds a row without a goal.
    pub(crate) fn row(&mut self, what: &str, figure: &Figure) {
        self.add(what, figure, "", "");
    }

    /// Adds a row and judges it.
    pub(crate) fn goal(&mut self, what: &str, figure: &Figure, goal: Goal) {
        let (met, sign, limit) = match goal {
            Goal::AtMost(limit) => (figure.value <= limit, '≤', limit),
            Goal::AtLeast(limit) => (figure.value >= limit, '≥', limit),
        };
        let verdict = if met { "met" } else { "**MISSED**" };
        self.add(what, figure, format!("{sign} {limit} {}", figure.unit).trim_end(), verdict);
    }

    /// Adds a remark under the table.
    pub(crate) fn note(&mut self, text: &str) {
        self.text.push_str(&format!("\n{text}\n"));
    }

    /// Prints the section as Markdown: `cargo xtask bench` collects them.
    pub(crate) fn print(&self) {
        println!("{}", self.text);
    }

    fn add(&mut self, what: &str, figure: &Figure, goal: &str, verdict: &str) {
        let range = figure.range.map(|(min, max)| format!("{} – {}", short(min), short(max)));
        let value = format!("{} {}", short(figure.value), figure.unit);
        let (value, range) = (value.trim_end(), range.unwrap_or_default());
        self.text.push_str(&format!("| {what} | {value} | {range} | {goal} | {verdict} |\n"));
    }
}

/// Formats a number with three significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v == v.trunc() && v < 1e6 => format!("{value}"),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Returns true in debug builds, whose figures are meaningless: `cargo test --all-targets` runs these programs too.
pub(crate) fn is_debug_build() -> bool {
    if cfg!(debug_assertions) {
        eprintln!("not measured: this is a debug build; use cargo bench");
    }
    cfg!(debug_assertions)
}

/// Returns the arguments of [`in_fresh_process`], if it started this process.
pub(crate) fn fresh_process_arguments() -> Option<Vec<String>> {
    let mut arguments = std::env::args().skip_while(|argument| argument != FRESH);
    arguments.next()?;
    Some(arguments.collect())
}

pub(crate) const FRESH: &str = "--fresh-process";

/// Prepares another process of this program with `arguments`: see [`fresh_process_arguments`].
pub(crate) fn fresh_process(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find the path of this program")?);
    command.arg(FRESH).args(arguments);
    Ok(command)
}

/// Runs another process of this program with `arguments` and reads the numbers it prints, so that memory is measured in a fresh process.
pub(crate) fn in_fresh_process(arguments: &[&str]) -> Result<Vec<f64>> {
    let output = fresh_process(arguments)?.stderr(std::process::Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    text.split_whitespace()
        .map(|word| word.parse().with_context(|| format!("not a number: {word}")))
        .collect()
}

/// Returns a field of `/proc/<pid>/status` in MiB: `VmRSS` (now), `VmHWM` (the peak so far).
pub(crate) fn memory_of(pid: &str, field: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).context("no such field")?;
    Ok(kilobytes.parse::<f64>()? / 1024.0)
}
