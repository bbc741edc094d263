//! A span that has not ended, and its attributes.

use std::sync::Arc;

use nerve_api::value::Delivery;
use opentelemetry::trace::{Status, TraceContextExt};
use opentelemetry::{Context, KeyValue, Value};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::context::TraceContext;
use crate::error::{EngineError, ErrorKind};

/// Maximum length of a text in bytes; longer ones are truncated.
const MAX_TEXT: usize = 4096;
/// Maximum length of prompts and answers in bytes.
const MAX_CONTENT: usize = 64 << 10;

/// Creates a `tracing` span for [`ActiveSpan::begin`], which also names it. Field values are evaluated only if it is recorded.
macro_rules! new_span {
    ($name:literal $(, $($field:ident).+ = $value:expr)*) => {
        tracing::trace_span!(
            target: $crate::telemetry::TARGET,
            parent: None,
            $name,
            otel.name = tracing::field::Empty,
            $($($field).+ = $value),*
        )
    };
}
pub(crate) use new_span;

/// A span that has not ended. Dropping it ends it as cancelled.
pub struct ActiveSpan {
    span: tracing::Span,
    /// Parent of child spans: the span itself, or, if nothing is recorded, its own parent.
    context: Option<Arc<TraceContext>>,
    is_recorded: bool,
}

impl Default for ActiveSpan {
    /// Returns a span that records and propagates nothing.
    fn default() -> ActiveSpan {
        ActiveSpan { span: tracing::Span::none(), context: None, is_recorded: false }
    }
}

impl ActiveSpan {
    /// Begins a span inside `parent`, or a new trace. `name` is called only if a subscriber wants the span.
    pub(crate) fn begin(
        span: tracing::Span,
        parent: Option<&Arc<TraceContext>>,
        name: impl FnOnce() -> String,
    ) -> ActiveSpan {
        if span.is_disabled() {
            return ActiveSpan { span, context: parent.cloned(), is_recorded: false };
        }
        span.record("otel.name", name());
        if let Some(parent) = parent {
            // Fails only without a layer that records spans.
            let _ = span.set_parent(Context::new().with_remote_span_context(parent.span_context().clone()));
        }
        let context = span.context();
        let own = context.span();
        let is_recorded = own.is_recording();
        let context = match own.span_context().is_valid() {
            true => Some(Arc::new(TraceContext::new(own.span_context().clone()))),
            false => parent.cloned(),
        };
        ActiveSpan { span, context, is_recorded }
    }

    /// Returns the parent for child spans.
    pub fn context(&self) -> Option<&Arc<TraceContext>> {
        self.context.as_ref()
    }

    /// Calls `modify` if the span is recorded.
    pub fn describe(&self, modify: impl FnOnce(&ActiveSpan)) {
        if self.is_recorded {
            modify(self);
        }
    }

    /// Sets an attribute. Set each one once: a collector receives every value.
    pub fn set(&self, name: &'static str, value: impl Into<Value>) {
        let value = match value.into() {
            Value::String(text) if text.as_str().len() > MAX_TEXT => {
                prefix(text.as_str(), MAX_TEXT).to_string().into()
            }
            value => value,
        };
        self.span.set_attribute(name, value);
    }

