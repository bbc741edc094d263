//! Ledgers: the usage of a node or a session, counted against its limits.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use nerve_api::reply::{BudgetStatus, ModelTokens};
use nerve_api::request::{NodeRef, UsageLimits};
use nerve_api::value::LimitAction;
use nerve_proxy::PriceTable;
use nerve_types::cost::format_cost;
use nerve_types::millis;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::budget::{cost_to_grant, count_to_grant};
use crate::dialog_answer::dialog_id;
use crate::error::{EngineError, ErrorKind};

/// A function that returns the cost of tokens in US dollars; `None` if the model has no price.
pub type Pricing = Arc<dyn Fn(&ModelTokens) -> Option<f64> + Send + Sync>;

/// Returns the built-in prices.
pub fn built_in_pricing() -> Pricing {
    static TABLE: LazyLock<PriceTable> = LazyLock::new(PriceTable::built_in);
    Arc::new(|tokens| {
        let ModelTokens { model, tokens } = tokens;
        TABLE.cost(model.as_deref()?, None, tokens)
    })
}

/// The usage of a node or a session. Cheap to clone; clones are the same ledger. Usage of a node also counts toward its session.
#[derive(Clone)]
pub struct UsageLedger {
    inner: Arc<Inner>,
}

struct Inner {
    /// Name of the owner in messages, such as `session 'a'`.
    owner: String,
    state: Mutex<State>,
    /// Shared by a session and its nodes.
    changed: watch::Sender<()>,
    pricing: Pricing,
    parent: Option<UsageLedger>,
}

#[derive(Default)]
struct State {
    limits: Option<UsageLimits>,
    usage: LedgerUsage,
    /// Number of agents that are working, and since when at least one of them is.
    working: usize,
    since: Option<Instant>,
    /// Largest missed working time of a node so far: times that overlap count once.
    missed_ms: u64,
}

/// The persistent part of a ledger.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerRecord {
    /// The limits as they were set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<UsageLimits>,
    /// The usage.
    pub usage: LedgerUsage,
}

/// Counted usage of a node or a session, and the grants and refusals at its limits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerUsage {
    /// Tokens: input, including cached tokens, and output.
    pub tokens: u64,
    /// Cost of the tokens that have a price, in US dollars.
    pub cost_usd: f64,
    /// Working time in milliseconds.
    pub time_ms: u64,
    /// Amounts that were granted in addition to the limits.
    #[serde(skip_serializing_if = "GrantedAmounts::is_empty")]
    pub granted: GrantedAmounts,
    /// Tokens of models that have no price yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unpriced: Vec<ModelTokens>,
    /// Tokens without a price do not count toward the cost limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accepts_unpriced: bool,
    /// A grant was refused, so prompts fail.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_refused: bool,
}

/// Amounts that answers have granted in addition to the limits of a node or a session.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GrantedAmounts {
    /// Tokens.
    pub tokens: u64,
    /// US dollars.
    pub cost_usd: f64,
    /// Working time in milliseconds.
    pub time_ms: u64,
}

/// The second choice of the budget dialog.
const REFUSAL: &str = "Stop: accept no more prompts";

/// A limit that a node or a session has reached.
#[derive(Debug, Clone, PartialEq)]
pub struct ReachedLimit {
    /// The limit and the usage, for people.
    pub reason: String,
    /// Offer to continue; `None` if prompts fail.
    pub offer: Option<String>,
    /// True if the limit belongs to the session.
    pub is_session_limit: bool,
}

impl ReachedLimit {
    /// Returns the choices of the question; empty if prompts fail.
    pub(crate) fn choices(&self) -> Vec<String> {
        self.offer.iter().cloned().flat_map(|offer| [offer, REFUSAL.to_string()]).collect()
    }

    /// Returns the identity of the question: its owner and its choices.
    pub(crate) fn question(&self) -> (bool, Vec<String>) {
        (self.is_session_limit, self.choices())
    }

    /// Returns the id of the question as a dialog.
    pub(crate) fn dialog_id(&self) -> String {
        dialog_id(&self.question())
    }

