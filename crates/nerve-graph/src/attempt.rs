//! Executes once within a time limit, and turns every form of failure into an error.

use std::time::Duration;

use nerve_host::clock::MAX_TIMEOUT;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::execution::{reported_tokens, run_until_cancelled};
use serde_json::Value;
use tokio::task::coop::unconstrained;
use tokio::time::Instant;

use super::context::RunContext;
use super::executable::Executable;

/// Grace period for a node that enforces the limit itself, before the attempt is aborted from outside.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Executes once. Errors, panics, timeouts and results with `"success": false` all become errors.
pub(crate) async fn attempt(
    target: &Executable,
    context: &RunContext,
    limit: Option<Duration>,
) -> Result<Value, EngineError> {
    let value = match limit {
        None => execute(target, context).await?,
        // Boxed because it is rare and large: otherwise every step would reserve space for it.
        Some(limit) => Box::pin(execute_within(target, context, limit)).await?,
    };
    // The results of a graph are keyed by step ids, which may collide with the field names below.
    if target.is_graph() {
        return Ok(value);
    }
    if let Some(tokens) = reported_tokens(&value).filter(|_| !target.has_live_token_count()) {
        context.turn.add_tokens(tokens);
    }
    match reported_failure(&value) {
        Some(error) => Err(error),
        None => Ok(value),
    }
}

/// Executes within a time limit.
async fn execute_within(
    target: &Executable,
    context: &RunContext,
    limit: Duration,
) -> Result<Value, EngineError> {
    let stop = context.turn.cancellation().child_token();
    let context = context.clone().with_cancellation(stop.clone()).with_timeout(limit);
    if target.is_graph() {
        // A graph enforces the limit itself, because its clock stops while a budget asks.
        return execute(target, &context).await;
    }
    // A node that enforces the limit itself reports a better error, with a screen.
    let enforces_limit = !target.cancel_grace().is_zero();
    let limit_here = if enforces_limit { limit.saturating_add(GRACE_PERIOD) } else { limit };
    let at = Instant::now() + limit_here.min(MAX_TIMEOUT);
    let execution = execute(target, &context);
    tokio::pin!(execution);
    tokio::select! {
        biased;
        value = &mut execution => value,
        () = unconstrained(tokio::time::sleep_until(at)) => {
            stop.cancel();
            // The result comes too late to count.
            let _ = execution.await;
            let message = format!("node '{}' did not end within {limit:?}", target.id());
            Err(EngineError::timeout(message).hint("give the step a longer timeout_ms"))
        }
    }
}

/// Executes until the end or the context's cancellation.
async fn execute(target: &Executable, context: &RunContext) -> Result<Value, EngineError> {
    // Creating the future can panic, too.
    let execution = async { target.execute(context).await };
    run_until_cancelled(target.id(), target.cancel_grace(), context.turn.cancellation(), execution).await
}

/// Returns the error in a value with `"success": false`, the form in which terminal and bash nodes report failures.
fn reported_failure(value: &Value) -> Option<EngineError> {
    let object = value.as_object()?;
    if object.get("success")? != &Value::Bool(false) {
        return None;
    }
    let text = |name: &str| object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = text("error_type").and_then(|kind| kind.parse().ok()).unwrap_or(ErrorKind::Process);
    let mut error = EngineError::new(kind, text("error").unwrap_or("the node reported a failure"));
    let stderr =
        object.get("attributes").and_then(|attributes| attributes.get("stderr")).and_then(Value::as_str);
    error.hint = text("hint").map(str::to_string);
    error.text = text("text").map(Box::from);
    error.screen =
        stderr.or(text("raw")).or(text("text")).filter(|shown| !shown.trim().is_empty()).map(str::to_string);
    Some(error)
}
