//! Counts the responses in an agent's session file toward the turn that caused them, if no proxy counts them.

use std::sync::Arc;

use nerve_agent::parse::Tokens;
use nerve_api::reply::ModelUsage;
use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use nerve_types::token_usage::TokenUsage;
use parking_lot::Mutex;

use crate::proxy::SpendSink;

/// Counts responses toward the last turn that began. Cheap to clone: clones share it.
#[derive(Clone, Default)]
pub(super) struct TurnMeter(Arc<Mutex<Option<MeteredTurn>>>);

struct MeteredTurn {
    sink: SpendSink,
    began: TsMs,
    ended: Option<TsMs>,
    counted: Counted,
}

/// The part of a turn that has been counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Nothing,
    /// Its responses; more can follow.
    Responses,
    /// The tokens of its answer, which are those of all responses.
    Answer,
}

impl TurnMeter {
    /// Begins a turn, whose usage `sink` receives.
    pub(super) fn begin(&self, now: TsNs, sink: Option<SpendSink>) {
        let turn =
            sink.map(|sink| MeteredTurn { sink, began: now.into(), ended: None, counted: Counted::Nothing });
        *self.0.lock() = turn;
    }

    /// Ends the turn: responses stamped later belong to prompts that someone typed.
    pub(super) fn end(&self, now: TsNs) {
        if let Some(turn) = &mut *self.0.lock() {
            turn.ended.get_or_insert(now.into());
        }
    }

    /// Counts a response, which may be read after the turn has ended.
    pub(super) fn record(&self, at: TsMs, used: &ModelUsage) {
        let sink = self.0.lock().as_mut().and_then(|turn| {
            let is_within = at >= turn.began && turn.ended.is_none_or(|ended| at <= ended);
            if !is_within || turn.counted == Counted::Answer {
                return None;
            }
            turn.counted = Counted::Responses;
            Some(Arc::clone(&turn.sink))
        });
        if let Some(sink) = sink {
            sink(used);
        }
    }

    /// Counts the tokens of a turn's answer, unless responses were counted.
    pub(super) fn record_answer(&self, tokens: Option<Tokens>) {
        let sink = self.0.lock().as_mut().and_then(|turn| {
            if turn.counted != Counted::Nothing {
                return None;
            }
            turn.counted = Counted::Answer;
            Some(Arc::clone(&turn.sink))
        });
        if let Some((sink, tokens)) = sink.zip(tokens) {
            let input = tokens.input.or(tokens.total).unwrap_or(0);
            let tokens = TokenUsage { input, output: tokens.output.unwrap_or(0), ..TokenUsage::default() };
            sink(&ModelUsage { tokens, ..ModelUsage::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn meter() -> (TurnMeter, Arc<AtomicU64>) {
        let (meter, counted) = (TurnMeter::default(), Arc::new(AtomicU64::new(0)));
        let sum = Arc::clone(&counted);
        let sink: SpendSink = Arc::new(move |used| {
            sum.fetch_add(used.tokens.total(), Ordering::Relaxed);
        });
        meter.begin(TsNs(5_000_000), Some(sink));
        (meter, counted)
    }

    fn used(input: u64) -> ModelUsage {
        let tokens = TokenUsage { input, ..TokenUsage::default() };
        ModelUsage { tokens, ..ModelUsage::default() }
    }

    #[test]
    fn typed_prompts_do_not_count_toward_the_turn() {
        let (meter, counted) = meter();
        meter.record(TsMs(4), &used(1));
        meter.record(TsMs(6), &used(10));
        meter.end(TsNs(9_000_000));
        meter.record(TsMs(9), &used(100));
        meter.record(TsMs(10), &used(1000));
        assert_eq!(counted.load(Ordering::Relaxed), 110);
    }

    #[test]
    fn answer_counts_only_without_responses() {
        let tokens = Some(Tokens { input: Some(1), output: Some(2), total: None });
        let (meter, counted) = meter();
        meter.record(TsMs(6), &used(10));
        meter.record_answer(tokens);
        assert_eq!(counted.load(Ordering::Relaxed), 10);
        let (meter, counted) = self::meter();
        meter.record_answer(tokens);
        meter.record_answer(tokens);
        meter.record(TsMs(6), &used(10));
        assert_eq!(counted.load(Ordering::Relaxed), 3, "once");
    }
}
