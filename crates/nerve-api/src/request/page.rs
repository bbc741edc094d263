//! The part of a list that a request selects.

use serde::{Deserialize, Serialize};

/// The page of a list. Without a limit and a cursor, the whole list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PageRequest {
    /// Items of the page, from 1 to 1000. Default: all items, or 1000 after a cursor; 100 over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Cursor of the page: `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
