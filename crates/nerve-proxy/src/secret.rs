//! Keys and tokens, which are sent and compared but never shown.

use std::fmt;

use subtle::ConstantTimeEq;

/// A key. `{:?}` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret, without surrounding white space.
    pub fn new(key: &str) -> Secret {
        Secret(key.trim().to_string())
    }

    /// Returns the key itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Compares in constant time for keys of the same length.
    pub(crate) fn matches(&self, candidate: &str) -> bool {
        self.0.as_bytes().ct_eq(candidate.as_bytes()).into()
    }

    /// Returns true if it is empty.
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
    fn debug_output_hides_the_key() {
        let secret = Secret::new(" hunter2\n");
        assert!(secret.matches("hunter2") && !secret.matches("hunter3") && !secret.matches(""));
        assert!(!format!("{secret:?}").contains("hunter"));
    }
}
