//! A million rows of scrollback: memory and read time.
#![expect(clippy::print_stdout, reason = "the report and a fresh process's figures go to stdout")]

#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{LineIndex, TerminalState};

use support::{Goal, Report, Samples, memory_of};

const ROWS: u64 = 1_000_000;
const RUNS: usize = 5;

fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    if let Some(arguments) = support::fresh_process_arguments() {
        return measure(arguments.first().context("which rows?")?);
    }
    let mut report = Report::new(
        "Scrollback",
        &format!(
            "{ROWS} rows on a terminal of 120 × 40, {RUNS} fresh processes each. Resident memory is the \
             process's, the terminal's own share of it after less before. MiB: the text of full rows alone \
             is 114.4 MiB."
        ),
    );
    for (rows, what) in
        [("full", "full rows, plain"), ("log", "log lines of 40–119 columns, four colours a line")]
    {
        let mut columns: Vec<Vec<f64>> = Vec::new();
        for _ in 0..RUNS {
            columns.push(support::in_fresh_process(&[rows])?);
        }
        let column =
            |at: usize| Samples::new(columns.iter().filter_map(|run| run.get(at).copied()).collect());
        report.goal(&format!("{what}: resident memory"), &column(0).median("MiB"), Goal::AtMost(120.0));
        report.row(&format!("{what}: as the terminal counts it"), &column(1).median("MiB"));
        report.row(&format!("{what}: modelling them"), &column(2).median("MB/s"));
        report.row(&format!("{what}: reading the last 50 lines"), &column(3).median("µs"));
        report.row(&format!("{what}: reading all lines"), &column(4).median("ms"));
    }
    report.print();
    Ok(())
}

/// Prints resident MiB, counted MiB, MB/s of modelling, µs for the last 50 lines, ms for all.
fn measure(rows: &str) -> Result<()> {
    let mut terminal = TerminalState::new(Size::new(120, 40));
    let before = memory_of("self", "VmRSS")?;
    let (mut bytes, mut seconds) = (0, 0.0);
    // A block is reused: the input's own memory must not count.
    let mut block = Vec::new();
    for first in (0..ROWS + 40).step_by(1000) {
        block.clear();
        for number in first..first + 1000 {
            row(rows, number, &mut block);
        }
        let start = Instant::now();
        terminal.process_data(TsNs(0), &block);
        seconds += start.elapsed().as_secs_f64();
        bytes += block.len();
    }
    let resident = memory_of("self", "VmRSS")? - before;
    let counted = terminal.memory() as f64 / f64::from(1 << 20);
    let kept = terminal.line_count() - terminal.first_kept_line().0;
    ensure!(kept >= ROWS, "only {kept} rows are kept");

    let mut tails = Vec::new();
    for _ in 0..1000 {
        let start = Instant::now();
        let lines = std::hint::black_box(terminal.tail(50));
        tails.push(start.elapsed().as_secs_f64() * 1e6);
        ensure!(lines.len() == 50, "{} lines instead of 50", lines.len());
    }
    let start = Instant::now();
    let all = std::hint::black_box(terminal.text(LineIndex(0)..LineIndex(u64::MAX)));
    let all_ms = start.elapsed().as_secs_f64() * 1e3;
    ensure!(all.len() as u64 >= ROWS, "{} lines instead of {ROWS}", all.len());
    println!(
        "{resident} {counted} {} {} {all_ms}",
        bytes as f64 / 1e6 / seconds,
        Samples::new(tails).quantile(0.5)
    );
    Ok(())
}

/// Appends row `number` and its line end.
fn row(kind: &str, number: u64, out: &mut Vec<u8>) {
    const WORDS: &str =
        "the quick brown fox jumps over the lazy dog while the five boxing wizards jump quickly at dawn ";
    let text = WORDS.repeat(3);
    let shift = (number * 7 % 90) as usize;
    if kind == "full" {
        out.extend_from_slice(format!("{number:09} {}\r\n", &text[shift..shift + 110]).as_bytes());
        return;
    }
    let words = &text[shift..shift + (number * 31 % 80) as usize];
    let line = format!(
        "\x1b[2m12:00:00\x1b[0m \x1b[32mINFO\x1b[0m \x1b[36mserver\x1b[0m: \x1b[1m{number:09}\x1b[0m {words}x\r\n"
    );
    out.extend_from_slice(line.as_bytes());
}
