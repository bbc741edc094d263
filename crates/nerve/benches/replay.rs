//! Long recordings: replay, inspection, seeking.
#![expect(clippy::print_stdout, reason = "the report and a fresh process's figures go to stdout")]

#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "support/corpus.rs"]
mod corpus;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "support/process.rs"]
mod process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;
#[path = "support/synthetic.rs"]
mod synthetic;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nerve_record::ahr::{Body, Part, Reader};
use nerve_record::index::{Index, Position};
use nerve_record::playback::Playback;
use nerve_record::replay::TerminalReplay;
use nerve_testkit::Hermetic;
use nerve_types::Size;
use nerve_vt::terminal::TerminalState;

use nerve_testkit::Random;
use support::{Figure, Goal, Report, Samples, memory_of};
use synthetic::START;

const RUNS: usize = 3;
const SHORT: u64 = 100_000_000;
const LONG: u64 = 1_000_000_000;
const PLACES: usize = 50;
/// Number of places opened without an index.
const WITHOUT: usize = 3;
/// Bytes per read of a terminal.
const PIECE: usize = 2048;
/// Goal for replay and inspection: MB of output per second of CPU time.
const RATE_GOAL: Goal = Goal::AtLeast(150.0);
/// Limit of additional memory for a recording ten times as long, in MiB.
const MEMORY_GOAL: Goal = Goal::AtMost(8.0);

fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    if let Some(arguments) = support::fresh_process_arguments() {
        let [how, path] = arguments.as_slice() else { bail!("expected a reader and a path") };
        return measure(how, Path::new(path));
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let short = record(folder.path(), SHORT)?;
    let long = record(folder.path(), LONG)?;
    let mut report = Report::new("Replay", &about(&short, &long)?);
    replays(&mut report, &short, &long)?;
    let missing = asciinema(&mut report, &short)?;
    parts(&mut report, &short)?;
    memory(&mut report, &short, &long)?;
    opening(&mut report, &short, &long)?;
    missing.iter().for_each(|note| report.note(note));
    report.print();
    Ok(())
}

fn about(short: &Path, long: &Path) -> Result<String> {
    let megabytes = |path: &Path| anyhow::Ok(path.metadata()?.len() as f64 / 1e6);
    Ok(format!(
        "Two recordings of agents' output (as in \"Recording\"), 100 MB and 1 GB of it, in records of {PIECE} bytes: files of \
         {:.0} and {:.0} MB, in the page cache. Whole commands, output to /dev/null: MB of output per second of CPU time, {RUNS} \
         runs; peak memory (VmHWM) of the process, which for `--fast` is mostly the lines it prints (1,000,000 at most). *Reading* decompresses and checks every block, *model* is the terminal model fed \
         with the same pieces from memory, *fold* is both, in fresh processes. Opening: a new `Playback`, then `seek` to one of \
         {PLACES} random bytes; every 10 MB are a second of the session.",
        megabytes(short)?,
        megabytes(long)?,
    ))
}

/// Writes a recording with `bytes` bytes of output.
fn record(folder: &Path, bytes: u64) -> Result<PathBuf> {
    eprintln!("writing a recording of {} MB", bytes / 1_000_000);
    let path = folder.join(format!("{bytes}.ahr"));
    synthetic::record(&path, Size::default(), corpus::pieces(&corpus::agents()?, PIECE, bytes))?;
    Ok(path)
}

/// Measures the commands people use, on both recordings.
fn replays(report: &mut Report, short: &Path, long: &Path) -> Result<()> {
    let home = Hermetic::new()?;
    for (what, command) in [
        ("`nerve replay --fast`", &["replay", "--fast"][..]),
        ("`nerve recording inspect --blocks`", &["inspect", "--blocks"]),
    ] {
        for (path, bytes, name) in [(short, SHORT, "100 MB"), (long, LONG, "1 GB")] {
            let [mut rates, mut peaks] = [const { Vec::new() }; 2];
            for run in 1..=RUNS {
                eprintln!("{what}, {name}: {run} of {RUNS}");
                let mut nerve = home.command(env!("CARGO_BIN_EXE_nerve"));
                let cost = cost(nerve.args(command).arg(path))?;
                rates.push(bytes as f64 / 1e6 / cost.cpu);
                peaks.push(cost.peak);
            }
            report.goal(&format!("{what}, {name}"), &Samples::new(rates).median("MB/s"), RATE_GOAL);
            report.row(&format!("{what}, {name}: peak memory"), &Samples::new(peaks).median("MiB"));
        }
    }
    Ok(())
}

