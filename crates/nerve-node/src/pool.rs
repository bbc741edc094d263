//! Pools: budgets with their usage. They nest like the runs that they limit.

use std::sync::Arc;
use std::time::Duration;

use nerve_api::reply::ModelUsage;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep_until};

use crate::budget::{Checkpoint, ExceededRunBudget, RunBudget, RunLimit, RunUsage};
use crate::error::{EngineError, ErrorKind};
use crate::grants::RunGrants;

/// A budget with its usage. Usage also counts toward the parent pools.
#[derive(Debug, Clone)]
pub struct RunPool {
    inner: Arc<PoolInner>,
}

#[derive(Debug)]
struct PoolInner {
    budget: Option<RunBudget>,
    /// Grants of a budget that asks at its limits.
    grants: Option<Box<RunGrants>>,
    usage: RunUsage,
    parent: Option<RunPool>,
    /// A pool without a budget, which only counts separately.
    is_subtotal: bool,
    /// True if this pool or an ancestor has a budget.
    is_limited: bool,
}

impl RunPool {
    /// Creates the pool of a graph, with limits if there is a budget, and inside `parent` if given. `step`: path of the step that runs
    /// the graph; `None` for the outermost one.
    pub fn new(budget: Option<RunBudget>, step: Option<Arc<str>>, parent: Option<RunPool>) -> RunPool {
        let prefix = || step.map_or_else(|| "".into(), |step| format!("{step}/").into());
        RunPool::open(budget, prefix, parent)
    }

    /// Creates the pool of the step at a path.
    pub(crate) fn of_step(budget: RunBudget, step: Option<Arc<str>>, parent: RunPool) -> RunPool {
        RunPool::open(Some(budget), || step.unwrap_or_default(), Some(parent))
    }

    fn open(
        budget: Option<RunBudget>,
        prefix: impl FnOnce() -> Arc<str>,
        parent: Option<RunPool>,
    ) -> RunPool {
        let asking = budget.as_ref().filter(|budget| budget.asks_at_limit);
        let grants = asking.map(|budget| Box::new(RunGrants::new(budget.clone(), prefix())));
        let usage = RunUsage::new();
        let is_limited = budget.is_some() || parent.as_ref().is_some_and(|parent| parent.inner.is_limited);
        let inner = PoolInner { budget, grants, usage, parent, is_subtotal: false, is_limited };
        RunPool { inner: Arc::new(inner) }
    }

    /// Creates a child pool whose usage also counts toward this one. It inherits the start time, which saves a clock read.
    pub fn subtotal(&self) -> RunPool {
        let (usage, parent, is_limited) =
            (self.inner.usage.subtotal(), Some(self.clone()), self.inner.is_limited);
        let inner = PoolInner { budget: None, grants: None, usage, parent, is_subtotal: true, is_limited };
        RunPool { inner: Arc::new(inner) }
    }

    /// Returns the nearest pool that is not just a subtotal: this one or an ancestor. It may have no budget.
    pub(crate) fn nearest_full_pool(&self) -> &RunPool {
        self.ancestry().find(|pool| !pool.inner.is_subtotal).unwrap_or(self)
    }

    /// Returns the budget as it was set.
    pub(crate) fn budget(&self) -> Option<&RunBudget> {
        self.inner.budget.as_ref()
    }

    /// Returns the usage of this pool.
    pub fn usage(&self) -> &RunUsage {
        &self.inner.usage
    }

    pub(crate) fn add_tokens(&self, tokens: u64) {
        self.add(|usage| usage.add_tokens(tokens));
    }

    /// Counts a step toward all budgets.
    pub fn add_step(&self) {
        self.ancestry().for_each(RunPool::add_own_step);
    }

    pub(crate) fn add_cost(&self, dollars: f64) {
        self.add_api_calls(0, dollars);
    }

