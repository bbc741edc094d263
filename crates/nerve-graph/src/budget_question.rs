//! Asks whether to continue when a budget with `at_limit: ask` has reached a limit.

use std::sync::Arc;

use nerve_node::budget::{BudgetLimit, Checkpoint};
use nerve_node::cancellation::cancelled;
use nerve_node::command::GateInfo;
use nerve_node::error::EngineError;
use nerve_node::grants::Grants;
use nerve_node::pool::Pool;
use serde_json::Value;
use tokio::time::Instant;

use super::context::RunContext;
use super::event::{Completion, StepEvent, StepEventKind};
use super::gate_question;

const CONTINUE: &str = "continue";
const STOP: &str = "stop";

/// Checks the budgets. At a limit of one that asks, waits for the grant.
///
/// # Errors
/// Budget: a limit is reached at which the run stops, or its grant is refused. Cancelled.
pub(super) async fn await_grants(context: &RunContext, checkpoint: Checkpoint) -> Result<(), EngineError> {
    let pool = context.turn.pool();
    loop {
        pool.check_stops(checkpoint)?;
        match pool.pool_at_limit(checkpoint) {
            Some((exceeded, grants)) => request_grant(context, exceeded, grants, checkpoint).await?,
            None => return Ok(()),
        }
    }
}

/// Asks once for a limit that several steps may have reached, and raises it if the answer is to continue.
async fn request_grant(
    context: &RunContext,
    pool: &Pool,
    grants: &Grants,
    checkpoint: Checkpoint,
) -> Result<(), EngineError> {
    let mut granted = tokio::select! {
        granted = grants.granted.lock() => granted,
        () = context.turn.cancellation().cancelled() => return Err(cancelled()),
    };
    context.turn.pool().check_stops(checkpoint)?;
    // The answer to another step's question may have raised the limit.
    let Some((limit, reason)) = pool.reached_limit(checkpoint) else { return Ok(()) };
    let number = granted.iter().filter(|one| **one == limit).count() + 1;
    let _pause = grants.pause();
    let Some(limits) = pool.granted_limits(limit) else { return Ok(()) };
    let question = format!("{reason}. Raise it to {} and continue?", limits.text_of(limit));
    let step = question_id(grants, limit, number);
    if answer(context, &step, (limit, number), question).await? == CONTINUE {
        granted.push(limit);
        grants.set_limits(limits);
    } else {
        grants.refuse();
    }
    Ok(())
}

/// Returns the path of question `number` of a limit: `@max_tokens#1`. The `#` marks it as no step of the graph.
fn question_id(grants: &Grants, limit: BudgetLimit, number: usize) -> Arc<str> {
    let name: &str = limit.into();
    match grants.graph() {
        Some(graph) => format!("{graph}/@{name}#{number}").into(),
        None => format!("@{name}#{number}").into(),
    }
}

/// Returns the journaled answer to a question, or asks.
async fn answer(
    context: &RunContext,
    step: &Arc<str>,
    (limit, number): (BudgetLimit, usize),
    question: String,
) -> Result<String, EngineError> {
    let run = context.shared();
    let key = ((limit as u64) << 32) | number as u64;
    let replay = run.journal.as_ref().and_then(|(_, replay)| replay.as_deref());
    // After a refusal the question is repeated: the run was resumed.
    if let Some(CONTINUE) = replay.and_then(|replay| replay.answer(step, key)) {
        return Ok(CONTINUE.to_string());
    }
    let is_recorded = replay.is_some_and(|replay| replay.question_deadline(step, key).is_some());
    let info = GateInfo {
        step_id: step.to_string(),
        question,
        choices: vec![CONTINUE.to_string(), STOP.to_string()],
        default: Some(STOP.to_string()),
        deadline_at: None,
    };
    let began = Instant::now();
    let (choice, _) = gate_question::ask(context, "", info, None, key, is_recorded).await?;
    if let Some(observer) = &run.observer {
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let kind = StepEventKind::Complete { how: Completion::Completed, ms, tokens: 0 };
        let (step, node, data) = (Arc::clone(step), "".into(), Value::from(choice.as_str()));
        observer(StepEvent { kind, step, node, data, hint: None, at: run.clock.now() });
    }
    Ok(choice)
}
