//! 100 turns `echo N` on a bash node through the Unix socket, compared with pexpect and with bash itself.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[path = "support/server_process.rs"]
mod server_process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nerve_api::request::ExecuteInput;
use nerve_client::NerveClient;
use nerve_host::backend::Program;
use nerve_host::backend::pty::Pty;
use nerve_types::Size;

use server_process::LiveServer;
use support::{Figure, Goal, Report, Samples};

const RUNS: usize = 7;
const TURNS: usize = 100;
const PROMPT_RUNS: usize = 3;

/// Prompts: without the usual ending, empty, of two lines, and different each time.
const PROMPTS: [(&str, &str); 4] = [
    ("`me: `", "me: "),
    ("without text", ""),
    ("of two lines that ends in a bracket", "\n[\\w]\n(100%)"),
    ("that changes each turn", "$RANDOM \\# $EPOCHREALTIME ~ "),
];

#[tokio::main]
async fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "Turns",
        &format!(
            "{TURNS} sequential turns `echo N`, {RUNS} runs by each in turn. nerve: a client, the Unix \
             socket of a `nerve server`, a node over bash, the audit log on; nerve does not know the prompt. \
             pexpect: the same bash with an exactly known prompt, `delaybeforesend` off; *without \
             waits*: `delayafterread` off too. *bash itself*: a bare loop on the terminal that knows the \
             prompt: the lower bound. A value is the median, or the 99th percentile, of a run."
        ),
    );
    let server = LiveServer::start()?;
    let client = server.client().await?;
    let mut nerve = Runs::default();
    let (mut pexpect, mut hasty) = (Runs::default(), Runs::default());
    let mut floor = Runs::default();
    let python = python_with_pexpect();
    for run in 1..=RUNS {
        eprintln!("turns: run {run} of {RUNS}");
        nerve.add(by_nerve(&client, &format!("run-{run}"), "BENCH> ").await?);
        if let Some(python) = &python {
            pexpect.add(by_pexpect(python, &[])?);
            hasty.add(by_pexpect(python, &["--no-waits"])?);
        }
        floor.add(by_hand().await?);
    }
    nerve.rows(&mut report, "nerve", Some(Goal::AtMost(3.0)));
    if python.is_some() {
        pexpect.rows(&mut report, "pexpect", None);
        hasty.rows(&mut report, "pexpect without waits", None);
        report.goal("nerve / pexpect, medians", &nerve.ratio(&pexpect), Goal::AtMost(1.5));
        report.row("nerve / pexpect without waits, medians", &nerve.ratio(&hasty));
    } else {
        report.note("pexpect is not installed here: `cargo xtask setup` installs it.");
    }
    floor.rows(&mut report, "bash itself", None);
    let mut wrong = 0;
    for (at, (what, prompt)) in PROMPTS.iter().enumerate() {
        let mut runs = Runs::default();
        for run in 0..PROMPT_RUNS {
            runs.add(by_nerve(&client, &format!("prompt-{at}-{run}"), prompt).await?);
        }
        let median = Samples::new(runs.medians).median("ms");
        report.goal(&format!("nerve, prompt {what}: median"), &median, Goal::AtMost(3.0));
        wrong += runs.wrong;
    }
    let what = format!("nerve, these prompts: wrong answers of {}", PROMPTS.len() * PROMPT_RUNS * TURNS);
    report.goal(&what, &Figure::one(wrong as f64, ""), Goal::AtMost(0.0));
    report.print();
    Ok(())
}

/// Result of a run: milliseconds per turn, and the number of wrong answers.
type Run = (Vec<f64>, usize);

#[derive(Default)]
struct Runs {
    medians: Vec<f64>,
    tails: Vec<f64>,
    wrong: usize,
}

impl Runs {
    fn add(&mut self, (times, wrong): Run) {
        let times = Samples::new(times);
        self.medians.push(times.quantile(0.5));
        self.tails.push(times.quantile(0.99));
        self.wrong += wrong;
    }

    /// Returns the ratios of the medians, run by run.
    fn ratio(&self, other: &Runs) -> Figure {
        let ratios = self.medians.iter().zip(&other.medians).map(|(a, b)| a / b).collect();
        Samples::new(ratios).median("×")
    }

