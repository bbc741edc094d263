//! The trace context of this process from its environment (OpenTelemetry: environment variables as context carriers).

use nerve_node::telemetry::{TRACEPARENT, TRACESTATE, TraceContext};

use crate::out;

/// Returns `TRACEPARENT` unchecked; a server validates it.
pub fn parent() -> Option<String> {
    variable(TRACEPARENT)
}

/// Returns `TRACESTATE` unchecked.
pub fn state() -> Option<String> {
    variable(TRACESTATE)
}

/// Parses both. Warns about an invalid value and ignores it.
pub fn context() -> Option<TraceContext> {
    match TraceContext::parse(&parent()?, state().as_deref()) {
        Ok(context) => Some(context),
        Err(problem) => {
            out::warning(format_args!("{TRACEPARENT} ignored: {problem}"));
            None
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
