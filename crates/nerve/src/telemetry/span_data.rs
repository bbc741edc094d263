//! Converts spans to OpenTelemetry's types.

use std::time::{Duration, SystemTime};

use nerve_core::telemetry::{Attribute, Attributes, Span, SpanKind, Status, TraceContext};
use nerve_types::TsNs;
use opentelemetry::trace as otel;
use opentelemetry::trace::{Event, SpanContext, TraceFlags, TraceState};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

/// Converts a span for the exporter.
pub(super) fn span(span: Span, scope: &InstrumentationScope) -> SpanData {
    let dropped_attributes_count = span.attributes.dropped();
    let mut events = SpanEvents::default();
    events.dropped_count = span.dropped_events;
    events.events = span.events.into_iter().map(event).collect();
    SpanData {
        span_context: context(&span.context),
        parent_span_id: span
            .parent
            .map_or(otel::SpanId::INVALID, |id| otel::SpanId::from_bytes(id.to_bytes())),
        parent_span_is_remote: span.parent_is_remote,
        span_kind: match span.kind {
            SpanKind::Internal => otel::SpanKind::Internal,
            SpanKind::Client => otel::SpanKind::Client,
            SpanKind::Server => otel::SpanKind::Server,
        },
        name: span.name,
        start_time: time(span.start),
        end_time: time(span.end),
        attributes: attributes(&span.attributes),
        dropped_attributes_count,
        events,
        links: SpanLinks::default(),
        status: match span.status {
            Status::Unset => otel::Status::Unset,
            Status::Error(why) => otel::Status::error(why),
        },
        instrumentation_scope: scope.clone(),
    }
}

fn event(event: nerve_core::telemetry::SpanEvent) -> Event {
    Event::new(event.name, time(event.at), attributes(&event.attributes), event.attributes.dropped())
}

fn context(context: &TraceContext) -> SpanContext {
    let state = context.tracestate().and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
    SpanContext::new(
        otel::TraceId::from_bytes(context.trace_id().to_bytes()),
        otel::SpanId::from_bytes(context.span_id().to_bytes()),
        TraceFlags::new(context.flags()),
        false,
        state,
    )
}

fn attributes(attributes: &Attributes) -> Vec<KeyValue> {
    attributes.iter().map(|(name, attribute)| KeyValue::new(name, value(attribute))).collect()
}

fn value(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Bool(value) => Value::Bool(*value),
        Attribute::Int(value) => Value::I64(*value),
        Attribute::Float(value) => Value::F64(*value),
        Attribute::Text(value) => Value::String(StringValue::from(value.clone())),
        Attribute::Texts(values) => {
            Value::Array(Array::String(values.iter().map(|value| StringValue::from(value.clone())).collect()))
        }
    }
}

fn time(at: TsNs) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(at.0)
}
