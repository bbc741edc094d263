//! Time that `nerve fan-out` adds to its agents.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Result, ensure};

use crate::server_process::{LiveServer, nerve};
use crate::support::{Goal, Report, Samples};
use crate::time;

pub(crate) const ATTEMPTS: usize = 3;
pub(crate) const TASK: &str = "sleep 1; echo done > made.txt";
const SHELL: &str = "bash --norc --noprofile";
const PAIRS: usize = 15;
/// Files of the repository.
const FILES: usize = 500;
/// Explains what the added time consists of.
pub(crate) const NOTE: &str = "\
    Fan-out: most of the added time is git's `git worktree add`, whose own time is in the row above it and follows the \
    load of the machine. nerve adds one worktree at a time, because git fails if it reads an incomplete one, and lets git \
    write the files of each on all cores.";

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let server = LiveServer::start()?;
    let repository = server.home.work().join("shop");
    create_repository(&server, &repository)?;
    let [mut direct, mut worktrees, mut through, mut added] = [const { Vec::new() }; 4];
    for pair in 1..=PAIRS {
        eprintln!("daily: fan-out, {pair} of {PAIRS}");
        let alone = time(|| run_directly(&server, &repository))?;
        fs::remove_file(repository.join("made.txt"))?;
        worktrees.push(time(|| add_worktrees(&server, &repository, pair))?);
        let name = format!("pair-{pair}");
        let attempts = ATTEMPTS.to_string();
        let start = ["fan-out", "-n", &attempts, "-c", SHELL, "--name", &name, TASK];
        let nerve = time(|| run_in(&server, &repository, &start))?;
        run_in(&server, &repository, &["fan-out", "clean", &name, "--discard"])?;
        direct.push(alone);
        through.push(nerve);
        added.push(nerve - alone);
    }
    report.row("fan-out: the commands directly", &Samples::new(direct).median("ms"));
    report.row(
        "fan-out: `git worktree add` for each attempt, one after another",
        &Samples::new(worktrees).median("ms"),
    );
    report.row("fan-out: `nerve fan-out`", &Samples::new(through).median("ms"));
    report.goal("fan-out: added", &Samples::new(added).median("ms"), Goal::AtMost(300.0));
    Ok(())
}

fn create_repository(server: &LiveServer, folder: &Path) -> Result<()> {
    fs::create_dir(folder)?;
    let identity = "[user]\nname = Me\nemail = me@example.org\n[init]\ndefaultBranch = main\n";
    fs::write(server.home.home().join(".gitconfig"), identity)?;
    for number in 0..FILES {
        let module = folder.join(format!("module-{}", number % 20));
        fs::create_dir_all(&module)?;
        fs::write(module.join(format!("{number}.rs")), "fn main() {}\n".repeat(100))?;
    }
    for arguments in
        [&["init", "--quiet"][..], &["add", "--all"], &["commit", "--quiet", "--message", "Begin"]]
    {
        server.home.git(folder, arguments);
    }
    Ok(())
}

/// Runs the task of all attempts at the same time, each in its own shell.
fn run_directly(server: &LiveServer, repository: &Path) -> Result<()> {
    let spawn = |_| {
        let mut command = server.home.command("bash");
        command.args(["--norc", "--noprofile", "-c", TASK]).current_dir(repository).stdin(Stdio::null());
        Ok(command.spawn()?)
    };
    let children: Vec<Child> = (0..ATTEMPTS).map(spawn).collect::<Result<_>>()?;
    for mut child in children {
        ensure!(child.wait()?.success(), "the task failed");
    }
    Ok(())
}

/// Creates as many worktrees as a fan-out does, one after another: at the same time, git may read an unfinished one and fail.
fn add_worktrees(server: &LiveServer, repository: &Path, pair: usize) -> Result<()> {
    for attempt in 0..ATTEMPTS {
        let name = format!("direct-{pair}-{attempt}");
        let folder = server.home.work().join(&name);
        let mut command = server.home.command("git");
        command.args(["worktree", "add", "--quiet", "-b", &name]).arg(folder).current_dir(repository);
        ensure!(command.stdin(Stdio::null()).status()?.success(), "git worktree add failed");
    }
    Ok(())
}

fn run_in(server: &LiveServer, folder: &Path, arguments: &[&str]) -> Result<()> {
    let output = nerve(&server.home, arguments).current_dir(folder).output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
