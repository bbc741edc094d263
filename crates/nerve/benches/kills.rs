//! Data loss in a recording after `kill -9` of its host at a random moment.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "support/process.rs"]
mod process;
#[path = "support/server_process.rs"]
mod server_process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use nerve_api::request::{CommandLine, CreateNode};
use nerve_client::NerveClient;
use nerve_record::ahr::{Body, Part, Reader};
use nerve_testkit::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use nerve_testkit::Random;
use server_process::LiveServer;
use support::{Figure, Goal, Report, Samples};

const ROUNDS: usize = 100;
/// Bytes that the program writes every millisecond: 60 kB/s, and 10 MB/s.
const BATCHES: [usize; 2] = [60, 10_000];
const TICK: Duration = Duration::from_millis(1);
/// Maximum time from the program's first byte to the kill, in microseconds.
const LONGEST: u64 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of a batch's first line: its number, microseconds since the epoch, the end of a line.
const HEAD: usize = 30;

#[tokio::main]
async fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    if let Some(arguments) = support::fresh_process_arguments() {
        let [batch, diary] = arguments.as_slice() else { bail!("expected a batch size and a path") };
        return write(batch.parse()?, Path::new(diary));
    }
    let mut report = Report::new(
        "Kills",
        &format!(
            "`kill -9` of a node's host, {ROUNDS} times for each of two programs, at a random moment in the first second of \
             output. A program writes a numbered batch every millisecond and notes elsewhere when. Lost is output that \
             was written before the signal and is not in the recording, including bytes still in the kernel; in time, from the \
             first missing batch to the signal. Unreadable is a recording that cannot be opened, has a gap, or differs from \
             the written bytes."
        ),
    );
    let (server, mut random) = (LiveServer::start()?, Random(4711));
    let client = server.client().await?;
    for batch in BATCHES {
        let (mut times, mut bytes, mut unreadable) = (Vec::new(), Vec::new(), 0);
        for round in 1..=ROUNDS {
            eprintln!("kills, {batch} bytes a millisecond: {round} of {ROUNDS}");
            let moment = Duration::from_micros(random.below(LONGEST));
            let round = format!("clock-{batch}-{round}");
            match kill(&server, &client, &round, batch, moment).await? {
                Ok(lost) => {
                    times.push(lost.milliseconds);
                    bytes.push(lost.bytes);
                }
                Err(error) => {
                    eprintln!("{round}: {error:#}");
                    unreadable += 1;
                }
            }
        }
        let pace = format!("{batch} kB/s");
        let (times, bytes) = (Samples::new(times), Samples::new(bytes));
        report.row(&format!("{pace}: output lost, in time"), &times.median("ms"));
        let most = Figure::one(times.quantile(1.0), "ms");
        report.goal(&format!("{pace}: output lost, in time, at most"), &most, Goal::AtMost(250.0));
        report.row(&format!("{pace}: output lost"), &bytes.median("bytes"));
        let what = format!("{pace}: recordings that are unreadable, of {ROUNDS}");
        report.goal(&what, &Figure::one(f64::from(unreadable), ""), Goal::AtMost(0.0));
    }
    report.print();
    Ok(())
}

struct Lost {
    milliseconds: f64,
    bytes: f64,
}

