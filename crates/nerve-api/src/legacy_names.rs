//! Names that the first nerve used. Requests under these names still work; each use is answered with a warning.

use std::fmt;

use serde_json::Value;

use crate::event::EventType;
use crate::params::{Param, Params};
use crate::request::RequestName;

/// Older names of requests.
pub(crate) const REQUESTS: &[(&str, RequestName)] = &[
    ("CREATE_CHANNEL", RequestName::CreateNode),
    ("CLOSE_CHANNEL", RequestName::StopNode),
    ("DELETE_NODE", RequestName::StopNode),
    ("LIST_CHANNELS", RequestName::ListNodes),
    ("GET_CHANNEL", RequestName::GetNode),
    ("SEND_INPUT", RequestName::ExecuteInput),
    ("EXECUTE_DAG", RequestName::ExecuteGraph),
    ("CANCEL_DAG", RequestName::CancelGraph),
    ("STOP", RequestName::Shutdown),
];

/// Older names of events.
pub(crate) const EVENTS: &[(&str, EventType)] = &[
    ("CHANNEL_CREATED", EventType::NodeCreated),
    ("CHANNEL_READY", EventType::NodeReady),
    ("CHANNEL_BUSY", EventType::NodeBusy),
    ("CHANNEL_CLOSED", EventType::NodeStopped),
    ("DAG_STARTED", EventType::GraphStarted),
    ("TASK_STARTED", EventType::StepStarted),
    ("TASK_COMPLETED", EventType::StepCompleted),
    ("TASK_FAILED", EventType::StepFailed),
    ("DAG_COMPLETED", EventType::GraphCompleted),
];

/// The events that the first nerve sent. Its clients fail on any other type.
pub(crate) const ORIGINAL_EVENTS: &[EventType] = &[
    EventType::NodeCreated,
    EventType::NodeReady,
    EventType::NodeBusy,
    EventType::NodeStopped,
    EventType::OutputChunk,
    EventType::OutputParsed,
    EventType::GraphStarted,
    EventType::StepStarted,
    EventType::StepCompleted,
    EventType::StepFailed,
    EventType::GraphCompleted,
    EventType::Error,
    EventType::ServerShutdown,
];

/// Older names of fields in the data of events, as (current, older).
pub(crate) const EVENT_FIELDS: [(&str, &str); 3] =
    [("graph_id", "dag_id"), ("step_id", "task_id"), ("state", "status")];

/// Older names of fields in the data of replies, as (current, older).
const REPLY_FIELDS: [(&str, &str); 6] = [
    ("node_id", "channel_id"),
    ("nodes", "channels"),
    ("nodes_info", "channels_info"),
    ("graph_id", "dag_id"),
    ("stopped", "closed"),
    ("executed", "started"),
];

/// Adds the fields of a reply under their older names. For replies to requests that used older names.
pub fn add_old_fields(request: RequestName, data: &mut Params<'_>) {
    for (new, old) in REPLY_FIELDS {
        if let Some(value) = data.get(new).cloned() {
            let value = if new == "nodes_info" { with_node_ids(value) } else { value };
            data.insert(old.to_string(), value);
        }
    }
    if request == RequestName::ExecuteInput
        && let Some(response) = data.get("response").cloned()
    {
        data.insert("response".to_string(), with_repeated_text(response));
    }
    if request == RequestName::ExecuteGraph
        && let Some(state) = data.get("state").cloned()
    {
        data.insert("status".to_string(), state);
    }
    if request == RequestName::CreateNode && data.contains_key("node_id") {
        data.insert("status".to_string(), Param::Value("created".into()));
    }
}

/// Adds the id of each node in a list under its older name.
fn with_node_ids(nodes: Param<'_>) -> Param<'_> {
    let mut nodes = nodes.into_value();
    for node in nodes.as_array_mut().into_iter().flatten() {
        node["id"] = node["node_id"].clone();
    }
    Param::Value(nodes)
}

/// Adds the text, the sections and the tokens of a response a second time, where the first nerve had them.
fn with_repeated_text(response: Param<'_>) -> Param<'_> {
    let mut response = response.into_value();
    if response.is_object() {
        response["output"] = response["text"].clone();
        if response["raw"].is_null() {
            response["raw"] = response["text"].clone();
        }
        for name in ["sections", "tokens"] {
            response["attributes"][name] = response[name].clone();
        }
    }
    Param::Value(response)
}

/// A deprecated name that a client used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeprecatedAlias {
    /// Name in the request.
    pub used: &'static str,
    /// Current name.
    pub instead: &'static str,
}

impl fmt::Display for DeprecatedAlias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is deprecated, use {}", self.used, self.instead)
    }
}

/// Renames the fields of a request that have an older name. Returns one warning for each older name.
pub fn modernise(request: RequestName, params: &mut Params<'_>) -> Vec<String> {
    use RequestName::{
        CancelGraph, CreateGraph, CreateNode, DeleteGraph, ExecuteGraph, ExecuteInput, GetGraph,
        RestoreSnapshot, RunGraph, TakeSnapshot,
    };
    let mut warnings: Vec<String> = rename("channel_id", "node_id", params).into_iter().collect();
    match request {
        CreateNode => warnings.extend(rename("claude_session_id", "conversation_id", params)),
        TakeSnapshot | RestoreSnapshot => warnings.extend(rename("id", "snapshot_id", params)),
        ExecuteInput => warnings.extend(rename("input", "text", params)),
        GetGraph | DeleteGraph | RunGraph | CancelGraph => {
            warnings.extend(rename("dag_id", "graph_id", params));
        }
        CreateGraph | ExecuteGraph => {
            warnings.extend(rename("dag_id", "graph_id", params));
            warnings.extend(rename("tasks", "steps", params));
            warnings.extend(modernise_steps(params));
        }
        _ => {}
    }
    warnings
}

/// Renames the fields of a graph's steps. Each older name causes one warning.
fn modernise_steps(params: &mut Params<'_>) -> Vec<String> {
    // The steps of a `definition` have no older names. Only these here are converted to values.
    let Some(Value::Array(mut steps)) = params.get("steps").cloned().map(Param::into_value) else {
        return Vec::new();
    };
    let mut warnings: Vec<String> = Vec::new();
    for step in steps.iter_mut().filter_map(Value::as_object_mut) {
        let mut fields = Params::from(std::mem::take(step));
        for (old, new) in [("task_id", "step_id"), ("channel_id", "node_id")] {
            let warning = rename(old, new, &mut fields).map(|warning| format!("steps: {warning}"));
            warnings.extend(warning.filter(|warning| !warnings.contains(warning)));
        }
        *step = fields.into_map();
    }
    params.insert("steps".to_string(), Param::Value(Value::Array(steps)));
    warnings
}

/// Renames one field. Returns a warning if the field was there.
fn rename(old: &str, new: &str, fields: &mut Params<'_>) -> Option<String> {
    let value = fields.shift_remove(old)?;
    // If both names are present, the current name counts.
    if fields.get(new).is_none_or(Param::is_null) {
        fields.insert(new.to_string(), value);
    }
    Some(format!("{old} is deprecated, use {new}"))
}
