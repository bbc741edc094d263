//! Budgets: resource limits of runs, and counters of their usage.
//!
//! | of | limits | usage | at a limit |
//! |---|---|---|---|
//! | a run or a step | [`RunBudget`], [`RunLimit`] | [`RunUsage`], in a [`RunPool`](crate::pool::RunPool) | [`RunGrants`](crate::grants::RunGrants), [`ExceededRunBudget`] |
//! | a node or a session | [`UsageLimits`](nerve_api::request::UsageLimits) | [`LedgerUsage`](crate::usage_ledger::LedgerUsage), in a [`UsageLedger`](crate::usage_ledger::UsageLedger) | [`GrantedAmounts`](crate::usage_ledger::GrantedAmounts), [`ReachedLimit`](crate::usage_ledger::ReachedLimit) |

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nerve_types::{TsNs, millis};
use strum::IntoStaticStr;
use tokio::time::Instant;

use nerve_host::clock::Clock;

/// Resource limits of a run; `None` means unlimited. A limit is exceeded when the usage reaches it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunBudget {
    /// Tokens of all turns.
    pub max_tokens: Option<u64>,
    /// Milliseconds since the budget was set.
    pub max_time_ms: Option<u64>,
    /// Number of steps that may start, including those of nested graphs.
    pub max_steps: Option<u64>,
    /// Number of model API calls.
    pub max_api_calls: Option<u64>,
    /// Cost in dollars.
    pub max_cost_usd: Option<f64>,
    /// Ask at a limit whether to continue, instead of stopping.
    pub asks_at_limit: bool,
}

/// One of the limits of a [`RunBudget`]. Journals contain its number in the keys of questions, so the numbers never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", prefix = "max_")]
pub enum RunLimit {
    /// [`RunBudget::max_tokens`].
    Tokens = 0,
    /// [`RunBudget::max_steps`].
    Steps = 1,
    /// [`RunBudget::max_time_ms`].
    #[strum(serialize = "time_ms")]
    Time = 2,
    /// [`RunBudget::max_api_calls`].
    ApiCalls = 3,
    /// [`RunBudget::max_cost_usd`].
    #[strum(serialize = "cost_usd")]
    Cost = 4,
}

/// The point of a run at which its budgets are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpoint {
    /// Before a step: the step limit counts, so that exactly as many steps run as it allows.
    BeforeStep,
    /// While a step runs: the step limit does not count.
    WithinStep,
}

/// Counters of the resources that a run has used. Cheap to clone: clones share the counters.
#[derive(Debug, Clone)]
pub struct RunUsage {
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct Counters {
    tokens: AtomicU64,
    steps: AtomicU64,
    api_calls: AtomicU64,
    /// Billionths of a dollar.
    cost: AtomicU64,
    start_time: TsNs,
    started: Instant,
}

/// An exceeded budget, as reported by the run it stopped.
#[derive(Debug, Clone)]
pub struct ExceededRunBudget {
    /// Reason, for example `Token limit exceeded: 12/10`.
    pub reason: String,
    /// The exceeded budget.
    pub budget: RunBudget,
    /// Usage of the budget.
    pub usage: RunUsage,
}

impl RunBudget {
    /// Returns the problems of the budget.
    pub fn problems(&self) -> Vec<String> {
        let invalid_cost = self.max_cost_usd.filter(|limit| !limit.is_finite() || *limit < 0.0);
        let problems = [
            invalid_cost.map(|_| "budget: max_cost_usd must be a non-negative number".to_string()),
            self.has_zero_limit()
                .then(|| "budget: a limit of 0 cannot be raised, so it must stop".to_string()),
        ];
        problems.into_iter().flatten().collect()
    }

    /// Returns true if the budget asks at its limits although one of them is zero, which no grant can raise.
    fn has_zero_limit(&self) -> bool {
        let counts = [self.max_tokens, self.max_steps, self.max_time_ms, self.max_api_calls];
        self.asks_at_limit && (counts.contains(&Some(0)) || self.max_cost_usd == Some(0.0))
    }

    /// Returns the first limit that `usage` has reached and why, in the order tokens, steps, time, calls, cost. `elapsed`: the time
    /// that counts.
    pub(crate) fn reached(
        &self,
        usage: &RunUsage,
        elapsed: impl FnOnce() -> Duration,
        checkpoint: Checkpoint,
    ) -> Option<(RunLimit, String)> {
        let count = |kind: RunLimit, what: &str, used: u64, limit: Option<u64>| {
            let limit = limit.filter(|limit| used >= *limit)?;
            Some((kind, format!("{what} limit exceeded: {used}/{limit}")))
        };
        let time = || {
            let (limit, used) = (self.max_time_ms?, elapsed());
            let reason = || format!("Time limit exceeded: {:.1}s/{}s", used.as_secs_f64(), seconds(limit));
            (millis(used) >= limit).then(|| (RunLimit::Time, reason()))
        };
        let cost = || {
            let (limit, used) = (self.max_cost_usd?, usage.cost_usd());
            (used >= limit).then(|| (RunLimit::Cost, format!("Cost limit exceeded: ${used}/${limit}")))
        };
        let steps = self.max_steps.filter(|_| checkpoint == Checkpoint::BeforeStep);
        count(RunLimit::Tokens, "Token", usage.tokens_used(), self.max_tokens)
            .or_else(|| count(RunLimit::Steps, "Step", usage.steps_executed(), steps))
            .or_else(time)
            .or_else(|| count(RunLimit::ApiCalls, "API call", usage.api_calls(), self.max_api_calls))
            .or_else(cost)
    }

