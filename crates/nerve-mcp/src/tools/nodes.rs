//! Tools that create, inspect and stop nodes.

use nerve_api::reply::{NodeExplanation, NodeForked, NodeInfo};
use nerve_api::request::{CreateNode, GetHistory, ProxyOption, Seconds};
use nerve_api::value::NodeState;
use serde_json::{Value, json};

use super::args;
use crate::call::Call;
use crate::tool_result::{ANSWER_HINT, Failure, MAX_TEXT, Success, bound_value, format_choices, truncate};

/// Default number of lines.
const DEFAULT_LINES: usize = 100;
/// Maximum number of lines.
const MAX_LINES: usize = 5000;
/// Default number of history entries.
const DEFAULT_ENTRIES: usize = 20;
/// Maximum number of history entries.
const MAX_ENTRIES: usize = 500;

/// Converts seconds to the protocol's type.
pub(super) fn seconds(name: &str, given: Option<f64>) -> Result<Option<Seconds>, Failure> {
    let Some(given) = given else { return Ok(None) };
    let wrong =
        || Failure::new("invalid_arguments", format!("{name} must be seconds from 0 to {}", Seconds::MAX));
    Seconds::new(given).map(Some).ok_or_else(wrong)
}

pub(super) async fn list(call: Call, given: args::ListNodes) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let nodes = client.list_nodes(given.session.as_deref()).await?;
    let line = |node: &NodeInfo| {
        let command = node.metadata.text("command");
        format!("{}  {}  {}  {}", node.id, node.state, node.kind, command).trim_end().to_string()
    };
    let text = match nodes.len() {
        0 => "There are no nodes. Start one with nerve_create_node.".to_string(),
        _ => nodes.iter().map(line).collect::<Vec<_>>().join("\n"),
    };
    let rows = nodes.iter().map(|node| {
        json!({
            "node_id": node.id, "type": node.kind, "state": node.state, "command": node.metadata.text("command"),
            "cwd": node.metadata.text("cwd"), "profile": node.metadata.text("profile"),
        })
    });
    let rows: Vec<Value> = rows.collect();
    Ok(Success::new(truncate(&text, MAX_TEXT).0, json!({ "nodes": bound_value(json!(rows), MAX_TEXT) })))
}

pub(super) async fn create(call: Call, given: args::CreateNode) -> Result<Success, Failure> {
    let ready_timeout = seconds("ready_timeout", given.ready_timeout)?;
    let mut params = CreateNode {
        session_id: given.session,
        command: given.command,
        cwd: given.cwd,
        env: given.env,
        cols: given.cols,
        rows: given.rows,
        profile: given.profile,
        proxy: given.proxy.map(ProxyOption::Kind),
        ..CreateNode::new(given.node_id)
    };
    if let Some(backend) = given.backend {
        params.backend = backend;
    }
    if let Some(timeout) = ready_timeout {
        params.ready_timeout = timeout;
    }
    let timeout = params.ready_timeout.duration();
    let client = call.link.client().await?;
    let node = client.create_node(&params).await?;
    if given.wait {
        // A node that is not ready in time is still a node: its state is reported.
        let _ = node
            .wait(
                &[NodeState::Ready, NodeState::Blocked, NodeState::Suspended, NodeState::Stopped],
                Some(timeout),
            )
            .await;
    }
    let warnings = client.take_warnings();
    let Ok(now) = node.why().await else {
        // Already stopped, or a kind of node without evidence.
        let state = node.info().await.map(|info| info.state).unwrap_or(NodeState::Stopped);
        let text = format!("Node '{}' was started; its state is {state}.", node.id());
        return Ok(Success::new(text, json!({ "node_id": node.id(), "state": state })).warn(warnings));
    };
    let mut data = json!({ "node_id": node.id(), "state": now.state });
    let mut text = format!("Node '{}' was started; its state is {}.", node.id(), now.state);
    if now.state != NodeState::Ready {
        text.push_str(&describe_state(&now));
        data["evidence"] = json!(now.evidence);
        if !now.choices.is_empty() {
            data["choices"] = json!(now.choices);
            data["hint"] = json!(ANSWER_HINT);
        }
        data["screen"] = json!(truncate(now.screen.trim_end(), MAX_TEXT).0);
    }
    Ok(Success::new(text, data).warn(warnings))
}

