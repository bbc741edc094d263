//! Output that costs a terminal much: the server's other work while nodes write it, and its memory.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[path = "support/server_process.rs"]
mod server_process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nerve_api::request::{CommandLine, CreateNode};
use nerve_client::{NerveClient, RemoteNode};
use nerve_types::Size;

use server_process::{LiveServer, bash};
use support::{Figure, Goal, Report, Samples, memory_of};

/// Nodes that write at once. The machine has fewer cores.
const WRITERS: usize = 3;
/// Observed time of each flood.
const OBSERVED: Duration = Duration::from_secs(5);
/// Limit of a turn on a quiet node meanwhile.
const TURN_LIMIT: Duration = Duration::from_secs(60);

/// Output that a program repeats without end, as the argument of bash's `$'…'`.
const FLOODS: [(&str, &str); 6] = [
    ("lines of text", r"0123456789 abcdefghijklmnopqrstuvwxyz 0123456789 abcdefghijklmnopqrstuvwxyz"),
    ("REP of the largest count", r"a\e[65535b"),
    ("switches of the alternate screen", r"\e[?1049h\e[?1049l"),
    ("screens filled by DECALN", r"\e#8"),
    ("scrolls by the largest count", r"\e[65535S"),
    ("insertions of the largest count", r"\e[65535@\e[65535L"),
];

#[tokio::main]
async fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "Floods of output",
        "Three nodes, each in the largest terminal, repeat the output as fast as it is read, for five seconds. Meanwhile \
         a client sends `PING` without pause, and another runs `echo` on a node of the usual size. Memory is the \
         server's; *afterwards* is a second after the three nodes have been stopped.",
    );
    for (what, output) in FLOODS {
        flood(&mut report, what, output).await.with_context(|| format!("flood of {what}"))?;
    }
    report.print();
    Ok(())
}

async fn flood(report: &mut Report, what: &str, output: &str) -> Result<()> {
    eprintln!("floods: {what}");
    let server = LiveServer::start()?;
    let (client, other) = (server.client().await?, server.client().await?);
    let pid = server.process.id().to_string();
    let quiet = bash(&other, "quiet", "$ ").await?;
    let before = memory_of(&pid, "VmRSS")?;
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        writers.push(writer(&client, number, output).await?);
    }
    let (pings, turns) = tokio::try_join!(observe_pings(&client), observe_turns(&quiet))?;
    let during = memory_of(&pid, "VmRSS")?;
    for writer in &writers {
        writer.stop().await?;
    }
    let settled = Instant::now() + Duration::from_secs(1);
    tokio::time::sleep_until(settled.into()).await;
    let after = memory_of(&pid, "VmRSS")?;

    report.goal(
        &format!("{what}: `PING`, p99"),
        &Figure::one(pings.quantile(0.99), "ms"),
        Goal::AtMost(20.0),
    );
    report
        .row(&format!("{what}: `PING`, slowest of {}", pings.len()), &Figure::one(pings.quantile(1.0), "ms"));
    report.row(&format!("{what}: a turn on another node"), &turns.median("ms"));
    report.row(&format!("{what}: memory meanwhile"), &Figure::one(during - before, "MiB"));
    report.row(&format!("{what}: memory afterwards"), &Figure::one(after - before, "MiB"));
    Ok(())
}

/// Creates a node that writes without end.
async fn writer(client: &NerveClient, number: usize, output: &str) -> Result<RemoteNode> {
    let mut params = CreateNode::new(format!("writer-{number}"));
    let script = format!("exec yes $'{output}'");
    params.command = Some(CommandLine::Argv(vec!["bash".to_string(), "-c".to_string(), script]));
    (params.cols, params.rows) = (Some(Size::MAX.cols), Some(Size::MAX.rows));
    Ok(client.create_node(&params).await?)
}

/// Returns the times of requests that are answered at once, in milliseconds.
async fn observe_pings(client: &NerveClient) -> Result<Samples> {
    let (begin, mut times) = (Instant::now(), Vec::new());
    while begin.elapsed() < OBSERVED {
        let start = Instant::now();
        client.ping().await?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Samples::new(times))
}

/// Returns the times of turns on a quiet node, in milliseconds.
async fn observe_turns(node: &RemoteNode) -> Result<Samples> {
    let (begin, mut times) = (Instant::now(), Vec::new());
    while begin.elapsed() < OBSERVED {
        let start = Instant::now();
        let turn = tokio::time::timeout(TURN_LIMIT, node.execute("echo quiet")).await??;
        ensure!(turn.response.text.trim() == "quiet", "the answer is {:?}", turn.response.text);
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Samples::new(times))
}
