//! The handle that begins spans, and the queue of finished spans.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nerve_types::TsNs;
use tokio::sync::mpsc;

use super::context::TraceContext;
use super::ids::{SpanId, TraceId};
use super::sampler::Sampler;
use super::span::{Attributes, Span, SpanKind, Status};
use crate::command::NodeRef;
use crate::node::factory::with_session;
use nerve_host::clock::Clock;

/// Maximum number of known turns per node, running or queued.
const MAX_TURNS: usize = 64;

/// Settings for recording spans.
#[derive(Debug, Clone)]
pub struct TelemetrySetup {
    /// Decides which traces are recorded.
    pub sampler: Sampler,
    /// Capacity of the queue of finished spans. On overflow spans are lost and counted.
    pub queue: usize,
    /// Includes prompts and answers in spans.
    pub captures_content: bool,
}

impl Default for TelemetrySetup {
    fn default() -> TelemetrySetup {
        TelemetrySetup { sampler: Sampler::default(), queue: 2048, captures_content: false }
    }
}

/// Begins spans; off unless created with [`Telemetry::new`]. Cheap to clone: clones share the queue.
#[derive(Clone, Default)]
pub struct Telemetry(Option<Arc<Inner>>);

struct Inner {
    clock: Clock,
    setup: TelemetrySetup,
    queue: mpsc::Sender<Span>,
    lost: Arc<AtomicU64>,
    /// Running and queued turns in their order.
    turns: Mutex<HashMap<NodeRef, Vec<TraceContext>>>,
}

/// The receiving end of the queue.
#[derive(Debug)]
pub struct Spans {
    queue: mpsc::Receiver<Span>,
    lost: Arc<AtomicU64>,
}

/// A span that has not ended. Dropping it ends it as cancelled.
#[derive(Default)]
pub struct ActiveSpan {
    /// Parent of child spans: the span itself, or, if nothing is recorded, its own parent.
    context: Option<Arc<TraceContext>>,
    recorded: Option<Box<Recorded>>,
    /// Set even for an unsampled turn: its calls must not be sampled, either.
    turn: Option<Turn>,
}

struct Recorded {
    span: Span,
    telemetry: Arc<Inner>,
}

/// A running or queued turn; dropping it unregisters the turn.
struct Turn {
    telemetry: Arc<Inner>,
    node: NodeRef,
    span: SpanId,
}

impl Telemetry {
    /// Creates a recording handle and the receiving end of its queue.
    pub fn new(setup: TelemetrySetup) -> (Telemetry, Spans) {
        let (queue, receiver) = mpsc::channel(setup.queue.max(1));
        let lost = Arc::new(AtomicU64::new(0));
        let inner =
            Inner { clock: Clock::start(), setup, queue, lost: Arc::clone(&lost), turns: Mutex::default() };
        (Telemetry(Some(Arc::new(inner))), Spans { queue: receiver, lost })
    }

    /// Creates a handle that records nothing.
    pub fn off() -> Telemetry {
        Telemetry(None)
    }

    /// Returns true if spans are recorded.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns true if spans contain prompts and answers.
    pub fn captures_content(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.setup.captures_content)
    }

    /// Begins a span inside `parent`, or a new trace. If nothing is recorded, `name` is not called and the context of the span is
    /// that of `parent`.
    pub fn begin(
        &self,
        kind: SpanKind,
        parent: Option<&Arc<TraceContext>>,
        name: impl FnOnce() -> Cow<'static, str>,
    ) -> ActiveSpan {
        let Some(inner) = &self.0 else {
            return ActiveSpan { context: parent.cloned(), recorded: None, turn: None };
        };
        let Some((context, is_sampled)) = inner.new_context(parent.map(|parent| &**parent)) else {
            return ActiveSpan { context: parent.cloned(), recorded: None, turn: None };
        };
        if !is_sampled {
            return ActiveSpan { context: Some(Arc::new(context)), recorded: None, turn: None };
        }
        let start = inner.clock.now();
        let span = Span {
            context: context.clone(),
            parent: parent.map(|parent| parent.span_id()),
            parent_is_remote: parent.is_some_and(|parent| parent.is_remote()),
            name: name(),
            kind,
            start,
            end: start,
            attributes: Attributes::default(),
            events: Vec::new(),
            dropped_events: 0,
            status: Status::Unset,
        };
        let recorded = Recorded { span, telemetry: Arc::clone(inner) };
        ActiveSpan { context: Some(Arc::new(context)), recorded: Some(Box::new(recorded)), turn: None }
    }

    /// Records an operation that was measured elsewhere.
    pub fn record(
        &self,
        kind: SpanKind,
        parent: Option<&Arc<TraceContext>>,
        (start, end): (TsNs, TsNs),
        name: impl FnOnce() -> Cow<'static, str>,
        describe: impl FnOnce(&mut Span),
    ) {
        let mut span = self.begin(kind, parent, name);
        span.describe(describe);
        if let Some(mut recorded) = span.recorded.take() {
            (recorded.span.start, recorded.span.end) = (start, end.max(start));
            recorded.telemetry.enqueue(recorded.span);
        }
    }

    /// Returns the running turn of a node, if any.
    pub fn turn_of(&self, node: &NodeRef) -> Option<Arc<TraceContext>> {
        let turns = self.0.as_ref()?.turns();
        turns.get(&with_session(node))?.first().cloned().map(Arc::new)
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Telemetry(on)" } else { "Telemetry(off)" })
    }
}

