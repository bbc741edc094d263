//! One execution of a node, with its limit of time. However a node says that it failed, it is an error.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use tokio::task::coop::unconstrained;
use tokio::time::Instant;

use crate::cancellation::cancelled;
use crate::clock::FAR;
use crate::context::ExecutionContext;
use crate::error::{EngineError, ErrorKind};
use crate::node::NodeHandle;

/// Who keeps a limit of time by itself has so much longer before it is kept for it.
const MARGIN: Duration = Duration::from_secs(5);
/// One execution. However a node says that it failed, it is an error.
pub(crate) async fn attempt(
    node: &NodeHandle,
    context: &ExecutionContext,
    limit: Option<Duration>,
) -> Result<Value, EngineError> {
    let value = match limit {
        None => until_cancelled(node, context).await?,
        Some(limit) => {
            let stop = context.cancellation().child();
            let mut context = context.clone().with_cancellation(stop.clone());
            context.timeout = Some(limit);
            // Who keeps its limit itself has a better error, with a screen.
            let own = !node.cancel_grace().is_zero();
            let limit_here = if own { limit.saturating_add(MARGIN) } else { limit };
            let at = Instant::now() + limit_here.min(FAR);
            let execution = until_cancelled(node, &context);
            tokio::pin!(execution);
            tokio::select! {
                biased;
                value = &mut execution => value?,
                () = unconstrained(tokio::time::sleep_until(at)) => {
                    stop.cancel();
                    // What it still says is too late.
                    let _ = execution.await;
                    let message = format!("node '{}' did not end within {limit:?}", node.id());
                    return Err(EngineError::new(ErrorKind::Timeout, message).hint("give the step a longer timeout_ms"));
                }
            }
        }
    };
    // A graph's results are named by its steps, whatever these are called.
    if node.as_graph().is_some() {
        return Ok(value);
    }
    if let Some(tokens) = tokens_of(&value).filter(|_| !node.has_live_metering()) {
        context.add_tokens(tokens);
    }
    match failure_of(&value) {
        Some(error) => Err(error),
        None => Ok(value),
    }
}

/// An execution, ended when its context is cancelled: by itself if it can, else dropped.
pub(crate) async fn until_cancelled(
    node: &NodeHandle,
    context: &ExecutionContext,
) -> Result<Value, EngineError> {
    // Its making can panic too.
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
        let message = format!("node '{}' panicked: {}", node.id(), words_of(&*panic));
        Err(EngineError::new(ErrorKind::Internal, message))
    })
}

/// What a panic said.
pub(super) fn words_of(panic: &(dyn Any + Send)) -> String {
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

/// What a response says it used.
pub(crate) fn tokens_of(value: &Value) -> Option<u64> {
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

/// A value that says that it is a failure (facts: the wire; retry, skip and fallback of the first nerve never saw these).
fn failure_of(value: &Value) -> Option<EngineError> {
    let object = value.as_object()?;
    if object.get("success")? != &Value::Bool(false) {
        return None;
    }
    let text = |name: &str| object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = text("error_type").map_or(ErrorKind::Process, ErrorKind::parse);
    let mut error = EngineError::new(kind, text("error").unwrap_or("the node says that it failed"));
    let stderr =
        object.get("attributes").and_then(|attributes| attributes.get("stderr")).and_then(Value::as_str);
    error.screen = stderr.or(text("raw")).filter(|shown| !shown.trim().is_empty()).map(str::to_string);
    Some(error)
}
