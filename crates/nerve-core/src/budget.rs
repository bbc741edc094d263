//! What a run may use, and what it has used (facts: agent capabilities).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nerve_term::event::TsNs;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::error::{EngineError, ErrorKind};
use crate::proxy::TurnUsage;

/// Limits of a run; none is one. A limit is exceeded when the usage has reached it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Budget {
    /// Tokens of all turns.
    pub max_tokens: Option<u64>,
    /// Seconds since the budget was given.
    pub max_time_seconds: Option<f64>,
    /// Steps that may begin, those of nested graphs included.
    pub max_steps: Option<u64>,
    /// Calls of a model's API.
    pub max_api_calls: Option<u64>,
    /// Dollars.
    pub max_cost_dollars: Option<f64>,
}

/// What has been used. Cheap to clone: all clones are the same counters.
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

/// A budget and what has been used of it, inside those it counts toward too.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    inner: Arc<PoolInner>,
}

#[derive(Debug)]
struct PoolInner {
    budget: Option<Budget>,
    usage: ResourceUsage,
    parent: Option<Pool>,
    /// Only counts apart.
    part: bool,
}

/// A budget that is used up: what a run that it stopped says of it.
#[derive(Debug, Clone)]
pub struct Exceeded {
    /// `Token limit exceeded: 12/10` …
    pub reason: String,
    /// The budget.
    pub budget: Budget,
    /// What was used of it.
    pub usage: ResourceUsage,
}

