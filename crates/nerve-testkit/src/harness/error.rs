//! Assertions on errors that do not depend on their wording.

use nerve_node::error::{EngineError, ErrorKind};

/// Asserts the kind of an error, and that its message or hint contains each fact: a name, a number, an exit code.
///
/// # Panics
/// One of them differs.
#[track_caller]
pub fn assert_error(error: &EngineError, kind: ErrorKind, facts: &[&str]) {
    assert_eq!(error.kind, kind, "{error}");
    let text = error.to_string();
    for fact in facts {
        assert!(text.contains(fact), "{text:?} lacks {fact:?}");
    }
}
