//! The JSON form of a session in the sessions file. Missing fields are `None`, because older versions wrote fewer of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use nerve_types::TsNs;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::metadata::{GraphRecord, NodeRecord, SessionMetadata};
use nerve_node::chat::ChatSpec;
use nerve_node::command::{CommandLine, PanePlace};
use nerve_node::conversation_id::ConversationId;
use nerve_node::proxy::ProxySpec;

/// The server of sessions that name none: the default of nerve's first version.
const DEFAULT_SERVER: &str = "default";

#[derive(Serialize, Deserialize)]
pub(super) struct SessionJson {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    server: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    tags: Option<Vec<String>>,
    #[serde(default)]
    created_at: Value,
    #[serde(default)]
    updated_at: Value,
    #[serde(default)]
    nodes: Option<Vec<NodeJson>>,
    #[serde(default)]
    graphs: Option<Vec<GraphJson>>,
}

#[derive(Serialize, Deserialize)]
#[serde(default)]
#[derive(Default)]
struct NodeJson {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<CommandJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<PathBuf>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env_omitted: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cols: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parser: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<bool>,
    /// Seconds, as on the wire.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready_timeout: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_timeout: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<PanePlace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat: Option<Box<ChatSpec>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<ConversationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<Box<ProxySpec>>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum CommandJson {
    Text(String),
    Argv(Vec<String>),
}

#[derive(Serialize, Deserialize)]
struct GraphJson {
    name: String,
    definition: Value,
}

impl From<&SessionMetadata> for SessionJson {
    fn from(session: &SessionMetadata) -> SessionJson {
        SessionJson {
            id: session.id.clone(),
            name: Some(session.name.clone()),
            server: Some(session.server.clone()),
            description: Some(session.description.clone()),
            tags: Some(session.tags.clone()),
            created_at: seconds(session.created_at),
            updated_at: seconds(session.updated_at),
            nodes: Some(session.nodes.iter().map(NodeJson::from).collect()),
            graphs: Some(session.graphs.iter().map(GraphJson::from).collect()),
        }
    }
}

impl TryFrom<SessionJson> for SessionMetadata {
    type Error = String;

    fn try_from(json: SessionJson) -> Result<SessionMetadata, String> {
        let created_at = time(&json.created_at).unwrap_or(TsNs(0));
        let nodes = json.nodes.unwrap_or_default();
        let graphs = json.graphs.unwrap_or_default();
        Ok(SessionMetadata {
            name: json.name.unwrap_or_else(|| json.id.clone()),
            id: json.id,
            server: json.server.unwrap_or_else(|| DEFAULT_SERVER.to_string()),
            description: json.description.unwrap_or_default(),
            tags: json.tags.unwrap_or_default(),
            created_at,
            updated_at: time(&json.updated_at).unwrap_or(created_at),
            nodes: nodes.into_iter().map(NodeRecord::try_from).collect::<Result<_, _>>()?,
            graphs: graphs
                .into_iter()
                .map(|graph| GraphRecord { name: graph.name, definition: graph.definition })
                .collect(),
        })
    }
}

impl From<&NodeRecord> for NodeJson {
    fn from(node: &NodeRecord) -> NodeJson {
        let node = node.clone();
        NodeJson {
            name: node.name,
            backend: node.backend,
            command: node.command.map(|command| match command {
                CommandLine::Text(text) => CommandJson::Text(text),
                CommandLine::Argv(argv) => CommandJson::Argv(argv),
            }),
            cwd: node.cwd,
            env: node.env,
            env_omitted: node.env_omitted,
            cols: node.cols,
            rows: node.rows,
            profile: node.profile,
            parser: node.parser,
            history: node.history,
            record: node.record,
            ready_timeout: node.ready_timeout.map(|limit| limit.as_secs_f64()),
            response_timeout: node.response_timeout.map(|limit| limit.as_secs_f64()),
            place: node.place,
            agent_session: node.agent_session,
            chat: node.chat,
            conversation: node.conversation,
            proxy: node.proxy,
        }
    }
}

impl TryFrom<NodeJson> for NodeRecord {
    type Error = String;

    fn try_from(json: NodeJson) -> Result<NodeRecord, String> {
        if json.name.is_empty() {
            return Err("a node has no name".to_string());
        }
        let limit = |field: &str, seconds: Option<f64>| {
            seconds
                .map(Duration::try_from_secs_f64)
                .transpose()
                .map_err(|_| format!("{field} of node '{}' is not a number of seconds", json.name))
        };
        Ok(NodeRecord {
            ready_timeout: limit("ready_timeout", json.ready_timeout)?,
            response_timeout: limit("response_timeout", json.response_timeout)?,
            name: json.name,
            backend: json.backend,
            command: json.command.map(|command| match command {
                CommandJson::Text(text) => CommandLine::Text(text),
                CommandJson::Argv(argv) => CommandLine::Argv(argv),
            }),
            cwd: json.cwd,
            env: json.env,
            env_omitted: json.env_omitted,
            cols: json.cols,
            rows: json.rows,
            profile: json.profile,
            parser: json.parser,
            history: json.history,
            record: json.record,
            place: json.place,
            agent_session: json.agent_session,
            chat: json.chat,
            conversation: json.conversation,
            proxy: json.proxy,
        })
    }
}

impl From<&GraphRecord> for GraphJson {
    fn from(graph: &GraphRecord) -> GraphJson {
        GraphJson { name: graph.name.clone(), definition: graph.definition.clone() }
    }
}

/// Converts a time to seconds since the epoch. A float of this size holds microseconds, not nanoseconds.
fn seconds(at: TsNs) -> Value {
    const MICROS_PER_SECOND: f64 = 1e6;
    Value::from((at.0 / 1_000) as f64 / MICROS_PER_SECOND)
}

/// Parses a time as written by any version: seconds since the epoch, or a text with or without an offset (UTC if without).
fn time(value: &Value) -> Option<TsNs> {
    let ns = match value {
        Value::Number(seconds) => {
            let since = Duration::try_from_secs_f64(seconds.as_f64()?).ok()?;
            // Round to the microseconds that were written.
            since.as_nanos().checked_add(500)? / 1_000 * 1_000
        }
        Value::String(text) => {
            let at = text.parse::<Timestamp>().ok().or_else(|| {
                let local: DateTime = text.parse().ok()?;
                Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp())
            })?;
            u128::try_from(at.as_nanosecond()).ok()?
        }
        _ => return None,
    };
    u64::try_from(ns).ok().map(TsNs)
}
