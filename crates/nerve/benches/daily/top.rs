//! CPU time of `nerve top` while nodes work, and while they do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use nerve_api::value::NodeState;
use nerve_client::RemoteNode;
use nerve_testkit::{wait_until, wait_until_async};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::process;
use crate::server_process::{self, LiveServer};
use crate::support::{Figure, Goal, Report};
use crate::viewer_terminal::ViewerTerminal;

const NODES: usize = 50;
/// Duration of a turn.
pub(crate) const TURN_SECONDS: f64 = 5.0;
/// Time between two lines of output.
pub(crate) const PRINT_SECONDS: f64 = 0.5;
const WINDOW: Duration = Duration::from_secs(30);
/// Time without output after which no age on the screen has seconds.
const SILENCE: Duration = Duration::from_secs(3);
/// Deadline of the silence: ages have seconds for a minute.
const SILENCE_DEADLINE: Duration = Duration::from_secs(180);
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let server = LiveServer::start()?;
    let client = server.client().await?;
    let mut nodes = Vec::new();
    for number in 0..NODES {
        nodes.push(server_process::bash(&client, &format!("node-{number}"), "$ ").await?);
    }
    let mut command = server.home.command(env!("CARGO_BIN_EXE_nerve"));
    let mut terminal = ViewerTerminal::start(command.arg("top"))?;
    let pid = terminal.pid();
    let header = format!("{NODES} nodes");
    terminal.until(|screen| screen.text().contains(&header))?;
    let drawn = Drawn::default();
    let reader = drain(terminal, drawn.clone());

    eprintln!("daily: {NODES} busy nodes");
    let mut turns = JoinSet::new();
    for node in nodes {
        turns.spawn(work(node));
    }
    for number in 0..NODES {
        client.node(&format!("node-{number}"), None).wait(&[NodeState::Busy], Some(PATIENCE)).await?;
    }
    let busy = share(&pid, &drawn).await?;
    turns.shutdown().await;
    let goal = Goal::AtMost(1.0);
    report.goal(
        &format!("`nerve top`, {NODES} busy nodes: CPU"),
        &Figure::one(busy.cpu, "% of a core"),
        goal,
    );
    report.row("the same: bytes of output a second", &Figure::one(busy.bytes, ""));

    eprintln!("daily: {NODES} idle nodes");
    for number in 0..NODES {
        let node = client.node(&format!("node-{number}"), None);
        node.wait(&[NodeState::Ready], Some(PATIENCE)).await?;
    }
    wait_for_silence(&drawn).await?;
    let idle = share(&pid, &drawn).await?;
    let what = format!("`nerve top`, {NODES} idle nodes: CPU over {} s", WINDOW.as_secs());
    report.goal(&what, &Figure::one(idle.cpu, "% of a core"), Goal::AtMost(0.0));
    report.row("the same: bytes of output a second", &Figure::one(idle.bytes, ""));

    let process = rustix::process::Pid::from_raw(pid.parse()?).expect("a child's id is not 0");
    rustix::process::kill_process(process, rustix::process::Signal::TERM)?;
    ensure!(wait_until(PATIENCE, || reader.is_finished()), "`nerve top` does not end");
    Ok(())
}

/// Number of bytes that a program has written to its terminal.
type Drawn = Arc<AtomicU64>;

struct Share {
    /// Percent of a core.
    cpu: f64,
    /// Bytes of output a second.
    bytes: f64,
}

/// Runs turns until the task is aborted.
async fn work(node: RemoteNode) {
    let count = (TURN_SECONDS / PRINT_SECONDS) as u32;
    let turn = format!(
        "for step in $(seq {count}); do echo \"step $step of {count}: compiled, tested\"; sleep {PRINT_SECONDS}; done"
    );
    while node.execute(turn.as_str()).await.is_ok() {}
}

/// Reads the terminal until the program ends.
fn drain(mut terminal: ViewerTerminal, drawn: Drawn) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while let Ok(Some(_)) = terminal.next() {
            drawn.store(terminal.bytes(), Ordering::Relaxed);
        }
    })
}

/// Waits until nothing is drawn for [`SILENCE`]: the ages of the states are in minutes then.
async fn wait_for_silence(drawn: &Drawn) -> Result<()> {
    let mut last = (drawn.load(Ordering::Relaxed), Instant::now());
    let is_silent = async || {
        let bytes = drawn.load(Ordering::Relaxed);
        if bytes != last.0 {
            last = (bytes, Instant::now());
        }
        last.1.elapsed() >= SILENCE
    };
    ensure!(wait_until_async(SILENCE_DEADLINE, is_silent).await, "top draws although nothing changes");
    Ok(())
}

/// Measures a process for [`WINDOW`].
async fn share(pid: &str, drawn: &Drawn) -> Result<Share> {
    let read = || anyhow::Ok((process::cpu(pid)?, drawn.load(Ordering::Relaxed)));
    let before = read()?;
    sleep(WINDOW).await;
    let (after, seconds) = (read()?, WINDOW.as_secs_f64());
    Ok(Share { cpu: 100.0 * (after.0 - before.0) / seconds, bytes: (after.1 - before.1) as f64 / seconds })
}
