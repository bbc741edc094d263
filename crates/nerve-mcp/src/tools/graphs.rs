//! The tool that runs graphs.

use std::time::Duration;

use nerve_api::reply::RunEnded;
use nerve_api::{ErrorKind, EventMessage, EventType};
use nerve_client::RunOptions;
use serde_json::Value;
use uuid::Uuid;

use super::args;
use crate::call::{Call, WaitOutcome, describe_run_event};
use crate::tool_result::{Failure, Success, truncate};

/// Events that are reported as progress of a run.
const PROGRESS_EVENTS: [EventType; 4] =
    [EventType::StepStarted, EventType::StepCompleted, EventType::StepFailed, EventType::GateAsked];
/// Maximum length of a step's result in the text, in bytes.
const MAX_STEP_TEXT: usize = 4 * 1024;
/// Cancelling a run is immediate unless the server is stuck.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn run(call: Call, args: args::RunGraph) -> Result<Success, Failure> {
    // Chosen by the client, so that the run's events can be subscribed to before it starts.
    let mut run_id = Uuid::new_v4().simple().to_string();
    run_id.truncate(20);
    let options = RunOptions {
        session_id: args.session,
        input: args.input,
        run_id: Some(run_id.clone()),
        trace: args.trace,
        keep_nodes: false,
        ..RunOptions::default()
    };
    let describe = |event: &EventMessage| {
        let is_own = event.data.get("run_id").and_then(Value::as_str) == Some(run_id.as_str());
        if is_own { describe_run_event(event) } else { None }
    };
    let (client, progress) = call.start(&PROGRESS_EVENTS, None, Some(&run_id), &describe).await?;
    let (graph, graph_id) = match (args.graph, args.graph_id) {
        (Some(graph), None) => (Some(graph), String::new()),
        (None, Some(graph_id)) => (None, graph_id),
        _ => return Err(Failure::new("invalid_arguments", "give either graph or graph_id")),
    };
    if args.detach {
        let run = match graph {
            Some(graph) => client.execute_graph_detached(graph, &options).await?,
            None => client.run_graph_detached(&graph_id, &options).await?,
        };
        let text = format!("Run {} of graph '{}' has started.", run.run_id, run.graph_id);
        return Ok(Success::new(&text, &run).warn(client.take_warnings()));
    }
    let work = async {
        match graph {
            Some(graph) => client.execute_graph(graph, &options).await,
            None => client.run_graph(&graph_id, &options).await,
        }
    };
    match call.follow(work, progress).await? {
        WaitOutcome::Done(ended) => Ok(run_success(ended).warn(client.take_warnings())),
        WaitOutcome::Cancelled if args.cancel_on_cancel => {
            let _ = tokio::time::timeout(CANCEL_TIMEOUT, client.cancel_run(&run_id)).await;
            Err(Failure::new(ErrorKind::Cancelled, "the call and its run were cancelled"))
        }
        WaitOutcome::Cancelled | WaitOutcome::Disconnected => {
            Err(Failure::new(ErrorKind::Cancelled, format!("the call was cancelled; run {run_id} continues")))
        }
    }
}

fn run_success(ended: RunEnded) -> Success {
    let RunEnded { graph_id, run_id, status, .. } = &ended;
    let mut text = format!("Graph '{graph_id}' {status} (run {run_id}).");
    for (step, result) in &ended.results {
        let text_of = match result.get("text").and_then(Value::as_str) {
            Some(text_of) => text_of.trim_end().to_string(),
            None => result.to_string(),
        };
        text.push_str(&format!("\n\n## {step}\n{}", truncate(&text_of, MAX_STEP_TEXT).0));
    }
    Success::new(&text, &ended).warn(ended.faults)
}
