//! Reasons why a name selects nothing.

use super::Candidate;
use crate::store::{MAX_ID_CHARS, suggest_ids};

/// A name that does not select one candidate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// Neither a node nor an id can have this name.
    #[error("invalid name {text:?}: use an id, NODE, SESSION/NODE or NODE@N")]
    Invalid {
        /// The name, shortened.
        text: String,
    },
    /// No candidate matches.
    #[error("no recording or session '{text}'")]
    NotFound {
        /// The name.
        text: String,
        /// A node or id of a similar name.
        similar: Option<String>,
    },
    /// The node has fewer recordings.
    #[error("no recording '{text}': the node has {count}")]
    TooFew {
        /// The name.
        text: String,
        /// The node.
        node: String,
        /// Number of its recordings.
        count: usize,
    },
    /// Several candidates match.
    #[error("'{text}' is ambiguous: {}", list(candidates))]
    Ambiguous {
        /// The name.
        text: String,
        /// The candidates, newest first. For a node, the newest of each session.
        candidates: Vec<Candidate>,
    },
}

impl LookupError {
    /// Maximum number of candidates that an error lists.
    pub(super) const MAX_LISTED: usize = 8;

    /// Creates the error for an invalid name, which may be long if it is from the network.
    pub(super) fn invalid(text: &str) -> LookupError {
        LookupError::Invalid { text: text.chars().take(MAX_ID_CHARS + 1).collect() }
    }

    /// Returns names to use instead, as a hint: `did you mean …`, or names that distinguish the candidates.
    pub fn suggestion(&self) -> Option<String> {
        match self {
            LookupError::Invalid { .. } | LookupError::NotFound { similar: None, .. } => None,
            LookupError::NotFound { similar: Some(similar), .. } => {
                Some(format!("did you mean '{similar}'?"))
            }
            LookupError::TooFew { node, .. } => Some(format!("the newest one is '{node}'")),
            LookupError::Ambiguous { text, candidates } => Some(distinguish(text, candidates)),
        }
    }
}

/// Suggests names that distinguish the candidates.
fn distinguish(text: &str, candidates: &[Candidate]) -> String {
    if candidates.iter().all(|one| one.node.as_ref().is_some_and(|path| path.node == text)) {
        let nodes = candidates.iter().filter_map(|one| one.node.as_ref());
        return format!("name the session: {}", alternatives(nodes));
    }
    let mut ids: Vec<&str> = candidates.iter().map(|one| one.id.as_str()).collect();
    let hosts: Vec<&str> = candidates.iter().filter_map(|one| one.host.as_deref()).collect();
    let begin = |ids: &[&str]| ids.iter().all(|id| id.starts_with(text));
    let have_hosts = hosts.len() == candidates.len();
    let by_id = if have_hosts && begin(&hosts) { suggest_ids(text, &hosts) } else { suggest_ids(text, &ids) };
    ids.sort_unstable();
    ids.dedup();
    match (ids.len() == candidates.len(), have_hosts) {
        (true, _) => by_id,
        // Concurrent sessions can have the same id.
        (false, true) => suggest_ids(text, &hosts),
        (false, false) => {
            let paths = candidates.iter().filter_map(|one| one.path.as_deref());
            format!("give the file: {}", alternatives(paths.map(std::path::Path::display)))
        }
    }
}

fn alternatives<T: std::fmt::Display>(all: impl Iterator<Item = T>) -> String {
    let quoted: Vec<String> = all.take(LookupError::MAX_LISTED).map(|one| format!("'{one}'")).collect();
    quoted.join(" or ")
}

fn list(candidates: &[Candidate]) -> String {
    let listed: Vec<String> =
        candidates.iter().take(LookupError::MAX_LISTED).map(ToString::to_string).collect();
    let more = match candidates.len().saturating_sub(LookupError::MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    listed.join(", ") + &more
}
