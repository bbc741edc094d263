//! `nerve server start --restore` after the end of everything.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nerve_testkit::{Hermetic, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use crate::server_process::LiveServer;
use crate::support::{Goal, Report, Samples};
use crate::{process, time};

const NODES: usize = 20;
const ROUNDS: usize = 5;
const SHELL: &str = "bash --norc --noprofile";
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    for (what, is_agent) in [("bash nodes", false), ("built-in agents, which resume conversations", true)] {
        let mut seconds = Vec::new();
        for round in 1..=ROUNDS {
            eprintln!("daily: restore of {NODES} {what}, {round} of {ROUNDS}");
            seconds.push(restore(is_agent).await?);
        }
        let row = format!("restore of {NODES} {what}");
        report.goal(&row, &Samples::new(seconds).median("s"), Goal::AtMost(2.0));
    }
    Ok(())
}

/// Kills a server with its nodes and restores them. Returns the seconds of the restore.
async fn restore(is_agent: bool) -> Result<f64> {
    let mut server = LiveServer::start()?;
    let claude = install_agent(&server.home)?;
    let command = if is_agent { claude.as_str() } else { SHELL };
    for number in 0..NODES {
        let name = format!("node-{number}");
        server.run(&["new", &name, "-c", command])?;
        server.run(&["send", &name, "echo one"])?;
    }
    kill_everything(&mut server).await?;
    let mut started = String::new();
    let milliseconds = time(|| {
        let output = server.run(&["server", "start", "--restore"])?;
        started = String::from_utf8(output.stdout)?;
        Ok(())
    })?;
    let count = started.lines().filter(|line| line.ends_with(" started")).count();
    ensure!(count == NODES, "{count} of {NODES} nodes were restored: {started}");
    if is_agent {
        let answer = server.run(&["send", "node-7", "RECALL"])?.stdout;
        ensure!(String::from_utf8_lossy(&answer).contains("echo one"), "the conversation was not resumed");
    }
    Ok(milliseconds / 1e3)
}

/// Installs the built-in agent as `claude` and returns its path.
fn install_agent(home: &Hermetic) -> Result<String> {
    let claude = home.work().join("claude");
    let nerve = env!("CARGO_BIN_EXE_nerve");
    fs::write(&claude, format!("#!/bin/sh\nexec '{nerve}' mock-agent \"$@\"\n"))?;
    fs::set_permissions(&claude, Permissions::from_mode(0o755))?;
    Ok(claude.to_str().context("the folder's name is no UTF-8")?.to_string())
}

/// Kills the server and the hosts of all nodes, as a power failure would.
async fn kill_everything(server: &mut LiveServer) -> Result<()> {
    let mut hosts = Vec::new();
    for node in server.client().await?.list_nodes(None).await? {
        let program = node.metadata.number("pid").context("a node has no process")?;
        hosts.push(process::parent(&program.to_string())?);
    }
    server.process.kill()?;
    server.process.wait()?;
    for host in &hosts {
        let pid = Pid::from_raw(host.parse()?).context("a host's id is 0")?;
        kill_process(pid, Signal::KILL)?;
    }
    ensure!(
        wait_until(PATIENCE, || !hosts.iter().any(|host| process::is_alive(host))),
        "a host does not end"
    );
    Ok(())
}
