//! The usage of a node's turns, as observed by its proxy.

use std::sync::{Arc, OnceLock};

use nerve_api::reply::{ModelTokens, ModelUsage};
use nerve_proxy::{CallOutcome, CallReport, CurrentTurn};
use parking_lot::Mutex;

use crate::telemetry::TraceContext;
use crate::usage_ledger::UsageLedger;

/// Called with the usage of each request of a turn when the request ends. Must not block.
pub(crate) type SpendSink = Arc<dyn Fn(&ModelUsage) + Send + Sync>;

/// Returns the usage of one request, or `None` if it cost nothing.
fn request_usage(report: &CallReport) -> Option<ModelUsage> {
    let was_answered = report.spends && report.status.is_some() && report.outcome != CallOutcome::Refused;
    if !was_answered && report.usage.is_none() {
        return None;
    }
    let tokens = report.usage.unwrap_or_default();
    Some(ModelUsage { tokens, cost_usd: report.cost_usd, requests: 1 })
}

/// Counts the usage of the current turn.
#[derive(Default)]
pub(super) struct UsageTracker {
    /// The current turn, for the proxy.
    pub(super) turn: CurrentTurn,
    /// The usage of the last turn that began.
    totals: Mutex<TurnTotals>,
    /// The usage of the node, with and without a turn.
    pub(super) ledger: OnceLock<UsageLedger>,
}

#[derive(Default)]
struct TurnTotals {
    number: u64,
    usage: ModelUsage,
    sink: Option<SpendSink>,
    span: Option<Arc<TraceContext>>,
}

impl UsageTracker {
    pub(super) fn begin(&self, number: u64, sink: Option<SpendSink>, span: Option<Arc<TraceContext>>) {
        *self.totals.lock() = TurnTotals { number, usage: ModelUsage::default(), sink, span };
        self.turn.set(Some(number));
    }

    /// Ends the turn: requests that begin now belong to no turn.
    pub(super) fn end(&self) {
        self.turn.set(None);
    }

    /// Returns the usage of a turn if it is the last one that began. Requests that end later are still reported to its sink until
    /// the next turn begins, because they were made for this turn.
    pub(super) fn turn_usage(&self, number: u64) -> Option<ModelUsage> {
        let totals = self.totals.lock();
        (totals.number == number).then_some(totals.usage)
    }

    /// Returns the span of a turn if it is the last one that began.
    pub(super) fn span(&self, turn: Option<u64>) -> Option<Arc<TraceContext>> {
        let totals = self.totals.lock();
        totals.span.clone().filter(|_| turn == Some(totals.number))
    }

    /// Counts a finished request.
    pub(super) fn record(&self, report: &CallReport) {
        let Some(used) = request_usage(report) else { return };
        if let Some(ledger) = self.ledger.get() {
            let ModelUsage { tokens, cost_usd, .. } = used;
            ledger.add_response(&ModelTokens { model: report.model.clone(), tokens }, cost_usd);
        }
        let sink = {
            let mut totals = self.totals.lock();
            if report.turn != Some(totals.number) {
                return;
            }
            totals.usage += &used;
            totals.sink.clone()
        };
        if let Some(sink) = sink {
            sink(&used);
        }
    }
}

impl std::fmt::Debug for UsageTracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let totals = self.totals.lock();
        f.debug_struct("UsageTracker")
            .field("number", &totals.number)
            .field("usage", &totals.usage)
            .finish_non_exhaustive()
    }
}

/// Returns the report of an answered request, for tests.
#[cfg(test)]
pub(crate) fn answered_call(turn: u64) -> CallReport {
    CallReport {
        id: "q".into(),
        node: None,
        turn: Some(turn),
        provider: "anthropic",
        upstream: "host".into(),
        session: None,
        method: "POST".into(),
        path: "/v1/messages".into(),
        spends: true,
        stream: true,
        requested_model: None,
        model: None,
        status: Some(200),
        outcome: CallOutcome::Whole,
        error: None,
        usage: Some(nerve_types::token_usage::TokenUsage { input: 1, output: 2, ..Default::default() }),
        cost_usd: None,
        started: std::time::UNIX_EPOCH,
        took: std::time::Duration::ZERO,
        first: None,
        bytes: 0,
        traceparent: None,
        span: tracing::Span::none(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn request_that_ends_after_its_turn_counts_toward_it() {
        let (tracker, paid) = (UsageTracker::default(), Arc::new(AtomicU64::new(0)));
        let sink = || -> Option<SpendSink> {
            let paid = paid.clone();
            Some(Arc::new(move |used| {
                paid.fetch_add(used.tokens.total(), Ordering::Relaxed);
            }))
        };
        tracker.begin(1, sink(), None);
        tracker.record(&answered_call(1));
        tracker.end();
        assert_eq!(tracker.turn_usage(1).unwrap().tokens.total(), 3);
        tracker.record(&answered_call(1));
        assert_eq!(paid.load(Ordering::Relaxed), 6);
        tracker.begin(2, sink(), None);
        tracker.record(&answered_call(1));
        assert_eq!(
            (
                paid.load(Ordering::Relaxed),
                tracker.turn_usage(1),
                tracker.turn_usage(2).unwrap().tokens.total()
            ),
            (6, None, 0)
        );
    }

    #[test]
    fn request_belongs_to_span_of_its_turn() {
        let span = |id: &str| {
            let header = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{id}-01");
            Some(Arc::new(TraceContext::parse(&header, None).unwrap()))
        };
        let (tracker, first, second) =
            (UsageTracker::default(), span("00f067aa0ba902b7"), span("00f067aa0ba902b8"));
        assert_eq!(tracker.span(None), None);
        tracker.begin(1, None, first.clone());
        assert_eq!((tracker.span(Some(1)), tracker.span(None)), (first.clone(), None));
        tracker.end();
        assert_eq!(tracker.span(Some(1)), first);
        tracker.begin(2, None, second.clone());
        assert_eq!((tracker.span(Some(1)), tracker.span(Some(2))), (None, second));
    }
}
