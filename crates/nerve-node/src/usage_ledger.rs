//! Ledgers: the usage of a node or a session, counted against its limits.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use nerve_api::reply::{BudgetStatus, ModelTokens};
use nerve_api::request::UsageLimits;
use nerve_api::value::LimitAction;
use nerve_proxy::{PriceTable, Usage};
use nerve_types::cost::format_cost;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// Returns the cost of tokens in US dollars; `None` if the model has no price.
pub type Pricing = Arc<dyn Fn(&ModelTokens) -> Option<f64> + Send + Sync>;

/// Returns the built-in prices.
pub fn built_in_pricing() -> Pricing {
    static TABLE: LazyLock<PriceTable> = LazyLock::new(PriceTable::built_in);
    Arc::new(|tokens| {
        let ModelTokens { ref model, input, output, cache_read, cache_write } = *tokens;
        let prices = TABLE.prices(model.as_deref()?, None)?;
        Some(prices.cost(Usage { input, output, cache_read, cache_write }))
    })
}

/// The usage of a node or a session. Cheap to clone; clones are the same ledger. Usage of a node also counts for its session.
#[derive(Clone)]
pub struct UsageLedger {
    inner: Arc<Inner>,
}

struct Inner {
    /// The name in messages of nodes.
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

/// Usage that counts, and the answers to questions for more.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerUsage {
    /// Tokens: input, including cached tokens, and output.
    pub tokens: u64,
    /// Cost of the tokens that have a price, in US dollars.
    pub cost_usd: f64,
    /// Working time in milliseconds.
    pub time_ms: u64,
    /// Number of times that the limits were granted again.
    #[serde(skip_serializing_if = "is_zero")]
    pub extensions: u32,
    /// A model without a price whose tokens are not accepted yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpriced_model: Option<String>,
    /// Tokens without a price count for no cost limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accepts_unpriced: bool,
    /// More was refused, so prompts fail.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_closed: bool,
}

/// A reached limit.
#[derive(Debug, Clone, PartialEq)]
pub struct ReachedLimit {
    /// The limit and the usage, for people.
    pub reason: String,
    /// Offer to continue; `None` if prompts fail.
    pub offer: Option<String>,
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

    /// Creates the ledger of a node in the session of this ledger. `usage` has counted for the session before.
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

