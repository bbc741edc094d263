//! Overhead of a graph: steps that do nothing, sequential, parallel and nested; with a journal, with a trace, and
//! resumed.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nerve_graph::context::RunContext;
use nerve_graph::function::FunctionNode;
use nerve_graph::journal::{Header, Journal};
use nerve_graph::session::Session;
use nerve_graph::trace::{TraceStatus, Tracer};
use nerve_graph::{Graph, step::Step};
use nerve_node::NodeHandle;
use nerve_types::TsNs;
use serde_json::{Value, json};

use support::{Figure, Goal, Report, Samples};

/// Goal for one step.
const GOAL_US: f64 = 1.0;
const WIDE: usize = 1000;
const DEEP: usize = 10;
/// Steps of the graph that is traced, and of the journal that is resumed.
const TRACED: usize = 100;
const RESUMED: usize = 100_000;
/// Runs per size, and their minimum total of steps.
const RUNS: usize = 7;
const STEPS: usize = 100_000;

#[tokio::main]
async fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "Graphs",
        &format!(
            "Steps of a function that returns null, in a process without a server: the figures show the overhead of the graph. A run lasts \
             from the call to its results, including the check of the graph but not its construction. A small graph is run repeatedly, \
             {STEPS} steps in all, and a sample is the mean of these runs. *Linear*: the time per step of the largest graph divided by \
             that of the smallest; the memory of a million steps and results exceeds the processor's caches. *Tracing*: \
             {TRACED} steps with and without a trace, in turn, 400 pairs; the figure is of the medians. The journal is on the disk \
             of this machine, and its last record is written before a run counts as ended."
        ),
    );
    sizes(&mut report).await?;
    shapes(&mut report).await?;
    tracing(&mut report).await?;
    resume(&mut report).await?;
    report.print();
    Ok(())
}

/// Measures 10³ to 10⁶ steps, without and with a journal.
async fn sizes(report: &mut Report) -> Result<()> {
    let mut medians = Vec::new();
    for steps in [1_000, 10_000, 100_000, 1_000_000] {
        let samples = repeated(&row(steps)?, steps, None).await?;
        medians.push(samples.quantile(0.5));
        report.goal(&format!("{steps} steps in a row, a step"), &samples.median("µs"), Goal::AtMost(GOAL_US));
    }
    if let (Some(least), Some(most)) = (medians.first(), medians.last()) {
        report.row("linear: a step of 1000000 / a step of 1000", &Figure::one(most / least, "×"));
    }
    let folder = tempfile::tempdir()?;
    for steps in [1_000, 10_000, 100_000, 1_000_000] {
        let samples = repeated(&row(steps)?, steps, Some(folder.path())).await?;
        let what = format!("{steps} steps in a row, journal on, a step");
        report.goal(&what, &samples.median("µs"), Goal::AtMost(GOAL_US));
    }
    Ok(())
}

/// Measures parallel and nested steps.
async fn shapes(report: &mut Report) -> Result<()> {
    let mut wide = Graph::new("wide");
    wide.set_max_parallel(WIDE);
    for step in 0..WIDE {
        wide.add_step(nothing(), Step::new(step.to_string()))?;
    }
    let samples = repeated(&wide, WIDE, None).await?;
    report.goal(&format!("{WIDE} parallel steps, a step"), &samples.median("µs"), Goal::AtMost(GOAL_US));

    let yields: NodeHandle = Arc::new(FunctionNode::asynchronous("yields", |_| async {
        tokio::task::yield_now().await;
        Ok(Value::Null)
    }));
    let mut waiting = Graph::new("waiting");
    waiting.set_max_parallel(WIDE);
    for step in 0..WIDE {
        waiting.add_step(yields.clone(), Step::new(step.to_string()))?;
    }
    let samples = repeated(&waiting, WIDE, None).await?;
    report.row(&format!("{WIDE} parallel steps, each yields once, a step"), &samples.median("µs"));

    let mut deep = row(100)?;
    for level in 1..DEEP {
        let mut outer = Graph::new(format!("level-{level}"));
        outer.add_step(Arc::new(deep), Step::new("inner"))?;
        deep = outer;
    }
    let steps = 100 + DEEP - 1;
    let samples = repeated(&deep, steps, None).await?;
    report.goal(
        &format!("100 steps nested {DEEP} deep, a step"),
        &samples.median("µs"),
        Goal::AtMost(GOAL_US),
    );
    let mut nested = row(1)?;
    for level in 1..DEEP {
        let mut outer = Graph::new(format!("level-{level}"));
        outer.add_step(Arc::new(nested), Step::new("inner"))?;
        nested = outer;
    }
    let samples = repeated(&nested, DEEP, None).await?;
    report.row(&format!("one step nested {DEEP} deep, a graph"), &samples.median("µs"));
    Ok(())
}

