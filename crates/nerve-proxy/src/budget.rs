//! How much may pass, and how much has.

use std::sync::{Mutex, PoisonError};

use http::StatusCode;

use crate::api_error::Fault;
use crate::error::ProxyError;
use crate::usage::Usage;

/// After how much a proxy refuses. What is under way when a limit is reached goes on to its end.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budget {
    /// Tokens: all that went in, cached ones too, and all that came out.
    pub max_tokens: Option<u64>,
    /// Requests that were answered by the upstream.
    pub max_requests: Option<u64>,
    /// US dollars, by the [`Prices`].
    pub max_cost_usd: Option<f64>,
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Tokens that go in.
    pub input: f64,
    /// Tokens that come out.
    pub output: f64,
    /// Tokens that go in and were known already.
    pub cache_read: f64,
    /// Tokens that go in and are to be remembered.
    pub cache_write: f64,
}

/// What has passed since a proxy began.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// Requests that were answered, or are under way.
    pub requests: u64,
    /// Requests that were refused because a limit was reached.
    pub refused: u64,
    /// Tokens, as far as the upstream told them.
    pub usage: Usage,
    /// US dollars; 0 without [`Prices`].
    pub cost_usd: f64,
}

impl Prices {
    /// What tokens go in and come out for. Of the cache, as Anthropic's are: a tenth to read, a quarter more to write.
    pub fn new(input: f64, output: f64) -> Prices {
        Prices { input, output, cache_read: input * 0.1, cache_write: input * 1.25 }
    }

    /// What these tokens cost, in US dollars.
    pub fn cost(&self, usage: Usage) -> f64 {
        let of = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        of(usage.input, self.input)
            + of(usage.output, self.output)
            + of(usage.cache_read, self.cache_read)
            + of(usage.cache_write, self.cache_write)
    }
}

impl Budget {
    pub(crate) fn check(&self, prices: Option<Prices>) -> Result<(), ProxyError> {
        let sound = |number: f64| number.is_finite() && number >= 0.0;
        if !self.max_cost_usd.is_none_or(sound) {
            return Err(ProxyError::Setting("a limit of cost is 0 or more"));
        }
        let prices = prices.map(|p| [p.input, p.output, p.cache_read, p.cache_write]);
        if !prices.into_iter().flatten().all(sound) {
            return Err(ProxyError::Setting("prices are 0 or more"));
        }
        Ok(())
    }
}

/// Counts.
#[derive(Debug)]
pub(crate) struct Ledger {
    budget: Budget,
    prices: Option<Prices>,
    spent: Mutex<Spent>,
    /// It is of a node's own proxy, which nobody starts by itself.
    is_nodes: bool,
}

impl Ledger {
    pub(crate) fn new(budget: Budget, prices: Option<Prices>, spent: Spent) -> Ledger {
        Ledger { budget, prices, spent: Mutex::new(spent), is_nodes: false }
    }

    pub(crate) fn of_node(self, is_nodes: bool) -> Ledger {
        Ledger { is_nodes, ..self }
    }

    pub(crate) fn spent(&self) -> Spent {
        *self.lock()
    }

    /// Counts a request that is about to be passed on.
    ///
    /// # Errors
    /// When a limit is reached. It is 402, `billing_error`: agents try again for minutes after 429 and after 5xx, which would not
    /// help, and take 401 and 403 for a wrong key.
    pub(crate) fn admit(&self) -> Result<(), Fault> {
        let mut spent = self.lock();
        let tokens = spent.usage.total();
        let limits = [
            self.budget
                .max_requests
                .filter(|most| spent.requests >= *most)
                .map(|most| format!("{most} requests")),
            self.budget
                .max_tokens
                .filter(|most| tokens >= *most)
                .map(|most| format!("{tokens} of {most} tokens")),
            self.budget
                .max_cost_usd
                .filter(|most| spent.cost_usd >= *most)
                .map(|most| format!("${:.4} of ${most:.4}", spent.cost_usd)),
        ];
        if let Some(used) = limits.into_iter().flatten().next() {
            spent.refused = spent.refused.saturating_add(1);
            let what = if self.is_nodes { "make the node" } else { "start it" };
            let message =
                format!("the budget of the nerve proxy is used up: {used}; {what} anew with a larger one");
            return Err(Fault::new(StatusCode::PAYMENT_REQUIRED, message));
        }
        spent.requests = spent.requests.saturating_add(1);
        Ok(())
    }

    /// The upstream was not reached: the request does not count.
    pub(crate) fn give_back(&self) {
        let mut spent = self.lock();
        spent.requests = spent.requests.saturating_sub(1);
    }

    /// Counts tokens; what they cost, if that is known.
    pub(crate) fn add(&self, usage: Usage) -> Option<f64> {
        let mut spent = self.lock();
        spent.usage = spent.usage.plus(usage);
        let cost = self.prices.map(|prices| prices.cost(usage));
        spent.cost_usd += cost.unwrap_or(0.0);
        cost
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64) -> Usage {
        Usage { input, output, ..Usage::default() }
    }

    #[test]
    fn requests_are_counted_when_they_begin() {
        let ledger =
            Ledger::new(Budget { max_requests: Some(2), ..Budget::default() }, None, Spent::default());
        assert!(ledger.admit().is_ok() && ledger.admit().is_ok());
        let refused = ledger.admit().unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.kind), (402, "billing_error"));
        assert!(refused.message.contains("2 requests"), "{refused:?}");
        assert!(refused.message.contains("start it anew"), "{refused:?}");
        ledger.give_back();
        assert!(ledger.admit().is_ok() && ledger.admit().is_err());
        assert_eq!((ledger.spent().requests, ledger.spent().refused), (2, 2));
    }

    #[test]
    fn tokens_count_when_they_are_told() {
        let ledger =
            Ledger::new(Budget { max_tokens: Some(10), ..Budget::default() }, None, Spent::default());
        ledger.add(usage(4, 5));
        assert!(ledger.admit().is_ok());
        ledger.add(Usage { cache_read: 1, ..Usage::default() });
        assert!(ledger.admit().unwrap_err().message.contains("10 of 10 tokens"));
    }

    #[test]
    fn what_passed_before_counts() {
        let before = Spent { usage: usage(4, 6), ..Spent::default() };
        let ledger = Ledger::new(Budget { max_tokens: Some(10), ..Budget::default() }, None, before);
        assert!(ledger.admit().unwrap_err().message.contains("10 of 10 tokens"));
        let words = ledger.of_node(true).admit().unwrap_err().message;
        assert!(words.ends_with("make the node anew with a larger one"), "{words}");
    }

    #[test]
    fn cost_is_by_the_prices() {
        let budget = Budget { max_cost_usd: Some(1.0), ..Budget::default() };
        let ledger = Ledger::new(budget, Some(Prices::new(3.0, 15.0)), Spent::default());
        let whole = Usage { input: 100_000, output: 10_000, cache_read: 1_000_000, cache_write: 100_000 };
        let cost = ledger.add(whole).unwrap();
        assert!((cost - (0.3 + 0.15 + 0.3 + 0.375)).abs() < 1e-9, "{cost}");
        assert!(ledger.admit().unwrap_err().message.contains("$1.1250 of $1.0000"));
    }
}
