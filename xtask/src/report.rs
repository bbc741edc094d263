//! Runs and times steps, and prints a table of their results.

use std::fmt::Write as _;
use std::time::Instant;

/// Result of a step that did not fail.
pub(crate) enum Outcome {
    /// Passed; the text is a detail for the table, often empty.
    Passed(String),
    /// Not run, with the reason.
    LeftOut(String),
}

impl Outcome {
    /// Passed without details.
    pub(crate) fn passed() -> Outcome {
        Outcome::Passed(String::new())
    }
}

/// Results of the steps so far.
pub(crate) struct Report {
    only: Vec<String>,
    lines: Vec<Line>,
    start: Instant,
}

struct Line {
    name: &'static str,
    seconds: f64,
    /// Verdict and detail.
    result: String,
}

const FAILED: &str = "FAILED";

impl Line {
    fn has_failed(&self) -> bool {
        self.result.starts_with(FAILED)
    }
}

impl Report {
    /// Creates an empty report. If `only` is not empty, other steps are skipped silently.
    pub(crate) fn new(only: &[String]) -> Report {
        Report { only: only.to_vec(), lines: Vec::new(), start: Instant::now() }
    }

    /// Runs a step and stores its result. Returns `true` unless it failed.
    pub(crate) fn step(&mut self, name: &'static str, run: impl FnOnce() -> anyhow::Result<Outcome>) -> bool {
        if !self.only.is_empty() && !self.only.iter().any(|selected| selected == name) {
            return true;
        }
        println!("\n== {name}");
        let start = Instant::now();
        let result = run();
        let (verdict, detail) = match result {
            Ok(Outcome::Passed(detail)) => ("ok", detail),
            Ok(Outcome::LeftOut(reason)) => ("left out", reason),
            Err(error) => {
                eprintln!("{name}: {error:#}");
                (FAILED, first_line(&format!("{error:#}")))
            }
        };
        let separator = if detail.is_empty() { "" } else { ": " };
        let result = format!("{verdict}{separator}{detail}");
        self.lines.push(Line { name, seconds: start.elapsed().as_secs_f64(), result });
        verdict != FAILED
    }

    /// Adds the steps of another process from the table that ends its output. A step without a row has failed.
    pub(crate) fn add_table(&mut self, steps: &[&'static str], output: &str) {
        let table = output.rsplit_once(HEADER).map_or("", |(_, table)| table);
        for &name in steps {
            let line = table.lines().find_map(|row| parse_row(name, row));
            let lost = || Line { name, seconds: 0.0, result: format!("{FAILED}: its process ended early") };
            self.lines.push(line.unwrap_or_else(lost));
        }
    }

    /// Adds steps that could not start.
    pub(crate) fn fail(&mut self, steps: &[&'static str], error: &anyhow::Error) {
        let result = format!("{FAILED}: {}", first_line(&format!("{error:#}")));
        self.lines.extend(steps.iter().map(|name| Line { name, seconds: 0.0, result: result.clone() }));
    }

    /// Returns true if no step failed.
    pub(crate) fn all_passed(&self) -> bool {
        !self.lines.iter().any(Line::has_failed)
    }

    /// Returns a table with a row per step: name, seconds, result.
    pub(crate) fn table(&self) -> String {
        let mut table = HEADER.to_string();
        for Line { name, seconds, result } in &self.lines {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{name:<14} {seconds:>8.1}  {result}");
        }
        let _ = writeln!(table, "{:<14} {:>8.1}", "total", self.start.elapsed().as_secs_f64());
        table
    }
}

const HEADER: &str = "step            seconds  result\n";

/// Parses a row of the table if it is that of the step.
fn parse_row(name: &'static str, row: &str) -> Option<Line> {
    let (seconds, result) = row.strip_prefix(name)?.trim_start().split_once("  ")?;
    Some(Line { name, seconds: seconds.parse().ok()?, result: result.to_string() })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_step_runs_after_a_failure() {
        let mut report = Report::new(&[]);
        assert!(!report.step("first", || anyhow::bail!("broken\nin two lines")));
        assert!(report.step("second", || Ok(Outcome::Passed("3 files".into()))));
        assert!(!report.all_passed());
        let table = report.table();
        assert!(table.contains("FAILED: broken\n"), "{table}");
        assert!(table.contains("ok: 3 files"), "{table}");
    }

    #[test]
    fn table_of_another_process_is_added() {
        let mut other = Report::new(&[]);
        other.step("posix-build", || Ok(Outcome::passed()));
        other.step("posix", || anyhow::bail!("broken"));
        let mut report = Report::new(&[]);
        report.add_table(&["posix-build", "posix", "fuzz"], &format!("output\n{}", other.table()));
        let results: Vec<&str> = report.lines.iter().map(|line| line.result.as_str()).collect();
        assert_eq!(results, ["ok", "FAILED: broken", "FAILED: its process ended early"]);
        assert!(!report.all_passed());
    }

    #[test]
    fn runs_only_selected_steps() {
        let mut report = Report::new(&["second".to_string()]);
        assert!(report.step("first", || anyhow::bail!("must not run")));
        assert!(report.step("second", || Ok(Outcome::passed())));
        assert!(report.all_passed());
        assert!(!report.table().contains("first"));
    }
}
