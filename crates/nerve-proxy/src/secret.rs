//! Keys and tokens: they are sent and compared, and never shown.

use std::fmt;

use subtle::ConstantTimeEq;

/// A key. `{:?}` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a key; spaces around it do not belong to it.
    pub fn new(key: &str) -> Secret {
        Secret(key.trim().to_string())
    }

    /// The key itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether this is the key; takes as long for any wrong one of the same length.
    pub(crate) fn is(&self, shown: &str) -> bool {
        self.0.as_bytes().ct_eq(shown.as_bytes()).into()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_compared_and_not_shown() {
        let secret = Secret::new(" hunter2\n");
        assert!(secret.is("hunter2") && !secret.is("hunter3") && !secret.is(""));
        assert!(!format!("{secret:?}").contains("hunter"));
    }
}
