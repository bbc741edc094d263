//! Budgets: resource limits of runs, and counters of their usage.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nerve_types::TsNs;
use tokio::time::Instant;

use crate::error::{EngineError, ErrorKind};
use crate::proxy::TurnUsage;
use nerve_host::clock::Clock;

/// Resource limits of a run; `None` means unlimited. A limit is exceeded when the usage reaches it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Budget {
    /// Tokens of all turns.
    pub max_tokens: Option<u64>,
    /// Seconds since the budget was set.
    pub max_time_seconds: Option<f64>,
    /// Number of steps that may start, including those of nested graphs.
    pub max_steps: Option<u64>,
    /// Number of model API calls.
    pub max_api_calls: Option<u64>,
    /// Cost in dollars.
    pub max_cost_dollars: Option<f64>,
}

/// Counters of used resources. Cheap to clone: clones share the counters.
#[derive(Debug, Clone)]
pub struct ResourceUsage {
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

/// A budget with its usage. Usage also counts toward the parent pools.
#[derive(Debug, Clone)]
pub struct Pool {
    inner: Arc<PoolInner>,
}

#[derive(Debug)]
struct PoolInner {
    budget: Option<Budget>,
    usage: ResourceUsage,
    parent: Option<Pool>,
    /// A pool without a budget, which only counts separately.
    is_subtotal: bool,
}

/// An exceeded budget, as reported by the run it stopped.
#[derive(Debug, Clone)]
pub struct Exceeded {
    /// Reason, for example `Token limit exceeded: 12/10`.
    pub reason: String,
    /// The exceeded budget.
    pub budget: Budget,
    /// Usage of the budget.
    pub usage: ResourceUsage,
}

impl Budget {
    /// Returns the problems of the budget.
    pub fn problems(&self) -> Vec<String> {
        let negative = |name: &str, limit: Option<f64>| {
            limit
                .filter(|limit| !limit.is_finite() || *limit < 0.0)
                .map(|_| format!("budget: {name} must be a non-negative number"))
        };
        [
            negative("max_time_seconds", self.max_time_seconds),
            negative("max_cost_dollars", self.max_cost_dollars),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns the first limit that `usage` has reached, in the order tokens, steps, time, calls, cost.
    pub fn exceeded(&self, usage: &ResourceUsage) -> Option<String> {
        self.check(usage, true)
    }

    fn check(&self, usage: &ResourceUsage, with_steps: bool) -> Option<String> {
        let count = |what: &str, used: u64, limit: Option<u64>| {
            limit.filter(|limit| used >= *limit).map(|limit| format!("{what} limit exceeded: {used}/{limit}"))
        };
        let time = || {
            let limit = self.max_time_seconds?;
            let used = usage.elapsed().as_secs_f64();
            (used >= limit).then(|| format!("Time limit exceeded: {used:.1}s/{limit}s"))
        };
        let cost = || {
            let (limit, used) = (self.max_cost_dollars?, usage.cost_dollars());
            (used >= limit).then(|| format!("Cost limit exceeded: ${used}/${limit}"))
        };
        count("Token", usage.tokens_used(), self.max_tokens)
            .or_else(|| count("Step", usage.steps_executed(), self.max_steps.filter(|_| with_steps)))
            .or_else(time)
            .or_else(|| count("API call", usage.api_calls(), self.max_api_calls))
            .or_else(cost)
    }
}

impl ResourceUsage {
    /// Creates counters that start at zero, now.
    pub fn new() -> ResourceUsage {
        ResourceUsage { counters: Arc::new(Counters::since(Clock::start().now(), Instant::now())) }
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
    pub fn cost_dollars(&self) -> f64 {
        self.counters.cost.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// Returns when counting started.
    pub fn start_time(&self) -> TsNs {
        self.counters.start_time
    }

    /// Returns the time since then, by a monotonic clock.
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

impl Default for ResourceUsage {
    fn default() -> ResourceUsage {
        ResourceUsage::new()
    }
}

impl PartialEq for ResourceUsage {
    fn eq(&self, other: &ResourceUsage) -> bool {
        Arc::ptr_eq(&self.counters, &other.counters)
    }
}

impl Pool {
    /// Creates a pool, with limits if there is a budget, and inside `parent` if given.
    pub fn new(budget: Option<Budget>, parent: Option<Pool>) -> Pool {
        Pool {
            inner: Arc::new(PoolInner { budget, usage: ResourceUsage::new(), parent, is_subtotal: false }),
        }
    }

    /// Creates a child pool whose usage also counts toward this one. It inherits the start time, which saves a clock read.
    pub fn subtotal(&self) -> Pool {
        let Counters { start_time, started, .. } = *self.inner.usage.counters;
        let usage = ResourceUsage { counters: Arc::new(Counters::since(start_time, started)) };
        Pool {
            inner: Arc::new(PoolInner { budget: None, usage, parent: Some(self.clone()), is_subtotal: true }),
        }
    }

    /// Returns the nearest pool that is not just a subtotal: this one or an ancestor.
    pub(crate) fn budgeted(&self) -> &Pool {
        let mut pool = self;
        while pool.inner.is_subtotal
            && let Some(parent) = &pool.inner.parent
        {
            pool = parent;
        }
        pool
    }

    pub(crate) fn budget(&self) -> Option<&Budget> {
        self.inner.budget.as_ref()
    }

    /// Returns the usage of this pool.
    pub fn usage(&self) -> &ResourceUsage {
        &self.inner.usage
    }

    pub(crate) fn add_tokens(&self, tokens: u64) {
        self.for_each_pool(|counters| {
            counters.tokens.fetch_add(tokens, Ordering::Relaxed);
        });
    }

    /// Counts a step toward all budgets.
    pub fn add_step(&self) {
        self.for_each_pool(|counters| {
            counters.steps.fetch_add(1, Ordering::Relaxed);
        });
    }

    pub(crate) fn add_api_call(&self, cost_dollars: f64) {
        let cost = billionths(cost_dollars);
        self.for_each_pool(|counters| {
            counters.api_calls.fetch_add(1, Ordering::Relaxed);
            counters.cost.fetch_add(cost, Ordering::Relaxed);
        });
    }

    /// Adds the usage that a node's proxy counted.
    pub fn add_usage(&self, used: &TurnUsage) {
        self.add_tokens(used.total());
        let cost = billionths(used.cost_usd.unwrap_or(0.0));
        self.for_each_pool(|counters| {
            counters.api_calls.fetch_add(used.requests, Ordering::Relaxed);
            counters.cost.fetch_add(cost, Ordering::Relaxed);
        });
    }

    /// Checks this budget and those of the parents. The step limit only counts `before_a_step`, so that exactly as many steps run
    /// as it allows.
    pub fn check(&self, before_a_step: bool) -> Result<(), EngineError> {
        let mut pool = Some(self);
        while let Some(at) = pool {
            at.check_own(before_a_step)?;
            pool = at.inner.parent.as_ref();
        }
        Ok(())
    }

    /// Returns true if `tokens` more would reach a token limit here or in a parent.
    pub(crate) fn would_reach_token_limit(&self, tokens: u64) -> bool {
        let mut pool = Some(self);
        while let Some(Pool { inner }) = pool {
            let limit = inner.budget.as_ref().and_then(|budget| budget.max_tokens);
            if limit.is_some_and(|limit| inner.usage.tokens_used().saturating_add(tokens) >= limit) {
                return true;
            }
            pool = inner.parent.as_ref();
        }
        false
    }

    /// Checks this budget alone, as [`Pool::check`] does all.
    pub fn check_own(&self, before_a_step: bool) -> Result<(), EngineError> {
        let inner = &self.inner;
        let Some(budget) = &inner.budget else { return Ok(()) };
        let Some(reason) = budget.check(&inner.usage, before_a_step) else { return Ok(()) };
        let exceeded =
            Exceeded { reason: reason.clone(), budget: budget.clone(), usage: inner.usage.clone() };
        Err(EngineError::new(ErrorKind::Budget, reason).with_exceeded(exceeded))
    }

    /// Returns when the first time limit is reached.
    pub fn deadline(&self) -> Option<Instant> {
        let mut pool = Some(self);
        let mut first = None;
        while let Some(at) = pool {
            first = match (first, at.own_deadline()) {
                (Some(first), Some(at)) => Some(std::cmp::min::<Instant>(first, at)),
                (first, at) => first.or(at),
            };
            pool = at.inner.parent.as_ref();
        }
        first
    }

    /// Returns the deadline of this budget alone.
    pub fn own_deadline(&self) -> Option<Instant> {
        let limit = self.inner.budget.as_ref()?.max_time_seconds?;
        self.inner.usage.counters.started.checked_add(Duration::try_from_secs_f64(limit).ok()?)
    }

    /// Counts a step that the parents have already counted.
    pub fn add_own_step(&self) {
        self.inner.usage.counters.steps.fetch_add(1, Ordering::Relaxed);
    }

    fn for_each_pool(&self, count: impl Fn(&Counters)) {
        let mut pool = Some(self);
        while let Some(Pool { inner }) = pool {
            count(&inner.usage.counters);
            pool = inner.parent.as_ref();
        }
    }
}

/// Converts dollars to billionths of a dollar; an invalid cost counts as zero.
fn billionths(dollars: f64) -> u64 {
    if dollars.is_finite() { (dollars.max(0.0) * 1e9).round() as u64 } else { 0 }
}
