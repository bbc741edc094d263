//! `nerve graph run --cluster` and `nerve cluster resume`: run a graph on the cluster, and follow it to its end.

use anyhow::Result;
use nerve_cli::cluster::ResumeArgs;
use nerve_cli::graph::RunArgs;
use nerve_cluster::journal::RunOutcome;
use nerve_cluster::{RunId, RunState};
use nerve_commands::failure::{FAILED, Failure, INTERRUPTED, USAGE};
use nerve_commands::graph_file::input;
use nerve_commands::{clock, out};
use nerve_graph::file::GraphFile;
use nerve_graph::journal::new_run_id;
use nerve_member::{ClusterRuns, RunPlan};
use nerve_server::paths::ServerPaths;
use serde_json::{Value, json};

use crate::run_view::RunView;
use crate::{failure, open_runs, runs};

/// Runs a graph on the machines of the cluster.
///
/// # Errors
/// [`Failure`]: the graph cannot run there, the broker does not reply, or the run failed.
pub async fn run_graph(file: &GraphFile, given: Value, args: &RunArgs, as_json: bool) -> Result<()> {
    let input = input::validate(file, given)?;
    file.compile().map_err(|error| Failure::new(USAGE, error.to_string()))?;
    let plan = RunPlan::new(file, input).map_err(failure)?;
    let id = runs::parse(&args.run_id.clone().unwrap_or_else(|| new_run_id(clock::now())))?;
    let cluster = open_runs(&ServerPaths::from_env()).await?;
    cluster.start(&id, plan).await.map_err(failure)?;
    if args.detach {
        if as_json {
            return out::json(&json!({ "run_id": id, "graph_id": file.graph }));
        }
        return print_id(&id);
    }
    out::note(format_args!("run {id}"));
    follow(&cluster, &id, as_json).await
}

/// Continues a run that has failed or was cancelled.
pub(crate) async fn resume(cluster: &ClusterRuns, args: &ResumeArgs, as_json: bool) -> Result<()> {
    let id = runs::parse(&args.run)?;
    cluster.resume(&id).await.map_err(failure)?;
    match (args.no_wait, as_json) {
        (false, _) => follow(cluster, &id, as_json).await,
        (true, true) => out::json(&json!({ "run_id": id })),
        (true, false) => print_id(&id),
    }
}

fn print_id(id: &RunId) -> Result<()> {
    out::note(format_args!("see it with 'nerve cluster runs {id}'"));
    out::line(id)
}

/// Shows the progress of a run until it has ended, and then its results.
async fn follow(cluster: &ClusterRuns, id: &RunId, as_json: bool) -> Result<()> {
    let members = cluster.members().await.map_err(failure)?;
    let mut shown = Vec::new();
    let state = cluster.follow(id, |state| {
        let run = RunView { id, state, members: &members };
        report(&run, &mut shown);
    });
    let state = state.await.map_err(failure)?;
    print_end(&RunView { id, state: &state, members: &members }, as_json)
}

/// Reports the steps whose state has changed since the last call.
fn report(run: &RunView<'_>, shown: &mut Vec<String>) {
    let line = |step: crate::run_view::StepView| {
        let machine = step.machine.map_or(String::new(), |machine| format!(" on {machine}"));
        let attempt = if step.attempt > 1 { format!(", attempt {}", step.attempt) } else { String::new() };
        let problem =
            step.problem.map_or(String::new(), |problem| format!(": {}", out::preview(&problem, 200)));
        let is_notable = step.state != "pending";
        is_notable.then(|| format!("{} {}{machine}{attempt}{problem}", step.id, step.state.replace('_', " ")))
    };
    let lines: Vec<String> = run.steps().into_iter().filter_map(line).collect();
    lines.iter().filter(|line| !shown.contains(line)).for_each(out::note);
    *shown = lines;
}

/// Prints the results of a run that has ended.
fn print_end(run: &RunView<'_>, as_json: bool) -> Result<()> {
    let error = run_error(run);
    let results = run.results();
    if as_json {
        let mut data = run.to_json();
        data["results"] = results.into();
        if let Some(failure) = &error {
            data["error"] = json!(failure.message);
        }
        out::json(&data)?;
    } else {
        for (step, value) in results.iter().filter(|(_, value)| !value.is_null()) {
            out::line(format_args!("{}== {step}{:#}", out::STRONG, out::STRONG))?;
            match value.as_str().or_else(|| value["text"].as_str()) {
                Some(text) => out::text(text)?,
                None => out::line(format_args!("{value:#}"))?,
            }
        }
    }
    error.map_or(Ok(()), |failure| Err(failure.into()))
}

/// Returns the error of a run that failed or was cancelled.
fn run_error(run: &RunView<'_>) -> Option<Failure> {
    let RunState { outcome, .. } = run.state;
    match outcome {
        Some(RunOutcome::Completed) => return None,
        Some(RunOutcome::Cancelled) => {
            let failure = Failure::new(INTERRUPTED, format!("run '{}' was cancelled", run.id));
            return Some(failure.hint(format!("continue it: nerve cluster resume {}", run.id)));
        }
        Some(RunOutcome::Failed) | None => {}
    }
    let step = run.steps().into_iter().find(|step| step.state == "failed");
    let reason = step.map_or(String::new(), |step| {
        format!(": step '{}': {}", step.id, out::preview(&step.problem.unwrap_or_default(), 500))
    });
    let failure = Failure::new(FAILED, format!("run '{}' failed{reason}", run.id));
    Some(failure.hint(format!(
        "see its steps: nerve cluster runs {0}; continue it: nerve cluster resume {0}",
        run.id
    )))
}
