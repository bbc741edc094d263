//! Throughput from a child to the terminal model, compared with a reader that discards the bytes.
#![expect(clippy::print_stdout, reason = "the report and a fresh process's figures go to stdout")]

#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nerve_agent::parse::ParserKind;
use nerve_agent::profile::Profiles;
use nerve_api::request::NodeRef;
use nerve_api::value::{BackendKind, NodeState};
use nerve_host::backend::Program;
use nerve_host::backend::pty::{Pty, READ_LIMIT};
use nerve_host::clock::Clock;
use nerve_node::Node;
use nerve_node::events::Publisher;
use nerve_node::terminal::{AuditLog, TerminalNode, TerminalSpec};
use nerve_node::usage_ledger::UsageLedger;
use nerve_types::Size;
use nerve_vt::terminal::TerminalState;

use support::{Figure, Goal, Report, Samples, memory_of};

const PAIRS: usize = 7;
const FILE_BYTES: usize = 50_000_000;
const LIMIT: Duration = Duration::from_secs(120);

fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    if let Some(arguments) = support::fresh_process_arguments() {
        let [how, argv @ ..] = arguments.as_slice() else { bail!("expected a reader and a program") };
        return tokio::runtime::Runtime::new()?.block_on(measure(how, argv.to_vec()));
    }
    let mut report = Report::new(
        "Throughput",
        &format!(
            "From the start of the child to the moment its last byte is modelled and its end known. *Raw* \
             reads the same terminal with the same reads and throws the bytes away; *node* is a whole \
             terminal node (pump, model of 120 × 40 with scrollback, driver); *model* leaves the driver \
             out. {PAIRS} rounds, each a fresh process for each of the three, in turn. The share is raw \
             time through node time of the same round."
        ),
    );
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("text");
    write_text(&file)?;
    let file = file.to_str().context("the temporary folder's name is no UTF-8")?;

    compare(&mut report, "`seq 1 2000000`", &["seq", "1", "2000000"])?;
    compare(&mut report, "`cat` of a text file of 50 MB", &["cat", file])?;
    let eight = [&["cat"][..], &[file; 8]].concat();
    let long = support::in_fresh_process(&[&["node"], &eight[..]].concat())?;
    report.goal(
        "400 MB through one node: peak memory",
        &Figure::one(value(&long, 1)?, "MiB"),
        Goal::AtMost(320.0),
    );
    report.note(
        "Peak memory is bounded by the scrollback: 1,000,000 rows or 256 MiB, whichever is reached first.",
    );
    report.print();
    Ok(())
}

/// Writes text lines of 1–160 characters.
fn write_text(path: &Path) -> Result<()> {
    const WORDS: &str = "It is a truth universally acknowledged, that a single process in possession of a \
                         good terminal must be in want of a reader. ";
    let text = WORDS.repeat(3);
    let mut file = BufWriter::new(File::create(path)?);
    let (mut written, mut number) = (0, 0);
    while written < FILE_BYTES {
        let (start, len) = (number * 13 % 100, number * 29 % 160);
        writeln!(file, "{}", &text[start..start + len])?;
        written += len + 1;
        number += 1;
    }
    file.flush()?;
    Ok(())
}

/// Runs rounds of raw, node and model.
fn compare(report: &mut Report, what: &str, argv: &[&str]) -> Result<()> {
    let [mut raw, mut node, mut model, mut share, mut peak] = [const { Vec::new() }; 5];
    for round in 1..=PAIRS {
        eprintln!("{what}: round {round} of {PAIRS}");
        let run = |how: &'static str| support::in_fresh_process(&[&[how], argv].concat());
        let (a, b, c) = (run("raw")?, run("node")?, run("model")?);
        let megabytes = value(&a, 2)? / 1e6;
        raw.push(megabytes / value(&a, 0)?);
        node.push(megabytes / value(&b, 0)?);
        model.push(megabytes / value(&c, 0)?);
        share.push(100.0 * value(&a, 0)? / value(&b, 0)?);
        peak.push(value(&b, 1)?);
    }
    report.row(&format!("{what}: raw"), &Samples::new(raw).median("MB/s"));
    report.row(&format!("{what}: model"), &Samples::new(model).median("MB/s"));
    report.row(&format!("{what}: node"), &Samples::new(node).median("MB/s"));
    report.goal(&format!("{what}: share of raw"), &Samples::new(share).median("%"), Goal::AtLeast(90.0));
    report.row(&format!("{what}: peak memory"), &Samples::new(peak).median("MiB"));
    Ok(())
}

fn value(values: &[f64], at: usize) -> Result<f64> {
    values.get(at).copied().context("a figure is missing")
}

/// Prints seconds, peak MiB and, if counted, bytes.
async fn measure(how: &str, argv: Vec<String>) -> Result<()> {
    let program = Program { argv, cwd: None, env: BTreeMap::new(), env_remove: Vec::new() };
    let start = Instant::now();
    let bytes = match how {
        "raw" => read_all(&program, |_| ()).await?,
        "model" => {
            let clock = Clock::start();
            let mut terminal = TerminalState::new(Size::default());
            read_all(&program, |bytes| drop(terminal.process_data(clock.now(), bytes))).await?
        }
        "node" => drive(program).await?,
        other => bail!("unknown reader {other}"),
    };
    println!("{} {} {bytes}", start.elapsed().as_secs_f64(), memory_of("self", "VmHWM")?);
    Ok(())
}

async fn read_all(program: &Program, mut take: impl FnMut(&[u8])) -> Result<u64> {
    let mut pty = Pty::spawn(program, Size::default())?;
    let mut buffer = Vec::with_capacity(READ_LIMIT);
    let mut bytes = 0;
    while pty.output.read(&mut buffer).await? > 0 {
        take(&buffer);
        bytes += buffer.len() as u64;
        buffer.clear();
    }
    pty.child.wait().await;
    ensure!(bytes > 0, "nothing was read");
    Ok(bytes)
}

async fn drive(program: Program) -> Result<u64> {
    let profile = Profiles::builtin().get("generic").context("no generic profile")?;
    let spec = TerminalSpec {
        proxy: None,
        ledger: UsageLedger::unlimited(),
        node: NodeRef { session: None, node: "bench".into() },
        program,
        size: Size::default(),
        profile,
        parser: ParserKind::None,
        ready_timeout: LIMIT,
        response_timeout: LIMIT,
        audit_log: AuditLog::disabled(),
        adopted: None,
        answers_queries: true,
        events: Publisher::new(Clock::start()),
        kind: BackendKind::Pty,
        log_start: false,
        conversation_id: None,
        agent_version: None,
    };
    let node = TerminalNode::start(spec, None, Vec::new())?;
    node.wait(&[NodeState::Stopped], Some(LIMIT)).await?;
    Ok(0)
}