struct Cost {
    /// Seconds.
    cpu: f64,
    /// MiB.
    peak: f64,
}

/// Runs a command to its end.
fn cost(command: &mut Command) -> Result<Cost> {
    let before = process::cpu_of_ended_children()?;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let (pid, mut peak) = (child.id().to_string(), f64::NAN);
    let status = loop {
        // The peak only grows, so the last value counts. An ended process has none.
        peak = memory_of(&pid, "VmHWM").unwrap_or(peak);
        match child.try_wait()? {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    ensure!(status.success(), "{}: {status}", command.get_program().display());
    Ok(Cost { cpu: process::cpu_of_ended_children()? - before, peak })
}

/// Measures the closest peer, which outputs all bytes of a recording without a terminal model. It needs a terminal, which `script`
/// provides. Returns a note if it could not be measured.
fn asciinema(report: &mut Report, recording: &Path) -> Result<Option<String>> {
    let (home, cast) = (Hermetic::new()?, recording.with_extension("cast"));
    let mut export = home.command(env!("CARGO_BIN_EXE_nerve"));
    let file = Stdio::from(File::create(&cast)?);
    let exported = export.args(["export", "--format", "asciicast2"]).arg(recording).stdout(file).status()?;
    ensure!(exported.success(), "the export fails: {exported}");
    let line = format!("asciinema cat {}", shell_words::quote(&cast.display().to_string()));
    let mut rates = Vec::new();
    for run in 1..=RUNS {
        eprintln!("asciinema cat: {run} of {RUNS}");
        match cost(home.command("script").args(["-q", "-e", "-c", &line, "/dev/null"])) {
            Ok(cost) => rates.push(SHORT as f64 / 1e6 / cost.cpu),
            Err(error) => {
                return Ok(Some(format!("Not compared with `asciinema cat` (in `script`): {error}.")));
            }
        }
    }
    report.row("`asciinema cat` in `script`, 100 MB as asciicast 2", &Samples::new(rates).median("MB/s"));
    Ok(None)
}

/// Measures the parts of a replay.
fn parts(report: &mut Report, recording: &Path) -> Result<()> {
    let path = recording.to_str().context("the folder's name is no UTF-8")?;
    for (how, what) in [("read", "reading"), ("model", "model"), ("fold", "fold")] {
        let mut rates = Vec::new();
        for run in 1..=RUNS {
            eprintln!("{what}: {run} of {RUNS}");
            let figures = support::in_fresh_process(&[how, path])?;
            rates.push(SHORT as f64 / 1e6 / figures.first().context("no figures")?);
        }
        report.row(&format!("library, 100 MB: {what}"), &Samples::new(rates).median("MB/s"));
    }
    Ok(())
}

/// Compares peak memory for a short and a long recording. Without scrollback, both should be equal.
fn memory(report: &mut Report, short: &Path, long: &Path) -> Result<()> {
    for (how, what) in [("read", "reading"), ("bare", "fold without scrollback")] {
        let mut peaks = Vec::new();
        for (path, name) in [(short, "100 MB"), (long, "1 GB")] {
            eprintln!("memory, {what}: {name}");
            let path = path.to_str().context("the folder's name is no UTF-8")?;
            let figures = support::in_fresh_process(&[how, path])?;
            let peak = *figures.get(1).context("a figure is missing")?;
            report.row(&format!("library, {name}: {what}, peak memory"), &Figure::one(peak, "MiB"));
            peaks.push(peak);
        }
        let more = Figure::one(peaks[1] - peaks[0], "MiB");
        report.goal(&format!("{what}: additional memory of 1 GB over 100 MB"), &more, MEMORY_GOAL);
    }
    Ok(())
}

/// Prints seconds of CPU time and peak MiB.
fn measure(how: &str, path: &Path) -> Result<()> {
    let corpus = if how == "model" { corpus::agents()? } else { Vec::new() };
    let before = process::cpu("self")?;
    let bytes = match how {
        "read" => read(path)?,
        "model" => {
            let mut terminal = TerminalState::new(Size::default());
            for piece in corpus::pieces(&corpus, PIECE, SHORT) {
                terminal.process_data(START, piece);
            }
            terminal.offset()
        }
        "fold" => TerminalReplay::read_all(&mut Reader::open(path)?, |_| ())?.terminal.offset(),
        "bare" => {
            let mut replay = TerminalReplay::new(Size::default()).with_limits(1, 0);
            replay.read_rest(&mut Reader::open(path)?, |_| ())?;
            replay.terminal.offset()
        }
        other => bail!("unknown: {other}"),
    };
    ensure!([SHORT, LONG].contains(&bytes), "{bytes} bytes");
    println!("{} {}", process::cpu("self")? - before, memory_of("self", "VmHWM")?);
    Ok(())
}

/// Returns the number of output bytes.
fn read(path: &Path) -> Result<u64> {
    let (mut reader, mut end) = (Reader::open(path)?, 0);
    while let Some(part) = reader.next()? {
        let Part::Block(block) = part else { bail!("a block is lost") };
        end = block.output().end;
    }
    Ok(end)
}

fn opening(report: &mut Report, short: &Path, long: &Path) -> Result<()> {
    for (path, bytes, name) in [(short, SHORT, "100 MB"), (long, LONG, "1 GB")] {
        let mut builds = Vec::new();
        for run in 1..=RUNS {
            eprintln!("index of {name}: {run} of {RUNS}");
            let sidecar = Index::sidecar_path(path);
            if sidecar.exists() {
                std::fs::remove_file(&sidecar)?;
            }
            builds.push(milliseconds(|| Index::ensure(path)?.context("no index was made").map(drop))?);
        }
        report.row(&format!("{name}: making the index"), &Samples::new(builds).median("ms"));
        let size = Index::sidecar_path(path).metadata()?.len();
        report.row(&format!("{name}: size of the index"), &Figure::one(size as f64 / 1e6, "MB"));
        let mut random = Random(bytes);
        let paths: Vec<u64> = (0..PLACES).map(|_| random.below(bytes)).collect();
        let times = paths.iter().map(|place| milliseconds(|| open_at(path, *place)));
        let times = Samples::new(times.collect::<Result<_>>()?);
        report.row(&format!("{name}: opening at a random byte"), &times.median("ms"));
        let worst = Figure::one(times.quantile(0.99), "ms");
        report.goal(&format!("{name}: opening at a random byte, p99"), &worst, Goal::AtMost(100.0));
        let without = paths.iter().take(WITHOUT).map(|place| milliseconds(|| play_to(path, *place)));
        let without = Samples::new(without.collect::<Result<_>>()?);
        report.row(&format!("{name}: opening at {WITHOUT} of these without an index"), &without.median("ms"));
    }
    Ok(())
}

fn open_at(path: &Path, offset: u64) -> Result<()> {
    let mut play = Playback::open(path, Size::default())?;
    play.seek(Position::Offset(offset))?;
    let at = play.replay().terminal.offset();
    ensure!(at == offset, "it is at {at} instead of {offset}");
    Ok(())
}

/// Plays whole records up to `offset`.
fn play_to(path: &Path, offset: u64) -> Result<()> {
    let mut play = Playback::open(path, Size::default())?;
    let has_more =
        play.play(|record| !matches!(record.body, Body::Data { off, .. } if off > offset), |_| ())?;
    let at = play.replay().terminal.offset();
    ensure!(!has_more || at >= offset, "it is at {at} instead of {offset}");
    Ok(())
}

fn milliseconds(action: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    action()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}
