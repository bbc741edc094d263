//! Parameters of the commands for graphs. A graph is given as `definition`, or by the fields of its file.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{PageRequest, id_requests, read};

/// Options of a run: shared by the requests that start one, and stored in its journal without `shell_env`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(default))]
pub struct RunOptions {
    /// Session of the graph, which provides the nodes not defined by the graph. Default: the server's default session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Input of the graph.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Id of the run: 1–32 of `a-z 0-9 -`. Default: generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Includes the trace in the reply.
    pub trace: bool,
    /// Leaves the graph's own nodes running after its end.
    pub keep_nodes: bool,
    /// Span of the caller, in the format of the `traceparent` header (W3C Trace Context). An invalid one is ignored with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Vendor-specific trace data, in the format of the `tracestate` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// Environment of the shell that starts the run, for the graph's own nodes, instead of the server's. See `shell_env` of CREATE_NODE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell_env: Option<BTreeMap<String, String>>,
}

/// EXECUTE_GRAPH: runs a graph that is part of the request.
///
/// Clients of the first nerve send the fields of the graph on the same level as the options; `graph_id` is then the id of the graph. Fields
/// that are not options belong to the graph. Encoding always writes `definition`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "ExecuteParams")]
pub struct ExecuteGraph {
    /// The graph, as in a graph file: an object.
    pub definition: Map<String, Value>,
    /// Options of the run.
    #[serde(flatten)]
    pub options: RunOptions,
    /// Replies as soon as the run has started.
    pub detach: bool,
}

/// CREATE_GRAPH: registers a graph in a session. The graph is given as in [`ExecuteGraph`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "CreateParams")]
pub struct CreateGraph {
    /// The graph, as in a graph file: an object.
    pub definition: Map<String, Value>,
    /// Session of the graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// RUN_GRAPH: runs a registered graph.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunGraph {
    /// Id of the graph.
    pub graph_id: String,
    /// Options of the run.
    #[serde(flatten)]
    pub options: RunOptions,
    /// Replies as soon as the run has started.
    #[serde(default)]
    pub detach: bool,
}

id_requests! {
    graph_id: "Id of the graph.";
    /// GET_GRAPH: returns one graph with its definition.
    GetGraph;
    /// DELETE_GRAPH: deletes a graph. Its runs continue.
    DeleteGraph;
}

/// LIST_GRAPHS: lists the graphs of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListGraphs {
    /// Session to list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Part of the list.
    #[serde(flatten)]
    pub page: PageRequest,
}

/// EXECUTE_GRAPH as received.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ExecuteParams {
    definition: Option<Map<String, Value>>,
    #[serde(flatten)]
    options: RunOptions,
    #[serde(default)]
    detach: bool,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// CREATE_GRAPH as received.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct CreateParams {
    definition: Option<Map<String, Value>>,
    session_id: Option<String>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl TryFrom<ExecuteParams> for ExecuteGraph {
    type Error = String;

    fn try_from(given: ExecuteParams) -> Result<ExecuteGraph, String> {
        let ExecuteParams { definition, options, detach, fields } = given;
        Ok(ExecuteGraph { definition: merge_definition(definition, fields)?, options, detach })
    }
}

impl TryFrom<CreateParams> for CreateGraph {
    type Error = String;

    fn try_from(given: CreateParams) -> Result<CreateGraph, String> {
        let CreateParams { definition, session_id, fields } = given;
        Ok(CreateGraph { definition: merge_definition(definition, fields)?, session_id })
    }
}

/// Written by hand, because the reader of a flattened struct does not name the field in its errors.
impl<'de> Deserialize<'de> for RunOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RunOptions, D::Error> {
        const FIELDS: &[&str] = &[
            "session_id",
            "input",
            "run_id",
            "trace",
            "keep_nodes",
            "traceparent",
            "tracestate",
            "shell_env",
        ];
        deserializer.deserialize_struct("RunOptions", FIELDS, OptionsVisitor)
    }
}

struct OptionsVisitor;

impl<'de> Visitor<'de> for OptionsVisitor {
    type Value = RunOptions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RunOptions, A::Error> {
        let mut options = RunOptions::default();
        while let Some(name) = map.next_key::<String>()? {
            let read = match name.as_str() {
                "session_id" => map.next_value().map(|value| options.session_id = value),
                "input" => map.next_value().map(|value| options.input = value),
                "run_id" => map.next_value().map(|value| options.run_id = value),
                "trace" => map.next_value().map(|value| options.trace = value),
                "keep_nodes" => map.next_value().map(|value| options.keep_nodes = value),
                "traceparent" => map.next_value().map(|value| options.traceparent = value),
                "tracestate" => map.next_value().map(|value| options.tracestate = value),
                "shell_env" => map.next_value().map(|value| options.shell_env = value),
                _ => map.next_value::<IgnoredAny>().map(drop),
            };
            read.map_err(|error| read::field_error(&name, &error))?;
        }
        Ok(options)
    }
}

/// Returns the graph: `definition`, or the fields on the level of the options.
fn merge_definition(
    whole: Option<Map<String, Value>>,
    mut fields: Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    if let Some(whole) = whole {
        // With two graphs, one would be silently ignored.
        return match fields.keys().find(|field| ["steps", "nodes"].contains(&field.as_str())) {
            Some(field) => Err(format!("a graph is given as definition and by its {field}: leave out one")),
            None => Ok(whole),
        };
    }
    if !fields.contains_key("steps") {
        // The wording of serde, which `read` reformats.
        return Err("missing field `steps`".to_string());
    }
    if !fields.contains_key("graph")
        && let Some(id) = fields.shift_remove("graph_id")
    {
        fields.shift_insert(0, "graph".to_string(), id);
    }
    Ok(fields)
}