/// Measures with and without a trace, in turn.
async fn tracing(report: &mut Report) -> Result<()> {
    let graph = row(TRACED)?;
    let (mut bare, mut traced) = (Vec::new(), Vec::new());
    for pair in 0..400 {
        // The order alternates, so that warm-up costs favour neither.
        for with_trace in [pair % 2 == 0, pair % 2 != 0] {
            let with = |context: RunContext| match with_trace {
                true => context.with_trace(Tracer::new("row")),
                false => context,
            };
            // Several per measurement: one takes less than the clock resolves.
            let contexts: Vec<RunContext> = (0..10).map(|_| with(context())).collect();
            let start = Instant::now();
            for context in &contexts {
                completed(&graph, context, TRACED).await?;
            }
            let each = start.elapsed().as_secs_f64() * 1e6 / 10.0;
            if with_trace { traced.push(each) } else { bare.push(each) }
        }
    }
    let (bare, traced) = (Samples::new(bare), Samples::new(traced));
    report.row(&format!("{TRACED} steps, no trace"), &bare.median("µs"));
    report.row(&format!("{TRACED} steps, traced"), &traced.median("µs"));
    let (bare, traced) = (bare.quantile(0.5), traced.quantile(0.5));
    report.row("tracing, a step", &Figure::one((traced - bare) * 1e3 / TRACED as f64, "ns"));
    let share = Figure::one((traced / bare - 1.0) * 100.0, "%");
    report.goal("tracing, share of a step that does nothing", &share, Goal::AtMost(5.0));
    Ok(())
}

/// Measures resuming from a journal of completed steps.
async fn resume(report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.jsonl");
    let graph = row(RESUMED)?;
    let context = context().with_journal(Journal::create(&path, &head())?, None);
    completed(&graph, &context, RESUMED).await?;
    drop(context);
    let (mut reading, mut all) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let start = Instant::now();
        let (journal, past) = Journal::resume(&path)?;
        reading.push(start.elapsed().as_secs_f64());
        ensure!(past.result_count() == RESUMED, "the journal lacks results");
        let context = self::context().with_journal(journal, Some(past));
        completed(&graph, &context, RESUMED).await?;
        drop(context);
        all.push(start.elapsed().as_secs_f64());
    }
    let size = path.metadata()?.len() as f64 / f64::from(1 << 20);
    report.row(&format!("journal of {RESUMED} steps"), &Figure::one(size, "MiB"));
    report.row(&format!("journal of {RESUMED} steps, read"), &Samples::new(reading).median("s"));
    let what = format!("journal of {RESUMED} steps, resumed to the end");
    report.goal(&what, &Samples::new(all).median("s"), Goal::AtMost(1.0));
    Ok(())
}

/// Returns a node that does nothing.
fn nothing() -> NodeHandle {
    Arc::new(FunctionNode::new("nothing", |_| Ok(Value::Null)))
}

/// Returns a graph of sequential steps.
fn row(steps: usize) -> Result<Graph> {
    let (node, mut graph) = (nothing(), Graph::new("row"));
    for step in 0..steps {
        let before = step.checked_sub(1).map(|before| before.to_string());
        graph.add_step(node.clone(), Step::new(step.to_string()).depends_on(before))?;
    }
    Ok(graph)
}

fn context() -> RunContext {
    RunContext::new(&Session::new("bench"))
}

fn head() -> Header {
    Header {
        at: TsNs(0),
        run: "r-bench".into(),
        graph: "row".into(),
        session: None,
        definition: json!({}),
        input: Value::Null,
        options: json!({}),
    }
}

/// Returns microseconds per step for each sample.
async fn repeated(graph: &Graph, steps: usize, journals: Option<&Path>) -> Result<Samples> {
    let times = (STEPS / steps).max(1);
    let mut samples = Vec::new();
    // The first sample is a warm-up.
    for sample in 0..=RUNS {
        let mut took = Duration::ZERO;
        for time in 0..times {
            let path = journals.map(|folder| folder.join(format!("{steps}-{sample}-{time}.jsonl")));
            let mut context = context();
            if let Some(path) = &path {
                context = context.with_journal(Journal::create(path, &head())?, None);
            }
            let start = Instant::now();
            completed(graph, &context, steps).await?;
            // Writes the rest of the journal.
            drop(context);
            took += start.elapsed();
            if let Some(path) = &path {
                std::fs::remove_file(path)?;
            }
        }
        samples.push(took.as_secs_f64() * 1e6 / (steps * times) as f64);
    }
    Ok(Samples::new(samples.split_off(1)))
}

async fn completed(graph: &Graph, context: &RunContext, steps: usize) -> Result<()> {
    let run = graph.run(context).await;
    if let Some(error) = run.error {
        return Err(error).context("the graph failed");
    }
    ensure!(run.status == TraceStatus::Completed);
    // Each nested graph counts as a step.
    ensure!(run.usage.steps_executed() >= steps as u64, "{} steps", run.usage.steps_executed());
    black_box(run.results);
    Ok(())
}
