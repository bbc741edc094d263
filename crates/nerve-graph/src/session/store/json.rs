//! The JSON form of a session in the sessions file. Missing fields are `None`, because older versions wrote fewer of them.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use nerve_node::usage_ledger::LedgerRecord;
use nerve_types::TsNs;
use nerve_types::name::DEFAULT_SERVER;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::metadata::{GraphRecord, NodeRecord, SessionMetadata};

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
    nodes: Option<Vec<NodeRecord>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ledger: Option<LedgerRecord>,
    #[serde(default)]
    graphs: Option<Vec<GraphRecord>>,
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
            nodes: Some(session.nodes.clone()),
            ledger: Some(session.ledger.clone()).filter(|ledger| *ledger != LedgerRecord::default()),
            graphs: Some(session.graphs.clone()),
        }
    }
}

impl TryFrom<SessionJson> for SessionMetadata {
    type Error = String;

    fn try_from(json: SessionJson) -> Result<SessionMetadata, String> {
        let created_at = time(&json.created_at).unwrap_or(TsNs(0));
        let nodes = json.nodes.unwrap_or_default();
        if nodes.iter().any(|node| node.spec.node_id.is_empty()) {
            return Err("a node has no name".to_string());
        }
        Ok(SessionMetadata {
            name: json.name.unwrap_or_else(|| json.id.clone()),
            id: json.id,
            server: json.server.unwrap_or_else(|| DEFAULT_SERVER.to_string()),
            description: json.description.unwrap_or_default(),
            tags: json.tags.unwrap_or_default(),
            created_at,
            updated_at: time(&json.updated_at).unwrap_or(created_at),
            nodes,
            ledger: json.ledger.unwrap_or_default(),
            graphs: json.graphs.unwrap_or_default(),
        })
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
