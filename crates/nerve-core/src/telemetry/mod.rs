//! Spans of what is done, for OpenTelemetry: who is asked what, below what, how long, with what end.
//!
//! Nothing here knows how spans leave the process: a [`Telemetry`] puts those that have ended into a bounded queue, and who has its
//! other end sends them on. Without one, which is the rule, no id is made and nothing is kept; a context that a caller brought is passed
//! on all the same (W3C Trace Context, §3.4 of the recommendation).
//!
//! Names are those of OpenTelemetry's semantic conventions for generative AI where they have one, else they begin with `nerve.`.

mod context;
mod graph;
mod ids;
mod proxy;
mod sampler;
mod span;
mod tracer;
mod turn;

pub use self::context::{BadTraceparent, MAX_TRACESTATE, TraceContext};
pub(crate) use self::graph::{RunOf, end_run, end_step, end_with};
pub use self::ids::{SpanId, TraceId};
pub use self::proxy::record_call;
pub use self::sampler::{RootSampler, Sampler};
pub use self::span::{Attribute, Attributes, Span, SpanEvent, SpanKind, Status};
pub use self::tracer::{ActiveSpan, Spans, Telemetry, TelemetrySetup};
pub(crate) use self::turn::{Asked, end_turn, failed};

/// Variable in which a program finds the span that it was started in.
pub const TRACEPARENT: &str = "TRACEPARENT";
/// Variable in which a program finds what vendors say of that trace.
pub const TRACESTATE: &str = "TRACESTATE";