/// Runs one round. The inner error concerns the recording.
async fn kill(
    server: &LiveServer,
    client: &NerveClient,
    name: &str,
    batch: usize,
    moment: Duration,
) -> Result<Result<Lost>> {
    let diary = server.home.work().join(name);
    let mut params = CreateNode::new(name);
    let program = std::env::current_exe()?;
    let path = |path: &Path| anyhow::Ok(path.to_str().context("a path is no UTF-8")?.to_string());
    params.command = Some(CommandLine::Argv(vec![
        path(&program)?,
        support::FRESH.into(),
        batch.to_string(),
        path(&diary)?,
    ]));
    params.history = false;
    let node = client.create_node(&params).await?;
    let info = node.info().await?;
    let child = &info.metadata.number("pid").context("the node has no process")?.to_string();
    let host = process::parent(child)?;
    ensure!(host != server.process.id().to_string(), "the node has no host");
    let begun = || diary.metadata().is_ok_and(|file| file.len() > 0);
    ensure!(wait_until(PATIENCE, begun), "the program writes nothing");
    std::thread::sleep(moment);
    let killed = now();
    kill_process(Pid::from_raw(host.parse()?).context("no pid")?, Signal::KILL)?;
    let gone = || !process::is_alive(&host) && !process::is_alive(child);
    ensure!(wait_until(PATIENCE, gone), "host or program survive");
    let recording = info.metadata.known_text("recording_path").context("nothing is recorded")?;
    let lost = lost(Path::new(recording), &diary, batch, killed);
    node.stop().await?;
    std::fs::remove_file(recording)?;
    std::fs::remove_file(diary)?;
    Ok(lost)
}

/// Compares the recording with what was written before the kill.
fn lost(recording: &Path, diary: &Path, batch: usize, killed: Duration) -> Result<Lost> {
    let (mut reader, mut output) = (Reader::open(recording)?, Vec::new());
    while let Some(part) = reader.next()? {
        match part {
            Part::Block(block) => {
                ensure!(block.damage().is_none(), "{:?}", block.damage());
                for record in block.records() {
                    let Body::Data { off, bytes } = record.body else { continue };
                    ensure!(off == output.len() as u64, "output is missing or doubled at {off}");
                    output.extend_from_slice(bytes);
                }
            }
            Part::Lost(lost) => ensure!(lost.tail, "{lost}"),
        }
    }
    let diary = std::fs::read_to_string(diary)?;
    let written = diary.lines().map(|line| anyhow::Ok(Duration::from_micros(line.parse()?)));
    // The last line may be half written.
    let whole = diary.matches('\n').count();
    let written: Vec<Duration> = written.take(whole).collect::<Result<_>>()?;
    for (number, got) in output.chunks(batch).enumerate() {
        let at = written.get(number).context("more was recorded than written")?;
        ensure!(batch_of(number, *at, batch).starts_with(got), "batch {number} is not as it was written");
    }
    let before: Vec<Duration> = written.into_iter().filter(|at| *at <= killed).collect();
    let bytes = (before.len() * batch).saturating_sub(output.len());
    let first = if bytes > 0 { before.get(output.len() / batch) } else { None };
    let milliseconds = first.map_or(0.0, |at| (killed - *at).as_secs_f64() * 1e3);
    Ok(Lost { milliseconds, bytes: bytes as f64 })
}

/// The program: writes until its terminal is gone.
fn write(batch: usize, diary: &Path) -> Result<()> {
    let terminal = std::io::stdout();
    let mut modes = tcgetattr(&terminal)?;
    modes.make_raw();
    tcsetattr(&terminal, OptionalActions::Now, &modes)?;
    let mut diary = File::create(diary)?;
    for number in 0.. {
        let at = now();
        // Noted first: at worst, one batch counts as lost that was never written.
        diary.write_all(format!("{}\n", at.as_micros()).as_bytes())?;
        let bytes = batch_of(number, at, batch);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            // Past the buffer of standard output, which cuts at every end of a line.
            rest = &rest[rustix::io::write(&terminal, rest)?..];
        }
        std::thread::sleep(TICK);
    }
    Ok(())
}

/// A numbered line, and lines of text up to the size of the batch.
fn batch_of(number: usize, at: Duration, size: usize) -> Vec<u8> {
    const TEXT: &str = "what an agent says while it works on something\r\n";
    let mut text = String::with_capacity(size + TEXT.len());
    // Writing to a string cannot fail.
    let _ = write!(text, "{number:010} {:017}\r\n", at.as_micros());
    debug_assert_eq!(text.len(), HEAD);
    while text.len() < size {
        text.push_str(TEXT);
    }
    text.truncate(size);
    text.into_bytes()
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
