//! CPU time of recording at the output rate of a very busy agent.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::paced_output::RATE;
use crate::recorders::{Stage, Way};
use crate::support::{self, Goal, Report, Samples};
use crate::{corpus, process};

pub(crate) const ROUNDS: usize = 3;
/// Measured time of a run.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);
/// Warm-up before it.
const LEAD: Duration = Duration::from_secs(1);
const RUN: Duration = Duration::from_secs(12);

/// Shares of one core, in percent.
#[derive(Default)]
struct Shares {
    /// The process that reads the terminal.
    reader: Vec<f64>,
    /// Its thread that compresses and writes.
    recorder: Vec<f64>,
    /// The process with the model.
    server: Vec<f64>,
}

pub(crate) fn compare(report: &mut Report, stage: &Stage) -> Result<()> {
    let corpus = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR"))?;
    std::fs::write(corpus.path(), corpus::agents()?)?;
    let path = corpus.path().to_str().context("the folder's name is no UTF-8")?;
    let program = std::env::current_exe()?;
    let seconds = RUN.as_secs().to_string();
    let writer = [
        program.to_str().context("this program's name is no UTF-8")?,
        support::FRESH,
        "write",
        path,
        seconds.as_str(),
    ];
    let ways: Vec<Way> = stage.ways().collect();
    let mut shares: Vec<Shares> = ways.iter().map(|_| Shares::default()).collect();
    for round in 1..=ROUNDS {
        for (way, shares) in ways.iter().zip(&mut shares) {
            eprintln!("CPU at a pace: {}, {round} of {ROUNDS}", way.name());
            sample(stage, *way, &writer, shares)?;
        }
    }
    for (way, shares) in ways.into_iter().zip(shares) {
        report_shares(report, way, shares);
    }
    Ok(())
}

fn sample(stage: &Stage, way: Way, writer: &[&str], shares: &mut Shares) -> Result<()> {
    let running = stage.start(way, writer)?;
    std::thread::sleep(LEAD);
    let read = || {
        let recorder = process::cpu_of_threads(&running.pid, "recorder")?;
        anyhow::Ok([process::cpu(&running.pid)?, recorder, process::cpu(&stage.server())?])
    };
    let (before, start) = (read()?, Instant::now());
    std::thread::sleep(WINDOW);
    let (after, seconds) = (read()?, start.elapsed().as_secs_f64());
    let share = |nth: usize| 100.0 * (after[nth] - before[nth]) / seconds;
    shares.reader.push(share(0));
    shares.recorder.push(share(1));
    shares.server.push(share(2));
    running.finish(Some(RATE * RUN.as_secs()))?;
    Ok(())
}

fn report_shares(report: &mut Report, way: Way, shares: Shares) {
    let share = |values| Samples::new(values).median("% of a core");
    let row = |what: &str| format!("agents' output at {} MB/s: {what}", RATE / 1_000_000);
    let reader = share(shares.reader);
    match way {
        Way::Node => {
            report.goal(&row("host of a node"), &reader, Goal::AtMost(8.0));
            report.row(&row("host of a node, of that the recording thread"), &share(shares.recorder));
            report.row(&row("server of that node"), &share(shares.server));
        }
        Way::Unrecorded => report.row(&row("host of a node that is not recorded"), &reader),
        Way::Record => report.row(&row("`nerve record`, with the model"), &reader),
        way => report.row(&row(way.name()), &reader),
    }
}
