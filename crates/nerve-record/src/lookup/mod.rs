//! Resolves names of recordings and sessions: an id, a node, or the beginning of an id.
//!
//! [`select`] is pure: candidates in, result out. [`Finder`] supplies candidates from the files of a
//! [`Store`](crate::store::Store), and opens only the files that it needs.

mod candidate;
mod error;
mod finder;
mod name;
mod selection;

pub use candidate::{Candidate, NodePath};
pub use error::LookupError;
pub use finder::Finder;
pub use name::Name;
pub use selection::select;

/// Returns true if the text can only be a path: it is absolute, begins with `.`, or has the extension of recordings.
pub fn is_path(text: &str) -> bool {
    text.starts_with(['/', '.']) || text.strip_suffix(".ahr").is_some()
}
