//! Parameters of the commands that concern graphs. A graph is given field by field, as its file has it, or whole as `definition`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::id_requests;

/// EXECUTE_GRAPH: runs a graph that is given whole.
///
/// The fields of the graph may stand beside the options, as the first nerve's clients send them; `graph_id` is the graph's id then.
/// What is no option is taken for a field of the graph. Written is always `definition`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Given")]
pub struct ExecuteGraph {
    /// The graph, as a graph file has it: an object.
    pub definition: Map<String, Value>,
    /// Where steps find nodes that the graph does not define.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The graph's input.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Id of the run: 1–32 of `a-z 0-9 -`; made up if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Answer with the trace too.
    pub trace: bool,
    /// Answer as soon as the run has begun.
    pub detach: bool,
    /// Leave the graph's own nodes running when it ends.
    pub keep_nodes: bool,
    /// The caller's span, as its header `traceparent` has it (W3C Trace Context). What is none is left out, with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// What vendors say of that trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

/// CREATE_GRAPH: registers a graph in a session. Given as in [`ExecuteGraph`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Registered")]
pub struct CreateGraph {
    /// The graph, as a graph file has it: an object.
    pub definition: Map<String, Value>,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// RUN_GRAPH: runs a registered graph.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunGraph {
    /// The graph.
    pub graph_id: String,
    /// The session it is registered in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// As in [`ExecuteGraph`].
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// As in [`ExecuteGraph`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// As in [`ExecuteGraph`].
    #[serde(default)]
    pub trace: bool,
    /// As in [`ExecuteGraph`].
    #[serde(default)]
    pub detach: bool,
    /// As in [`ExecuteGraph`].
    #[serde(default)]
    pub keep_nodes: bool,
    /// As in [`ExecuteGraph`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// As in [`ExecuteGraph`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

id_requests! {
    graph_id: "The graph.";
    /// GET_GRAPH.
    GetGraph;
    /// DELETE_GRAPH.
    DeleteGraph;
}

/// LIST_GRAPHS: all of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListGraphs {
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// EXECUTE_GRAPH as it comes.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Given {
    definition: Option<Map<String, Value>>,
    session_id: Option<String>,
    #[serde(default)]
    input: Value,
    run_id: Option<String>,
    #[serde(default)]
    trace: bool,
    #[serde(default)]
    detach: bool,
    #[serde(default)]
    keep_nodes: bool,
    traceparent: Option<String>,
    tracestate: Option<String>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// CREATE_GRAPH as it comes.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Registered {
    definition: Option<Map<String, Value>>,
    session_id: Option<String>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl TryFrom<Given> for ExecuteGraph {
    type Error = String;

    fn try_from(given: Given) -> Result<ExecuteGraph, String> {
        let definition = one_graph(given.definition, given.fields)?;
        let Given { session_id, input, run_id, trace, detach, keep_nodes, traceparent, tracestate, .. } =
            given;
        Ok(ExecuteGraph {
            definition,
            session_id,
            input,
            run_id,
            trace,
            detach,
            keep_nodes,
            traceparent,
            tracestate,
        })
    }
}

impl TryFrom<Registered> for CreateGraph {
    type Error = String;

    fn try_from(given: Registered) -> Result<CreateGraph, String> {
        let Registered { definition, session_id, fields } = given;
        Ok(CreateGraph { definition: one_graph(definition, fields)?, session_id })
    }
}

/// The graph that is meant: whole, or in fields that stand beside the options.
fn one_graph(
    whole: Option<Map<String, Value>>,
    mut fields: Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    if let Some(whole) = whole {
        // Of two graphs one would be left out, and nobody told.
        return match fields.keys().find(|field| ["steps", "nodes"].contains(&field.as_str())) {
            Some(field) => Err(format!("a graph is given as definition and by its {field}: leave out one")),
            None => Ok(whole),
        };
    }
    if !fields.contains_key("steps") {
        // The words of serde, which `read` puts into ours.
        return Err("missing field `steps`".to_string());
    }
    if !fields.contains_key("graph")
        && let Some(id) = fields.shift_remove("graph_id")
    {
        fields.shift_insert(0, "graph".to_string(), id);
    }
    Ok(fields)
}
