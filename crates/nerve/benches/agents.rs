//! The real agents: time from start to ready, and overhead of agent and nerve over the model's own time. With
//! `--table`, the compatibility table of agent versions instead: `cargo xtask agents`.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;
#[allow(dead_code, reason = "shared with the tests of nerve-engine, which use all of it")]
#[path = "../../nerve-engine/tests/trial/mod.rs"]
mod trial;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use nerve_testkit::find_agent;

use support::{Report, Samples};
use trial::{Row, VARIANTS, run_scenario, table};

/// Timed short answers per agent.
const TURNS: usize = 10;
/// Timeout of each step.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let only = arguments.iter().skip_while(|argument| *argument != "--only").nth(1);
    if arguments.iter().any(|argument| argument == "--table") {
        let rows = rows(only.map(String::as_str)).await?;
        println!("{}", table(&rows));
        for fault in rows.iter().flat_map(Row::faults) {
            eprintln!("{fault}\n");
        }
        return Ok(());
    }
    if support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "Real agents",
        &format!(
            "The pinned agents against the scripted model on loopback, nodes of an engine in this process, {TURNS} short turns each. \
             *start → ready*: from the command to the first ready state. *submit → request*: from the prompt given to nerve to the first \
             byte of the agent's request at the model. *last byte → reply*: from the model's last byte to the reply of nerve. What is \
             between the last two is the model's own time. No goals: most of it is the agents' own."
        ),
    );
    let rows = rows(None).await?;
    for row in &rows {
        let name = format!("{} {}", row.variant.title, row.version);
        let times = [
            ("start → ready", &row.times.ready),
            ("submit → request", &row.times.submit),
            ("last byte → reply", &row.times.reply),
        ];
        for (what, times) in times {
            let values = Samples::new(times.iter().map(|time| time.as_secs_f64() * 1000.0).collect());
            report.row(&format!("{name}, {what}"), &values.median("ms"));
        }
    }
    report.print();
    Ok(())
}

/// Measures all installed agents (or those whose name begins with `only`) one after the other.
async fn rows(only: Option<&str>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for variant in VARIANTS.iter().filter(|variant| only.is_none_or(|only| variant.name.starts_with(only))) {
        if find_agent(variant.agent).is_none() {
            eprintln!("{}: not installed", variant.title);
            continue;
        }
        eprintln!("{}", variant.title);
        rows.push(
            run_scenario(variant, TURNS, PATIENCE)
                .await
                .with_context(|| format!("cannot try {}", variant.name))?,
        );
    }
    if rows.is_empty() {
        bail!("no agent is installed in {}: cargo xtask setup", nerve_testkit::agents_dir().display());
    }
    Ok(rows)
}