/// Describes why a node is in its state, its screen, and how to answer its dialog.
fn describe_state(now: &NodeExplanation) -> String {
    let screen = truncate(now.screen.trim_end(), MAX_TEXT).0;
    let hint = if now.choices.is_empty() { String::new() } else { format!("\nHint: {ANSWER_HINT}") };
    format!(" ({})\n\nThe terminal shows:\n{screen}\n{}{hint}", now.evidence, format_choices(&now.choices))
}

pub(super) async fn read(call: Call, given: args::Read) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let node = client.node(&given.node_id, given.session.as_deref());
    let now = node.why().await?;
    let text = if given.screen {
        now.screen.trim_end().to_string()
    } else {
        node.read(Some(given.lines.unwrap_or(DEFAULT_LINES).clamp(1, MAX_LINES))).await?
    };
    let (text, truncated) = truncate(text.trim_end(), MAX_TEXT);
    let mut shown = format!("{text}\n\n[node '{}' is {}: {}]", given.node_id, now.state, now.evidence);
    shown.push_str(&format_choices(&now.choices));
    let data = json!({
        "node_id": given.node_id, "state": now.state, "evidence": now.evidence, "text": text, "truncated": truncated,
        "choices": now.choices,
    });
    Ok(Success::new(shown, data))
}

pub(super) async fn write(call: Call, given: args::Write) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let written = client.node(&given.node_id, given.session.as_deref()).write(&given.data).await?;
    let text = format!("{written} bytes were written to node '{}'.", given.node_id);
    Ok(Success::new(text, json!({ "node_id": given.node_id, "written": written })))
}

pub(super) async fn interrupt(call: Call, given: args::Node) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    client.node(&given.node_id, given.session.as_deref()).interrupt().await?;
    let text = format!("Node '{}' was interrupted.", given.node_id);
    Ok(Success::new(text, json!({ "node_id": given.node_id, "interrupted": true })))
}

pub(super) async fn fork(call: Call, given: args::Fork) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let source = client.node(&given.source_id, given.session.as_deref());
    let fork = match given.at {
        Some(turn) => source.fork_at(&given.target_id, turn).await?,
        None => source.fork(&given.target_id).await?,
    };
    let text = format!("Node '{}' was forked from '{}'.", fork.id(), given.source_id);
    Ok(Success::new(text, json!(NodeForked { node_id: fork.id().to_string(), forked_from: given.source_id })))
}

pub(super) async fn stop(call: Call, given: args::Node) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    client.node(&given.node_id, given.session.as_deref()).stop().await?;
    let text = format!("Node '{}' was stopped.", given.node_id);
    Ok(Success::new(text, json!({ "node_id": given.node_id, "stopped": true })))
}

pub(super) async fn history(call: Call, given: args::History) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let node = client.node(&given.node_id, given.session.as_deref());
    let filter = GetHistory {
        last: Some(given.last.unwrap_or(DEFAULT_ENTRIES).clamp(1, MAX_ENTRIES)),
        op: given.op,
        inputs_only: given.inputs_only,
        ..GetHistory::default()
    };
    let history = node.history(&filter).await?;
    let entries = bound_value(json!(history.entries), MAX_TEXT);
    let line = |entry: &Value| format!("{entry}\n");
    let text = match entries.as_array() {
        Some(entries) if entries.is_empty() => "The history has no such entries.".to_string(),
        Some(entries) => entries.iter().map(line).collect(),
        None => "The entries are too long: request fewer with last.".to_string(),
    };
    let data = json!({ "node_id": given.node_id, "entries": entries, "total": history.total });
    Ok(Success::new(text, data).warn(history.note))
}
