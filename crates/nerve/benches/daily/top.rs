//! CPU time of `nerve top` while nodes work, and while they do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, ensure};
use nerve_client::RemoteNode;
use nerve_testkit::wait_until;
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
/// After this time no age on the screen has seconds.
const MINUTE: Duration = Duration::from_secs(61);
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
    sleep(Duration::from_secs_f64(2.0 * TURN_SECONDS)).await;
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
        node.wait(&[nerve_api::value::NodeState::Ready], Some(PATIENCE)).await?;
    }
    sleep(MINUTE).await;
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

/// Measures a process for [`WINDOW`].
async fn share(pid: &str, drawn: &Drawn) -> Result<Share> {
    let read = || anyhow::Ok((process::cpu(pid)?, drawn.load(Ordering::Relaxed)));
    let before = read()?;
    sleep(WINDOW).await;
    let (after, seconds) = (read()?, WINDOW.as_secs_f64());
    Ok(Share { cpu: 100.0 * (after.0 - before.0) / seconds, bytes: (after.1 - before.1) as f64 / seconds })
}
