//! `nerve cluster runs`, `decide` and `cancel`.

use anyhow::Result;
use nerve_cli::cluster::{DecideArgs, DoubtDecision};
use nerve_cluster::RunId;
use nerve_cluster::journal::Decision;
use nerve_commands::failure::{Failure, USAGE};
use nerve_commands::out;
use nerve_member::ClusterRuns;
use serde_json::{Value, json};

use crate::failure;
use crate::run_view::{RunView, StepView};

/// Lists the runs, or shows one.
pub(crate) async fn show(runs: &ClusterRuns, run: Option<&str>, as_json: bool) -> Result<()> {
    match run {
        Some(run) => show_one(runs, &parse(run)?, as_json).await,
        None => list(runs, as_json).await,
    }
}

/// Decides on a step in doubt.
pub(crate) async fn decide(runs: &ClusterRuns, args: &DecideArgs, as_json: bool) -> Result<()> {
    let run = parse(&args.run)?;
    let decision = match args.decision {
        DoubtDecision::Retry => Decision::Retry,
        DoubtDecision::Fail => Decision::Fail,
    };
    runs.decide(&run, &args.step, decision).await.map_err(failure)?;
    if as_json {
        return out::json(&json!({ "run_id": run, "step_id": args.step, "decision": decision }));
    }
    let action = if decision == Decision::Retry { "runs again" } else { "fails" };
    out::line(format_args!("step '{}' of run '{run}' {action}", args.step))
}

/// Cancels a run.
pub(crate) async fn cancel(runs: &ClusterRuns, run: &str, as_json: bool) -> Result<()> {
    let run = parse(run)?;
    runs.cancel(&run).await.map_err(failure)?;
    if as_json {
        return out::json(&json!({ "run_id": run, "cancelled": true }));
    }
    out::line(format_args!("run '{run}' is cancelled"))
}

async fn list(runs: &ClusterRuns, as_json: bool) -> Result<()> {
    let found = runs.list().await.map_err(failure)?;
    let members = runs.members().await.map_err(failure)?;
    let views: Vec<RunView<'_>> =
        found.iter().rev().map(|(id, state)| RunView { id, state, members: &members }).collect();
    if as_json {
        let runs: Vec<Value> = views.iter().map(RunView::to_json).collect();
        return out::json(&json!({ "runs": runs }));
    }
    if views.is_empty() {
        out::note("no runs; run a graph with 'nerve graph run FILE --cluster'");
    }
    let row = |run: &RunView<'_>| {
        let (done, total) = run.progress();
        let (id, state) = (run.id.to_string(), run.status().to_string());
        let graph = out::sanitize(run.graph());
        vec![id, graph, state, format!("{done}/{total}"), run.owner().unwrap_or_default()]
    };
    let rows: Vec<Vec<String>> = views.iter().map(row).collect();
    out::table(&["run", "graph", "state", "steps", "owner"], &rows)
}

async fn show_one(runs: &ClusterRuns, id: &RunId, as_json: bool) -> Result<()> {
    let state = runs.get(id).await.map_err(failure)?;
    let members = runs.members().await.map_err(failure)?;
    let run = RunView { id, state: &state, members: &members };
    let steps = run.steps();
    if as_json {
        let mut data = run.to_json();
        data["steps"] = steps.iter().map(StepView::to_json).collect();
        data["results"] = run.results().into();
        return out::json(&data);
    }
    let (done, total) = run.progress();
    out::fields(&[
        ("run", id.to_string()),
        ("graph", out::sanitize(run.graph())),
        ("state", run.status().to_string()),
        ("steps", format!("{done}/{total} done")),
        ("owner", run.owner().unwrap_or_default()),
    ])?;
    out::line("")?;
    let rows: Vec<Vec<String>> = steps.iter().map(row).collect();
    out::table(&["step", "state", "attempt", "machine", "chosen because", "node", "problem"], &rows)?;
    for step in steps.iter().filter(|step| step.late_results > 0) {
        out::note(format_args!(
            "late results of step '{}', which no step uses: {}",
            step.id, step.late_results
        ));
    }
    if let Some(step) = steps.iter().find(|step| step.state == "in_doubt") {
        out::note(format_args!("decide with 'nerve cluster decide {id} {} retry' or 'fail'", step.id));
    }
    Ok(())
}

fn row(step: &StepView) -> Vec<String> {
    let text = |text: &Option<String>| text.as_deref().map(|text| out::preview(text, 80)).unwrap_or_default();
    vec![
        step.id.clone(),
        step.state.to_string(),
        if step.attempt == 0 { String::new() } else { step.attempt.to_string() },
        text(&step.machine),
        text(&step.reason).replace('_', " "),
        text(&step.node),
        text(&step.problem),
    ]
}

/// Parses the id of a run.
pub(crate) fn parse(run: &str) -> Result<RunId, Failure> {
    RunId::new(run).map_err(|error| Failure::new(USAGE, error.to_string()))
}