    /// Replaces the limits. Usage before counts.
    pub fn set_limits(&self, limits: Option<UsageLimits>) {
        self.update(|state| {
            let LedgerUsage { tokens, cost_usd, time_ms, unpriced_model, .. } =
                std::mem::take(&mut state.usage);
            state.usage = LedgerUsage { tokens, cost_usd, time_ms, unpriced_model, ..LedgerUsage::default() };
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

    /// Counts the tokens of a response. `cost_usd`: its cost, if it is known otherwise than by its model.
    pub fn add_response(&self, tokens: &ModelTokens, cost_usd: Option<f64>) {
        if tokens.total() == 0 {
            return;
        }
        let cost_usd = cost_usd.or_else(|| (self.inner.pricing)(tokens));
        self.update_all(|state| {
            let usage = &mut state.usage;
            usage.tokens = usage.tokens.saturating_add(tokens.total());
            match cost_usd {
                Some(cost) => usage.cost_usd += cost,
                None => usage.unpriced_model = Some(tokens.model.clone().unwrap_or_else(|| "unknown".into())),
            }
        });
    }

    /// Counts usage of one of its nodes that was stored by another server.
    pub fn add_missed(&self, counted: &LedgerUsage, now: &LedgerUsage) {
        self.update(|state| {
            let usage = &mut state.usage;
            usage.tokens += now.tokens.saturating_sub(counted.tokens);
            usage.cost_usd += (now.cost_usd - counted.cost_usd).max(0.0);
            usage.time_ms += now.time_ms.saturating_sub(counted.time_ms);
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

    /// Returns the first limit that the node or its session has reached.
    pub fn reached(&self) -> Option<ReachedLimit> {
        let own = self.inner.state.lock().reached();
        own.or_else(|| {
            let Inner { owner, state, .. } = &*self.inner.parent.as_ref()?.inner;
            let reached = state.lock().reached()?;
            Some(ReachedLimit { reason: format!("{owner}: {}", reached.reason), ..reached })
        })
    }

    /// Returns the working time until a time limit is reached; `None` while nothing works, or without such a limit.
    pub fn time_left(&self) -> Option<Duration> {
        let own = self.inner.state.lock().time_left();
        let outer = self.inner.parent.as_ref().and_then(UsageLedger::time_left);
        own.into_iter().chain(outer).min()
    }

    /// Grants the reached limits of the node and its session again, as often as the usage requires.
    pub fn extend(&self) {
        self.update_all(|state| {
            match state.exceeded() {
                None => {}
                Some(Exceeded::Unpriced { .. }) => state.usage.accepts_unpriced = true,
                Some(_) => state.usage.extensions = state.needed_extensions(),
            };
        });
    }

    /// Refuses more than the reached limits: prompts fail until other limits are set.
    pub fn close(&self) {
        self.update_all(|state| state.usage.is_closed |= state.exceeded().is_some());
    }

    /// Describes limits and usage.
    pub fn status(&self) -> BudgetStatus {
        let state = self.inner.state.lock();
        let (limits, usage) = (state.effective(), &state.usage);
        BudgetStatus {
            max_tokens: limits.and_then(|limits| limits.max_tokens),
            max_cost_usd: limits.and_then(|limits| limits.max_cost_usd),
            max_time_ms: limits.and_then(|limits| limits.max_time).map(|time| millis(time.duration())),
            at_limit: limits.map(|limits| limits.at_limit),
            tokens: usage.tokens,
            cost_usd: usage.cost_usd,
            time_ms: state.time_ms(),
            exceeded: state.exceeded().map(|exceeded| exceeded.to_string()),
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

/// A limit that the usage has reached.
enum Exceeded {
    Tokens { used: u64, limit: u64 },
    Cost { used: f64, limit: f64 },
    Time { limit: Duration },
    Unpriced { model: String },
}

impl State {
    fn time_ms(&self) -> u64 {
        self.usage.time_ms + self.since.map_or(0, |since| millis(since.elapsed()))
    }

    /// Returns the limits with their extensions.
    fn effective(&self) -> Option<UsageLimits> {
        let limits = self.limits?;
        let times = self.usage.extensions.saturating_add(1);
        Some(UsageLimits {
            max_tokens: limits.max_tokens.map(|limit| limit.saturating_mul(times.into())),
            max_cost_usd: limits.max_cost_usd.map(|limit| limit * f64::from(times)),
            max_time: limits.max_time.map(|limit| limit.duration().saturating_mul(times).into()),
            at_limit: limits.at_limit,
        })
    }

    /// Returns how often the limits have to be granted again to exceed the usage.
    fn needed_extensions(&self) -> u32 {
        let Some(limits) = self.limits else { return 0 };
        let ratios = [
            limits.max_tokens.map(|limit| (self.usage.tokens / limit.max(1)) as f64),
            limits.max_cost_usd.map(|limit| self.usage.cost_usd / limit),
            limits.max_time.map(|limit| self.time_ms() as f64 / 1e3 / limit.duration().as_secs_f64()),
        ];
        // The cast saturates, and takes a ratio that is not a number for 0.
        ratios.into_iter().flatten().fold(0.0, f64::max) as u32
    }

    fn exceeded(&self) -> Option<Exceeded> {
        let (limits, usage) = (self.effective()?, &self.usage);
        let tokens = limits.max_tokens.filter(|limit| usage.tokens >= *limit);
        let cost = limits.max_cost_usd.filter(|limit| usage.cost_usd >= *limit);
        let time = limits.max_time.map(|limit| limit.duration());
        let time = time.filter(|limit| u128::from(self.time_ms()) >= limit.as_millis());
        let unpriced = usage.unpriced_model.clone();
        let unpriced = unpriced.filter(|_| limits.max_cost_usd.is_some() && !usage.accepts_unpriced);
        let tokens = tokens.map(|limit| Exceeded::Tokens { used: usage.tokens, limit });
        tokens
            .or_else(|| cost.map(|limit| Exceeded::Cost { used: usage.cost_usd, limit }))
            .or_else(|| time.map(|limit| Exceeded::Time { limit }))
            .or_else(|| unpriced.map(|model| Exceeded::Unpriced { model }))
    }

    fn reached(&self) -> Option<ReachedLimit> {
        let exceeded = self.exceeded()?;
        let asks = self.limits.is_some_and(|limits| limits.at_limit == LimitAction::Ask);
        let offer = (asks && !self.usage.is_closed).then(|| match &exceeded {
            Exceeded::Unpriced { model } => format!("Continue: do not limit the cost of {model}"),
            Exceeded::Tokens { .. } | Exceeded::Cost { .. } | Exceeded::Time { .. } => {
                "Continue: grant the same amount again".to_string()
            }
        });
        Some(ReachedLimit { reason: exceeded.to_string(), offer })
    }

    fn time_left(&self) -> Option<Duration> {
        self.since?;
        let limit = self.effective()?.max_time?.duration();
        Some(limit.saturating_sub(Duration::from_millis(self.time_ms())))
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exceeded::Tokens { used, limit } => write!(f, "token limit reached: {used} of {limit}"),
            Exceeded::Cost { used, limit } => {
                let dollars = |cost| format_cost(Some(cost), false);
                write!(f, "cost limit reached: {} of {}", dollars(*used), dollars(*limit))
            }
            Exceeded::Time { limit } => write!(f, "limit of working time reached: {limit:?}"),
            Exceeded::Unpriced { model } => {
                write!(f, "the cost limit cannot be checked: model '{model}' has no price")
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(model: &str, tokens: u64) -> ModelTokens {
        ModelTokens { model: Some(model.into()), input: tokens, ..ModelTokens::default() }
    }

    fn session() -> UsageLedger {
        UsageLedger::new(
            "session 's'",
            Arc::new(|tokens| (tokens.model.as_deref() == Some("a")).then_some(0.5)),
        )
    }

    fn limited(session: &UsageLedger, limits: UsageLimits) -> UsageLedger {
        session.node("n", LedgerRecord { limits: Some(limits), ..LedgerRecord::default() })
    }

    #[test]
    fn usage_counts_for_node_and_session() {
        let session = session();
        let limits = UsageLimits { max_tokens: Some(25), ..UsageLimits::default() };
        let (node, other) = (limited(&session, limits), session.node("other", LedgerRecord::default()));
        node.add_response(&response("a", 10), None);
        other.add_response(&response("a", 20), None);
        assert!(node.reached().is_none() && other.reached().is_none());
        assert_eq!((session.usage().tokens, session.usage().cost_usd), (30, 1.0));
        session.set_limits(Some(limits));
        assert!(node.reached().unwrap().reason.contains("session 's'") && other.reached().is_some());
        other.extend();
        assert!(node.reached().is_none());
    }

    #[test]
    fn extension_grants_the_amount_until_it_suffices() {
        let session = session();
        let node = limited(&session, UsageLimits { max_cost_usd: Some(1.0), ..UsageLimits::default() });
        for _ in 0..7 {
            node.add_response(&response("a", 1), None);
        }
        assert!(node.reached().unwrap().offer.is_some());
        node.extend();
        assert_eq!((node.reached(), node.status().max_cost_usd), (None, Some(4.0)));
    }

    #[test]
    fn model_without_price_reaches_a_cost_limit_until_accepted() {
        let session = session();
        let tokens_only = limited(&session, UsageLimits { max_tokens: Some(1000), ..UsageLimits::default() });
        tokens_only.add_response(&response("b", 1), None);
        assert_eq!(tokens_only.reached(), None);
        let node = limited(&session, UsageLimits { max_cost_usd: Some(1.0), ..UsageLimits::default() });
        node.add_response(&response("b", 1), None);
        assert!(node.reached().unwrap().reason.contains("'b' has no price"));
        node.extend();
        node.add_response(&response("b", 1), None);
        assert_eq!(node.reached(), None);
        node.add_response(&response("b", 1), Some(1.0));
        assert!(node.reached().unwrap().reason.contains("$1.00 of $1.00"));
        node.close();
        assert_eq!(node.reached().unwrap().offer, None);
    }

    #[test]
    fn missed_usage_counts_once() {
        let session = session();
        let (stored, now) = (
            LedgerUsage { tokens: 5, cost_usd: 0.5, time_ms: 10, ..LedgerUsage::default() },
            LedgerUsage { tokens: 8, cost_usd: 0.75, time_ms: 30, ..LedgerUsage::default() },
        );
        session.add_missed(&stored, &now);
        let usage = session.usage();
        assert_eq!((usage.tokens, usage.cost_usd, usage.time_ms), (3, 0.25, 20));
    }
}