    /// Formats a limit for display; empty if it is not set.
    pub fn text_of(&self, limit: RunLimit) -> String {
        let count = |limit: Option<u64>| limit.map(|limit| limit.to_string());
        let text = match limit {
            RunLimit::Tokens => count(self.max_tokens),
            RunLimit::Steps => count(self.max_steps),
            RunLimit::Time => self.max_time_ms.map(|limit| format!("{}s", seconds(limit))),
            RunLimit::ApiCalls => count(self.max_api_calls),
            RunLimit::Cost => self.max_cost_usd.map(|limit| format!("${limit}")),
        };
        text.unwrap_or_default()
    }

    /// Raises one limit to the first multiple of the same limit in `grant` that exceeds the usage.
    pub(crate) fn raise(&mut self, limit: RunLimit, grant: &RunBudget, usage: &RunUsage, elapsed: Duration) {
        let count =
            |limit: Option<u64>, used| limit.map(|limit| limit.saturating_add(count_to_grant(limit, used)));
        let cost = |limit: Option<f64>, used| limit.map(|limit| limit + cost_to_grant(limit, used));
        match limit {
            RunLimit::Tokens => self.max_tokens = count(grant.max_tokens, usage.tokens_used()),
            RunLimit::Steps => self.max_steps = count(grant.max_steps, usage.steps_executed()),
            RunLimit::Time => self.max_time_ms = count(grant.max_time_ms, millis(elapsed)),
            RunLimit::ApiCalls => self.max_api_calls = count(grant.max_api_calls, usage.api_calls()),
            RunLimit::Cost => self.max_cost_usd = cost(grant.max_cost_usd, usage.cost_usd()),
        }
    }
}

impl RunUsage {
    /// Creates counters that start at zero, now.
    pub fn new() -> RunUsage {
        RunUsage { counters: Arc::new(Counters::since(Clock::start().now(), Instant::now())) }
    }

    /// Creates counters that start at zero and share this start time, which saves a clock read.
    pub(crate) fn subtotal(&self) -> RunUsage {
        let Counters { start_time, started, .. } = *self.counters;
        RunUsage { counters: Arc::new(Counters::since(start_time, started)) }
    }

    pub(crate) fn add_tokens(&self, tokens: u64) {
        self.counters.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    pub(crate) fn add_step(&self) {
        self.counters.steps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_api_calls(&self, calls: u64, cost_usd: f64) {
        self.counters.api_calls.fetch_add(calls, Ordering::Relaxed);
        self.counters.cost.fetch_add(billionths(cost_usd), Ordering::Relaxed);
    }

    /// Returns the time `limit` milliseconds after the start; `None` if it is too far away.
    pub(crate) fn time_after(&self, limit: u64) -> Option<Instant> {
        self.counters.started.checked_add(Duration::from_millis(limit))
    }

    /// Returns when counting started, by a monotonic clock.
    pub(crate) fn started(&self) -> Instant {
        self.counters.started
    }

    /// Returns the number of tokens.
    pub fn tokens_used(&self) -> u64 {
        self.counters.tokens.load(Ordering::Relaxed)
    }

    /// Returns the number of steps that ran, successful or not. Retries do not count.
    pub fn steps_executed(&self) -> u64 {
        self.counters.steps.load(Ordering::Relaxed)
    }

    /// Returns the number of model API calls.
    pub fn api_calls(&self) -> u64 {
        self.counters.api_calls.load(Ordering::Relaxed)
    }

    /// Returns the cost in dollars.
    pub fn cost_usd(&self) -> f64 {
        self.counters.cost.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// Returns when counting started.
    pub fn start_time(&self) -> TsNs {
        self.counters.start_time
    }

    /// Returns the time since counting started, by a monotonic clock.
    pub fn elapsed(&self) -> Duration {
        self.counters.started.elapsed()
    }
}

impl Counters {
    fn since(start_time: TsNs, started: Instant) -> Counters {
        let zero = || AtomicU64::new(0);
        Counters { tokens: zero(), steps: zero(), api_calls: zero(), cost: zero(), start_time, started }
    }
}

impl Default for RunUsage {
    fn default() -> RunUsage {
        RunUsage::new()
    }
}

impl PartialEq for RunUsage {
    fn eq(&self, other: &RunUsage) -> bool {
        Arc::ptr_eq(&self.counters, &other.counters)
    }
}

/// Returns the multiple of a limit to grant in addition to it, so that the sum exceeds the usage. A limit of 0 counts as 1.
pub(crate) fn count_to_grant(limit: u64, used: u64) -> u64 {
    let limit = limit.max(1);
    (used / limit).saturating_mul(limit)
}

/// Returns the multiple of a limit in dollars to grant in addition to it, so that the sum exceeds the usage.
pub(crate) fn cost_to_grant(limit: f64, used: f64) -> f64 {
    let times = (used / limit).floor();
    // The quotient may have been rounded.
    let is_enough = limit + limit * times > used;
    limit * if is_enough { times } else { times + 1.0 }
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}

/// Converts dollars to billionths of a dollar; an invalid cost counts as zero.
fn billionths(dollars: f64) -> u64 {
    if dollars.is_finite() { (dollars.max(0.0) * 1e9).round() as u64 } else { 0 }
}
