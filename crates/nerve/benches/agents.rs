//! The real agents: time from start to ready, and overhead of agent and nerve over the model's own time. `cargo xtask matrix` runs the
//! scenarios through this program: `--cell VARIANT COLSxROWS [SCENARIO …]`.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[allow(dead_code, reason = "shared with the tests, none uses all of it")]
#[path = "../tests/agent_scenarios/mod.rs"]
mod agent_scenarios;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use nerve_testkit::find_agent;
use serde_json::json;

use agent_scenarios::{Cell, Scenario, VARIANTS, Verdict};
use support::{Report, Samples};

/// Timed short answers per agent.
const TURNS: usize = 10;
/// Timeout of each step.
const PATIENCE: Duration = Duration::from_secs(120);
/// Timeout of each step of a cell of the matrix.
const STEP: Duration = Duration::from_secs(90);

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--list"] => list(),
        ["--cell", variant, size, ref scenarios @ ..] => run_cell(variant, size, scenarios).await,
        ["--answers", variant, count] => time_answers(variant, count.parse()?).await,
        ["--starts", variant, count, at_once] => start_nodes(variant, count.parse()?, at_once.parse()?).await,
        _ if support::is_debug_build() => Ok(()),
        _ => report().await,
    }
}

/// Prints the variants and the scenarios, each as a line of JSON.
fn list() -> Result<()> {
    for variant in &VARIANTS {
        println!("{}", json!({"variant": variant.name, "agent": variant.agent, "title": variant.title}));
    }
    for scenario in Scenario::ALL {
        println!("{}", json!({"scenario": scenario.title(), "depends_on_size": scenario.depends_on_size()}));
    }
    Ok(())
}

async fn cell(name: &str, size: &str) -> Result<Cell> {
    let variant = VARIANTS.iter().find(|variant| variant.name == name);
    let variant = variant.with_context(|| format!("unknown variant '{name}'"))?;
    let (cols, rows) = size.split_once('x').context("a size is COLSxROWS")?;
    Ok(Cell::new(variant, (cols.parse()?, rows.parse()?), STEP).await?)
}

/// Runs scenarios and prints each result as a line of JSON as soon as it is known.
async fn run_cell(variant: &str, size: &str, names: &[&str]) -> Result<()> {
    let mut cell = cell(variant, size).await?;
    println!("{}", json!({"version": cell.version().await}));
    for scenario in Scenario::ALL {
        let title = scenario.title();
        if scenario != Scenario::Ready && !names.contains(&title.as_str()) {
            continue;
        }
        let (verdict, note) = match cell.run(scenario).await {
            Verdict::Passed => ("passed", String::new()),
            Verdict::Partial(note) => ("partial", note),
            Verdict::Failed(note) => ("failed", note),
            Verdict::Skipped(note) => ("skipped", note),
        };
        println!("{}", json!({"scenario": title, "verdict": verdict, "note": note}));
    }
    cell.stop().await;
    Ok(())
}

/// Times answers of one agent; none may end early.
async fn time_answers(variant: &str, count: usize) -> Result<()> {
    let mut cell = cell(variant, "120x40").await?;
    if let Verdict::Failed(reason) = cell.run(Scenario::Ready).await {
        bail!(reason);
    }
    let outcome = cell.time_answers(count).await;
    cell.stop().await;
    let mut times: Vec<u128> = cell.times.reply.iter().map(Duration::as_millis).collect();
    times.sort_unstable();
    let Some(last) = times.len().checked_sub(1) else { bail!("no answer was timed") };
    let at = |percent: usize| times[(times.len() * percent / 100).min(last)];
    println!(
        "{variant}: {} answers, last byte → reply p50 {} ms, p99 {} ms, {}",
        times.len(),
        at(50),
        at(99),
        outcome.map_or_else(|fault| fault, |()| "0 premature".to_string())
    );
    Ok(())
}

/// Creates nodes in groups, each node with a prompt before it is ready.
async fn start_nodes(variant: &str, count: usize, at_once: usize) -> Result<()> {
    if at_once == 0 || !count.is_multiple_of(at_once) {
        bail!("COUNT must be a multiple of AT_ONCE");
    }
    let mut cell = cell(variant, "120x40").await?;
    let mut faults = Vec::new();
    for _ in 0..count / at_once {
        faults.extend(cell.start_nodes(at_once).await.err());
    }
    println!("{variant}: {count} nodes, {at_once} at once, {} groups with faults", faults.len());
    println!("{}", faults.join("\n"));
    Ok(())
}

/// Prints the benchmark of the pinned agents.
async fn report() -> Result<()> {
    let mut report = Report::new(
        "Real agents",
        &format!(
            "The pinned agents against the scripted model on loopback, nodes of an engine in this process, {TURNS} short turns each. \
             *start → ready*: from the command to the first ready state. *submit → request*: from the prompt given to nerve to the first \
             byte of the agent's request at the model. *last byte → reply*: from the model's last byte to the reply of nerve. What is \
             between the last two is the model's own time. No goals: most of it is the agents' own."
        ),
    );
    let installed = VARIANTS.iter().filter(|variant| find_agent(variant.agent).is_some());
    for variant in installed {
        eprintln!("{}", variant.title);
        let mut cell = Cell::new(variant, (120, 40), PATIENCE).await?;
        let version = cell.version().await.unwrap_or_else(|| "?".to_string());
        if let Verdict::Failed(reason) = cell.run(Scenario::Ready).await {
            bail!("{}: {reason}", variant.title);
        }
        let timed = cell.time_answers(TURNS).await;
        cell.stop().await;
        if let Err(fault) = timed {
            bail!("{}: {fault}", variant.title);
        }
        let times = [
            ("start → ready", &cell.times.ready),
            ("submit → request", &cell.times.submit),
            ("last byte → reply", &cell.times.reply),
        ];
        for (what, times) in times {
            let values = Samples::new(times.iter().map(|time| time.as_secs_f64() * 1000.0).collect());
            report.row(&format!("{} {version}, {what}", variant.title), &values.median("ms"));
        }
    }
    report.print();
    Ok(())
}
