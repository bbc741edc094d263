//! Which key does what.

use std::collections::HashMap;
use std::fmt;

use crate::keys::{Key, KeyError, OPERATIONS, Operation};

/// Keys and what they do.
#[derive(Debug, Clone)]
pub struct Bindings {
    keys: HashMap<Key, Operation>,
}

/// A setting of keys that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadBinding {
    /// No operation has this name.
    Unknown(String),
    /// Not the name of a key.
    Key(KeyError),
    /// Two operations would have one key: their names.
    Conflict {
        /// The key.
        key: Key,
        /// The operation that has it already.
        first: &'static str,
        /// The one that wants it too.
        second: &'static str,
    },
}

impl fmt::Display for BadBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadBinding::Unknown(name) => {
                let names: Vec<&str> = OPERATIONS.iter().map(|entry| entry.name).collect();
                write!(f, "'{name}' is nothing a key can do; there are {}", names.join(", "))
            }
            BadBinding::Key(bad) => bad.fmt(f),
            BadBinding::Conflict { key, first, second } => {
                write!(
                    f,
                    "the key '{key}' is wanted for both '{first}' and '{second}': take it from one of them"
                )
            }
        }
    }
}

impl std::error::Error for BadBinding {}

impl Default for Bindings {
    fn default() -> Bindings {
        // The usual ones are checked by a test.
        Bindings::with(&[]).unwrap_or(Bindings { keys: HashMap::new() })
    }
}

impl Bindings {
    /// The usual keys, with those of these operations (by name) in place of theirs. A key that is given to another operation is taken from the
    /// one that usually has it.
    ///
    /// # Errors
    /// An operation or a key that there is not, or a key for two of these operations.
    pub fn with(settings: &[(String, Vec<String>)]) -> Result<Bindings, BadBinding> {
        let mut chosen: HashMap<Key, &'static str> = HashMap::new();
        let mut keys = HashMap::new();
        for (name, names) in settings {
            let entry = OPERATIONS.iter().find(|entry| entry.name == name);
            let entry = entry.ok_or_else(|| BadBinding::Unknown(name.chars().take(40).collect()))?;
            for key in names {
                let key: Key = key.parse().map_err(BadBinding::Key)?;
                match chosen.insert(key, entry.name) {
                    Some(first) if first != entry.name => {
                        return Err(BadBinding::Conflict { key, first, second: entry.name });
                    }
                    _ => keys.insert(key, entry.operation),
                };
            }
        }
        let is_set = |name: &str| settings.iter().any(|(set, _)| set == name);
        for entry in OPERATIONS.iter().filter(|entry| !is_set(entry.name)) {
            for name in entry.keys {
                let key: Key = name.parse().map_err(BadBinding::Key)?;
                if !chosen.contains_key(&key) {
                    keys.insert(key, entry.operation);
                }
            }
        }
        Ok(Bindings { keys })
    }

    /// What a key does.
    pub fn operation(&self, key: Key) -> Option<Operation> {
        self.keys.get(&key).copied()
    }

    /// The keys of an operation as text, those with short names first.
    pub fn keys_of(&self, operation: Operation) -> Vec<String> {
        let mut names: Vec<String> = self
            .keys
            .iter()
            .filter(|(_, bound)| **bound == operation)
            .map(|(key, _)| key.to_string())
            .collect();
        names.sort_by_key(|name| (name.chars().count(), name.clone()));
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Code;

    fn set(settings: &[(&str, &[&str])]) -> Result<Bindings, BadBinding> {
        let owned = |(name, keys): &(&str, &[&str])| {
            (name.to_string(), keys.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        Bindings::with(&settings.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_usual_keys_are_keys_and_no_two_operations_have_the_same() {
        let bindings = set(&[]).unwrap();
        let all: usize = OPERATIONS.iter().map(|entry| entry.keys.len()).sum();
        assert_eq!(bindings.keys.len(), all);
        for entry in &OPERATIONS {
            assert_eq!(bindings.keys_of(entry.operation).len(), entry.keys.len(), "{}", entry.name);
        }
    }

    #[test]
    fn names_of_keys_are_read_as_they_are_written() {
        for name in ["g", "G", "space", "+", "ctrl++", "ctrl+alt+shift+up", "pagedown", "esc", "é"] {
            assert_eq!(name.parse::<Key>().unwrap().to_string(), name);
        }
        assert_eq!("Ctrl+Home".parse(), Ok(Key { ctrl: true, ..Key::plain(Code::Home) }));
        for name in ["", "gg", "ctrl+", "hyper+x", "\n", "ctrl+shift"] {
            assert!(name.parse::<Key>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_key_goes_to_the_operation_that_asks_for_it() {
        let bindings = set(&[("page-down", &["j", "ctrl+space"])]).unwrap();
        assert_eq!(bindings.operation(Key::char('j')), Some(Operation::PageDown));
        assert_eq!(bindings.operation(Key::ctrl(' ')), Some(Operation::PageDown));
        assert_eq!(bindings.operation(Key::char('f')), None, "its usual keys are not its any more");
        assert_eq!(bindings.operation(Key::char('e')), Some(Operation::LineDown));
    }

    #[test]
    fn what_cannot_be_is_told() {
        let error = |settings: &[(&str, &[&str])]| set(settings).unwrap_err().to_string();
        assert!(
            error(&[("page-dwon", &["x"])])
                .contains("'page-dwon' is nothing a key can do; there are line-down")
        );
        assert!(error(&[("start", &["gg"])]).contains("no key is called \"gg\""));
        let both = error(&[("start", &["x"]), ("end", &["x"])]);
        assert!(both.contains("'x' is wanted for both 'start' and 'end'"), "{both}");
        assert!(set(&[("start", &["x", "x"])]).is_ok());
    }
}