    /// Counts calls to a model's API and their cost toward all budgets.
    pub fn add_api_calls(&self, calls: u64, cost_usd: f64) {
        self.add(|usage| usage.add_api_calls(calls, cost_usd));
    }

    /// Adds the usage that a node's proxy counted.
    pub fn add_usage(&self, used: &ModelUsage) {
        self.add_tokens(used.tokens.total());
        self.add_api_calls(used.requests, used.cost_usd.unwrap_or(0.0));
    }

    fn add(&self, count: impl Fn(&RunUsage)) {
        for pool in self.ancestry() {
            count(pool.usage());
            if let Some(grants) = pool.inner.grants.as_ref().filter(|_| pool.is_at_limit()) {
                grants.notify_limit();
            }
        }
    }

    /// Checks the budgets of this pool and its ancestors. See [`Checkpoint`] for the step limit.
    ///
    /// # Errors
    /// Budget: a limit is reached.
    pub fn check(&self, checkpoint: Checkpoint) -> Result<(), EngineError> {
        if !self.inner.is_limited {
            return Ok(());
        }
        self.ancestry().try_for_each(|pool| pool.check_own(checkpoint))
    }

    /// Checks only the budgets that stop at a limit, and those whose grant was refused.
    ///
    /// # Errors
    /// Budget: a limit is reached.
    pub fn check_stops(&self, checkpoint: Checkpoint) -> Result<(), EngineError> {
        if !self.inner.is_limited {
            return Ok(());
        }
        self.pools_that_stop().try_for_each(|pool| pool.check_own(checkpoint))
    }

    /// Returns the innermost pool that can ask for a grant and has reached a limit.
    pub fn asking_pool_at_limit(&self, checkpoint: Checkpoint) -> Option<(&RunPool, &RunGrants)> {
        let pool = self.ancestry().find(|pool| pool.can_ask() && pool.reached_limit(checkpoint).is_some())?;
        Some((pool, pool.inner.grants.as_deref()?))
    }

    /// Returns true if `tokens` more would reach a token limit at which the run stops.
    pub(crate) fn would_stop_at_token_limit(&self, tokens: u64) -> bool {
        self.pools_that_stop().any(|pool| {
            let limit = pool.limits().and_then(|budget| budget.max_tokens);
            limit.is_some_and(|limit| pool.usage().tokens_used().saturating_add(tokens) >= limit)
        })
    }

    /// Checks only the budget of this pool. [`RunPool::check`] also checks those of its ancestors.
    ///
    /// # Errors
    /// Budget: a limit is reached.
    pub fn check_own(&self, checkpoint: Checkpoint) -> Result<(), EngineError> {
        let Some((_, reason)) = self.reached_limit(checkpoint) else { return Ok(()) };
        let budget = self.limits().unwrap_or_default();
        let exceeded = ExceededRunBudget { reason: reason.clone(), budget, usage: self.usage().clone() };
        Err(EngineError::new(ErrorKind::Budget, reason).with_exceeded(exceeded))
    }

    /// Returns the first reached limit of this budget alone, and why.
    pub fn reached_limit(&self, checkpoint: Checkpoint) -> Option<(RunLimit, String)> {
        self.limits()?.reached(self.usage(), || self.elapsed(), checkpoint)
    }

    /// Returns the limits of this budget after a grant: `limit` is the first multiple of its original amount above the usage.
    pub fn granted_limits(&self, limit: RunLimit) -> Option<RunBudget> {
        let mut limits = self.limits()?;
        limits.raise(limit, self.inner.budget.as_ref()?, self.usage(), self.elapsed());
        Some(limits)
    }

    /// Waits until the nearest pool that is not just a subtotal has reached a limit at which it asks. Its ancestors are watched by
    /// their own graphs. Call it again after each question.
    pub async fn wait_for_limit(&self) {
        let pool = self.nearest_full_pool();
        let Some(grants) = pool.inner.grants.as_ref().filter(|_| pool.can_ask()) else {
            return std::future::pending().await;
        };
        let limit = async {
            tokio::select! {
                () = pool.wait_for_own_time_limit() => {}
                () = grants.wait_for_limit() => {}
            }
        };
        // Must end even if the steps have used up the task's cooperative budget.
        unconstrained(limit).await;
    }

