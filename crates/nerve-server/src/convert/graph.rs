//! Graphs and their runs, both ways: from parameters to commands, from replies to data.

use nerve_api::{data, params};
use nerve_core::budget::Exceeded;
use nerve_core::command::{
    Command, GateInfo, GraphInfo, GraphSource, NodeRef, ResumeRun, RunEnded, RunGraph, RunInfo, RunStep,
};
use nerve_core::error::{EngineError, ErrorKind};
use serde_json::{Map, Value, json};

use super::seconds;

pub(super) fn create(params: params::CreateGraph) -> Command {
    let params::CreateGraph { definition, session_id } = params;
    Command::CreateGraph { session: session_id, graph: Value::Object(definition) }
}

pub(super) fn graph_ref(params: params::GraphParams) -> NodeRef {
    NodeRef { session: params.session_id, node: params.graph_id }
}

pub(super) fn list(params: params::ListGraphs) -> Command {
    Command::ListGraphs { session: params.session_id }
}

pub(super) fn execute(params: params::ExecuteGraph) -> Command {
    let params::ExecuteGraph { definition, session_id, input, run_id, trace, detach, keep_nodes, .. } =
        params;
    let graph = GraphSource::Whole(Value::Object(definition));
    let run =
        RunGraph { graph, session: session_id, input, run: run_id, trace, detach, keep_nodes, parent: None };
    Command::RunGraph(Box::new(run))
}

pub(super) fn run(params: params::RunGraph) -> Command {
    let params::RunGraph { graph_id, session_id, input, run_id, trace, detach, keep_nodes, .. } = params;
    let graph = GraphSource::Named(graph_id);
    let run =
        RunGraph { graph, session: session_id, input, run: run_id, trace, detach, keep_nodes, parent: None };
    Command::RunGraph(Box::new(run))
}

pub(super) fn cancel(params: params::CancelGraph) -> Result<Command, EngineError> {
    match params.run_id.or(params.graph_id) {
        Some(id) => Ok(Command::CancelGraph { id }),
        None => {
            Err(EngineError::new(ErrorKind::InvalidRequest, "give either params.run_id or params.graph_id"))
        }
    }
}

pub(super) fn resume(params: params::ResumeRun) -> Command {
    let params::ResumeRun { run_id, definition, trace, detach } = params;
    let graph = definition.map(Value::Object);
    Command::ResumeRun(Box::new(ResumeRun { run: run_id, graph, trace, detach }))
}

pub(super) fn answer_gate(params: params::AnswerGate) -> Command {
    let params::AnswerGate { run_id, step_id, choice } = params;
    Command::AnswerGate { run: run_id, step: step_id, choice }
}

pub(super) fn graph_info(info: GraphInfo) -> data::GraphInfo {
    let GraphInfo { id, session, steps, definition } = info;
    data::GraphInfo { graph_id: id, session_id: session, steps, definition }
}

pub(super) fn graphs(graphs: Vec<GraphInfo>) -> data::GraphList {
    data::GraphList {
        graphs: graphs.iter().map(|graph| graph.id.clone()).collect(),
        graphs_info: graphs
            .into_iter()
            .map(|graph| graph_info(GraphInfo { definition: Value::Null, ..graph }))
            .collect(),
    }
}

/// A run with its steps, the last so many if `last` says so.
pub(super) fn run_info(info: RunInfo, last: Option<usize>) -> data::RunInfo {
    let RunInfo { run, graph, session, status, started, ended, steps, total, done, .. } = info;
    let first = last.map_or(0, |last| steps.len().saturating_sub(last));
    data::RunInfo {
        run_id: run,
        graph_id: graph,
        session_id: session,
        status: status.as_str().to_string(),
        started_at: seconds(started),
        ended_at: ended.map(seconds),
        total_steps: total,
        done_steps: done,
        steps: steps.into_iter().skip(first).map(run_step).collect(),
        gates: info.gates.into_iter().map(gate).collect(),
        tokens_used: info.tokens,
        error: info.error,
        journal: info.journal.map(|path| path.display().to_string()),
        faults: info.faults,
    }
}

pub(super) fn runs(runs: Vec<RunInfo>) -> data::RunList {
    data::RunList { runs: runs.into_iter().map(|run| run_info(run, Some(0))).collect() }
}

fn run_step(step: RunStep) -> data::RunStep {
    let RunStep { step, node, state, started, ended, attempt, tokens, error } = step;
    data::RunStep {
        step_id: step,
        node_id: node,
        state: state.to_string(),
        started_at: seconds(started),
        ended_at: ended.map(seconds),
        attempt,
        tokens_used: tokens,
        error,
    }
}

pub(super) fn gate(gate: GateInfo) -> data::GateInfo {
    let GateInfo { step, question, choices, default, deadline } = gate;
    data::GateInfo { step_id: step, question, choices, default, deadline: deadline.map(seconds) }
}

/// A run that has ended, and why it failed if it did.
pub(super) fn run_ended(ended: RunEnded) -> (data::RunEnded, Option<EngineError>) {
    let RunEnded { info, results, error, trace } = ended;
    let run = data::RunEnded {
        graph_id: info.graph,
        run_id: info.run,
        status: info.status.as_str().to_string(),
        results,
        started_at: seconds(info.started),
        ended_at: info.ended.map(seconds),
        tokens_used: info.tokens,
        journal: info.journal.map(|path| path.display().to_string()),
        faults: info.faults,
        trace: trace.map(|trace| trace.to_dict()),
    };
    (run, error)
}

/// What a budget allowed and what was used of it.
pub(super) fn exceeded(exceeded: Exceeded) -> data::BudgetExceeded {
    let Exceeded { reason, budget, usage } = exceeded;
    let limits = [
        ("max_tokens", budget.max_tokens.map(Value::from)),
        ("max_time_seconds", budget.max_time_seconds.map(Value::from)),
        ("max_steps", budget.max_steps.map(Value::from)),
        ("max_api_calls", budget.max_api_calls.map(Value::from)),
        ("max_cost_dollars", budget.max_cost_dollars.map(Value::from)),
    ];
    let budget = limits.into_iter().filter_map(|(name, limit)| Some((name.to_string(), limit?))).collect();
    let usage = json!({
        "tokens_used": usage.tokens_used(), "steps_executed": usage.steps_executed(),
        "api_calls": usage.api_calls(), "cost_dollars": usage.cost_dollars(),
        "start_time": seconds(usage.start_time()), "elapsed_seconds": usage.elapsed().as_secs_f64(),
    });
    data::BudgetExceeded { reason, budget, usage: fields(usage) }
}

/// The fields of an object that was written down as one.
fn fields(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
