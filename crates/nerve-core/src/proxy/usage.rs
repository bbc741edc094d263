//! What a node's turns used, by what passes through its proxy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nerve_proxy::{CallOutcome, CallReport, CurrentTurn};
use serde_json::{Value, json};

/// What a turn used of its model, counted by the node's proxy.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TurnUsage {
    /// Tokens that went in, without those of a cache.
    pub input: u64,
    /// Tokens that came out.
    pub output: u64,
    /// Tokens that went in and were in the cache.
    pub cache_read: u64,
    /// Tokens that went in and were put into the cache.
    pub cache_write: u64,
    /// US dollars; `None` where the proxy knows no prices.
    pub cost_usd: Option<f64>,
    /// Requests that the model's API answered.
    pub requests: u64,
}

/// Told what each request of a turn used, as soon as it has ended. Must not wait.
pub(crate) type SpendSink = Arc<dyn Fn(&TurnUsage) + Send + Sync>;

impl TurnUsage {
    /// All tokens, cached ones too.
    pub fn total(&self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write].into_iter().fold(0, u64::saturating_add)
    }

    /// What one request used; `None` if it was none that costs something.
    fn of(report: &CallReport) -> Option<TurnUsage> {
        let was_answered = report.spends && report.status.is_some() && report.outcome != CallOutcome::Refused;
        if !was_answered && report.usage.is_none() {
            return None;
        }
        let usage = report.usage.unwrap_or_default();
        Some(TurnUsage {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            cost_usd: report.cost_usd,
            requests: 1,
        })
    }

    fn add(&mut self, other: &TurnUsage) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.requests = self.requests.saturating_add(other.requests);
        if let Some(cost) = other.cost_usd {
            *self.cost_usd.get_or_insert(0.0) += cost;
        }
    }

    /// As it is in a response: `usage`.
    pub(crate) fn to_value(self) -> Value {
        let mut value = json!({
            "input": self.input, "output": self.output, "cache_read": self.cache_read, "cache_write": self.cache_write,
            "requests": self.requests,
        });
        if let Some(cost) = self.cost_usd {
            value["cost_usd"] = json!(cost);
        }
        value
    }

    /// Out of a response; `None` if nothing like it is in there.
    pub(crate) fn in_response(response: &Value) -> Option<TurnUsage> {
        let usage = response.get("usage")?;
        let count = |name: &str| usage.get(name)?.as_u64();
        Some(TurnUsage {
            input: count("input")?,
            output: count("output")?,
            cache_read: count("cache_read")?,
            cache_write: count("cache_write")?,
            cost_usd: usage.get("cost_usd").and_then(Value::as_f64),
            requests: count("requests")?,
        })
    }
}

/// Counts what the turn that runs uses.
#[derive(Default)]
pub(super) struct Tally {
    /// For the proxy: which turn runs.
    pub(super) turn: CurrentTurn,
    /// The last turn that began.
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    number: u64,
    usage: TurnUsage,
    sink: Option<SpendSink>,
}

impl Tally {
    pub(super) fn begin(&self, number: u64, sink: Option<SpendSink>) {
        *self.counted() = Counted { number, usage: TurnUsage::default(), sink };
        self.turn.set(Some(number));
    }

    /// What begins now is of no turn.
    pub(super) fn end(&self) {
        self.turn.set(None);
    }

    /// What a turn has used, if it is the last one that began. Its requests that end later are told to its sink until the next one
    /// begins: whoever pays for the turn pays for them.
    pub(super) fn used(&self, number: u64) -> Option<TurnUsage> {
        let counted = self.counted();
        (counted.number == number).then_some(counted.usage)
    }

    /// A request has ended.
    pub(super) fn hear(&self, report: &CallReport) {
        let Some(used) = TurnUsage::of(report) else { return };
        let sink = {
            let mut counted = self.counted();
            if report.turn != Some(counted.number) {
                return;
            }
            counted.usage.add(&used);
            counted.sink.clone()
        };
        if let Some(sink) = sink {
            sink(&used);
        }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counted = self.counted();
        f.debug_struct("Tally")
            .field("number", &counted.number)
            .field("usage", &counted.usage)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, SystemTime};

    use nerve_proxy::Usage;

    use super::*;

    fn call(turn: u64) -> CallReport {
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
            asked_model: None,
            model: None,
            status: Some(200),
            outcome: CallOutcome::Whole,
            error: None,
            usage: Some(Usage { input: 1, output: 2, ..Usage::default() }),
            cost_usd: None,
            started: SystemTime::UNIX_EPOCH,
            took: Duration::ZERO,
            first: None,
            bytes: 0,
            traceparent: None,
        }
    }

    #[test]
    fn a_call_that_ends_after_its_turn_is_paid_for_by_it() {
        let (tally, paid) = (Tally::default(), Arc::new(AtomicU64::new(0)));
        let sink = || -> Option<SpendSink> {
            let paid = paid.clone();
            Some(Arc::new(move |used| {
                paid.fetch_add(used.total(), Ordering::Relaxed);
            }))
        };
        tally.begin(1, sink());
        tally.hear(&call(1));
        tally.end();
        assert_eq!(tally.used(1).unwrap().total(), 3);
        tally.hear(&call(1));
        assert_eq!(paid.load(Ordering::Relaxed), 6);
        tally.begin(2, sink());
        tally.hear(&call(1));
        assert_eq!(
            (paid.load(Ordering::Relaxed), tally.used(1), tally.used(2).unwrap().total()),
            (6, None, 0)
        );
    }
}