    fn rows(&self, report: &mut Report, name: &str, goal: Option<Goal>) {
        let median = Samples::new(self.medians.clone()).median("ms");
        match goal {
            Some(goal) => report.goal(&format!("{name}: median"), &median, goal),
            None => report.row(&format!("{name}: median"), &median),
        }
        report.row(&format!("{name}: p99"), &Samples::new(self.tails.clone()).median("ms"));
        let turns = self.medians.len() * TURNS;
        let wrong = Figure::one(self.wrong as f64, "");
        report.goal(&format!("{name}: wrong answers of {turns}"), &wrong, Goal::AtMost(0.0));
    }
}

async fn by_nerve(client: &NerveClient, id: &str, prompt: &str) -> Result<Run> {
    let node = server_process::bash(client, id, prompt).await?;
    let timeout = Some(Duration::from_secs(10).into());
    let (mut times, mut wrong) = (Vec::with_capacity(TURNS), 0);
    for number in 1..=TURNS {
        let start = Instant::now();
        let answer = node.execute(ExecuteInput { timeout, ..format!("echo {number}").into() }).await?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        if answer.response.text != number.to_string() {
            wrong += 1;
            eprintln!("{id}: turn {number} was answered {:?}", answer.response.text);
        }
    }
    node.stop().await?;
    Ok((times, wrong))
}

fn by_pexpect(python: &Path, options: &[&str]) -> Result<Run> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/pexpect_turns.py");
    let output = Command::new(python).arg(script).arg(TURNS.to_string()).args(options).output()?;
    ensure!(output.status.success(), "pexpect: {}", String::from_utf8_lossy(&output.stderr));
    let (mut times, mut wrong) = (Vec::new(), 0);
    for line in String::from_utf8(output.stdout)?.lines() {
        let (microseconds, right) = line.split_once(' ').context("pexpect's output is not as expected")?;
        times.push(microseconds.parse::<f64>()? / 1e3);
        wrong += usize::from(right != "1");
    }
    ensure!(times.len() == TURNS, "pexpect did {} turns", times.len());
    Ok((times, wrong))
}

/// Returns an interpreter with pexpect. Only Debian's has Debian's packages, and another `python3` may precede it in PATH.
fn python_with_pexpect() -> Option<PathBuf> {
    let has_pexpect = |python: &PathBuf| {
        let check = Command::new(python).args(["-c", "import pexpect"]).output();
        check.is_ok_and(|output| output.status.success())
    };
    ["python3", "/usr/bin/python3"].map(PathBuf::from).into_iter().find(has_pexpect)
}

async fn by_hand() -> Result<Run> {
    const PROMPT: &[u8] = b"BENCH> ";
    let program = Program {
        argv: ["bash", "--norc", "--noprofile"].map(String::from).to_vec(),
        cwd: None,
        env: BTreeMap::from([("PS1".to_string(), "BENCH> ".to_string())]),
        env_remove: vec!["PROMPT_COMMAND".to_string(), "PS0".to_string()],
    };
    let mut pty = Pty::spawn(&program, Size::default())?;
    let mut seen = Vec::new();
    while !seen.ends_with(PROMPT) {
        ensure!(pty.output.read(&mut seen).await? > 0, "bash ended");
    }
    let (mut times, mut wrong) = (Vec::with_capacity(TURNS), 0);
    for number in 1..=TURNS {
        seen.clear();
        let start = Instant::now();
        ensure!(pty.input.push(format!("echo {number}\r").as_bytes()), "bash does not read");
        while pty.input.pending() > 0 {
            pty.input.flush().await?;
        }
        while !seen.ends_with(PROMPT) {
            ensure!(pty.output.read(&mut seen).await? > 0, "bash ended");
        }
        times.push(start.elapsed().as_secs_f64() * 1e3);
        let right = String::from_utf8_lossy(&seen).contains(&format!("\r{number}\r\n"));
        wrong += usize::from(!right);
    }
    ensure!(pty.input.push(b"exit\r"), "bash does not read");
    pty.input.flush().await?;
    pty.child.wait().await;
    Ok((times, wrong))
}