    /// Returns the error of prompts at the limit of `node` or its session: Blocked with the choices of the question, or Budget.
    pub fn error(&self, node: &NodeRef) -> EngineError {
        let (reason, owner) = (&self.reason, self.owner(node));
        let change = format!("set other limits: `nerve budget {owner} …`");
        if self.offer.is_none() {
            let message = format!("node '{}': {reason}", node.node);
            return EngineError::new(ErrorKind::Budget, message).hint(change);
        }
        let message = format!("node '{}' is blocked (budget): {reason}", node.node);
        let mut error = EngineError::new(ErrorKind::Blocked, message).with_budget_question();
        error.choices = self.choices().into();
        error.hint(format!("`nerve answer {} NUMBER`, or {change}", node.arguments()))
    }

    /// Returns the arguments that name the owner of the limit for `nerve budget`.
    pub(crate) fn owner(&self, node: &NodeRef) -> String {
        match self.is_session_limit {
            true => format!("--session {}", node.session_or_default()),
            false => node.arguments(),
        }
    }
}

/// Counts working time until it is dropped.
#[derive(Debug)]
pub struct WorkSpan {
    ledger: UsageLedger,
}

impl UsageLedger {
    /// Creates the ledger of a session, without limits. `owner` names it in messages: `session 'a'`.
    pub fn new(owner: impl Into<String>, pricing: Pricing) -> UsageLedger {
        UsageLedger::open(owner.into(), pricing, None)
    }

    /// Creates a ledger without limits and prices, for a program without a session.
    pub fn unlimited() -> UsageLedger {
        UsageLedger::new("no session", Arc::new(|_| None))
    }

    /// Creates a ledger in the session of this node's ledger, with no usage. `limits`: those of the new node.
    pub fn sibling(&self, node: &str, limits: Option<UsageLimits>) -> UsageLedger {
        let record = LedgerRecord { limits, ..LedgerRecord::default() };
        self.inner.parent.as_ref().unwrap_or(self).node(node, record)
    }

    /// Creates the ledger of a node in the session of this ledger. The session has already counted the usage in `record`.
    pub fn node(&self, node: &str, record: LedgerRecord) -> UsageLedger {
        let pricing = Arc::clone(&self.inner.pricing);
        let ledger = UsageLedger::open(format!("node '{node}'"), pricing, Some(self.clone()));
        ledger.restore(record);
        ledger
    }

    fn open(owner: String, pricing: Pricing, parent: Option<UsageLedger>) -> UsageLedger {
        let changed = parent.as_ref().map(|parent| parent.inner.changed.clone());
        let (state, changed) = (Mutex::default(), changed.unwrap_or_else(|| watch::Sender::new(())));
        UsageLedger { inner: Arc::new(Inner { owner, state, changed, pricing, parent }) }
    }

    /// Replaces the limits. Usage is kept; grants and refusals are reset.
    pub fn set_limits(&self, limits: Option<UsageLimits>) {
        self.update(|state| {
            let LedgerUsage { tokens, cost_usd, time_ms, unpriced, .. } = std::mem::take(&mut state.usage);
            state.usage = LedgerUsage { tokens, cost_usd, time_ms, unpriced, ..LedgerUsage::default() };
            state.limits = limits;
        });
    }

    /// Replaces limits and usage by stored ones.
    pub fn restore(&self, record: LedgerRecord) {
        self.update(|state| (state.limits, state.usage) = (record.limits, record.usage));
    }

    /// Returns limits and usage in the form in which they are stored.
    pub fn record(&self) -> LedgerRecord {
        LedgerRecord { limits: self.limits(), usage: self.usage() }
    }

    /// Returns the limits as they were set.
    pub fn limits(&self) -> Option<UsageLimits> {
        self.inner.state.lock().limits
    }

    /// Returns true if the node or its session has limits.
    pub fn is_limited(&self) -> bool {
        self.limits().is_some() || self.inner.parent.as_ref().is_some_and(UsageLedger::is_limited)
    }

    /// Returns the usage until now.
    pub fn usage(&self) -> LedgerUsage {
        let state = self.inner.state.lock();
        LedgerUsage { time_ms: state.time_ms(), ..state.usage.clone() }
    }

