//! `nerve record` with its viewer: latency from a byte of the program to the screen, and the viewer's CPU load while
//! the program writes.

use std::io::{Write, stdout};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use nerve_testkit::Hermetic;

use crate::support::{self, Figure, Goal, Report, Samples};
use crate::viewer_terminal::ViewerTerminal;
use crate::{corpus, process};
use nerve_testkit::Random;

/// Number of timed marks.
const MARKS: usize = 1000;
/// Time between two frames at 60 per second.
const FRAME: Duration = Duration::from_micros(16_667);
/// Bytes that a program writes per second, and number of pieces.
const RATE: usize = 100_000;
const PIECES: usize = 50;
/// Time for the viewer to start, and measured time after it.
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(20);

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    latency(report, "alone", "a mark now and then, as an echo comes")?;
    latency(report, "among", "a mark 60 times a second, with 1.7 kB of output each")?;
    cpu(report)
}

/// Runs a program for the viewer.
pub(crate) fn act(what: &str) -> Result<()> {
    match what {
        "alone" => marks(|random| Duration::from_millis(20 + random.below(60)), 0),
        "among" => marks(|_| FRAME, RATE / 60),
        "stream" => stream(),
        other => bail!("unknown: {other}"),
    }
}

fn viewed(home: &Hermetic, what: &str) -> Result<ViewerTerminal> {
    let program = support::fresh_process(&[what])?;
    let mut command: Command = home.command(env!("CARGO_BIN_EXE_nerve"));
    command.args(["record", "--no-record", "--"]).arg(program.get_program()).args(program.get_args());
    ViewerTerminal::start(&mut command)
}

fn latency(report: &mut Report, what: &str, about: &str) -> Result<()> {
    eprintln!("latency: {about}");
    let home = Hermetic::new()?;
    let mut viewer_terminal = viewed(&home, what)?;
    let (mut times, mut last) = (Vec::new(), 0);
    while let Some(screen) = viewer_terminal.next()? {
        let now = unix_nanoseconds()?;
        let Some(written) = screen.rows.first().and_then(|row| read_mark(&row.text)) else { continue };
        if written != last {
            times.push(now.saturating_sub(written) as f64 / 1e6);
            last = written;
        }
    }
    viewer_terminal.end()?;
    // While the viewer starts, output waits for it.
    let times = Samples::new(times.split_off(times.len().min(20)));
    report.row(&format!("byte to cell, {about}"), &times.median("ms"));
    let (p99, goal) = (Figure::one(times.quantile(0.99), "ms"), Goal::AtMost(10.0));
    report.goal(&format!("byte to cell, {about}: p99 of {}", times.len()), &p99, goal);
    Ok(())
}

fn cpu(report: &mut Report) -> Result<()> {
    eprintln!("CPU at {RATE} bytes a second");
    let home = Hermetic::new()?;
    let mut viewer_terminal = viewed(&home, "stream")?;
    let (pid, recorder) = (viewer_terminal.pid(), recorder_of(&home)?);
    let both = || anyhow::Ok((process::cpu(&pid)?, process::cpu(&recorder)?));
    let mut from = None;
    let (mut at, mut bytes) = (Instant::now(), 0);
    let start = Instant::now();
    let (viewer, behind) = loop {
        viewer_terminal.next()?.context("the program ended too early")?;
        match from {
            None if start.elapsed() > WARM_UP => {
                from = Some(both()?);
                (at, bytes) = (Instant::now(), viewer_terminal.bytes());
            }
            Some(from) if at.elapsed() > MEASURED => {
                let to = both()?;
                break (to.0 - from.0, to.1 - from.1);
            }
            _ => {}
        }
    };
    let seconds = at.elapsed().as_secs_f64();
    let share = |used: f64| Figure::one(used / seconds * 100.0, "%");
    let goal = Goal::AtMost(5.0);
    report.goal("viewer while an agent writes 100 kB/s: CPU of its process", &share(viewer), goal);
    let what = "the same: CPU of the recorder process, which owns the terminal";
    report.row(what, &share(behind));
    let written = Figure::one((viewer_terminal.bytes() - bytes) as f64 / 1e3 / seconds, "kB/s");
    report.row("viewer while an agent writes 100 kB/s: written to the terminal", &written);
    Ok(())
}

/// Waits for the process that owns the program's terminal and returns its pid.
fn recorder_of(home: &Hermetic) -> Result<String> {
    let listed = || {
        let output =
            home.command(env!("CARGO_BIN_EXE_nerve")).args(["host", "list", "--json"]).output().ok()?;
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        list["hosts"][0]["pid"].as_u64()
    };
    let pid = nerve_testkit::wait_for(WARM_UP, listed).context("no host owns the program's terminal")?;
    Ok(pid.to_string())
}

// ---- The program ----

/// Writes the time into the first row repeatedly, with output below it.
fn marks(pause: impl Fn(&mut Random) -> Duration, output: usize) -> Result<()> {
    let log = corpus::log(1 << 20);
    let mut pieces = log.chunks(output.max(1)).cycle();
    let mut random = Random(1);
    // The first row does not scroll.
    print(b"\x1b[2J\x1b[2;40r\x1b[40;1H")?;
    for _ in 0..MARKS {
        let mut bytes = if output > 0 { pieces.next().unwrap_or_default().to_vec() } else { Vec::new() };
        bytes.extend(format!("\x1b7\x1b[0m\x1b[1;1H{}\x1b8", mark(unix_nanoseconds()?)).into_bytes());
        print(&bytes)?;
        sleep(pause(&mut random));
    }
    Ok(())
}

/// Streams recorded output of agents in pieces.
fn stream() -> Result<()> {
    let agents = corpus::agents()?;
    let start = Instant::now();
    let mut due = start;
    for piece in agents.chunks(RATE / PIECES).cycle() {
        if start.elapsed() > WARM_UP + MEASURED + Duration::from_secs(3) {
            break;
        }
        print(piece)?;
        due += Duration::from_secs(1) / PIECES as u32;
        sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn print(bytes: &[u8]) -> Result<()> {
    let mut out = stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

fn unix_nanoseconds() -> Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos())?)
}

/// Returns a mark: a time with a checksum, because only the differences between two marks are drawn.
fn mark(at: u64) -> String {
    format!("@{at}:{:03}@", at % 997)
}

fn read_mark(row: &str) -> Option<u64> {
    let (at, check) = row.trim_end().strip_prefix('@')?.strip_suffix('@')?.split_once(':')?;
    let at: u64 = at.parse().ok()?;
    (check.parse::<u64>().ok()? == at % 997).then_some(at)
}
