//! Cost of recording on the byte path, per piece of output.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use nerve_host::clock::Clock;
use nerve_host::recorder::Recorder;
use nerve_host::tap::Tap;
use nerve_record::ahr::DEFAULT_QUALITY;
use nerve_types::{Event, EventKind};

use crate::corpus;
use crate::support::{self, Goal, Report, Samples};

pub(crate) const RUNS: usize = 3;
pub(crate) const PIECES: usize = 5000;
/// Bytes a second.
const RATE: f64 = 10e6;

pub(crate) fn compare(report: &mut Report, folder: &Path) -> Result<()> {
    for kib in [4, 16] {
        for how in ["append", "write"] {
            let [mut half, mut most, mut worst] = [const { Vec::new() }; 3];
            for run in 1..=RUNS {
                eprintln!("{how} of {kib} KiB: {run} of {RUNS}");
                let file = folder.join(format!("{how}-{kib}-{run}"));
                let (kib, path) = (kib.to_string(), file.display().to_string());
                let figures = support::in_fresh_process(&["append", how, &kib, &path])?;
                let [p50, p99, max] = figures[..] else { bail!("a figure is missing") };
                half.push(p50);
                most.push(p99);
                worst.push(max);
                std::fs::remove_file(file)?;
            }
            let what = if how == "append" { "append to a recording" } else { "write(2) to a file" };
            report.row(&format!("{what}, {kib} KiB: median"), &Samples::new(half).median("µs"));
            let p99 = Samples::new(most).median("µs");
            let row = format!("{what}, {kib} KiB: p99");
            if how == "append" {
                report.goal(&row, &p99, Goal::AtMost(100.0));
            } else {
                report.row(&row, &p99);
            }
            report.row(&format!("{what}, {kib} KiB: longest"), &Samples::new(worst).median("µs"));
        }
    }
    Ok(())
}

/// Prints microseconds: median, p99, longest.
pub(crate) fn run(how: &str, kib: usize, path: &Path) -> Result<()> {
    let corpus = corpus::agents()?;
    let size = kib * 1024;
    let pieces = corpus::pieces(&corpus, size, u64::MAX).take(PIECES);
    let times = match how {
        "append" => {
            let (mut recorder, clock) = (Recorder::create(path, DEFAULT_QUALITY)?, Clock::start());
            let mut off = 0;
            paced(size, pieces, |piece| {
                let event = Event { at: clock.now(), off, kind: EventKind::Output(piece) };
                off += piece.len() as u64;
                recorder.event(&event).map_err(anyhow::Error::msg)
            })?
        }
        "write" => {
            let mut file = File::create(path)?;
            paced(size, pieces, |piece| Ok(file.write_all(piece)?))?
        }
        other => bail!("unknown: {other}"),
    };
    println!("{} {} {}", times.quantile(0.5), times.quantile(0.99), times.quantile(1.0));
    Ok(())
}

/// Takes each piece when it is due. Returns microseconds for each.
fn paced<'a>(
    size: usize,
    pieces: impl Iterator<Item = &'a [u8]>,
    mut take: impl FnMut(&'a [u8]) -> Result<()>,
) -> Result<Samples> {
    let pause = Duration::from_secs_f64(size as f64 / RATE);
    let (mut times, mut due) = (Vec::new(), Instant::now());
    for piece in pieces {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let start = Instant::now();
        take(piece)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        due += pause;
    }
    ensure!(times.len() == PIECES, "{} pieces", times.len());
    Ok(Samples::new(times))
}
