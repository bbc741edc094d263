//! A session as it stands in the file. What a file does not say is `None`: the first nerve said less, a newer one says more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use nerve_term::event::TsNs;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::metadata::{GraphRecord, NodeRecord, SessionMetadata};
use crate::chat::ChatSpec;
use crate::command::{CommandLine, PanePlace};
use crate::conversation::ConversationId;
use crate::proxy::ProxySpec;

/// The server of sessions that do not say theirs: the first nerve's default.
const DEFAULT_SERVER: &str = "default";

#[derive(Serialize, Deserialize)]
pub(super) struct SessionShape {
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
    nodes: Option<Vec<NodeShape>>,
    #[serde(default)]
    graphs: Option<Vec<GraphShape>>,
}

#[derive(Serialize, Deserialize)]
#[serde(default)]
#[derive(Default)]
struct NodeShape {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<CommandShape>,
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
enum CommandShape {
    Text(String),
    Argv(Vec<String>),
}

#[derive(Serialize, Deserialize)]
struct GraphShape {
    name: String,
    definition: Value,
}

impl From<&SessionMetadata> for SessionShape {
    fn from(session: &SessionMetadata) -> SessionShape {
        SessionShape {
            id: session.id.clone(),
            name: Some(session.name.clone()),
            server: Some(session.server.clone()),
            description: Some(session.description.clone()),
            tags: Some(session.tags.clone()),
            created_at: seconds(session.created_at),
            updated_at: seconds(session.updated_at),
            nodes: Some(session.nodes.iter().map(NodeShape::from).collect()),
            graphs: Some(session.graphs.iter().map(GraphShape::from).collect()),
        }
    }
}

impl TryFrom<SessionShape> for SessionMetadata {
    type Error = String;

    fn try_from(shape: SessionShape) -> Result<SessionMetadata, String> {
        let created_at = time(&shape.created_at).unwrap_or(TsNs(0));
        let nodes = shape.nodes.unwrap_or_default();
        let graphs = shape.graphs.unwrap_or_default();
        Ok(SessionMetadata {
            name: shape.name.unwrap_or_else(|| shape.id.clone()),
            id: shape.id,
            server: shape.server.unwrap_or_else(|| DEFAULT_SERVER.to_string()),
            description: shape.description.unwrap_or_default(),
            tags: shape.tags.unwrap_or_default(),
            created_at,
            updated_at: time(&shape.updated_at).unwrap_or(created_at),
            nodes: nodes.into_iter().map(NodeRecord::try_from).collect::<Result<_, _>>()?,
            graphs: graphs
                .into_iter()
                .map(|graph| GraphRecord { name: graph.name, definition: graph.definition })
                .collect(),
        })
    }
}

impl From<&NodeRecord> for NodeShape {
    fn from(node: &NodeRecord) -> NodeShape {
        let node = node.clone();
        NodeShape {
            name: node.name,
            backend: node.backend,
            command: node.command.map(|command| match command {
                CommandLine::Text(text) => CommandShape::Text(text),
                CommandLine::Argv(argv) => CommandShape::Argv(argv),
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

impl TryFrom<NodeShape> for NodeRecord {
    type Error = String;

    fn try_from(shape: NodeShape) -> Result<NodeRecord, String> {
        if shape.name.is_empty() {
            return Err("a node has no name".to_string());
        }
        let limit = |field: &str, seconds: Option<f64>| {
            seconds
                .map(Duration::try_from_secs_f64)
                .transpose()
                .map_err(|_| format!("{field} of node '{}' is no number of seconds", shape.name))
        };
        Ok(NodeRecord {
            ready_timeout: limit("ready_timeout", shape.ready_timeout)?,
            response_timeout: limit("response_timeout", shape.response_timeout)?,
            name: shape.name,
            backend: shape.backend,
            command: shape.command.map(|command| match command {
                CommandShape::Text(text) => CommandLine::Text(text),
                CommandShape::Argv(argv) => CommandLine::Argv(argv),
            }),
            cwd: shape.cwd,
            env: shape.env,
            env_omitted: shape.env_omitted,
            cols: shape.cols,
            rows: shape.rows,
            profile: shape.profile,
            parser: shape.parser,
            history: shape.history,
            record: shape.record,
            place: shape.place,
            agent_session: shape.agent_session,
            chat: shape.chat,
            conversation: shape.conversation,
            proxy: shape.proxy,
        })
    }
}

impl From<&GraphRecord> for GraphShape {
    fn from(graph: &GraphRecord) -> GraphShape {
        GraphShape { name: graph.name.clone(), definition: graph.definition.clone() }
    }
}

/// Seconds since the epoch with their fraction. A float of today's size holds a microsecond, not a nanosecond.
fn seconds(at: TsNs) -> Value {
    const MICROS_PER_SECOND: f64 = 1e6;
    Value::from((at.0 / 1_000) as f64 / MICROS_PER_SECOND)
}

/// A time as some nerve wrote it: seconds since the epoch, or a text, with or without an offset (UTC then).
fn time(value: &Value) -> Option<TsNs> {
    let ns = match value {
        Value::Number(seconds) => {
            let since = Duration::try_from_secs_f64(seconds.as_f64()?).ok()?;
            // To the microsecond it was written with.
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