    /// Counts the tokens of a response and returns its cost; `None` if its model has no price. `cost_usd`: the cost if a proxy has
    /// computed it; otherwise the prices apply.
    pub fn add_response(&self, response: &ModelTokens, cost_usd: Option<f64>) -> Option<f64> {
        let total = response.tokens.total();
        if total == 0 {
            return cost_usd;
        }
        let cost_usd = cost_usd.or_else(|| (self.inner.pricing)(response));
        self.update_all(|state| {
            let usage = &mut state.usage;
            usage.tokens = usage.tokens.saturating_add(total);
            match cost_usd {
                Some(cost) => usage.cost_usd += cost,
                None => usage.add_unpriced(response),
            }
        });
        cost_usd
    }

    /// Adds the usage of a node that the session's record missed: `remembered` by the node minus `stored` with the session.
    pub fn add_missed(&self, stored: &LedgerUsage, remembered: &LedgerUsage) {
        self.update(|state| {
            let usage = &mut state.usage;
            usage.tokens += remembered.tokens.saturating_sub(stored.tokens);
            usage.cost_usd += (remembered.cost_usd - stored.cost_usd).max(0.0);
            // Tokens priced in the meantime are included in the cost.
            stored.unpriced.iter().for_each(|tokens| usage.remove_unpriced(tokens));
            remembered.unpriced.iter().for_each(|tokens| usage.add_unpriced(tokens));
            let missed = remembered.time_ms.saturating_sub(stored.time_ms);
            usage.time_ms += missed.saturating_sub(state.missed_ms);
            state.missed_ms = state.missed_ms.max(missed);
        });
    }

    /// Starts to count working time. The time of a session is that in which at least one of its agents works.
    pub fn begin_work(&self) -> WorkSpan {
        self.update_all(|state| {
            state.working += 1;
            state.since.get_or_insert_with(Instant::now);
        });
        WorkSpan { ledger: self.clone() }
    }

    /// Returns the reached limit of the node, otherwise that of its session. A limit of the session at which prompts fail comes
    /// first.
    pub fn reached(&self) -> Option<ReachedLimit> {
        self.ledger_at_limit().map(|(_, reached)| reached)
    }

    fn ledger_at_limit(&self) -> Option<(&UsageLedger, ReachedLimit)> {
        let own = self.reached_here().map(|reached| (self, reached));
        let outer = self.inner.parent.as_ref().and_then(|parent| {
            let reached = parent.reached_here()?;
            let reason = format!("{}: {}", parent.inner.owner, reached.reason);
            Some((parent, ReachedLimit { reason, is_session_limit: true, ..reached }))
        });
        match (own, outer) {
            (Some((_, ReachedLimit { offer: Some(_), .. })), Some(outer)) if outer.1.offer.is_none() => {
                Some(outer)
            }
            (own, outer) => own.or(outer),
        }
    }

    fn reached_here(&self) -> Option<ReachedLimit> {
        let mut state = self.inner.state.lock();
        state.price_again(&self.inner.pricing);
        state.reached()
    }

    /// Returns the time until the time limit of the node or its session is reached; `None` for one without limit or work.
    pub fn time_left(&self) -> Option<Duration> {
        let own = self.inner.state.lock().time_left();
        let outer = self.inner.parent.as_ref().and_then(UsageLedger::time_left);
        own.into_iter().chain(outer).min()
    }

    /// Applies the answer to the question at a limit: grants with its first choice, and refuses otherwise.
    pub(crate) fn answer(&self, picked: Option<usize>) {
        match picked {
            Some(0) => self.grant(),
            _ => self.refuse(),
        }
    }

    /// Raises the limit that [`UsageLedger::reached`] returns above the usage, in steps of its own amount, if that was offered.
    pub fn grant(&self) {
        if let Some((ledger, ReachedLimit { offer: Some(_), .. })) = self.ledger_at_limit() {
            ledger.update(State::grant);
        }
    }

