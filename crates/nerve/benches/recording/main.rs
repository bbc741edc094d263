//! Cost of recording: throughput, CPU time, append latency and disk usage, compared with `script` and asciinema.
#![expect(clippy::print_stdout, reason = "the report and a fresh process's figures go to stdout")]

mod append;
mod cpu;
mod disk_usage;
mod recorders;
mod throughput;

#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../support/corpus.rs"]
mod corpus;
#[path = "../support/paced_output.rs"]
mod paced_output;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../support/process.rs"]
mod process;
#[path = "../support/pty_reader.rs"]
mod pty_reader;
#[path = "../support/server_process.rs"]
mod server_process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;

use anyhow::{Context, Result, bail};

use recorders::Stage;
use support::Report;

fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    if let Some(arguments) = support::fresh_process_arguments() {
        return act(&arguments);
    }
    let mut report = Report::new("Recording", &about());
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let agents = folder.path().join("agents");
    corpus::write_over_and_over(&agents, &corpus::agents()?, throughput::FILE_BYTES)?;
    let stage = Stage::new(folder.path())?;
    throughput::compare(&mut report, &stage, &agents)?;
    cpu::compare(&mut report, &stage)?;
    append::compare(&mut report, folder.path())?;
    disk_usage::compare(&mut report)?;
    for missing in stage.missing() {
        report.note(&missing);
    }
    report.print();
    Ok(())
}

fn about() -> String {
    format!(
        "*Agents' output* is the output of Claude Code, Codex, Gemini CLI and opencode in seven recorded sessions, repeated. *Raw* \
         reads the program's terminal with nerve's own reads and discards the bytes. *Node* is a node of a running server: \
         host process, recording (Brotli quality 4) and terminal model. `nerve record` runs with `--headless --out-file` and has \
         a model too; `script -q -c` and `asciinema rec -q -c` have none and do not compress. All write to /dev/null and to a \
         file on the same disk.\n\n\
         Throughput: {} rounds, each way in turn; from the request or the start of the process until the program has ended, all \
         output is modelled and the file is closed and synced; raw is the faster of two. The share is the raw time divided by the \
         recorder's time in the same round. CPU: the \
         same ways at {} MB/s, over {} s in the middle, {} rounds; the model is in the server's process. Append: the byte \
         path's cost of one piece (`Recorder::event`), {} pieces at 10 MB/s, {} runs; for comparison, one write(2) to a file. \
         Ratio: output bytes divided by bytes of the file.",
        throughput::ROUNDS,
        paced_output::RATE / 1_000_000,
        cpu::WINDOW.as_secs(),
        cpu::ROUNDS,
        append::PIECES,
        append::RUNS,
    )
}

/// Runs a fresh process's task.
fn act(arguments: &[String]) -> Result<()> {
    let [what, arguments @ ..] = arguments else { bail!("expected a task") };
    let argument = |at: usize| arguments.get(at).context("an argument is missing");
    match what.as_str() {
        "raw" => throughput::raw(arguments),
        "write" => paced_output::write(Path::new(argument(0)?), argument(1)?.parse()?),
        "append" => append::run(argument(0)?, argument(1)?.parse()?, Path::new(argument(2)?)),
        other => bail!("unknown: {other}"),
    }
}
