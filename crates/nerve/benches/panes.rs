//! Nodes with a window in a pane of tmux or WezTerm compared with nodes without a window and with libtmux; forks of the
//! real Claude Code; the cost of a stored conversation.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[path = "support/process.rs"]
#[allow(dead_code, reason = "shared by several benchmarks, none uses all of it")]
mod process;
#[path = "support/server_process.rs"]
mod server_process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use nerve_api::request::{CommandLine, ConversationOptions, CreateNode, ExecuteInput};
use nerve_api::value::{BackendKind, NodeState};
use nerve_client::RemoteNode;
use nerve_testkit::mock_model::{Script, serve};
use nerve_testkit::{Renderer, find_agent, wait_until};

use server_process::LiveServer;
use support::{Figure, Goal, Report, Samples};

const RUNS: usize = 5;
const TURNS: usize = 40;
const PANES: usize = 20;
const FORKS: usize = 5;
const TALKS: usize = 15;
/// Observation time of idle windows.
const IDLE: Duration = Duration::from_secs(10);
const PROMPT: &str = "BENCH> ";
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "Windows in panes",
        &format!(
            "{TURNS} sequential turns `echo N` on bash, {RUNS} runs by each in turn: without a window, and with a window in a pane of \
             tmux, over the same server. In both cases the program runs in the node's host; the pane runs `nerve attach`, which shows \
             it. libtmux: the same bash in a pane, `send-keys`, then `capture-pane` without a pause until the known prompt stands \
             there again. A stand-in that keeps WezTerm's observed contract takes WezTerm's place. It only opens and closes the \
             panes, so `wezterm cli` has no part in a turn; *from the last byte* is from a time that the program prints at its end \
             to the reply. Idle: CPU time of the server, of the hosts, of the viewers in the panes, of tmux or the stand-in, and of \
             all commands that were run, by window, over {} s. Nodes over existing panes are not measured.",
            IDLE.as_secs()
        ),
    );
    tmux(&mut report).await?;
    wezterm(&mut report).await?;
    report.print();
    let mut report = Report::new(
        "Forks and conversations",
        &format!(
            "Forks of the real Claude Code, the model scripted, on loopback: FORK_NODE after one turn, {FORKS} times. Conversations: \
             turns of a `bash` node, {TALKS} with a chat of 100 messages of 10 KB each, which is read before and written after each \
             turn, and {TALKS} without, in turn."
        ),
    );
    forks(&mut report).await?;
    conversations(&mut report).await?;
    report.print();
    Ok(())
}

async fn forks(report: &mut Report) -> Result<()> {
    let Some(claude) = find_agent("claude") else {
        report.note("Claude Code is not installed here: `cargo xtask setup` installs it.");
        return Ok(());
    };
    let server = LiveServer::start()?;
    let client = server.client().await?;
    let model = serve("127.0.0.1:0".parse()?, Script::default()).await?;
    let recipe = server.home.claude(&server.home.work(), &model.url(), Renderer::Classic)?;
    let mut params = CreateNode::new("claude");
    let program = claude.display().to_string();
    params.command =
        Some(CommandLine::Argv([program].into_iter().chain(recipe.argv.into_iter().skip(1)).collect()));
    params.cwd = Some(server.home.work());
    params.env = recipe.env.into_iter().collect();
    let start = Instant::now();
    let node = client.create_node(&params).await?;
    node.wait(&[NodeState::Ready], Some(PATIENCE)).await?;
    let fresh = start.elapsed().as_secs_f64() * 1e3;
    node.execute(limited("hello")).await?;
    let (mut answered, mut ready) = (Vec::new(), Vec::new());
    for number in 0..FORKS {
        let start = Instant::now();
        let fork = node.fork(&format!("fork-{number}")).await?;
        answered.push(start.elapsed().as_secs_f64() * 1e3);
        fork.wait(&[NodeState::Ready], Some(PATIENCE)).await?;
        ready.push(start.elapsed().as_secs_f64() * 1e3);
        fork.stop().await?;
    }
    report.row("FORK_NODE to reply: the program runs", &Samples::new(answered).median("ms"));
    report.row("from FORK_NODE to ready", &Samples::new(ready).median("ms"));
    report.row("for comparison, a fresh Claude Code from CREATE_NODE to ready", &Figure::one(fresh, "ms"));
    Ok(())
}

