//! OpenTelemetry spans of nodes, graphs and API calls.
//!
//! This module does not export spans: a [`Telemetry`] puts finished spans into a bounded queue, and the receiver exports them.
//! Without a receiver, the default, no ids are created and nothing is recorded; a caller's trace context is still propagated (W3C
//! Trace Context, §3.4).
//!
//! Names follow OpenTelemetry's semantic conventions for generative AI; others begin with `nerve.`.

mod context;
mod graph;
mod ids;
mod proxy;
mod sampler;
mod span;
mod tracer;
mod turn;

pub use self::context::{BadTraceparent, MAX_TRACESTATE, TraceContext};
pub(crate) use self::graph::{RunAttributes, end_run, end_step, end_with};
pub use self::ids::{SpanId, TraceId};
pub use self::proxy::record_call;
pub use self::sampler::{RootSampler, Sampler};
pub use self::span::{Attribute, Attributes, Span, SpanEvent, SpanKind, Status};
pub use self::tracer::{ActiveSpan, Spans, Telemetry, TelemetrySetup};
pub(crate) use self::turn::{TurnAttributes, end_turn, set_error};

/// Environment variable with the span in which a program was started.
pub const TRACEPARENT: &str = "TRACEPARENT";
/// Environment variable with the vendor data of that trace.
pub const TRACESTATE: &str = "TRACESTATE";