    /// Refuses to raise the limit that [`UsageLedger::reached`] returns: prompts fail until the budget is changed.
    pub fn refuse(&self) {
        if let Some((ledger, _)) = self.ledger_at_limit() {
            ledger.update(|state| state.usage.is_refused = true);
        }
    }

    /// Describes limits and usage.
    pub fn status(&self) -> BudgetStatus {
        let state = self.inner.state.lock();
        let (limits, usage) = (state.effective(), &state.usage);
        BudgetStatus {
            max_tokens: limits.and_then(|limits| limits.max_tokens),
            max_cost_usd: limits.and_then(|limits| limits.max_cost_usd),
            max_time_ms: limits.and_then(|limits| limits.max_time_ms),
            at_limit: limits.map(|limits| limits.at_limit),
            tokens: usage.tokens,
            cost_usd: usage.cost_usd,
            time_ms: state.time_ms(),
            reached_limit: state.limit_at_usage().map(|limit| limit.to_string()),
        }
    }

    /// Waits until a limit is reached.
    pub async fn limit_reached(&self) -> ReachedLimit {
        let mut changes = self.subscribe();
        loop {
            if let Some(reached) = self.reached() {
                return reached;
            }
            let left = self.time_left();
            tokio::select! {
                () = tokio::time::sleep(left.unwrap_or_default()), if left.is_some() => {}
                // Without a sender the limits do not change any more.
                _ = changes.changed() => {}
            }
        }
    }

    /// Waits until no question at a limit is open: it was answered, or the limits have changed.
    pub async fn question_answered(&self) {
        let mut changes = self.subscribe();
        while self.reached().is_some_and(|reached| reached.offer.is_some()) {
            // The sender is part of the ledger, so it outlives the wait.
            let _ = changes.changed().await;
        }
    }

    /// Returns a receiver that is notified of changes of this ledger, its session's, and those of the session's nodes.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.inner.changed.subscribe()
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.inner.state.lock());
        self.inner.changed.send_replace(());
    }

    /// Applies a change to this ledger and its session's.
    fn update_all(&self, change: impl Fn(&mut State)) {
        if let Some(parent) = &self.inner.parent {
            change(&mut parent.inner.state.lock());
        }
        self.update(change);
    }
}

impl fmt::Debug for UsageLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsageLedger").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Drop for WorkSpan {
    fn drop(&mut self) {
        self.ledger.update_all(|state| {
            state.working -= 1;
            if state.working == 0 {
                state.usage.time_ms = state.time_ms();
                state.since = None;
            }
        });
    }
}

/// The kind of a [`ReachedLimit`], with its numbers.
enum LimitKind {
    Tokens { used: u64, limit: u64 },
    Cost { used: f64, limit: f64 },
    Time { used_ms: u64, limit_ms: u64 },
    Unpriced { model: String },
}

impl State {
    fn time_ms(&self) -> u64 {
        self.usage.time_ms + self.since.map_or(0, |since| millis(since.elapsed()))
    }

    /// Returns the limits plus the granted amounts.
    fn effective(&self) -> Option<UsageLimits> {
        let (limits, granted) = (self.limits?, &self.usage.granted);
        Some(UsageLimits {
            max_tokens: limits.max_tokens.map(|limit| limit.saturating_add(granted.tokens)),
            max_cost_usd: limits.max_cost_usd.map(|limit| limit + granted.cost_usd),
            max_time_ms: limits.max_time_ms.map(|limit| limit.saturating_add(granted.time_ms)),
            at_limit: limits.at_limit,
        })
    }

    /// Looks up the prices of tokens again that had none.
    fn price_again(&mut self, pricing: &Pricing) {
        let LedgerUsage { unpriced, cost_usd, .. } = &mut self.usage;
        unpriced.retain(|tokens| {
            let cost = pricing(tokens);
            *cost_usd += cost.unwrap_or(0.0);
            cost.is_none()
        });
    }

