//! Runs an execution until it ends or is cancelled, and reads its result.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::cancellation::cancelled_error;
use crate::error::EngineError;

/// Runs `execution`, which belongs to node `id`, until it ends or is cancelled. A cancelled execution gets `grace` to wind down
/// and is then dropped. A panic becomes an error.
pub async fn run_until_cancelled(
    id: &str,
    grace: Duration,
    cancellation: &CancellationToken,
    execution: impl Future<Output = Result<Value, EngineError>>,
) -> Result<Value, EngineError> {
    let execution = AssertUnwindSafe(execution).catch_unwind();
    tokio::pin!(execution);
    let caught = tokio::select! {
        biased;
        caught = &mut execution => caught,
        () = cancellation.cancelled() => match wait_at_most(grace, execution).await {
            Some(caught) => caught,
            None => return Err(cancelled_error()),
        },
    };
    caught.unwrap_or_else(|panic| {
        Err(EngineError::internal(format!("node '{id}' panicked: {}", panic_message(&*panic))))
    })
}

/// Returns the message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(ToString::to_string);
    words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

async fn wait_at_most<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    match time {
        Duration::ZERO => None,
        time => tokio::time::timeout(time, work).await.ok(),
    }
}

/// Returns the number of tokens that a response reports.
pub fn reported_tokens(value: &Value) -> Option<u64> {
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
