//! Parameters of SEARCH.

use serde::{Deserialize, Serialize};

use super::value::document_kinds;
use crate::value::DocumentKind;

/// SEARCH: finds a text in prompts, answers, tools and screens of all recordings and nodes on the server's machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Search {
    /// Text, or a regular expression between slashes. Words match in this order, and the last one may continue; case, accents and
    /// punctuation do not matter.
    pub pattern: String,
    /// Searches only this node, which need not exist any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// Searches only nodes of this session. Default: all sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Searches only what is not older than this time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Searches only texts of these kinds. Default: all.
    #[serde(default, deserialize_with = "document_kinds", skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<DocumentKind>,
    /// Maximum number of hits, from 1 to 1000. Default: 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl Search {
    /// Creates the request with the default limit and without filters.
    pub fn new(pattern: impl Into<String>) -> Search {
        Search { pattern: pattern.into(), ..Search::default() }
    }
}
