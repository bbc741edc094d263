//! `nerve ls` with many nodes.

use anyhow::{Result, ensure};

use crate::server_process::{self, LiveServer};
use crate::support::{Figure, Goal, Report, Samples};
use crate::time;

const NODES: usize = 100;
const RUNS: usize = 200;

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    eprintln!("daily: {NODES} nodes");
    let server = LiveServer::start()?;
    let client = server.client().await?;
    for number in 0..NODES {
        server_process::bash(&client, &format!("node-{number}"), "$ ").await?;
    }
    let version = times(&server, &["--version"])?;
    report.row("`nerve --version`, which starts a process", &version.median("ms"));
    let listed = String::from_utf8(server.run(&["ls"])?.stdout)?;
    ensure!(listed.lines().count() > NODES, "{listed}");
    let lists = times(&server, &["ls"])?;
    let goal = Goal::AtMost(10.0);
    report.goal(&format!("`nerve ls`, {NODES} nodes"), &lists.median("ms"), goal);
    let p99 = Figure::one(lists.quantile(0.99), "ms");
    report.goal(&format!("`nerve ls`, {NODES} nodes: p99 of {RUNS}"), &p99, goal);
    Ok(())
}

fn times(server: &LiveServer, arguments: &[&str]) -> Result<Samples> {
    let times = (0..RUNS).map(|_| time(|| server.run(arguments).map(drop)));
    Ok(Samples::new(times.collect::<Result<_>>()?))
}
