//! `graph run` and `graph resume`: starts a run and follows it to its end.

use std::path::Path;

use anyhow::{Context, Result};
use nerve_api::reply::RunInfo;
use nerve_client::{ResumeRun, RunOptions};
use nerve_commands::clock;
use nerve_commands::graph_file::{definition, input, missing_nodes};
use nerve_commands::node_command::shell_env;
use nerve_commands::run_display::{Progress, RunFollower};
use nerve_graph::file::GraphFile;
use nerve_graph::journal::new_run_id;
use nerve_types::name;
use serde_json::{Map, Value};

use super::source::{Source, load};
use super::{CommonOptions, Target, dry_run, outcome};
use crate::cmd::cluster;
use crate::exit::{Failure, NOT_FOUND, USAGE};
use crate::{out, trace};
use nerve_cli::graph::{ResumeArgs, RunArgs};

/// The graph to run.
enum Graph {
    /// A definition from a file.
    Inline(Map<String, Value>),
    /// The id of a registered graph.
    Registered(String),
}

/// A graph that can run, with its validated input.
struct PreparedGraph {
    graph: Graph,
    id: String,
    steps: Vec<String>,
    input: Value,
}

/// Runs a graph.
pub(super) async fn run(common: &CommonOptions, args: RunArgs) -> Result<()> {
    let graph_input = input::read(&args.input)?;
    if let Some(id) = &args.run_id {
        name::check("run", id).map_err(|error| Failure::new(USAGE, error.to_string()))?;
    }
    let source = Source::find(&args.file)?;
    if args.cluster {
        if common.session.is_some() {
            let message =
                "--session is not possible with --cluster: a step uses the default session of its machine";
            return Err(Failure::new(USAGE, message).hint("leave out --session").into());
        }
        let file = match source {
            Source::File(file) => *file,
            Source::Id(id) => fetch_registered(&common.connect().await?, &id).await?,
        };
        return cluster::run_graph(&file, graph_input, &args, common.json).await;
    }
    if args.dry_run {
        return show_steps(common, source, graph_input).await;
    }
    let target = common.connect().await?;
    let PreparedGraph { graph, id, steps, input } = prepare(&target, source, graph_input).await?;
    let options = RunOptions {
        session_id: target.session.clone(),
        input,
        run_id: Some(args.run_id.unwrap_or_else(|| new_run_id(clock::now()))),
        trace: args.trace.is_some(),
        keep_nodes: args.keep_nodes,
        traceparent: trace::parent(),
        tracestate: trace::state(),
        shell_env: shell_env(&target.client),
    };
    if args.detach {
        let info = match graph {
            Graph::Inline(definition) => target.client.execute_graph_detached(definition, &options).await?,
            Graph::Registered(id) => target.client.run_graph_detached(&id, &options).await?,
        };
        return print_detached(&target, &info);
    }
    let run = options.run_id.clone().unwrap_or_default();
    let mut follower = start_follower(&target, Progress::new(&run, &id, &steps)).await?;
    let end = match graph {
        Graph::Inline(definition) => {
            follower.follow_until(target.client.execute_graph(definition, &options)).await?
        }
        Graph::Registered(id) => follower.follow_until(target.client.run_graph(&id, &options)).await?,
    };
    outcome::print_outcome(&target, &follower, end, args.trace.as_deref())
}

/// Shows the steps of a run that is not started.
async fn show_steps(common: &CommonOptions, source: Source, graph_input: Value) -> Result<()> {
    let (file, target) = match source {
        // A server is optional and only checks for missing nodes.
        Source::File(file) => (*file, common.connect().await.ok()),
        Source::Id(id) => {
            let target = common.connect().await?;
            (fetch_registered(&target, &id).await?, Some(target))
        }
    };
    dry_run::run(&file, graph_input, common.json).await?;
    match target {
        Some(target) => warn_of_missing(&target, &file).await,
        None => Ok(()),
    }
}

/// Validates the input, and warns about missing nodes.
async fn prepare(target: &Target, source: Source, graph_input: Value) -> Result<PreparedGraph> {
    let (file, registered) = match source {
        Source::File(file) => (*file, None),
        Source::Id(id) => (fetch_registered(target, &id).await?, Some(id)),
    };
    let input = input::validate(&file, graph_input)?;
    warn_of_missing(target, &file).await?;
    let steps = file.step_order();
    Ok(match registered {
        Some(id) => PreparedGraph { graph: Graph::Registered(id.clone()), id, steps, input },
        None => {
            PreparedGraph { id: file.graph.clone(), graph: Graph::Inline(definition(file)?), steps, input }
        }
    })
}

/// Resumes a run.
pub(super) async fn resume(common: &CommonOptions, args: ResumeArgs) -> Result<()> {
    let edited = args.file.as_deref().map(load).transpose()?;
    let target = common.connect().await?;
    // Fails before anything is drawn if the run does not exist.
    let info = target.client.run_status(&args.run, Some(0)).await?;
    let steps = match &edited {
        Some(file) => file.step_order(),
        None => info
            .journal
            .as_deref()
            .map(Path::new)
            .and_then(graph_from_journal)
            .map_or_else(Vec::new, |file| file.step_order()),
    };
    let request = ResumeRun {
        run_id: args.run.clone(),
        definition: edited.map(definition).transpose()?,
        trace: args.trace.is_some(),
        shell_env: shell_env(&target.client),
        ..ResumeRun::default()
    };
    if args.detach {
        let info = target.client.resume_run_detached(request).await?;
        return print_detached(&target, &info);
    }
    let mut follower = start_follower(&target, Progress::new(&args.run, &info.graph_id, &steps)).await?;
    let end = follower.follow_until(target.client.resume_run(request)).await?;
    outcome::print_outcome(&target, &follower, end, args.trace.as_deref())
}

/// Warns about missing nodes before the run, which may reach them only hours later.
async fn warn_of_missing(target: &Target, file: &GraphFile) -> Result<()> {
    missing_nodes::warn(file, &target.client.session(target.session()).await?);
    Ok(())
}

async fn start_follower(target: &Target, progress: Progress) -> Result<RunFollower> {
    let follower = RunFollower::new(&target.client, &target.server, progress, true).await?;
    if follower.is_live() {
        out::note(format_args!("run {}", follower.run()));
    }
    Ok(follower)
}

fn print_detached(target: &Target, info: &RunInfo) -> Result<()> {
    if target.json {
        return out::json(info);
    }
    let watch = target.command(&format!("status {} --watch", info.run_id));
    out::note(format_args!("follow it with '{watch}'"));
    out::line(&info.run_id)
}

/// Fetches a registered graph.
pub(super) async fn fetch_registered(target: &Target, id: &str) -> Result<GraphFile> {
    let info = target.client.get_graph(id, target.session()).await.map_err(|error| {
        let mut failure = Failure::from(&error);
        if failure.code == NOT_FOUND {
            failure.message = format!("{}, and no file '{id}' exists", failure.message);
        }
        failure
    })?;
    GraphFile::from_value(info.definition).with_context(|| format!("graph '{id}' of the server"))
}

/// Reads a run's graph from its journal, if it is readable.
pub(super) fn graph_from_journal(journal: &Path) -> Option<GraphFile> {
    let replay = nerve_graph::journal::ReplayState::read(journal).ok()?;
    GraphFile::from_value(replay.definition().clone()).ok()
}
