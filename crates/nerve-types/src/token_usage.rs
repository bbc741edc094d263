//! Counts of tokens of a model's API.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Tokens of one or more responses. Sums and differences stop at the limits of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TokenUsage {
    /// Input tokens, without cached ones.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache.
    pub cache_write: u64,
}

impl TokenUsage {
    /// Creates the usage of a response whose `input` includes the tokens read from and written to the cache.
    pub fn with_cache_in_input(input: u64, output: u64, cache_read: u64, cache_write: u64) -> TokenUsage {
        let input = input.saturating_sub(cache_read).saturating_sub(cache_write);
        TokenUsage { input, output, cache_read, cache_write }
    }

    /// Returns the input tokens, including those read from and written to the cache.
    pub fn whole_input(self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Returns the sum of all tokens.
    pub fn total(self) -> u64 {
        self.whole_input().saturating_add(self.output)
    }

    /// Returns the usage without a part of it.
    #[must_use]
    pub fn without(self, part: TokenUsage) -> TokenUsage {
        self.combine(part, u64::saturating_sub)
    }

    fn combine(self, other: TokenUsage, combine: fn(u64, u64) -> u64) -> TokenUsage {
        TokenUsage {
            input: combine(self.input, other.input),
            output: combine(self.output, other.output),
            cache_read: combine(self.cache_read, other.cache_read),
            cache_write: combine(self.cache_write, other.cache_write),
        }
    }
}

impl Add for TokenUsage {
    type Output = TokenUsage;

    fn add(self, other: TokenUsage) -> TokenUsage {
        self.combine(other, u64::saturating_add)
    }
}

impl AddAssign for TokenUsage {
    fn add_assign(&mut self, other: TokenUsage) {
        *self = *self + other;
    }
}

impl Sum for TokenUsage {
    fn sum<I: Iterator<Item = TokenUsage>>(counts: I) -> TokenUsage {
        counts.fold(TokenUsage::default(), TokenUsage::add)
    }
}

#[cfg(test)]
mod tests {
    use super::TokenUsage;

    #[test]
    fn json_has_all_counts_and_missing_ones_are_zero() {
        let usage = TokenUsage { input: 1, output: 2, cache_read: 3, cache_write: 4 };
        let json = serde_json::to_string(&usage).unwrap();
        assert_eq!(json, r#"{"input":1,"output":2,"cache_read":3,"cache_write":4}"#);
        assert_eq!(serde_json::from_str::<TokenUsage>(&json).unwrap(), usage);
        let partial: TokenUsage = serde_json::from_str(r#"{"output":2,"other":null}"#).unwrap();
        assert_eq!(partial, TokenUsage { output: 2, ..TokenUsage::default() });
    }

    #[test]
    fn sums_stop_at_the_limit() {
        let most = TokenUsage { input: u64::MAX, ..TokenUsage::default() };
        let sum: TokenUsage = [most, TokenUsage::with_cache_in_input(9, 1, 3, 4)].into_iter().sum();
        assert_eq!(sum, TokenUsage { input: u64::MAX, output: 1, cache_read: 3, cache_write: 4 });
        assert_eq!((sum.total(), sum.without(most).total()), (u64::MAX, 8));
        assert_eq!(TokenUsage::with_cache_in_input(2, 0, 3, 4).whole_input(), 7);
    }
}
