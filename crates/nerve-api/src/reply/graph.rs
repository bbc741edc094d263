//! Replies of the commands for graphs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A registered graph. Reply to CREATE_GRAPH and GET_GRAPH.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GraphInfo {
    /// Id of the graph.
    pub graph_id: String,
    /// Session of the graph.
    #[serde(default)]
    pub session_id: String,
    /// Ids of its steps in a valid order of execution.
    #[serde(default)]
    pub steps: Vec<String>,
    /// Definition of the graph, as in a graph file. Absent in lists.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub definition: Value,
}

/// Reply to LIST_GRAPHS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GraphList {
    /// Ids of the graphs, sorted.
    pub graphs: Vec<String>,
    /// The graphs in the same order, without their definitions.
    #[serde(default)]
    pub graphs_info: Vec<GraphInfo>,
    /// Cursor of the next page; null on the last page.
    #[serde(default)]
    pub next: Option<String>,
}
