//! Key bindings: the defaults, merged with the user's settings.

use std::collections::HashMap;
use std::fmt;

use crate::view::keys::{Code, Context, Key, KeyError, Operation};
use crate::view::operations::{OPERATIONS, OperationInfo};

/// Key bindings per context.
#[derive(Debug, Clone)]
pub struct Bindings {
    keys: HashMap<(Context, Key), &'static OperationInfo>,
}

/// An invalid key setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidBinding {
    /// Unknown operation name.
    Unknown(String),
    /// Invalid key name.
    Key(KeyError),
    /// Two operations have the same key in one context.
    Conflict {
        /// The key.
        key: Key,
        /// The context of both.
        context: Context,
        /// The operation bound first.
        first: &'static str,
        /// The operation bound second.
        second: &'static str,
    },
    /// A text character is bound in a context where text is typed.
    Typed {
        /// The key.
        key: Key,
        /// The context.
        context: Context,
        /// The operation.
        name: &'static str,
    },
}

impl fmt::Display for InvalidBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidBinding::Unknown(name) => {
                let names: Vec<&str> = OPERATIONS.iter().map(|entry| entry.name).collect();
                write!(f, "unknown operation '{name}': use one of {}", names.join(", "))
            }
            InvalidBinding::Key(bad) => bad.fmt(f),
            InvalidBinding::Conflict { key, context, first, second } => {
                let place = context.words();
                write!(f, "key '{key}' is bound to both '{first}' and '{second}' {place}: remove one of them")
            }
            InvalidBinding::Typed { key, context, name } => {
                let place = context.words();
                write!(
                    f,
                    "key '{key}' of '{name}' is text {place}: use one with ctrl or alt, or a function key"
                )
            }
        }
    }
}

impl std::error::Error for InvalidBinding {}

impl Default for Bindings {
    fn default() -> Bindings {
        // A test checks that the defaults are valid.
        Bindings::with(&[]).unwrap_or(Bindings { keys: HashMap::new() })
    }
}

impl Bindings {
    /// Returns the default bindings with these operations (by name) rebound. A key given to another operation is
    /// taken from the operation that has it by default.
    ///
    /// # Errors
    /// Unknown operations and keys, one key for two of these operations in a context, text characters where text is
    /// typed.
    pub fn with(settings: &[(String, Vec<String>)]) -> Result<Bindings, InvalidBinding> {
        let mut keys: HashMap<(Context, Key), &'static OperationInfo> = HashMap::new();
        for (name, names) in settings {
            let entry = OPERATIONS.iter().find(|entry| entry.name == name);
            let entry = entry.ok_or_else(|| InvalidBinding::Unknown(name.chars().take(40).collect()))?;
            for key in names {
                let key = normalize(key.parse().map_err(InvalidBinding::Key)?);
                for &context in entry.contexts {
                    let is_typed = context.is_typed_into() && is_text(key);
                    if is_typed || context == Context::Scroll && is_digit(key) {
                        return Err(InvalidBinding::Typed { key, context, name: entry.name });
                    }
                    if let Some(other) = keys.insert((context, key), entry)
                        && other.name != entry.name
                    {
                        let (first, second) = (other.name, entry.name);
                        return Err(InvalidBinding::Conflict { key, context, first, second });
                    }
                }
            }
        }
        let is_set = |name: &str| settings.iter().any(|(set, _)| set == name);
        for entry in OPERATIONS.iter().filter(|entry| !is_set(entry.name)) {
            for name in entry.keys {
                let key: Key = name.parse().map_err(InvalidBinding::Key)?;
                for &context in entry.contexts {
                    keys.entry((context, key)).or_insert(entry);
                }
            }
        }
        Ok(Bindings { keys })
    }

    /// Returns the operation of a key.
    pub fn operation(&self, context: Context, key: Key) -> Option<Operation> {
        self.keys.get(&(context, normalize(key))).map(|entry| entry.operation)
    }

    /// Returns the names of an operation's keys in a context, shortest first.
    pub(crate) fn keys_in(&self, context: Context, operation: Operation) -> Vec<String> {
        self.key_names(|at, entry| at == context && entry.operation == operation)
    }

    /// Returns the names of an operation's keys in all its contexts, shortest first.
    pub fn keys_of(&self, entry: &OperationInfo) -> Vec<String> {
        self.key_names(|_, bound| bound.name == entry.name)
    }

    fn key_names(&self, is_wanted: impl Fn(Context, &OperationInfo) -> bool) -> Vec<String> {
        let bound = self.keys.iter().filter(|((context, _), entry)| is_wanted(*context, entry));
        let mut keys: Vec<(usize, usize, String)> = bound
            .map(|((_, key), entry)| {
                let name = key.to_string();
                let usual = entry.keys.iter().position(|usual| *usual == name).unwrap_or(usize::MAX);
                (name.chars().count(), usual, name)
            })
            .collect();
        keys.sort();
        let mut names: Vec<String> = keys.into_iter().map(|(_, _, name)| name).collect();
        names.dedup();
        names
    }
}

