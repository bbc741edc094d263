//! The audit log: appending an entry, and the last ten of 100,000.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, ensure};
use nerve_agent::parse::{Section, SectionKind};
use nerve_record::history::{
    Filter, HISTORY_BUFFER_LINES, HistoryReader, HistoryWriter, Operation, ResponseData, SendEntry,
};
use nerve_testkit::Hermetic;
use nerve_types::TsNs;

use support::{Goal, Report, Samples};

const RUNS: usize = 7;
const APPENDS: u32 = 20_000;
const ENTRIES: usize = 100_000;
const NOW: TsNs = TsNs(1_766_399_400_000_000_000);

fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "History",
        &format!(
            "Appending: {RUNS} runs of {APPENDS} entries each into a new file; a value is the mean of a \
             run. Reading: the last 10 of {ENTRIES} entries (half of them prompts with answers, half \
             captures of {HISTORY_BUFFER_LINES} lines), the file opened each time; by the library and by \
             the whole command, without a server."
        ),
    );
    let home = Hermetic::new()?;
    let screen =
        vec!["a line of text on a terminal, about as wide as they are"; HISTORY_BUFFER_LINES].join("\n");

    let run = appends(&home, |log| log.log(&Operation::Run { ts: NOW, input: "cargo test --workspace" }))?;
    report.goal("append `run`, 0.1 kB", &run.median("µs"), Goal::AtMost(5.0));
    let send = appends(&home, |log| log.log(&Operation::Send(prompt())))?;
    report.goal("append `send`, 0.5 kB", &send.median("µs"), Goal::AtMost(5.0));
    let read = appends(&home, |log| {
        log.log(&Operation::Read { ts: NOW, buffer: &screen, lines: HISTORY_BUFFER_LINES })
    })?;
    report.goal("append `read`, a capture of 50 lines, 2.9 kB", &read.median("µs"), Goal::AtMost(5.0));

    let size = fill(&home, &screen)?;
    report.goal(
        &format!("last 10 of {ENTRIES} ({} MB), library", size / 1_000_000),
        &last_ten(&home)?.median("ms"),
        Goal::AtMost(10.0),
    );
    report.goal(
        "the same, `nerve logs me --lines 10 --json`",
        &last_ten_by_command(&home)?.median("ms"),
        Goal::AtMost(10.0),
    );
    report.print();
    Ok(())
}

/// A prompt with an answer of usual length.
fn prompt() -> SendEntry<'static> {
    let content =
        "The tests fail because the fixture is older than the format; I have brought it up to date. "
            .repeat(3);
    let section = Section { kind: SectionKind::Text, content, metadata: Default::default() };
    let response = ResponseData { sections: vec![section], tokens: None, is_complete: true, is_ready: true };
    let input = "Why do the tests of the reader fail since yesterday, and what is to be done?";
    SendEntry { ts_start: NOW, ts_end: NOW, input, preceding_buffer_seq: Some(1), response, usage: None }
}

/// Microseconds for one entry, a value for each run.
fn appends(home: &Hermetic, append: impl Fn(&mut HistoryWriter) -> u64) -> Result<Samples> {
    let mut means = Vec::new();
    for run in 0..RUNS {
        let folder = tempfile::tempdir_in(home.root())?;
        let mut writer = HistoryWriter::create(folder.path(), "bench", &format!("run-{run}"))?;
        let start = Instant::now();
        for _ in 0..APPENDS {
            append(&mut writer);
        }
        means.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(APPENDS));
        ensure!(writer.seq() == u64::from(APPENDS) && writer.lost() == 0, "entries were lost");
    }
    Ok(Samples::new(means))
}

/// Writes the history that is read and returns its size in bytes.
fn fill(home: &Hermetic, screen: &str) -> Result<u64> {
    let mut writer = HistoryWriter::create(&home.nerve_home().join("history"), "default", "me")?;
    for _ in 0..ENTRIES / 2 {
        writer.log(&Operation::Read { ts: NOW, buffer: screen, lines: HISTORY_BUFFER_LINES });
        writer.log(&Operation::Send(prompt()));
    }
    Ok(writer.path().and_then(|path| path.metadata().ok()).map_or(0, |file| file.len()))
}

fn last_ten(home: &Hermetic) -> Result<Samples> {
    let filter = Filter { last: Some(10), ..Filter::default() };
    let mut times = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        let page =
            HistoryReader::open(&home.nerve_home().join("history"), "default", "me")?.query(&filter)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        ensure!(page.total == 10, "{} entries instead of 10", page.total);
    }
    Ok(Samples::new(times))
}

fn last_ten_by_command(home: &Hermetic) -> Result<Samples> {
    let mut times = Vec::new();
    for _ in 0..50 {
        let mut command: Command = home.command(env!("CARGO_BIN_EXE_nerve"));
        command.args(["server", "node", "history", "me", "--last", "10", "--json"]).stdin(Stdio::null());
        let start = Instant::now();
        let output = command.output()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        ensure!(output.stdout.windows(5).any(|word| word == b"\"seq\""), "no entries");
    }
    Ok(Samples::new(times))
}
