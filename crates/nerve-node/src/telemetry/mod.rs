//! OpenTelemetry spans of nodes, graphs and API calls.
//!
//! Spans are [`tracing`] spans with the target [`TARGET`]. They are recorded if the process has a subscriber with a
//! `tracing_opentelemetry` layer. Otherwise nothing is evaluated, but a caller's trace context is still propagated (W3C Trace
//! Context, §3.4). They are never entered, so that log lines neither show them nor become their events.
//!
//! Names follow OpenTelemetry's semantic conventions for generative AI; others begin with `nerve.`.

mod context;
mod graph;
mod proxy;
mod span;
#[cfg(test)]
#[path = "../../../nerve-engine/tests/nodes/span_receiver.rs"]
mod span_receiver;
mod turn;

pub use self::context::{BadTraceparent, TraceContext};
pub use self::graph::{
    RunAttributes, begin_result, begin_run, begin_run_command, begin_step, end_run, end_with,
};
pub use self::proxy::record_call;
pub(crate) use self::span::new_span;
pub(crate) use self::span::set_error;
pub use self::span::{ActiveSpan, count};
pub use self::turn::{TurnAttributes, TurnSpan};
/// Target of all spans for the exporter.
pub use nerve_proxy::SPAN_TARGET as TARGET;

/// Environment variable with the span in which a program was started.
pub const TRACEPARENT: &str = "TRACEPARENT";
/// Environment variable with the vendor data of that trace.
pub const TRACESTATE: &str = "TRACESTATE";

/// Settings for spans. The `tracing` subscriber decides whether spans are recorded at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Telemetry {
    /// Includes prompts and answers of agents in spans.
    pub captures_content: bool,
}
