//! Notes about configured keys: default keys that other operations lose, and operations without a key.

use crate::view::bindings::Bindings;
use crate::view::keys::{Context, Key, Operation};
use crate::view::operations::{OPERATIONS, OperationInfo};

/// A note about a configured operation.
pub(super) struct Note {
    /// Name of the operation.
    pub(super) operation: &'static str,
    pub(super) message: String,
}

/// Returns the notes for the configured operations and keys in `settings`, which `bindings` contains.
pub(super) fn notes_for(settings: &[(String, Vec<String>)], bindings: &Bindings) -> Vec<Note> {
    let is_set = |entry: &&OperationInfo| settings.iter().any(|(name, _)| name == entry.name);
    let set = || OPERATIONS.iter().filter(is_set);
    let unset = || OPERATIONS.iter().filter(|entry| !is_set(entry));
    let taken_notes = set().flat_map(|by| unset().filter_map(move |from| taken_keys(by, from, bindings)));
    taken_notes.chain(set().filter_map(|entry| missing_prefix(entry, bindings))).collect()
}

/// Notes the default keys of `from` that `by` takes.
fn taken_keys(by: &'static OperationInfo, from: &'static OperationInfo, bindings: &Bindings) -> Option<Note> {
    if by.operation == from.operation {
        return None;
    }
    let new_keys = bindings.keys_of(by);
    let (mut keys, mut lost_in): (Vec<&str>, Vec<Context>) = (Vec::new(), Vec::new());
    for &name in from.keys.iter().filter(|name| new_keys.iter().any(|key| key == *name)) {
        let key: Key = name.parse().ok()?;
        let contexts: Vec<Context> = from
            .contexts
            .iter()
            .copied()
            .filter(|context| bindings.operation(*context, key) == Some(by.operation))
            .collect();
        if !contexts.is_empty() {
            keys.push(name);
            lost_in = contexts;
        }
    }
    let quoted: Vec<String> = keys.iter().map(|key| format!("'{key}'")).collect();
    let (last, before) = quoted.split_last()?;
    let quoted = if before.is_empty() { last.clone() } else { format!("{} and {last}", before.join(", ")) };
    let mut message = format!("'{}' takes {quoted} from '{}'", by.name, from.name);
    let other_keys = bindings.keys_of(from);
    if lost_in.len() < from.contexts.len() {
        let contexts: Vec<&str> = lost_in.iter().map(|context| context.words()).collect();
        message += &format!(" {}", contexts.join(", "));
    } else if other_keys.is_empty() {
        message += ", which has no key left";
    } else {
        message += &format!(", which has {} left", other_keys.join(", "));
    }
    Some(Note { operation: by.name, message })
}

/// Notes the operations that no key can run in a live terminal if `prefix` has no key.
fn missing_prefix(entry: &'static OperationInfo, bindings: &Bindings) -> Option<Note> {
    let has = |operation: Operation| !bindings.keys_in(Context::Live, operation).is_empty();
    if entry.operation != Operation::Prefix || has(Operation::Prefix) {
        return None;
    }
    let alternatives = [
        (Operation::Detach, "leaves a running program", "detach"),
        (Operation::EndSession, "ends it", "end-session"),
    ];
    let missing = alternatives.iter().filter(|(operation, _, _)| !has(*operation));
    let (words, names): (Vec<&str>, Vec<String>) =
        missing.map(|(_, words, name)| (*words, format!("'{name}'"))).unzip();
    let message = match names.is_empty() {
        true => "without 'prefix' no key shows the help of a running program".to_string(),
        false => format!("without 'prefix' no key {}: give {} one", words.join(" or "), names.join(" and ")),
    };
    Some(Note { operation: entry.name, message })
}
