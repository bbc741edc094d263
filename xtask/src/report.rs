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
}

struct Line {
    name: &'static str,
    seconds: f64,
    verdict: &'static str,
    detail: String,
}

const FAILED: &str = "FAILED";

impl Report {
    /// Creates an empty report. If `only` is not empty, other steps are skipped silently.
    pub(crate) fn new(only: &[String]) -> Report {
        Report { only: only.to_vec(), lines: Vec::new() }
    }

    /// Runs a step and stores its result. Returns `true` unless it failed.
    pub(crate) fn step(&mut self, name: &'static str, run: impl FnOnce() -> anyhow::Result<Outcome>) -> bool {
        if !self.only.is_empty() && !self.only.iter().any(|wanted| wanted == name) {
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
        self.lines.push(Line { name, seconds: start.elapsed().as_secs_f64(), verdict, detail });
        verdict != FAILED
    }

    /// Returns true if no step failed.
    pub(crate) fn all_passed(&self) -> bool {
        self.lines.iter().all(|line| line.verdict != FAILED)
    }

    /// Returns a table with a row per step: name, seconds, result.
    pub(crate) fn table(&self) -> String {
        let mut table = format!("{:<14} {:>8}  result\n", "step", "seconds");
        for line in &self.lines {
            let separator = if line.detail.is_empty() { "" } else { ": " };
            // Writing to a string cannot fail.
            let _ = writeln!(
                table,
                "{:<14} {:>8.1}  {}{separator}{}",
                line.name, line.seconds, line.verdict, line.detail
            );
        }
        let total: f64 = self.lines.iter().map(|line| line.seconds).sum();
        let _ = writeln!(table, "{:<14} {total:>8.1}", "total");
        table
    }
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
    fn runs_only_selected_steps() {
        let mut report = Report::new(&["second".to_string()]);
        assert!(report.step("first", || anyhow::bail!("must not run")));
        assert!(report.step("second", || Ok(Outcome::passed())));
        assert!(report.all_passed());
        assert!(!report.table().contains("first"));
    }
}
