//! Asks whether to continue when a budget with `at_limit: ask` has reached a limit.

use std::sync::Arc;

use nerve_api::reply::GateInfo;
use nerve_node::budget::{Checkpoint, RunLimit};
use nerve_node::cancellation::cancelled_error;
use nerve_node::error::EngineError;
use nerve_node::grants::RunGrants;
use nerve_node::pool::RunPool;
use nerve_types::millis;
use serde_json::Value;
use tokio::time::Instant;

use super::context::RunContext;
use super::event::{Completion, StepEventKind};
use super::gate::question::GateRequest;

const CONTINUE: &str = "continue";
const STOP: &str = "stop";

/// A question at a limit of a budget.
struct LimitQuestion {
    /// Path in the run: `@max_tokens#1`, `part/@max_tokens#1` for the graph in a step, or `part@max_tokens#1` for the step itself. The
    /// `#` shows that it is not a step of the graph.
    path: Arc<str>,
    /// Key in the journal: the limit and the number of the question.
    key: u64,
    text: String,
}

/// Returns once no budget is at a limit. If a budget that asks is at one, asks and waits for the answer.
///
/// # Errors
/// Budget: a budget that stops has reached a limit, or a grant was refused. Cancelled.
pub(super) async fn await_grants(context: &RunContext, checkpoint: Checkpoint) -> Result<(), EngineError> {
    let pool = context.turn.pool();
    loop {
        pool.check_stops(checkpoint)?;
        match pool.asking_pool_at_limit(checkpoint) {
            Some((pool, grants)) => request_grant(context, pool, grants, checkpoint).await?,
            None => return Ok(()),
        }
    }
}

/// Asks to raise the limit of a pool. Steps that reach it at the same time share one question.
async fn request_grant(
    context: &RunContext,
    pool: &RunPool,
    grants: &RunGrants,
    checkpoint: Checkpoint,
) -> Result<(), EngineError> {
    let mut granted = tokio::select! {
        granted = grants.lock_questions() => granted,
        () = context.turn.cancellation().cancelled() => return Err(cancelled_error()),
    };
    context.turn.pool().check_stops(checkpoint)?;
    // The answer to another step's question may have raised the limit.
    let Some((limit, reason)) = pool.reached_limit(checkpoint) else { return Ok(()) };
    let limits =
        pool.granted_limits(limit).ok_or_else(|| EngineError::internal("the budget has no limits"))?;
    let _pause = grants.pause();
    let number = granted.iter().filter(|one| **one == limit).count() + 1;
    let text = format!("{reason}. Raise it to {} and continue?", limits.text_of(limit));
    let question = LimitQuestion::new(grants, limit, number, text);
    if question.was_granted(context) || question.ask(context).await? == CONTINUE {
        granted.push(limit);
        grants.grant(limits);
    } else {
        // The next check of the limits returns the error.
        grants.refuse();
    }
    Ok(())
}

impl LimitQuestion {
    fn new(grants: &RunGrants, limit: RunLimit, number: usize, text: String) -> LimitQuestion {
        let name: &str = limit.into();
        let path = format!("{}@{name}#{number}", grants.prefix()).into();
        LimitQuestion { path, key: ((limit as u64) << 32) | number as u64, text }
    }

    /// Returns true if the journal of a resumed run has the grant. A refused question is repeated.
    fn was_granted(&self, context: &RunContext) -> bool {
        let is_granted = |path: &str| {
            let replay = context.shared().replay(path, self.key);
            replay.and_then(|replay| replay.answer.as_ref()).map(|answer| answer.choice == CONTINUE)
        };
        // Earlier versions had other names for two limits.
        let renamed = [("@max_cost_usd#", "@max_cost_dollars#"), ("@max_time_ms#", "@max_time_seconds#")];
        let older = || renamed.iter().find_map(|(name, older)| is_granted(&self.path.replace(name, older)));
        is_granted(&self.path).or_else(older) == Some(true)
    }

    /// Asks, and returns the answer.
    async fn ask(&self, context: &RunContext) -> Result<String, EngineError> {
        let run = context.shared();
        let replay = run.replay(&self.path, self.key);
        let is_recorded = replay.is_some_and(|replay| replay.question.is_some());
        let info = GateInfo {
            step_id: self.path.to_string(),
            question: self.text.clone(),
            choices: vec![CONTINUE.to_string(), STOP.to_string()],
            default: Some(STOP.to_string()),
            deadline_at: None,
        };
        let (began, node) = (Instant::now(), Arc::<str>::from(""));
        let request =
            GateRequest { node: Arc::clone(&node), info, deadline: None, key: self.key, is_recorded };
        let (choice, _) = request.ask(context).await?;
        let (how, ms) = (Completion::Completed, millis(began.elapsed()));
        let complete = StepEventKind::Complete { how, ms, tokens: 0 };
        run.notify(&self.path, &node, complete, Value::from(choice.as_str()), None);
        Ok(choice)
    }
}
