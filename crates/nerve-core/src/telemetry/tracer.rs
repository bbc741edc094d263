//! The handle through which spans are begun, and the queue that they end in.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nerve_term::event::TsNs;
use tokio::sync::mpsc;

use super::context::TraceContext;
use super::ids::{SpanId, TraceId};
use super::sampler::Sampler;
use super::span::{Attributes, Span, SpanKind, Status};
use crate::clock::Clock;
use crate::command::NodeRef;
use crate::node::factory::named;

/// Turns of one node that are known at one time: one runs, the others wait.
const TURNS: usize = 64;

/// How spans are kept.
#[derive(Debug, Clone)]
pub struct TelemetrySetup {
    /// Which traces are kept.
    pub sampler: Sampler,
    /// Spans that have ended and wait to be taken; more are lost, and counted.
    pub queue: usize,
    /// Prompts and answers are part of spans.
    pub captures_content: bool,
}

impl Default for TelemetrySetup {
    fn default() -> TelemetrySetup {
        TelemetrySetup { sampler: Sampler::default(), queue: 2048, captures_content: false }
    }
}

/// Begins spans; off unless it was made with [`Telemetry::new`]. Cheap to clone: all clones are the same.
#[derive(Clone, Default)]
pub struct Telemetry(Option<Arc<Inner>>);

struct Inner {
    clock: Clock,
    setup: TelemetrySetup,
    queue: mpsc::Sender<Span>,
    lost: Arc<AtomicU64>,
    /// Turns that run or wait, in their order.
    turns: Mutex<HashMap<NodeRef, Vec<TraceContext>>>,
}

/// The other end of the queue.
#[derive(Debug)]
pub struct Spans {
    queue: mpsc::Receiver<Span>,
    lost: Arc<AtomicU64>,
}

/// A span that has not ended. Dropped, it ends as given up.
#[derive(Default)]
pub struct ActiveSpan {
    /// Where what happens in it is: its own place, or, where nothing is kept, the one it was begun in.
    context: Option<Arc<TraceContext>>,
    kept: Option<Box<Kept>>,
    /// Whether or not it is kept: calls of a turn that is not kept are not kept either.
    turn: Option<Turn>,
}

struct Kept {
    span: Span,
    telemetry: Arc<Inner>,
}

/// A turn that runs or waits; no longer when this is dropped.
struct Turn {
    telemetry: Arc<Inner>,
    node: NodeRef,
    span: SpanId,
}

impl Telemetry {
    /// One that keeps spans, and the end of the queue at which they are taken.
    pub fn new(setup: TelemetrySetup) -> (Telemetry, Spans) {
        let (queue, taken) = mpsc::channel(setup.queue.max(1));
        let lost = Arc::new(AtomicU64::new(0));
        let inner =
            Inner { clock: Clock::start(), setup, queue, lost: Arc::clone(&lost), turns: Mutex::default() };
        (Telemetry(Some(Arc::new(inner))), Spans { queue: taken, lost })
    }

    /// One that keeps nothing.
    pub fn off() -> Telemetry {
        Telemetry(None)
    }

    /// Something is kept.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Prompts and answers are part of spans.
    pub fn captures_content(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.setup.captures_content)
    }

    /// Begins a span in `parent`, or a trace. Where nothing is kept, `name` is not asked for and what is begun in the span is begun in
    /// `parent`.
    pub fn begin(
        &self,
        kind: SpanKind,
        parent: Option<&Arc<TraceContext>>,
        name: impl FnOnce() -> Cow<'static, str>,
    ) -> ActiveSpan {
        let Some(inner) = &self.0 else {
            return ActiveSpan { context: parent.cloned(), kept: None, turn: None };
        };
        let Some((context, is_kept)) = inner.place(parent.map(|parent| &**parent)) else {
            return ActiveSpan { context: parent.cloned(), kept: None, turn: None };
        };
        if !is_kept {
            return ActiveSpan { context: Some(Arc::new(context)), kept: None, turn: None };
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
        let kept = Kept { span, telemetry: Arc::clone(inner) };
        ActiveSpan { context: Some(Arc::new(context)), kept: Some(Box::new(kept)), turn: None }
    }

    /// Tells of an operation that somebody else has measured.
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
        if let Some(mut kept) = span.kept.take() {
            (kept.span.start, kept.span.end) = (start, end.max(start));
            kept.telemetry.keep(kept.span);
        }
    }

    /// The turn that runs on a node, if one does.
    pub fn turn_of(&self, node: &NodeRef) -> Option<Arc<TraceContext>> {
        let turns = self.0.as_ref()?.turns();
        turns.get(&named(node))?.first().cloned().map(Arc::new)
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Telemetry(on)" } else { "Telemetry(off)" })
    }
}

impl Inner {
    /// Ids of a new span, and whether it is kept. `None`: the system has none.
    fn place(&self, parent: Option<&TraceContext>) -> Option<(TraceContext, bool)> {
        let span = SpanId::random()?;
        let trace = parent.map(TraceContext::trace_id).or_else(TraceId::random)?;
        let is_kept = self.setup.sampler.keeps(parent, trace);
        let context = match parent {
            Some(parent) if parent.is_sampled() == is_kept => parent.child(span),
            _ => {
                let state = parent.and_then(TraceContext::tracestate).map(Arc::from);
                TraceContext::new(trace, span, is_kept, state)
            }
        };
        Some((context, is_kept))
    }

