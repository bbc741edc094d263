//! Throughput from a program to its recording and its terminal model.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::pty_reader::read_all;
use crate::recorders::{Stage, Way};
use crate::support::{self, Figure, Goal, Report, Samples};

pub(crate) const ROUNDS: usize = 5;
pub(crate) const FILE_BYTES: u64 = 100_000_000;

pub(crate) fn compare(report: &mut Report, stage: &Stage, agents: &Path) -> Result<()> {
    let agents = agents.to_str().context("the folder's name is no UTF-8")?;
    run(report, stage, "`seq 1 5000000`", &["seq", "1", "5000000"])?;
    // Raw mode, as agents use it.
    let line = "stty raw -echo; exec cat \"$0\"";
    run(report, stage, "`cat` of agents' output", &["sh", "-c", line, agents])
}

/// Results of a recorder, a value for each round.
struct Figures {
    way: Way,
    rates: Vec<f64>,
    shares: Vec<f64>,
    /// Bytes of the file per byte of output, in the last round.
    room: Option<f64>,
}

fn run(report: &mut Report, stage: &Stage, what: &str, argv: &[&str]) -> Result<()> {
    let none = |way| Figures { way, rates: Vec::new(), shares: Vec::new(), room: None };
    let mut all: Vec<Figures> = stage.ways().filter(|way| *way != Way::Raw).map(none).collect();
    let mut raw = Vec::new();
    for round in 1..=ROUNDS {
        eprintln!("{what}: round {round} of {ROUNDS}");
        let (seconds, bytes) = floor(argv)?;
        raw.push(bytes / 1e6 / seconds);
        for figures in &mut all {
            let recorded = stage.start(figures.way, argv)?.finish(Some(bytes as u64))?;
            figures.rates.push(bytes / 1e6 / recorded.seconds);
            figures.shares.push(100.0 * seconds / recorded.seconds);
            figures.room = recorded.size.map(|size| size as f64 / bytes);
        }
    }
    report.row(&format!("{what}: raw"), &Samples::new(raw).median("MB/s"));
    all.into_iter().for_each(|figures| report_figures(report, what, figures));
    Ok(())
}

fn report_figures(report: &mut Report, what: &str, figures: Figures) {
    let Figures { way, rates, shares, room } = figures;
    let name = format!("{what}: {}", way.name());
    report.row(&name, &Samples::new(rates).median("MB/s"));
    let (row, share) = (format!("{name}, share of raw"), Samples::new(shares).median("%"));
    match way {
        Way::Node | Way::Record => report.goal(&row, &share, Goal::AtLeast(90.0)),
        _ => report.row(&row, &share),
    }
    if let Some(room) = room {
        report.row(&format!("{name}, bytes of the file per byte of output"), &Figure::one(room, ""));
    }
}

/// Returns seconds and bytes of the faster of two raw runs, because reader and writer do not always run in step.
fn floor(argv: &[&str]) -> Result<(f64, f64)> {
    let read = || {
        let figures = support::in_fresh_process(&[&["raw"], argv].concat())?;
        let [seconds, bytes] = figures[..] else { bail!("a figure is missing") };
        anyhow::Ok((seconds, bytes))
    };
    let (one, other) = (read()?, read()?);
    ensure!(one.1 == other.1, "{} bytes, then {}", one.1, other.1);
    Ok((one.0.min(other.0), one.1))
}

/// Prints seconds and bytes.
pub(crate) fn raw(argv: &[String]) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let start = Instant::now();
    let bytes = runtime.block_on(read_all(argv))?;
    println!("{} {bytes}", start.elapsed().as_secs_f64());
    Ok(())
}