async fn conversations(report: &mut Report) -> Result<()> {
    let server = LiveServer::start()?;
    let client = server.client().await?;
    let folder = server.home.nerve_home().join("conversations/bench");
    fs::create_dir_all(&folder)?;
    let long = |at| serde_json::json!({ "role": "user", "content": format!("{at} {}", "word ".repeat(2_000)), "timestamp": at });
    let chat: Vec<serde_json::Value> = (0..100).map(long).collect();
    fs::write(folder.join("long.json"), serde_json::to_vec(&chat)?)?;
    let mut params = CreateNode::new("b");
    params.backend = BackendKind::Bash;
    let node = client.create_node(&params).await?;
    let conversation = ConversationOptions {
        workspace: Some("bench".to_string()),
        chat: Some("long".to_string()),
        ..ConversationOptions::default()
    };
    let kept = ExecuteInput { conversation: Some(conversation), ..limited("true") };
    let (mut plain, mut more) = (Vec::new(), Vec::new());
    for _ in 0..TALKS {
        let start = Instant::now();
        node.execute(limited("true")).await?;
        let without = start.elapsed().as_secs_f64() * 1e3;
        plain.push(without);
        let start = Instant::now();
        node.execute(kept.clone()).await?;
        more.push(start.elapsed().as_secs_f64() * 1e3 - without);
    }
    report.row("a turn without a conversation", &Samples::new(plain).median("ms"));
    let more = Samples::new(more);
    report.goal("a kept conversation of 1 MB adds", &more.median("ms"), Goal::AtMost(50.0));
    Ok(())
}