    /// Never waits: who is not fast enough loses spans, and is told how many.
    fn keep(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<NodeRef, Vec<TraceContext>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spans {
    /// The next span; `None` when there will be none any more.
    pub async fn next(&mut self) -> Option<Span> {
        self.queue.recv().await
    }

    /// Takes no more in; what was taken in before still comes.
    pub fn close(&mut self) {
        self.queue.close();
    }

    /// How many were lost since this was last asked.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

impl ActiveSpan {
    /// What is begun in this span is begun here.
    pub fn context(&self) -> Option<&Arc<TraceContext>> {
        self.context.as_ref()
    }

    /// Says more of it, if it is kept.
    pub fn describe(&mut self, say: impl FnOnce(&mut Span)) {
        if let Some(kept) = &mut self.kept {
            say(&mut kept.span);
        }
    }

    /// Says that something happened in it, if it is kept.
    pub fn happened(&mut self, name: &'static str, say: impl FnOnce(&mut Attributes)) {
        if let Some(kept) = &mut self.kept {
            let mut attributes = Attributes::default();
            say(&mut attributes);
            let at = kept.telemetry.clock.now();
            kept.span.happened(name, at, attributes);
        }
    }

    /// It is a turn of this node: calls of the node's own proxy belong to it while it runs.
    pub(crate) fn is_turn_of(&mut self, telemetry: &Telemetry, node: &NodeRef) {
        let (Some(inner), Some(context)) = (&telemetry.0, &self.context) else { return };
        let node = named(node);
        let mut all = inner.turns();
        let turns = all.entry(node.clone()).or_default();
        if turns.len() < TURNS {
            turns.push(TraceContext::clone(context));
            self.turn = Some(Turn { telemetry: Arc::clone(inner), node, span: context.span_id() });
        }
    }

    /// Ends it, with its last words.
    pub fn end(mut self, say: impl FnOnce(&mut Span)) {
        self.describe(say);
        self.turn = None;
        if let Some(kept) = self.kept.take() {
            kept.end();
        }
    }
}

impl Kept {
    fn end(mut self) {
        self.span.end = self.telemetry.clock.now();
        self.telemetry.keep(self.span);
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
        if let Some(mut kept) = self.kept.take() {
            kept.span.fail("cancelled", "nobody waited for its end");
            kept.end();
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
    fn off_makes_nothing_and_passes_the_caller_on() {
        let telemetry = Telemetry::off();
        let parent = context("01");
        let mut span = telemetry.begin(SpanKind::Internal, Some(&parent), || panic!("it needs no name"));
        span.describe(|_| panic!("nobody listens"));
        assert!(Arc::ptr_eq(span.context().unwrap(), &parent));
        assert!(telemetry.begin(SpanKind::Internal, None, || panic!()).context().is_none());
    }

    #[tokio::test]
    async fn a_child_is_in_its_parents_trace() {
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
    async fn what_the_caller_does_not_keep_is_not_kept_and_told_so() {
        let (telemetry, mut spans) = Telemetry::new(TelemetrySetup::default());
        let span = telemetry.begin(SpanKind::Internal, Some(&context("00")), || panic!());
        let inside = TraceContext::clone(span.context().unwrap());
        assert!(!inside.is_sampled() && inside.trace_id() == context("00").trace_id());
        assert_eq!(inside.tracestate(), Some("a=1"));
        drop(span);
        let setup =
            TelemetrySetup { sampler: Sampler::ParentBased(RootSampler::Off), ..TelemetrySetup::default() };
        let (none, mut others) = Telemetry::new(setup);
        // Children see that nothing is kept, and do not begin traces of their own.
        let root = none.begin(SpanKind::Internal, None, || panic!());
        let child = none.begin(SpanKind::Internal, root.context(), || panic!());
        assert_eq!(child.context().unwrap().trace_id(), root.context().unwrap().trace_id());
        assert!(!child.context().unwrap().is_sampled());
        drop((telemetry, none, root, child));
        assert_eq!((spans.next().await, others.next().await), (None, None));
    }

    #[tokio::test]
    async fn a_full_queue_loses_spans_and_counts_them() {
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
    async fn a_dropped_span_ends_as_given_up() {
        let (telemetry, mut spans) = Telemetry::new(TelemetrySetup::default());
        drop(telemetry.begin(SpanKind::Internal, None, || "x".into()));
        let span = spans.next().await.unwrap();
        assert_eq!(span.attributes.get("error.type"), Some(&Attribute::Text("cancelled".into())));
        assert!(matches!(span.status, Status::Error(_)));
    }

    #[tokio::test]
    async fn the_first_of_a_nodes_turns_is_the_one_that_runs() {
        let (telemetry, mut spans) = Telemetry::new(TelemetrySetup::default());
        let node = NodeRef { session: None, node: "n".to_string() };
        let turn = || {
            let mut span = telemetry.begin(SpanKind::Internal, None, || "turn".into());
            span.is_turn_of(&telemetry, &node);
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