impl Budget {
    /// What is wrong with it, in words.
    pub fn problems(&self) -> Vec<String> {
        let negative = |name: &str, limit: Option<f64>| {
            limit
                .filter(|limit| !limit.is_finite() || *limit < 0.0)
                .map(|_| format!("budget: {name} must be a number that is not negative"))
        };
        [
            negative("max_time_seconds", self.max_time_seconds),
            negative("max_cost_dollars", self.max_cost_dollars),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Which limit `usage` has reached, in the order tokens, steps, time, calls, cost.
    pub fn exceeded(&self, usage: &ResourceUsage) -> Option<String> {
        self.check(usage, true)
    }

    fn check(&self, usage: &ResourceUsage, steps_too: bool) -> Option<String> {
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
            .or_else(|| count("Step", usage.steps_executed(), self.max_steps.filter(|_| steps_too)))
            .or_else(time)
            .or_else(|| count("API call", usage.api_calls(), self.max_api_calls))
            .or_else(cost)
    }
}

impl ResourceUsage {
    /// Nothing used, from now on.
    pub fn new() -> ResourceUsage {
        ResourceUsage { counters: Arc::new(Counters::since(Clock::start().now(), Instant::now())) }
    }

    /// Tokens.
    pub fn tokens_used(&self) -> u64 {
        self.counters.tokens.load(Ordering::Relaxed)
    }

    /// Steps that were run, to whatever end; retries of one are one step.
    pub fn steps_executed(&self) -> u64 {
        self.counters.steps.load(Ordering::Relaxed)
    }

    /// Calls of a model's API.
    pub fn api_calls(&self) -> u64 {
        self.counters.api_calls.load(Ordering::Relaxed)
    }

    /// Dollars.
    pub fn cost_dollars(&self) -> f64 {
        self.counters.cost.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// When counting began.
    pub fn start_time(&self) -> TsNs {
        self.counters.start_time
    }

    /// Time since then, by a clock that nobody sets.
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
    /// Counts, and limits if there is a budget; inside `parent`, if there is one.
    pub(crate) fn new(budget: Option<Budget>, parent: Option<Pool>) -> Pool {
        Pool { inner: Arc::new(PoolInner { budget, usage: ResourceUsage::new(), parent, part: false }) }
    }

    /// Counts apart what counts toward this one too, from this one's begin on: cheaper than a pool that asks for the time.
    pub(crate) fn part(&self) -> Pool {
        let Counters { start_time, started, .. } = *self.inner.usage.counters;
        let usage = ResourceUsage { counters: Arc::new(Counters::since(start_time, started)) };
        Pool { inner: Arc::new(PoolInner { budget: None, usage, parent: Some(self.clone()), part: true }) }
    }

    /// This one, or the one that it is a part of.
    pub(crate) fn budgeted(&self) -> &Pool {
        let mut pool = self;
        while pool.inner.part
            && let Some(parent) = &pool.inner.parent
        {
            pool = parent;
        }
        pool
    }

    pub(crate) fn budget(&self) -> Option<&Budget> {
        self.inner.budget.as_ref()
    }

    pub(crate) fn usage(&self) -> &ResourceUsage {
        &self.inner.usage
    }

    pub(crate) fn add_tokens(&self, tokens: u64) {
        self.each(|counters| {
            counters.tokens.fetch_add(tokens, Ordering::Relaxed);
        });
    }

    pub(crate) fn add_step(&self) {
        self.each(|counters| {
            counters.steps.fetch_add(1, Ordering::Relaxed);
        });
    }

    pub(crate) fn add_api_call(&self, cost_dollars: f64) {
        let cost = billionths(cost_dollars);
        self.each(|counters| {
            counters.api_calls.fetch_add(1, Ordering::Relaxed);
            counters.cost.fetch_add(cost, Ordering::Relaxed);
        });
    }

    /// Counts what a node's proxy has seen.
    pub(crate) fn add_usage(&self, used: &TurnUsage) {
        self.add_tokens(used.total());
        let cost = billionths(used.cost_usd.unwrap_or(0.0));
        self.each(|counters| {
            counters.api_calls.fetch_add(used.requests, Ordering::Relaxed);
            counters.cost.fetch_add(cost, Ordering::Relaxed);
        });
    }

    /// Is nothing used up, here and in what this counts toward? Before a step the limit of steps counts too; after one it does
    /// not: as many steps may run as it says.
    pub(crate) fn check(&self, before_a_step: bool) -> Result<(), EngineError> {
        let mut pool = Some(self);
        while let Some(at) = pool {
            at.check_own(before_a_step)?;
            pool = at.inner.parent.as_ref();
        }
        Ok(())
    }

    /// Would a limit of tokens be reached with so many more, here or in what this counts toward?
    pub(crate) fn is_reached_with(&self, tokens: u64) -> bool {
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

    /// As [`Pool::check`], of this budget alone.
    pub(crate) fn check_own(&self, before_a_step: bool) -> Result<(), EngineError> {
        let inner = &self.inner;
        let Some(budget) = &inner.budget else { return Ok(()) };
        let Some(reason) = budget.check(&inner.usage, before_a_step) else { return Ok(()) };
        let exceeded =
            Exceeded { reason: reason.clone(), budget: budget.clone(), usage: inner.usage.clone() };
        Err(EngineError::new(ErrorKind::Budget, reason).with_exceeded(exceeded))
    }

    /// The time at which the first limit of time is reached.
    pub(crate) fn deadline(&self) -> Option<Instant> {
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

    /// As [`Pool::deadline`], of this budget alone.
    pub(crate) fn own_deadline(&self) -> Option<Instant> {
        let limit = self.inner.budget.as_ref()?.max_time_seconds?;
        self.inner.usage.counters.started.checked_add(Duration::try_from_secs_f64(limit).ok()?)
    }

    /// Counts a step here that what this counts toward has counted already.
    pub(crate) fn add_own_step(&self) {
        self.inner.usage.counters.steps.fetch_add(1, Ordering::Relaxed);
    }

    fn each(&self, count: impl Fn(&Counters)) {
        let mut pool = Some(self);
        while let Some(Pool { inner }) = pool {
            count(&inner.usage.counters);
            pool = inner.parent.as_ref();
        }
    }
}

/// A cost that is no amount of money counts as none.
fn billionths(dollars: f64) -> u64 {
    if dollars.is_finite() { (dollars.max(0.0) * 1e9).round() as u64 } else { 0 }
}
