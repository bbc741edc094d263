//! Pools: budgets with their usage, nested as the runs that they limit.

use std::sync::Arc;

use nerve_api::reply::ModelUsage;
use tokio::time::Instant;

use crate::budget::{Budget, Checkpoint, ExceededBudget, ResourceUsage};
use crate::error::{EngineError, ErrorKind};

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

impl Pool {
    /// Creates a pool, with limits if there is a budget, and inside `parent` if given.
    pub fn new(budget: Option<Budget>, parent: Option<Pool>) -> Pool {
        Pool {
            inner: Arc::new(PoolInner { budget, usage: ResourceUsage::new(), parent, is_subtotal: false }),
        }
    }

    /// Creates a child pool whose usage also counts toward this one. It inherits the start time, which saves a clock read.
    pub fn subtotal(&self) -> Pool {
        let usage = self.inner.usage.subtotal();
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
        self.for_each_pool(|usage| usage.add_tokens(tokens));
    }

    /// Counts a step toward all budgets.
    pub fn add_step(&self) {
        self.for_each_pool(ResourceUsage::add_step);
    }

    pub(crate) fn add_api_call(&self, cost_dollars: f64) {
        self.for_each_pool(|usage| usage.add_api_calls(1, cost_dollars));
    }

    /// Adds the usage that a node's proxy counted.
    pub fn add_usage(&self, used: &ModelUsage) {
        self.add_tokens(used.total());
        self.for_each_pool(|usage| usage.add_api_calls(used.requests, used.cost_usd.unwrap_or(0.0)));
    }

    /// Checks this budget and those of the parents. See [`Checkpoint`] for the step limit.
    pub fn check(&self, checkpoint: Checkpoint) -> Result<(), EngineError> {
        let mut pool = Some(self);
        while let Some(at) = pool {
            at.check_own(checkpoint)?;
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
    pub fn check_own(&self, checkpoint: Checkpoint) -> Result<(), EngineError> {
        let inner = &self.inner;
        let Some(budget) = &inner.budget else { return Ok(()) };
        let Some(reason) = budget.check(&inner.usage, checkpoint) else { return Ok(()) };
        let exceeded =
            ExceededBudget { reason: reason.clone(), budget: budget.clone(), usage: inner.usage.clone() };
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
        self.inner.usage.time_after(limit)
    }

    /// Counts a step that the parents have already counted.
    pub fn add_own_step(&self) {
        self.inner.usage.add_step();
    }

    fn for_each_pool(&self, count: impl Fn(&ResourceUsage)) {
        let mut pool = Some(self);
        while let Some(Pool { inner }) = pool {
            count(&inner.usage);
            pool = inner.parent.as_ref();
        }
    }
}
