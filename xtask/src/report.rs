//! Runs steps one after the other, times them, and tells at the end how each went.

use std::fmt::Write as _;
use std::time::Instant;

/// What a step that did not fail has to say.
pub(crate) enum Outcome {
    /// It passed; the text is a detail for the table, often empty.
    Passed(String),
    /// It did not run, for this reason.
    LeftOut(String),
}

impl Outcome {
    /// Passed, nothing to add.
    pub(crate) fn passed() -> Outcome {
        Outcome::Passed(String::new())
    }
}

/// The steps so far.
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
    /// An empty report. Where `only` is not empty, other steps are passed over silently.
    pub(crate) fn new(only: &[String]) -> Report {
        Report { only: only.to_vec(), lines: Vec::new() }
    }

    /// Runs a step and notes how it went. `true` unless it failed.
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

    /// No step failed.
    pub(crate) fn all_passed(&self) -> bool {
        self.lines.iter().all(|line| line.verdict != FAILED)
    }

    /// One row a step: name, seconds, result.
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
    fn a_failure_is_noted_and_the_next_step_still_runs() {
        let mut report = Report::new(&[]);
        assert!(!report.step("first", || anyhow::bail!("broken\nin two lines")));
        assert!(report.step("second", || Ok(Outcome::Passed("3 files".into()))));
        assert!(!report.all_passed());
        let table = report.table();
        assert!(table.contains("FAILED: broken\n"), "{table}");
        assert!(table.contains("ok: 3 files"), "{table}");
    }

    #[test]
    fn only_the_wanted_steps_run() {
        let mut report = Report::new(&["second".to_string()]);
        assert!(report.step("first", || anyhow::bail!("must not run")));
        assert!(report.step("second", || Ok(Outcome::passed())));
        assert!(report.all_passed());
        assert!(!report.table().contains("first"));
    }
}
