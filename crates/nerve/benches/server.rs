//! The command line and the server: start, list, stop, idle load, memory.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "support/process.rs"]
mod process;
#[path = "support/server_process.rs"]
mod server_process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nerve_client::NerveClient;
use nerve_testkit::{Hermetic, wait_until};

use server_process::{LiveServer, run};
use support::{Figure, Goal, Report, Samples, memory_of};

/// Observed idle time.
const IDLE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "Server and command line",
        "Every command is a process started for it, timed from its start to its end; `true` shows what \
         starting a process costs. Nodes are bash without settings, with the audit log on. CPU time is what \
         the kernel counts in ticks of 10 ms: one tick would be 0.1 %.",
    );
    commands(&mut report)?;
    starts(&mut report)?;
    nodes(&mut report).await?;
    stops(&mut report).await?;
    idle(&mut report).await?;
    report.print();
    Ok(())
}

fn commands(report: &mut Report) -> Result<()> {
    let home = Hermetic::new()?;
    let floor = times(100, || Ok(Command::new("true").stdin(Stdio::null()).status().map(drop)?))?;
    report.row("`true`", &floor.median("ms"));
    let version = times(100, || run(&home, &["--version"]).map(drop))?;
    report.row("`nerve --version`", &version.median("ms"));
    Ok(())
}

fn starts(report: &mut Report) -> Result<()> {
    eprintln!("server: starts");
    let home = Hermetic::new()?;
    let (mut starts, mut stops) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        starts.push(time(|| run(&home, &["server", "start"]).map(drop))?);
        stops.push(time(|| run(&home, &["server", "stop"]).map(drop))?);
    }
    let what = "`nerve server start`: in the background, first request answered";
    report.goal(what, &Samples::new(starts).median("ms"), Goal::AtMost(50.0));
    report.row("`nerve server stop` without nodes", &Samples::new(stops).median("ms"));
    Ok(())
}

async fn nodes(report: &mut Report) -> Result<()> {
    eprintln!("server: nodes");
    let server = LiveServer::start()?;
    let mut number = 0;
    let creates = times(20, || {
        number += 1;
        let id = format!("made-{number}");
        server.run(&["server", "node", "create", &id, "-c", "bash --norc --noprofile"]).map(drop)
    })?;
    report.row("`nerve new`: the program runs", &creates.median("ms"));
    let lists = times(100, || server.run(&["server", "node", "list"]).map(drop))?;
    report.goal("`nerve ls`, 20 nodes", &lists.median("ms"), Goal::AtMost(10.0));

    let client = server.client().await?;
    let (mut pings, mut readies) = (Vec::new(), Vec::new());
    for number in 0..20 {
        let start = Instant::now();
        server_process::bash(&client, &format!("ready-{number}"), "$ ").await?;
        readies.push(start.elapsed().as_secs_f64() * 1e3);
    }
    for _ in 0..1000 {
        let start = Instant::now();
        client.ping().await?;
        pings.push(start.elapsed().as_secs_f64() * 1e6);
    }
    report.row("client: node created and ready for its first prompt", &Samples::new(readies).median("ms"));
    report.row("client: one request and its answer (`PING`)", &Samples::new(pings).median("µs"));
    Ok(())
}

async fn stops(report: &mut Report) -> Result<()> {
    let (mut stops, mut left) = (Vec::new(), 0);
    for round in 1..=5 {
        eprintln!("server: stop with 20 nodes, {round} of 5");
        let server = LiveServer::start()?;
        let client = server.client().await?;
        let pids = ready_nodes(&client, 20).await?;
        stops.push(time(|| server.run(&["server", "stop"]).map(drop))?);
        left += pids.iter().filter(|pid| Path::new("/proc").join(pid).exists()).count();
    }
    report.goal("`nerve server stop` with 20 nodes", &Samples::new(stops).median("ms"), Goal::AtMost(1000.0));
    report.goal("programs left after it, of 100", &Figure::one(left as f64, ""), Goal::AtMost(0.0));
    Ok(())
}

async fn idle(report: &mut Report) -> Result<()> {
    let server = LiveServer::start()?;
    let (client, pid) = (server.client().await?, server.process.id().to_string());
    client.ping().await?;
    let empty = memory_of(&pid, "VmRSS")?;
    ready_nodes(&client, 50).await?;
    let full = memory_of(&pid, "VmRSS")?;

    // Waits until the nodes' start has settled.
    let quiet = wait_until(Duration::from_secs(30), || {
        let before = process::cpu(&pid).ok();
        std::thread::sleep(Duration::from_millis(200));
        before == process::cpu(&pid).ok()
    });
    ensure!(quiet, "the server does not become idle");
    eprintln!("server: idle for {IDLE:?}");
    let (before, woken) = (process::cpu(&pid)?, wakeups(&pid)?);
    tokio::time::sleep(IDLE).await;
    let percent = (process::cpu(&pid)? - before) * 100.0 / IDLE.as_secs_f64();
    let woken = (wakeups(&pid)? - woken) as f64 / IDLE.as_secs_f64();
    let what = format!("CPU of the server with 50 ready nodes, over {} s", IDLE.as_secs());
    report.goal(&what, &Figure::one(percent, "%"), Goal::AtMost(0.0));
    report.row("wake-ups per second", &Figure::one(woken, ""));
    report.row("memory of a server without nodes", &Figure::one(empty, "MiB"));
    report.row("memory of a server with 50 nodes", &Figure::one(full, "MiB"));
    report.row("memory per node", &Figure::one((full - empty) / 50.0, "MiB"));
    Ok(())
}

/// Creates bash nodes, waits until they are ready, and returns their process ids.
async fn ready_nodes(client: &NerveClient, count: usize) -> Result<Vec<String>> {
    for number in 0..count {
        server_process::bash(client, &format!("node-{number}"), "$ ").await?;
    }
    let nodes = client.list_nodes(None).await?;
    let pid = |node: &nerve_api::reply::NodeInfo| node.metadata.number("pid").map(|pid| pid.to_string());
    let pids: Vec<String> = nodes.iter().filter_map(pid).collect();
    ensure!(pids.len() == count, "{} of {count} nodes have a process", pids.len());
    Ok(pids)
}

/// Returns the number of voluntary context switches of a process.
fn wakeups(pid: &str) -> Result<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = std::fs::read_to_string(thread?.path().join("status"))?;
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += count.context("no count of switches")?.trim().parse::<u64>()?;
    }
    Ok(sum)
}

fn time(action: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    action()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

fn times(count: usize, mut action: impl FnMut() -> Result<()>) -> Result<Samples> {
    let times = (0..count).map(|_| time(&mut action)).collect::<Result<Vec<f64>>>()?;
    Ok(Samples::new(times))
}
