//! The tool that runs graphs.

use std::time::Duration;

use nerve_api::reply::RunEnded;
use nerve_api::{EventMessage, EventType};
use nerve_client::RunOptions;
use serde_json::{Value, json};
use uuid::Uuid;

use super::args;
use crate::call::{Call, News, Waited, of_run};
use crate::link::Listening;
use crate::outcome::{Failure, MAX_TEXT, Success, bounded, cut};

/// What is told of a run while it goes on.
const NEWS: [EventType; 4] =
    [EventType::StepStarted, EventType::StepCompleted, EventType::StepFailed, EventType::GateAsked];
/// Bytes of one step's result in the text.
const STEP_TEXT: usize = 4 * 1024;
/// Telling a run to end takes no time unless the server is stuck.
const CANCEL: Duration = Duration::from_secs(5);

pub(super) async fn run(call: Call) -> Result<Success, Failure> {
    let given: args::RunGraph = call.arguments()?;
    // Known before the run has begun: its events and its end can be asked for.
    let mut run_id = Uuid::new_v4().simple().to_string();
    run_id.truncate(20);
    let options = RunOptions {
        session: given.session,
        input: given.input,
        run_id: Some(run_id.clone()),
        trace: given.trace,
        keep_nodes: false,
        ..RunOptions::default()
    };
    let words = |event: &EventMessage| {
        let ours = event.data.get("run_id").and_then(Value::as_str) == Some(run_id.as_str());
        if ours { of_run(event) } else { None }
    };
    let (client, news) = if call.wants_progress() {
        let Listening { client, events } = call.link.listening(&NEWS, None, Some(&run_id)).await?;
        (client, Some(News { events, words: &words }))
    } else {
        (call.link.client().await?, None)
    };
    let (graph, graph_id) = match (given.graph, given.graph_id) {
        (Some(graph), None) => (Some(graph), String::new()),
        (None, Some(graph_id)) => (None, graph_id),
        _ => return Err(Failure::new("invalid_arguments", "give graph or graph_id, and not both")),
    };
    if given.detach {
        let run = match graph {
            Some(graph) => client.start_graph(graph, &options).await?,
            None => client.start_registered_graph(&graph_id, &options).await?,
        };
        let text = format!("Run {} of graph '{}' has begun.", run.run_id, run.graph_id);
        let data = json!({ "run_id": run.run_id, "graph_id": run.graph_id, "status": run.status });
        return Ok(Success::new(text, data).warn(client.take_warnings()));
    }
    let work = async {
        match graph {
            Some(graph) => client.execute_graph(graph, &options).await,
            None => client.run_graph(&graph_id, &options).await,
        }
    };
    match call.follow(work, news).await? {
        Waited::Done(ended) => Ok(told(ended).warn(client.take_warnings())),
        Waited::Cancelled if given.cancel_on_cancel => {
            let _ = tokio::time::timeout(CANCEL, client.cancel_run(&run_id)).await;
            Err(Failure::new("cancelled", "the call was cancelled, and the run with it"))
        }
        Waited::Cancelled | Waited::Left => {
            Err(Failure::new("cancelled", format!("the call was cancelled; run {run_id} goes on")))
        }
    }
}

fn told(ended: RunEnded) -> Success {
    let RunEnded { graph_id, run_id, status, results, tokens_used, faults, trace, .. } = ended;
    let mut text = format!("Graph '{graph_id}' {status} (run {run_id}).");
    for (step, result) in &results {
        let said = match result.get("text").and_then(Value::as_str) {
            Some(said) => said.trim_end().to_string(),
            None => result.to_string(),
        };
        text.push_str(&format!("\n\n## {step}\n{}", cut(&said, STEP_TEXT).0));
    }
    let mut data = json!({
        "graph_id": graph_id, "run_id": run_id, "status": status, "tokens_used": tokens_used,
        "results": bounded(Value::Object(results), MAX_TEXT),
    });
    if let Some(trace) = trace {
        data["trace"] = bounded(trace, MAX_TEXT);
    }
    Success::new(cut(&text, MAX_TEXT).0, data).warn(faults)
}
