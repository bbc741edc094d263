//! Runs a node once within a time limit, and turns every form of failure into an error.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use tokio::task::coop::unconstrained;
use tokio::time::Instant;

use crate::cancellation::cancelled;
use crate::context::ExecutionContext;
use crate::error::{EngineError, ErrorKind};
use crate::node::NodeHandle;
use nerve_host::clock::MAX_TIMEOUT;

/// Grace period for a node that enforces the limit itself, before the attempt is aborted from outside.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Runs a node once. Errors, panics, timeouts and results with `"success": false` all become errors.
pub(crate) async fn attempt(
    node: &NodeHandle,
    context: &ExecutionContext,
    limit: Option<Duration>,
) -> Result<Value, EngineError> {
    let value = match limit {
        None => run_until_cancelled(node, context).await?,
        Some(limit) => {
            let stop = context.cancellation().child();
            let mut context = context.clone().with_cancellation(stop.clone());
            context.timeout = Some(limit);
            // A node that enforces the limit itself reports a better error, with a screen.
            let enforces_limit = !node.cancel_grace().is_zero();
            let limit_here = if enforces_limit { limit.saturating_add(GRACE_PERIOD) } else { limit };
            let at = Instant::now() + limit_here.min(MAX_TIMEOUT);
            let execution = run_until_cancelled(node, &context);
            tokio::pin!(execution);
            tokio::select! {
                biased;
                value = &mut execution => value?,
                () = unconstrained(tokio::time::sleep_until(at)) => {
                    stop.cancel();
                    // The result comes too late to count.
                    let _ = execution.await;
                    let message = format!("node '{}' did not end within {limit:?}", node.id());
                    return Err(EngineError::new(ErrorKind::Timeout, message).hint("give the step a longer timeout_ms"));
                }
            }
        }
    };
    // The results of a graph are keyed by step ids, which may collide with the field names below.
    if node.as_graph().is_some() {
        return Ok(value);
    }
    if let Some(tokens) = reported_tokens(&value).filter(|_| !node.has_live_metering()) {
        context.add_tokens(tokens);
    }
    match reported_failure(&value) {
        Some(error) => Err(error),
        None => Ok(value),
    }
}

/// Runs a node until it ends or its context is cancelled. A cancelled node gets its wind-down time and is then dropped.
pub(crate) async fn run_until_cancelled(
    node: &NodeHandle,
    context: &ExecutionContext,
) -> Result<Value, EngineError> {
    // Creating the future can panic, too.
    let execution = AssertUnwindSafe(async { node.execute(context).await }).catch_unwind();
    tokio::pin!(execution);
    let caught = tokio::select! {
        biased;
        caught = &mut execution => caught,
        () = context.cancellation().wait() => match within(node.cancel_grace(), execution).await {
            Some(caught) => caught,
            None => return Err(cancelled()),
        },
    };
    caught.unwrap_or_else(|panic| {
        let message = format!("node '{}' panicked: {}", node.id(), panic_message(&*panic));
        Err(EngineError::new(ErrorKind::Internal, message))
    })
}

/// Returns the message of a panic.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(ToString::to_string);
    words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    match time {
        Duration::ZERO => None,
        Duration::MAX => Some(work.await),
        time => tokio::time::timeout(time, work).await.ok(),
    }
}

/// Returns the number of tokens that a response reports.
pub(crate) fn reported_tokens(value: &Value) -> Option<u64> {
    let tokens = value.as_object()?.get("tokens")?;
    if let Some(all) = tokens.as_u64() {
        return Some(all);
    }
    let part = |name: &str| tokens.get(name).and_then(Value::as_u64);
    part("total").or_else(|| match (part("input"), part("output")) {
        (None, None) => None,
        (input, output) => Some(input.unwrap_or(0) + output.unwrap_or(0)),
    })
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
    error.screen = stderr.or(text("raw")).filter(|shown| !shown.trim().is_empty()).map(str::to_string);
    Some(error)
}
