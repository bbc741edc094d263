//! Reply to GET_USAGE.

use nerve_types::token_usage::TokenUsage;
use serde::{Deserialize, Serialize};

/// The usage of nodes and recordings. Costs are estimates by list prices.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UsageReport {
    /// The rows, in the order of their names or days.
    pub rows: Vec<UsageRow>,
    /// The sum of all rows. It has no names.
    pub total: UsageRow,
    /// Models without a price.
    pub unpriced: Vec<UnpricedModel>,
    /// Files that were not read completely, with the reason.
    pub problems: Vec<String>,
    /// Number of agents' recordings whose session file is gone or not known.
    pub missing_recordings: usize,
}

/// The usage of a node, a session, a day or a model. Names are null for other groupings, or if they are not known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UsageRow {
    /// Server of the node or session.
    pub server_name: Option<String>,
    /// Session.
    pub session_id: Option<String>,
    /// Node.
    pub node_id: Option<String>,
    /// Id of a recording without a node.
    pub recording_id: Option<String>,
    /// Day in the time zone of the machine, as `2026-01-31`.
    pub day: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Tokens.
    pub tokens: TokenUsage,
    /// Number of turns.
    pub turns: u64,
    /// Number of responses of models.
    pub responses: u64,
    /// Sum of the known costs in US dollars; null if no cost is known.
    pub cost_usd: Option<f64>,
    /// True if some tokens have no price.
    pub has_unpriced: bool,
}

/// A model without a price.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnpricedModel {
    /// Model; null if it is not known.
    #[serde(default)]
    pub model: Option<String>,
    /// Number of its tokens.
    pub tokens: u64,
}