    /// Raises the reached limit above the usage, in steps of its own amount.
    fn grant(&mut self) {
        let (Some(exceeded), Some(limits)) = (self.limit_at_usage(), self.limits) else { return };
        let time_ms = self.time_ms();
        let usage = &mut self.usage;
        let granted = &mut usage.granted;
        match exceeded {
            LimitKind::Unpriced { .. } => usage.accepts_unpriced = true,
            LimitKind::Tokens { .. } => {
                granted.tokens = count_to_grant(limits.max_tokens.unwrap_or(0), usage.tokens);
            }
            LimitKind::Cost { .. } => {
                granted.cost_usd = cost_to_grant(limits.max_cost_usd.unwrap_or(0.0), usage.cost_usd);
            }
            LimitKind::Time { .. } => {
                granted.time_ms = count_to_grant(limits.max_time_ms.unwrap_or(0), time_ms);
            }
        }
    }

    fn limit_at_usage(&self) -> Option<LimitKind> {
        let (limits, usage) = (self.effective()?, &self.usage);
        let tokens = limits.max_tokens.filter(|limit| usage.tokens >= *limit);
        let cost = limits.max_cost_usd.filter(|limit| usage.cost_usd >= *limit);
        let time = limits.max_time_ms.filter(|limit| self.time_ms() >= *limit);
        let unpriced = usage.unpriced.first();
        let unpriced = unpriced.filter(|_| limits.max_cost_usd.is_some() && !usage.accepts_unpriced);
        let unpriced = unpriced.map(|tokens| tokens.model.clone().unwrap_or_else(|| "unknown".to_string()));
        let tokens = tokens.map(|limit| LimitKind::Tokens { used: usage.tokens, limit });
        tokens
            .or_else(|| cost.map(|limit| LimitKind::Cost { used: usage.cost_usd, limit }))
            .or_else(|| time.map(|limit| LimitKind::Time { used_ms: self.time_ms(), limit_ms: limit }))
            .or_else(|| unpriced.map(|model| LimitKind::Unpriced { model }))
    }

    fn reached(&self) -> Option<ReachedLimit> {
        let exceeded = self.limit_at_usage()?;
        let asks = self.limits.is_some_and(|limits| limits.at_limit == LimitAction::Ask);
        let offer = (asks && !self.usage.is_refused).then(|| match &exceeded {
            LimitKind::Unpriced { .. } => "Continue: do not count models without a price".to_string(),
            LimitKind::Tokens { .. } => "Continue: grant the same number of tokens again".to_string(),
            LimitKind::Cost { .. } => "Continue: grant the same cost again".to_string(),
            LimitKind::Time { .. } => "Continue: grant the same time again".to_string(),
        });
        Some(ReachedLimit { reason: exceeded.to_string(), offer, is_session_limit: false })
    }

    fn time_left(&self) -> Option<Duration> {
        self.since?;
        let limit = self.effective()?.max_time_ms?;
        Some(Duration::from_millis(limit.saturating_sub(self.time_ms())))
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitKind::Tokens { used, limit } => write!(f, "token limit reached: {used} of {limit}"),
            LimitKind::Cost { used, limit } => {
                let dollars = |cost| format_cost(Some(cost), false);
                write!(f, "cost limit reached: {} of {}", dollars(*used), dollars(*limit))
            }
            LimitKind::Time { used_ms, limit_ms } => {
                let [used, limit] = [used_ms, limit_ms].map(|millis| *millis as f64 / 1e3);
                write!(f, "time limit reached: {used:.1}s of {limit:.1}s of work")
            }
            LimitKind::Unpriced { model } => {
                write!(f, "the cost limit cannot be checked: model '{model}' has no price")
            }
        }
    }
}

impl LedgerUsage {
    fn add_unpriced(&mut self, response: &ModelTokens) {
        match self.unpriced.iter_mut().find(|known| known.model == response.model) {
            Some(known) => known.tokens += response.tokens,
            None => self.unpriced.push(response.clone()),
        }
    }

    fn remove_unpriced(&mut self, part: &ModelTokens) {
        for known in self.unpriced.iter_mut().filter(|known| known.model == part.model) {
            known.tokens = known.tokens.without(part.tokens);
        }
        self.unpriced.retain(|known| known.tokens.total() > 0);
    }
}

impl GrantedAmounts {
    fn is_empty(&self) -> bool {
        *self == GrantedAmounts::default()
    }
}
