//! Limits the tokens, requests and cost of a proxy, and counts what was used.

use http::StatusCode;
use nerve_types::token_usage::TokenUsage;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::api_error::ApiError;
use crate::error::ProxyError;
use crate::prices::Prices;

/// Limits after which a proxy refuses requests. Requests in flight when a limit is reached are completed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budget {
    /// Tokens: all input, including cached tokens, and all output.
    pub max_tokens: Option<u64>,
    /// Requests that the upstream answered.
    pub max_requests: Option<u64>,
    /// US dollars, according to the [`Prices`].
    pub max_cost_usd: Option<f64>,
}

/// Totals since a proxy was started, as they are stored, too.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Requests that were answered or are in flight.
    pub requests: u64,
    /// Requests that were refused because a limit was reached.
    pub refused: u64,
    /// Tokens, as reported by the upstream.
    #[serde(flatten)]
    pub usage: TokenUsage,
    /// US dollars; 0 without [`Prices`].
    pub cost_usd: f64,
}

impl Budget {
    pub(crate) fn check(&self, prices: Option<Prices>) -> Result<(), ProxyError> {
        let sound = |number: f64| number.is_finite() && number >= 0.0;
        if !self.max_cost_usd.is_none_or(sound) {
            return Err(ProxyError::Setting("the cost limit must be 0 or more"));
        }
        if !prices.is_none_or(|prices| prices.are_valid()) {
            return Err(ProxyError::Setting("prices must be 0 or more"));
        }
        Ok(())
    }
}

/// Counts requests, tokens and cost, and enforces the budget.
#[derive(Debug)]
pub(crate) struct Ledger {
    budget: Budget,
    prices: Option<Prices>,
    spent: Mutex<Totals>,
    /// The proxy belongs to a node and is not started on its own.
    belongs_to_node: bool,
}

impl Ledger {
    pub(crate) fn new(budget: Budget, prices: Option<Prices>, spent: Totals) -> Ledger {
        Ledger { budget, prices, spent: Mutex::new(spent), belongs_to_node: false }
    }

    pub(crate) fn for_node(self, belongs_to_node: bool) -> Ledger {
        Ledger { belongs_to_node, ..self }
    }

    pub(crate) fn spent(&self) -> Totals {
        *self.spent.lock()
    }

    /// Counts a request that is about to be forwarded.
    ///
    /// # Errors
    /// 402 `billing_error` when a limit is reached. Agents retry for minutes after 429 and 5xx, which would not help,
    /// and take 401 and 403 for a wrong key.
    pub(crate) fn admit(&self) -> Result<(), ApiError> {
        let mut spent = self.spent.lock();
        let tokens = spent.usage.total();
        let limits = [
            self.budget
                .max_requests
                .filter(|max| spent.requests >= *max)
                .map(|max| format!("{max} requests")),
            self.budget
                .max_tokens
                .filter(|max| tokens >= *max)
                .map(|max| format!("{tokens} of {max} tokens")),
            self.budget
                .max_cost_usd
                .filter(|max| spent.cost_usd >= *max)
                .map(|max| format!("${:.4} of ${max:.4}", spent.cost_usd)),
        ];
        if let Some(used) = limits.into_iter().flatten().next() {
            spent.refused = spent.refused.saturating_add(1);
            let what = if self.belongs_to_node { "create the node" } else { "start it" };
            let message =
                format!("the budget of the nerve proxy is used up: {used}; {what} again with a larger one");
            return Err(ApiError::new(StatusCode::PAYMENT_REQUIRED, message));
        }
        spent.requests = spent.requests.saturating_add(1);
        Ok(())
    }

    /// Uncounts a request that did not reach the upstream.
    pub(crate) fn refund(&self) {
        let mut spent = self.spent.lock();
        spent.requests = spent.requests.saturating_sub(1);
    }

    /// Counts tokens. Returns their cost if prices are known.
    pub(crate) fn add(&self, usage: TokenUsage) -> Option<f64> {
        let mut spent = self.spent.lock();
        spent.usage += usage;
        let cost = self.prices.map(|prices| prices.cost(&usage));
        spent.cost_usd += cost.unwrap_or(0.0);
        cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64) -> TokenUsage {
        TokenUsage { input, output, ..TokenUsage::default() }
    }

    #[test]
    fn requests_count_from_their_start() {
        let ledger =
            Ledger::new(Budget { max_requests: Some(2), ..Budget::default() }, None, Totals::default());
        assert!(ledger.admit().is_ok() && ledger.admit().is_ok());
        let refused = ledger.admit().unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.kind), (402, "billing_error"));
        assert!(refused.message.contains("2 requests"), "{refused:?}");
        assert!(refused.message.contains("start it again"), "{refused:?}");
        ledger.refund();
        assert!(ledger.admit().is_ok() && ledger.admit().is_err());
        assert_eq!((ledger.spent().requests, ledger.spent().refused), (2, 2));
    }

    #[test]
    fn tokens_count_when_reported() {
        let ledger =
            Ledger::new(Budget { max_tokens: Some(10), ..Budget::default() }, None, Totals::default());
        ledger.add(usage(4, 5));
        assert!(ledger.admit().is_ok());
        ledger.add(TokenUsage { cache_read: 1, ..TokenUsage::default() });
        assert!(ledger.admit().unwrap_err().message.contains("10 of 10 tokens"));
    }

    #[test]
    fn earlier_totals_count() {
        let before = Totals { usage: usage(4, 6), ..Totals::default() };
        let ledger = Ledger::new(Budget { max_tokens: Some(10), ..Budget::default() }, None, before);
        assert!(ledger.admit().unwrap_err().message.contains("10 of 10 tokens"));
        let words = ledger.for_node(true).admit().unwrap_err().message;
        assert!(words.ends_with("create the node again with a larger one"), "{words}");
    }

    #[test]
    fn cost_follows_the_prices() {
        let budget = Budget { max_cost_usd: Some(1.0), ..Budget::default() };
        let ledger = Ledger::new(budget, Some(Prices::new(3.0, 15.0)), Totals::default());
        let whole =
            TokenUsage { input: 100_000, output: 10_000, cache_read: 1_000_000, cache_write: 100_000 };
        let cost = ledger.add(whole).unwrap();
        assert!((cost - (0.3 + 0.15 + 0.3 + 0.375)).abs() < 1e-9, "{cost}");
        assert!(ledger.admit().unwrap_err().message.contains("$1.1250 of $1.0000"));
    }
}