impl Inner {
    /// Creates the ids of a span and decides whether it is sampled. `None` if the system has no random bytes.
    fn new_context(&self, parent: Option<&TraceContext>) -> Option<(TraceContext, bool)> {
        let span = SpanId::random()?;
        let trace = parent.map(TraceContext::trace_id).or_else(TraceId::random)?;
        let is_sampled = self.setup.sampler.keeps(parent, trace);
        let context = match parent {
            Some(parent) if parent.is_sampled() == is_sampled => parent.child(span),
            _ => {
                let state = parent.and_then(TraceContext::tracestate).map(Arc::from);
                TraceContext::new(trace, span, is_sampled, state)
            }
        };
        Some((context, is_sampled))
    }

    /// Queues a finished span. Never blocks: if the queue is full the span is lost and counted.
    fn enqueue(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<NodeRef, Vec<TraceContext>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spans {
    /// Returns the next span, or `None` at the end.
    pub async fn next(&mut self) -> Option<Span> {
        self.queue.recv().await
    }

    /// Closes the queue; spans already queued are still returned.
    pub fn close(&mut self) {
        self.queue.close();
    }

    /// Returns the number of spans lost since the last call.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

impl ActiveSpan {
    /// Returns the parent for child spans.
    pub fn context(&self) -> Option<&Arc<TraceContext>> {
        self.context.as_ref()
    }

    /// Modifies the span if it is recorded.
    pub fn describe(&mut self, modify: impl FnOnce(&mut Span)) {
        if let Some(recorded) = &mut self.recorded {
            modify(&mut recorded.span);
        }
    }

    /// Adds an event if the span is recorded.
    pub fn add_event(&mut self, name: &'static str, modify: impl FnOnce(&mut Attributes)) {
        if let Some(recorded) = &mut self.recorded {
            let mut attributes = Attributes::default();
            modify(&mut attributes);
            let at = recorded.telemetry.clock.now();
            recorded.span.add_event(name, at, attributes);
        }
    }

    /// Registers the span as a turn of a node: calls of the node's proxy belong to it while it runs.
    pub(crate) fn register_turn(&mut self, telemetry: &Telemetry, node: &NodeRef) {
        let (Some(inner), Some(context)) = (&telemetry.0, &self.context) else { return };
        let node = with_session(node);
        let mut all = inner.turns();
        let turns = all.entry(node.clone()).or_default();
        if turns.len() < MAX_TURNS {
            turns.push(TraceContext::clone(context));
            self.turn = Some(Turn { telemetry: Arc::clone(inner), node, span: context.span_id() });
        }
    }

    /// Ends the span after a last modification.
    pub fn end(mut self, modify: impl FnOnce(&mut Span)) {
        self.describe(modify);
        self.turn = None;
        if let Some(recorded) = self.recorded.take() {
            recorded.end();
        }
    }
}

impl Recorded {
    fn end(mut self) {
        self.span.end = self.telemetry.clock.now();
        self.telemetry.enqueue(self.span);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut all = self.telemetry.turns();
        if let Some(turns) = all.get_mut(&self.node) {
            turns.retain(|turn| turn.span_id() != self.span);
            if turns.is_empty() {
                all.remove(&self.node);
            }
        }
    }
}

impl Drop for ActiveSpan {
    fn drop(&mut self) {
        if let Some(mut recorded) = self.recorded.take() {
            recorded.span.fail("cancelled", "dropped before its end");
            recorded.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{Attribute, RootSampler};

    fn context(flags: &str) -> Arc<TraceContext> {
        let header = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        Arc::new(TraceContext::parse(&header, Some("a=1")).unwrap())
    }

    #[test]
    fn off_creates_nothing_and_propagates_parent() {
        let telemetry = Telemetry::off();
        let parent = context("01");
        let mut span = telemetry.begin(SpanKind::Internal, Some(&parent), || panic!("name is not needed"));
        span.describe(|_| panic!("nothing is recorded"));
        assert!(Arc::ptr_eq(span.context().unwrap(), &parent));
        assert!(telemetry.begin(SpanKind::Internal, None, || panic!()).context().is_none());
    }

    #[tokio::test]
    async fn child_is_in_trace_of_its_parent() {
        let (telemetry, mut spans) = Telemetry::new(TelemetrySetup::default());
        let outer = telemetry.begin(SpanKind::Internal, None, || "outer".into());
        let inner = telemetry.begin(SpanKind::Client, outer.context(), || "inner".into());
        inner.end(|span| span.attributes.set("x", 1u64));
        outer.end(|_| {});
        let (inner, outer) = (spans.next().await.unwrap(), spans.next().await.unwrap());
        assert_eq!((inner.parent, outer.parent), (Some(outer.context.span_id()), None));
        assert_eq!(inner.context.trace_id(), outer.context.trace_id());
        assert_ne!(inner.context.span_id(), outer.context.span_id());
        assert!(outer.start <= inner.start && inner.end <= outer.end && inner.context.is_sampled());
        assert_eq!(inner.attributes.get("x"), Some(&Attribute::Int(1)));
    }

    #[tokio::test]
    async fn unsampled_parent_has_unsampled_children() {
        let (telemetry, mut spans) = Telemetry::new(TelemetrySetup::default());
        let span = telemetry.begin(SpanKind::Internal, Some(&context("00")), || panic!());
        let inside = TraceContext::clone(span.context().unwrap());
        assert!(!inside.is_sampled() && inside.trace_id() == context("00").trace_id());
        assert_eq!(inside.tracestate(), Some("a=1"));
        drop(span);
        let setup =
            TelemetrySetup { sampler: Sampler::ParentBased(RootSampler::Off), ..TelemetrySetup::default() };
        let (none, mut others) = Telemetry::new(setup);
        // Children see that the trace is not sampled, and do not begin their own.
        let root = none.begin(SpanKind::Internal, None, || panic!());
        let child = none.begin(SpanKind::Internal, root.context(), || panic!());
        assert_eq!(child.context().unwrap().trace_id(), root.context().unwrap().trace_id());
        assert!(!child.context().unwrap().is_sampled());
        drop((telemetry, none, root, child));
        assert_eq!((spans.next().await, others.next().await), (None, None));
    }

    #[tokio::test]
    async fn full_queue_loses_and_counts_spans() {
        let (telemetry, mut spans) = Telemetry::new(TelemetrySetup { queue: 2, ..TelemetrySetup::default() });
        for _ in 0..5 {
            telemetry.begin(SpanKind::Internal, None, || "x".into()).end(|_| {});
        }
        assert_eq!((spans.take_lost(), spans.take_lost()), (3, 0));
        spans.close();
        assert!(spans.next().await.is_some() && spans.next().await.is_some() && spans.next().await.is_none());
        telemetry.begin(SpanKind::Internal, None, || "late".into()).end(|_| {});
        assert_eq!(spans.take_lost(), 1);
    }

    #[tokio::test]
    async fn dropped_span_ends_as_cancelled() {
        let (telemetry, mut spans) = Telemetry::new(TelemetrySetup::default());
        drop(telemetry.begin(SpanKind::Internal, None, || "x".into()));
        let span = spans.next().await.unwrap();
        assert_eq!(span.attributes.get("error.type"), Some(&Attribute::Text("cancelled".into())));
        assert!(matches!(span.status, Status::Error(_)));
    }

    #[tokio::test]
    async fn first_turn_of_a_node_is_the_running_one() {
        let (telemetry, mut spans) = Telemetry::new(TelemetrySetup::default());
        let node = NodeRef { session: None, node: "n".to_string() };
        let turn = || {
            let mut span = telemetry.begin(SpanKind::Internal, None, || "turn".into());
            span.register_turn(&telemetry, &node);
            span
        };
        let (first, second) = (turn(), turn());
        assert_eq!(telemetry.turn_of(&node).as_ref(), first.context());
        first.end(|_| {});
        assert_eq!(telemetry.turn_of(&node).as_ref(), second.context());
        drop(second);
        assert_eq!(telemetry.turn_of(&node), None);
        assert!(spans.next().await.is_some());
    }
}
