//! The span that this program was started in, as its environment tells it (OpenTelemetry: environment variables as context carriers).

use nerve_core::telemetry::{TRACEPARENT, TRACESTATE, TraceContext};

use crate::out;

/// What `TRACEPARENT` holds, for a server: it says what it thinks of a value that is none.
pub(crate) fn parent() -> Option<String> {
    variable(TRACEPARENT)
}

/// What `TRACESTATE` holds.
pub(crate) fn state() -> Option<String> {
    variable(TRACESTATE)
}

/// Both, understood. A value that is none is told and left out.
pub(crate) fn context() -> Option<TraceContext> {
    match TraceContext::parse(&parent()?, state().as_deref()) {
        Ok(context) => Some(context),
        Err(problem) => {
            out::warning(format_args!("{TRACEPARENT} is left out: {problem}"));
            None
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