    /// Waits until the first time limit is reached at which the run stops.
    pub async fn wait_for_time_limit(&self) {
        self.wait_until(|| self.pools_that_stop().filter_map(RunPool::own_deadline).min()).await;
    }

    /// Waits until the time limit of this budget alone is reached.
    pub async fn wait_for_own_time_limit(&self) {
        self.wait_until(|| self.own_deadline()).await;
    }

    /// Waits until a graph with this pool that started at `began` reaches its time limit.
    pub async fn wait_for_timeout(&self, began: Instant, limit: Duration) {
        self.wait_until(|| Some(self.timeout_at(began, limit))).await;
    }

    /// Returns the time at which a time limit that started at `began` is reached, unless a question is open or opens before.
    pub fn timeout_at(&self, began: Instant, limit: Duration) -> Instant {
        began + limit + self.paused_since(began)
    }

    /// Waits for a deadline, which open questions of this pool and its ancestors postpone.
    async fn wait_until(&self, deadline: impl Fn() -> Option<Instant>) {
        while let Some(at) = deadline() {
            let mut grants = self.ancestry().filter_map(|pool| pool.inner.grants.as_deref());
            match grants.find(|grants| grants.is_paused()) {
                Some(grants) => grants.wait_for_end_of_pause().await,
                None if at <= Instant::now() => return,
                // Must end even if the steps have used up the task's cooperative budget.
                None => unconstrained(sleep_until(at)).await,
            }
        }
        std::future::pending().await
    }

    fn own_deadline(&self) -> Option<Instant> {
        Some(self.usage().time_after(self.limits()?.max_time_ms?)? + self.paused())
    }

    /// Counts a step in this pool only.
    pub fn add_own_step(&self) {
        self.usage().add_step();
    }

    /// Returns the current limits.
    fn limits(&self) -> Option<RunBudget> {
        match &self.inner.grants {
            Some(grants) => Some(grants.limits()),
            None => self.inner.budget.clone(),
        }
    }

    /// Returns true if this budget asks at its limits, and no grant was refused.
    pub fn can_ask(&self) -> bool {
        self.inner.grants.as_ref().is_some_and(|grants| !grants.is_refused())
    }

    fn is_at_limit(&self) -> bool {
        self.reached_limit(Checkpoint::WithinStep).is_some()
    }

    /// Returns this pool and its ancestors except those that can ask. Pools without a budget are included.
    fn pools_that_stop(&self) -> impl Iterator<Item = &RunPool> {
        self.ancestry().filter(|pool| !pool.can_ask())
    }

    /// Returns the time that counts toward the time limit.
    fn elapsed(&self) -> Duration {
        self.usage().elapsed().saturating_sub(self.paused())
    }

    /// Returns the total time since the start of this pool during which it or an ancestor had an open question.
    fn paused(&self) -> Duration {
        self.paused_since(self.usage().started())
    }

    fn paused_since(&self, from: Instant) -> Duration {
        let now = Instant::now();
        let grants = self.ancestry().filter_map(|pool| pool.inner.grants.as_deref());
        let mut pauses: Vec<_> = grants.flat_map(|grants| grants.pauses(now)).collect();
        pauses.sort_unstable();
        // Times that overlap count once.
        let (mut paused, mut counted) = (Duration::ZERO, from);
        for (begin, end) in pauses {
            paused += end.saturating_duration_since(begin.max(counted));
            counted = counted.max(end);
        }
        paused
    }

    /// Returns this pool and its ancestors, innermost first.
    fn ancestry(&self) -> impl Iterator<Item = &RunPool> {
        std::iter::successors(Some(self), |pool| pool.inner.parent.as_ref())
    }
}
