//! Load: many nodes on one server, and subscribers that read nothing.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "support/process.rs"]
mod process;
#[path = "support/server_process.rs"]
mod server_process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nerve_api::request::{CreateNode, Subscribe};
use nerve_api::value::BackendKind;
use nerve_client::NerveClient;
use nerve_testkit::wait_until;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use server_process::LiveServer;
use support::{Figure, Goal, Report, Samples, memory_of};

/// Number of nodes, unless the environment variable `NERVE_BENCH_NODES` names another one.
const NODES: usize = 500;
/// Nodes that are created at a time.
const AT_A_TIME: usize = 8;
/// Observed idle time.
const IDLE: Duration = Duration::from_secs(10);
/// Time without CPU time after which the server is idle.
const QUIET: Duration = Duration::from_millis(500);
/// Time limit for the server to become idle.
const SETTLE: Duration = Duration::from_secs(120);
/// Subscribers that read nothing.
const STALLED: usize = 100;
/// Number of events of a subscription: more than a queue holds.
const EVENTS: usize = 20_000;

#[tokio::main]
async fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "Load",
        "*Nodes*: bash without settings, each with a host, created eight at a time by one client. CPU time is what the \
         kernel counts in ticks of 10 ms: one tick would be 0.1 %. *Stalled*: subscribers to all events that read \
         nothing, while another subscriber reads and a client causes the events and sends `PING`.",
    );
    let nodes = std::env::var("NERVE_BENCH_NODES").ok().and_then(|count| count.parse().ok()).unwrap_or(NODES);
    many_nodes(nodes, &mut report).await?;
    stalled(&mut report).await?;
    report.print();
    Ok(())
}

async fn many_nodes(count: usize, report: &mut Report) -> Result<()> {
    eprintln!("load: {count} nodes");
    let server = LiveServer::start()?;
    let (client, pid) = (server.client().await?, server.process.id().to_string());
    client.ping().await?;
    let empty = memory_of(&pid, "VmRSS")?;
    let start = Instant::now();
    create_nodes(&client, count).await?;
    report.row(&format!("{count} nodes: all ready after"), &Figure::one(start.elapsed().as_secs_f64(), "s"));
    let each = (memory_of(&pid, "VmRSS")? - empty) / count as f64;
    report.row(&format!("{count} nodes: memory of the server per node"), &Figure::one(each, "MiB"));
    let list = Instant::now();
    ensure!(client.list_nodes(None).await?.len() == count, "nodes are missing");
    report
        .row(&format!("{count} nodes: `LIST_NODES`"), &Figure::one(list.elapsed().as_secs_f64() * 1e3, "ms"));
    let (mut used, mut since) = (process::cpu(&pid)?, Instant::now());
    let is_idle = || {
        let now = process::cpu(&pid).unwrap_or(f64::MAX);
        if now > used {
            (used, since) = (now, Instant::now());
        }
        since.elapsed() >= QUIET
    };
    ensure!(wait_until(SETTLE, is_idle), "the server does not become idle");
    let before = process::cpu(&pid)?;
    tokio::time::sleep(IDLE).await;
    let percent = (process::cpu(&pid)? - before) * 100.0 / IDLE.as_secs_f64();
    let what = format!("{count} nodes: CPU of the idle server, over {} s", IDLE.as_secs());
    report.goal(&what, &Figure::one(percent, "%"), Goal::AtMost(0.0));
    let pids = programs(&client).await?;
    let stop = Instant::now();
    server.run(&["server", "stop"])?;
    report
        .row(&format!("{count} nodes: `nerve server stop`"), &Figure::one(stop.elapsed().as_secs_f64(), "s"));
    let left = pids.iter().filter(|pid| process::is_alive(pid)).count();
    report.goal(
        &format!("{count} nodes: programs left after it"),
        &Figure::one(left as f64, ""),
        Goal::AtMost(0.0),
    );
    Ok(())
}

async fn create_nodes(client: &NerveClient, count: usize) -> Result<()> {
    let mut starting = JoinSet::new();
    for number in 0..count {
        if starting.len() >= AT_A_TIME
            && let Some(started) = starting.join_next().await
        {
            started??;
        }
        let client = client.clone();
        starting.spawn(async move {
            server_process::bash(&client, &format!("node-{number}"), "$ ").await.map(drop)
        });
    }
    while let Some(started) = starting.join_next().await {
        started??;
    }
    Ok(())
}

async fn programs(client: &NerveClient) -> Result<Vec<String>> {
    let nodes = client.list_nodes(None).await?;
    Ok(nodes.iter().filter_map(|node| Some(node.metadata.number("pid")?.to_string())).collect())
}

async fn stalled(report: &mut Report) -> Result<()> {
    eprintln!("load: {STALLED} stalled subscribers");
    let server = LiveServer::start()?;
    let (client, pid) = (server.client().await?, server.process.id().to_string());
    let reader = server.client().await?;
    let mut events = reader.subscribe(&Subscribe::default()).await?;
    let mut connections = Vec::new();
    for _ in 0..STALLED {
        connections.push(stalled_subscriber(&server).await?);
    }
    let before = memory_of(&pid, "VmRSS")?;
    let received = tokio::spawn(async move {
        let mut count = 0;
        while count < EVENTS {
            let event = events.next().await.context("the stream has ended")?;
            ensure!(event.event_type != "EVENTS_DROPPED", "the reader has lost events");
            count += usize::from(event.event_type == "NODE_CREATED");
        }
        anyhow::Ok(())
    });
    let mut pings = Vec::new();
    for number in 0..EVENTS {
        let mut request = CreateNode::new(format!("n{number}"));
        (request.backend, request.history) = (BackendKind::Bash, false);
        let node = client.create_node(&request).await?;
        node.stop().await?;
        node.remove().await?;
        let start = Instant::now();
        client.ping().await?;
        pings.push(start.elapsed().as_secs_f64() * 1e3);
    }
    received.await??;
    let pings = Samples::new(pings);
    report.row("stalled: `PING`", &pings.median("ms"));
    report.goal("stalled: `PING`, p99", &Figure::one(pings.quantile(0.99), "ms"), Goal::AtMost(20.0));
    let each = (memory_of(&pid, "VmRSS")? - before) * 1024.0 / STALLED as f64;
    report.goal("stalled: memory of a subscriber", &Figure::one(each, "KiB"), Goal::AtMost(8192.0));
    Ok(())
}

/// Subscribes to all events and reads only the answer.
async fn stalled_subscriber(server: &LiveServer) -> Result<BufReader<UnixStream>> {
    let mut stream = BufReader::new(UnixStream::connect(server.socket()).await?);
    stream.write_all(b"{\"command_type\":\"SUBSCRIBE\",\"request_id\":\"1\"}\n").await?;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    ensure!(line.contains("\"success\":true"), "{line}");
    Ok(stream)
}