/// Removes Shift from characters, which include it already. With Control, letters are lower-cased and keep Shift,
/// which some terminals report.
fn normalize(key: Key) -> Key {
    match key.code {
        Code::Char(char) if key.ctrl => Key { code: Code::Char(char.to_ascii_lowercase()), ..key },
        Code::Char(_) => Key { shift: false, ..key },
        _ => key,
    }
}

/// Returns true for a digit of a count typed before a key.
fn is_digit(key: Key) -> bool {
    matches!(key.code, Code::Char('0'..='9')) && is_text(key)
}

/// Returns true for a key that inserts text.
pub(crate) fn is_text(key: Key) -> bool {
    matches!(key.code, Code::Char(_)) && !key.ctrl && !key.alt
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::keys::Code;

    fn set(settings: &[(&str, &[&str])]) -> Result<Bindings, InvalidBinding> {
        let owned = |(name, keys): &(&str, &[&str])| {
            (name.to_string(), keys.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        Bindings::with(&settings.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn default_keys_are_valid_and_unique() {
        let bindings = set(&[]).unwrap();
        let all: usize = OPERATIONS.iter().map(|entry| entry.keys.len() * entry.contexts.len()).sum();
        assert_eq!(bindings.keys.len(), all);
        for (at, entry) in OPERATIONS.iter().enumerate() {
            assert_eq!(bindings.keys_of(entry).len(), entry.keys.len(), "{}", entry.name);
            assert!(OPERATIONS[..at].iter().all(|other| other.name != entry.name), "{}", entry.name);
        }
    }

    #[test]
    fn key_names_round_trip() {
        for name in ["g", "G", "space", "+", "ctrl++", "ctrl+alt+shift+up", "pagedown", "esc", "é"] {
            assert_eq!(name.parse::<Key>().unwrap().to_string(), name);
        }
        assert_eq!("Ctrl+Home".parse(), Ok(Key { ctrl: true, ..Key::plain(Code::Home) }));
        for name in ["", "gg", "ctrl+", "hyper+x", "\n", "ctrl+shift"] {
            assert!(name.parse::<Key>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn rebound_key_changes_operation() {
        let bindings = set(&[("page-down", &["j", "ctrl+space"])]).unwrap();
        let operation = |key| bindings.operation(Context::Scroll, key);
        assert_eq!(operation(Key::char('j')), Some(Operation::PageDown));
        assert_eq!(operation(Key::ctrl(' ')), Some(Operation::PageDown));
        assert_eq!(operation(Key::char('f')), None, "its usual keys are not its any more");
        assert_eq!(operation(Key::char('e')), Some(Operation::LineDown));
        let in_list = bindings.operation(Context::List, Key::char('j'));
        assert_eq!(in_list, Some(Operation::ListDown), "another context");
    }

    #[test]
    fn shift_is_part_of_characters_without_control() {
        let bindings = set(&[]).unwrap();
        let operation = |key| bindings.operation(Context::Scroll, key);
        assert_eq!(operation(Key { shift: true, ..Key::char('G') }), Some(Operation::End));
        assert_eq!(operation(Key { shift: true, ..Key::alt('<') }), Some(Operation::Start));
        for char in ['t', 'T'] {
            assert_eq!(operation(Key { shift: true, ..Key::ctrl(char) }), Some(Operation::Tools));
        }
        assert_eq!(operation(Key::ctrl('t')), None);
    }

    #[test]
    fn invalid_settings_are_explained() {
        let error = |settings: &[(&str, &[&str])]| set(settings).unwrap_err().to_string();
        assert!(
            error(&[("page-dwon", &["x"])])
                .contains("unknown operation 'page-dwon': use one of prefix, entry-up")
        );
        assert!(error(&[("start", &["gg"])]).contains("unknown key \"gg\""));
        let both = error(&[("start", &["x"]), ("end", &["x"])]);
        assert!(both.contains("'x' is bound to both 'start' and 'end' in scroll mode"), "{both}");
        assert!(set(&[("start", &["x"]), ("list-open", &["x"])]).is_ok(), "in two contexts");
        let everywhere = error(&[("entry-close", &["f5"]), ("tools", &["f5"])]);
        assert!(everywhere.contains("'entry-close' and 'tools' in the task entry"), "{everywhere}");
        let typed = error(&[("entry-up", &["u"])]);
        assert!(typed.contains("'u' of 'entry-up' is text in live mode"), "{typed}");
        let digit = error(&[("start", &["1"])]);
        assert!(digit.contains("'1' of 'start' is text in scroll mode"), "{digit}");
        assert!(set(&[("start", &["x", "x"])]).is_ok());
    }
}