    /// Sets an attribute if there is a value.
    pub fn set_some(&self, name: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Sets a prompt or answer, which may be longer than other attributes, wrapped by `form`.
    pub(crate) fn set_content(&self, name: &'static str, message: &str, form: impl Fn(&str) -> String) {
        self.span.set_attribute(name, content(message, form));
    }

    /// Adds an event if the span is recorded.
    pub fn add_event(&self, name: &'static str, attributes: impl FnOnce() -> Vec<KeyValue>) {
        if self.is_recorded {
            self.span.add_event(name, attributes());
        }
    }

    /// Sets the status to an error. `kind`: low-cardinality class of the error; `why`: message for people.
    pub fn fail(&self, kind: impl Into<Value>, why: &str) {
        self.set("error.type", kind);
        self.span.set_status(Status::error(prefix(why, MAX_TEXT).to_string()));
    }

    /// Ends the span after a last modification.
    pub fn end(mut self, modify: impl FnOnce(&ActiveSpan)) {
        self.describe(modify);
        self.is_recorded = false;
    }
}

impl Drop for ActiveSpan {
    fn drop(&mut self) {
        self.describe(|span| span.fail("cancelled", "dropped before its end"));
    }
}

/// Sets the error of a span. Output of an agent is not included.
pub(crate) fn set_error(span: &ActiveSpan, error: &EngineError) {
    span.set_some("nerve.delivery", error.delivery.map(Delivery::as_str));
    match error.kind {
        ErrorKind::Api | ErrorKind::Blocked | ErrorKind::Delivery => {
            span.fail(error.kind.as_str(), &format!("{}: see the node's history", error.kind.as_str()));
        }
        kind => span.fail(kind.as_str(), &error.message),
    }
}

/// Converts a count to the type of an attribute.
pub fn count(count: impl Into<u64>) -> i64 {
    i64::try_from(count.into()).unwrap_or(i64::MAX)
}

/// Wraps a message. The message is truncated before, so that the result is well-formed.
fn content(message: &str, form: impl Fn(&str) -> String) -> String {
    let mut limit = MAX_CONTENT;
    loop {
        let message = prefix(message, limit);
        let content = form(message);
        if content.len() <= MAX_CONTENT || message.is_empty() {
            return content;
        }
        // Wrapping and escaping need a share of the space.
        limit = (message.len() * MAX_CONTENT / content.len()).min(message.len() - 1);
    }
}

/// Returns the longest prefix of at most `limit` bytes.
fn prefix(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::trace::Sampler;

    use super::super::span_receiver::{SpanReceiver, attribute};
    use super::*;

    fn context(flags: &str) -> Arc<TraceContext> {
        let header = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        Arc::new(TraceContext::parse(&header, Some("a=1")).unwrap())
    }

    fn begin(parent: Option<&Arc<TraceContext>>, name: &str) -> ActiveSpan {
        ActiveSpan::begin(new_span!("test"), parent, || name.to_string())
    }

    #[test]
    fn nothing_is_evaluated_without_subscriber() {
        let parent = context("01");
        let field = || -> &'static str { panic!("fields are not needed") };
        let span = new_span!("test", nerve.node = field());
        let span = ActiveSpan::begin(span, Some(&parent), || panic!("name is not needed"));
        span.describe(|_| panic!("nothing is recorded"));
        assert!(Arc::ptr_eq(span.context().unwrap(), &parent));
        assert!(ActiveSpan::begin(new_span!("test"), None, || panic!()).context().is_none());
    }

    #[test]
    fn child_is_in_trace_of_its_parent() {
        let mut spans = SpanReceiver::new(Sampler::AlwaysOn);
        let outer = begin(None, "outer");
        let inner =
            ActiveSpan::begin(new_span!("test", otel.kind = "client"), outer.context(), || "inner".into());
        assert!(inner.context().unwrap().is_recorded());
        inner.end(|span| span.set("x", count(1u32)));
        outer.end(|_| {});
        let [inner, outer] = &spans.received()[..] else { panic!() };
        assert_eq!((inner.name.as_ref(), outer.name.as_ref()), ("inner", "outer"));
        assert_eq!(inner.parent_span_id, outer.span_context.span_id());
        assert_eq!(inner.span_context.trace_id(), outer.span_context.trace_id());
        assert_eq!((attribute(inner, "x"), inner.attributes.len()), (Some(&Value::I64(1)), 1));
        assert!(outer.start_time <= inner.start_time && inner.end_time <= outer.end_time);
    }

    #[test]
    fn unsampled_parent_has_unsampled_children() {
        let mut spans = SpanReceiver::new(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)));
        let span = begin(Some(&context("00")), "x");
        span.describe(|_| panic!("nothing is recorded"));
        let inside = span.context().unwrap();
        assert!(!inside.is_recorded() && !inside.span_context().is_sampled());
        assert_eq!(inside.span_context().trace_id(), context("00").span_context().trace_id());
        assert_eq!(inside.tracestate().as_deref(), Some("a=1"));
        drop(span);
        assert!(spans.received().is_empty());
        drop(spans);
        // Children see that the trace is not sampled, and do not begin their own.
        let mut spans = SpanReceiver::new(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)));
        let root = begin(None, "root");
        let child = begin(root.context(), "child");
        let [root, child] = [&root, &child].map(|span| span.context().unwrap().span_context().clone());
        assert_eq!(root.trace_id(), child.trace_id());
        assert!(!child.is_sampled() && spans.received().is_empty());
    }

    #[tokio::test]
    async fn dropped_span_ends_as_cancelled() {
        let mut spans = SpanReceiver::new(Sampler::AlwaysOn);
        drop(begin(None, "x"));
        let span = spans.next().await;
        assert_eq!(attribute(&span, "error.type"), Some(&"cancelled".into()));
        assert!(matches!(span.status, Status::Error { .. }));
    }

    #[test]
    fn long_texts_are_truncated() {
        let mut spans = SpanReceiver::new(Sampler::AlwaysOn);
        begin(None, "x").end(|span| {
            span.set("long", "é".repeat(MAX_TEXT));
            span.set_some("none", None::<String>);
        });
        let [span] = &spans.received()[..] else { panic!() };
        assert_eq!(attribute(span, "long").unwrap().as_str().len(), MAX_TEXT);
        assert_eq!(span.attributes.len(), 1);
    }

    #[test]
    fn truncated_content_is_well_formed() {
        for message in
            ["é".repeat(MAX_CONTENT), "\u{1b}".repeat(MAX_CONTENT), "x".repeat(MAX_CONTENT), "hi".into()]
        {
            let text = content(&message, |message| serde_json::json!([{ "content": message }]).to_string());
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            let kept = value[0]["content"].as_str().unwrap();
            assert!(message.starts_with(kept) && text.len() <= MAX_CONTENT);
            assert!(kept == message || text.len() > MAX_CONTENT - 100, "{}", text.len());
        }
    }
}
