//! Results of the commands that concern graphs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Of CREATE_GRAPH and GET_GRAPH: what is known of a registered graph.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GraphInfo {
    /// Its id.
    pub graph_id: String,
    /// Its session.
    #[serde(default)]
    pub session_id: String,
    /// Ids of its steps, in an order in which they can run.
    #[serde(default)]
    pub steps: Vec<String>,
    /// As a graph file has it. Not in lists.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub definition: Value,
}

/// Of LIST_GRAPHS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GraphList {
    /// Ids, sorted.
    pub graphs: Vec<String>,
    /// The same graphs with what is known of them, their definitions left out.
    #[serde(default)]
    pub graphs_info: Vec<GraphInfo>,
}