async fn tmux(report: &mut Report) -> Result<()> {
    let server = LiveServer::start()?;
    let client = server.client().await?;
    let tmux = Tmux(server.home.root().join("tmux"));
    let libtmux = python_with_libtmux();
    let (mut own, mut pane, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    let mut wrong = 0;
    for run in 1..=RUNS {
        eprintln!("panes: run {run} of {RUNS}");
        let node = server_process::bash(&client, &format!("own-{run}"), PROMPT).await?;
        own.push(turns(&node, &mut wrong).await?);
        let node =
            server_process::bash_in(&client, &format!("pane-{run}"), PROMPT, |params| tmux.place(params))
                .await?;
        pane.push(turns(&node, &mut wrong).await?);
        if let Some(python) = &libtmux {
            peer.push(by_libtmux(python, &tmux.0)?);
        }
    }
    let more = own.iter().zip(&pane).map(|(own, pane)| (pane / own - 1.0) * 100.0).collect();
    report.row("no window: median of a turn", &Samples::new(own).median("ms"));
    report.row("window in tmux: median of a turn", &Samples::new(pane.clone()).median("ms"));
    report.goal("added by the window in tmux", &Samples::new(more).median("%"), Goal::AtMost(10.0));
    if peer.is_empty() {
        report.note("libtmux is not installed here: `cargo xtask setup` installs it.");
    } else {
        let ratios = pane.iter().zip(&peer).map(|(pane, peer)| pane / peer).collect();
        report.row("libtmux: median of a turn", &Samples::new(peer).median("ms"));
        report.row("window in tmux / libtmux, medians", &Samples::new(ratios).median("×"));
    }
    let what = format!("wrong answers of {}", 2 * RUNS * TURNS);
    report.goal(&what, &Figure::one(wrong as f64, ""), Goal::AtMost(0.0));
    for number in 0..PANES {
        server_process::bash_in(&client, &format!("idle-{number}"), PROMPT, |params| tmux.place(params))
            .await?;
    }
    let who = format!("CPU of each of {PANES} idle windows in tmux");
    report.row(&who, &Figure::one(idle(&server).await? * 100.0, "% of a core"));
    Ok(())
}

async fn wezterm(report: &mut Report) -> Result<()> {
    let Some(program) = stand_in() else {
        report.note("The stand-in for WezTerm is not built here: `cargo build -p nerve-testkit --example fake_wezterm`.");
        return Ok(());
    };
    let server = LiveServer::start_with(&[("NERVE_WEZTERM", &program)])?;
    let client = server.client().await?;
    let mux = Mux::start(&server, &program)?;
    let node = server_process::bash_in(&client, "wez", PROMPT, |params| mux.place(params)).await?;
    let mut times = Vec::new();
    for number in 1..=2 * TURNS {
        let answer = node.execute(limited(format!("sleep 0.{}; date +%s%N", number % 10))).await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let ended: f64 = answer.response.text.trim().parse().context("not the time that was printed")?;
        times.push(now.as_secs_f64() * 1e3 - ended / 1e6);
    }
    let times = Samples::new(times);
    report.row("window in WezTerm (stand-in): from the last byte to the reply", &times.median("ms"));
    let slowest = Figure::one(times.quantile(0.99), "ms");
    report.goal(
        "window in WezTerm (stand-in): from the last byte to the reply, p99",
        &slowest,
        Goal::AtMost(250.0),
    );
    for number in 0..PANES {
        server_process::bash_in(&client, &format!("idle-{number}"), PROMPT, |params| mux.place(params))
            .await?;
    }
    let who = format!("CPU of each of {PANES} idle windows in WezTerm (stand-in)");
    report.goal(&who, &Figure::one(idle(&server).await? * 100.0, "% of a core"), Goal::AtMost(1.0));
    Ok(())
}

/// A separate tmux server, stopped on drop.
struct Tmux(PathBuf);

impl Tmux {
    fn place(&self, params: &mut CreateNode) {
        params.backend = BackendKind::Tmux;
        params.socket = Some(self.0.display().to_string());
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // The server may have ended with its last pane.
        let _ = Command::new("tmux").arg("-S").arg(&self.0).arg("kill-server").output();
    }
}

/// Returns the WezTerm stand-in of any build profile.
fn stand_in() -> Option<PathBuf> {
    let target = std::env::current_exe().ok()?.ancestors().nth(3)?.to_path_buf();
    let example = |build: &str| target.join(build).join("examples/fake_wezterm");
    ["release", "debug"].map(example).into_iter().find(|program| program.exists())
}

/// A server of the stand-in, stopped with its panes on drop.
struct Mux {
    server: Child,
    socket: PathBuf,
}

impl Mux {
    fn start(server: &LiveServer, program: &Path) -> Result<Mux> {
        let socket = server.home.root().join("wezterm");
        let mut command = server.home.command(program);
        command.arg("mux-server").env("WEZTERM_UNIX_SOCKET", &socket).stdin(Stdio::piped());
        let mux = Mux { server: command.spawn()?, socket };
        let listens = || std::os::unix::net::UnixStream::connect(&mux.socket).is_ok();
        ensure!(wait_until(PATIENCE, listens), "the stand-in does not listen");
        Ok(mux)
    }

    fn place(&self, params: &mut CreateNode) {
        params.backend = BackendKind::Wezterm;
        params.socket = Some(self.socket.display().to_string());
    }
}

impl Drop for Mux {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn limited(text: impl Into<ExecuteInput>) -> ExecuteInput {
    ExecuteInput { timeout: Some(PATIENCE.into()), ..text.into() }
}

/// Returns the median turn in milliseconds, and stops the node.
async fn turns(node: &RemoteNode, wrong: &mut usize) -> Result<f64> {
    let mut times = Vec::with_capacity(TURNS);
    for number in 1..=TURNS {
        let start = Instant::now();
        let answer = node.execute(limited(format!("echo {number}"))).await?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        *wrong += usize::from(answer.response.text != number.to_string());
    }
    node.stop().await?;
    Ok(Samples::new(times).quantile(0.5))
}

fn by_libtmux(python: &Path, socket: &Path) -> Result<f64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/libtmux_turns.py");
    let output = Command::new(python).arg(script).arg(TURNS.to_string()).arg(socket).output()?;
    ensure!(output.status.success(), "libtmux: {}", String::from_utf8_lossy(&output.stderr));
    let mut times = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let (microseconds, right) = line.split_once(' ').context("libtmux's output is not as expected")?;
        ensure!(right == "1", "libtmux: a wrong answer");
        times.push(microseconds.parse::<f64>()? / 1e3);
    }
    ensure!(times.len() == TURNS, "libtmux did {} turns", times.len());
    Ok(Samples::new(times).quantile(0.5))
}

/// Returns an interpreter with libtmux. Only Debian's has Debian's packages, and another `python3` may precede it in PATH.
fn python_with_libtmux() -> Option<PathBuf> {
    let has_libtmux = |python: &PathBuf| {
        let check = Command::new(python).args(["-c", "import libtmux"]).output();
        check.is_ok_and(|output| output.status.success())
    };
    ["python3", "/usr/bin/python3"].map(PathBuf::from).into_iter().find(has_libtmux)
}

/// Returns the share of a core that each idle window costs: the CPU time of everything that runs in the server's home.
async fn idle(server: &LiveServer) -> Result<f64> {
    let home = server.home.root().display().to_string();
    let before = spent(&home)?;
    tokio::time::sleep(IDLE).await;
    Ok((spent(&home)? - before) / IDLE.as_secs_f64() / PANES as f64)
}

/// CPU seconds of all processes that were started in that home, and of their children that have ended.
fn spent(home: &str) -> Result<f64> {
    let mut sum = 0.0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // Others' processes, and those that have ended meanwhile.
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if String::from_utf8_lossy(&environment).contains(home) {
            sum += process::cpu(&name).unwrap_or(0.0) + process::cpu_of_children(&name).unwrap_or(0.0);
        }
    }
    Ok(sum)
}
