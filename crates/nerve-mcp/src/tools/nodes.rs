//! Tools that create, inspect and stop nodes.

use nerve_api::reply::{Interrupted, NodeCreated, NodeExplanation, NodeForked, NodeInfo, Stopped, Written};
use nerve_api::request::{CreateNode, GetHistory, ProxySettings, Seconds};
use nerve_api::value::NodeState;
use nerve_machine::connect::MachineReply;
use serde_json::{Value, json};

use super::args;
use crate::call::Call;
use crate::machines::list_nodes;
use crate::tool_result::{ANSWER_HINT, Failure, MAX_TEXT, Success, format_choices, lines, truncate};

/// Default number of lines.
const DEFAULT_LINES: usize = 100;
/// Maximum number of lines.
const MAX_LINES: usize = 5000;
/// Default number of history entries.
const DEFAULT_ENTRIES: usize = 20;
/// Maximum number of history entries.
const MAX_ENTRIES: usize = 500;

/// Converts seconds to the protocol's type.
pub(super) fn seconds(name: &str, value: Option<f64>) -> Result<Option<Seconds>, Failure> {
    let Some(value) = value else { return Ok(None) };
    let wrong =
        || Failure::new("invalid_arguments", format!("{name} must be seconds from 0 to {}", Seconds::MAX));
    Seconds::new(value).map(Some).ok_or_else(wrong)
}

pub(super) async fn list(call: Call, args: args::ListNodes) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let nodes = client.list_nodes(args.session.as_deref()).await?;
    let line = |node: &NodeInfo| {
        let command = node.metadata.text("command");
        format!("{}  {}  {}  {}", node.node_id, node.state, node.kind, command).trim_end().to_string()
    };
    let mut text = lines(&nodes, line, "There are no nodes. Start one with nerve_create_node.");
    let mut rows: Vec<Value> = nodes.iter().map(describe).collect();
    if !args.all_machines {
        return Ok(Success::new(&text, &json!({ "nodes": rows })));
    }
    let Some(machines) = &call.machines else {
        let failure = Failure::new("invalid_arguments", "this server offers no other machines");
        return Err(failure.hint("the user can offer them: nerve mcp --machines"));
    };
    let mut states = Vec::new();
    for MachineReply { machine, outcome, .. } in list_nodes(machines).await? {
        let error = outcome.as_ref().err().map(|error| error.message.clone());
        if let Some(error) = &error {
            text.push_str(&format!("\nmachine '{}' is unreachable: {error}", machine.name));
        }
        states.push(json!({ "machine_name": machine.name, "reachable": error.is_none(), "error": error }));
        for mut node in outcome.into_iter().flatten() {
            node.node_id = format!("{}/{}/{}", machine.name, node.metadata.session_id, node.node_id);
            text.push_str(&format!("\n{}", line(&node)));
            rows.push(describe(&node));
        }
    }
    Ok(Success::new(&text, &json!({ "nodes": rows, "machines": states })))
}

/// Returns a choice of a node's details: all of them would fill a model's context.
fn describe(node: &NodeInfo) -> Value {
    json!({
        "node_id": node.node_id, "type": node.kind, "state": node.state, "command": node.metadata.text("command"),
        "cwd": node.metadata.text("cwd"), "profile": node.metadata.text("profile"),
    })
}

pub(super) async fn create(call: Call, args: args::CreateNode) -> Result<Success, Failure> {
    let ready_timeout = seconds("ready_timeout", args.ready_timeout)?;
    let mut params = CreateNode {
        session_id: args.session,
        command: args.command,
        cwd: args.cwd.map(Into::into),
        env: args.env,
        cols: args.cols,
        rows: args.rows,
        profile: args.profile,
        proxy: args.proxy.map(|kind| Box::new(ProxySettings::new(kind))),
        ..CreateNode::new(args.node_id)
    };
    if let Some(backend) = args.backend {
        params.backend = backend;
    }
    if let Some(timeout) = ready_timeout {
        params.ready_timeout = timeout;
    }
    let timeout = params.ready_timeout.duration();
    let client = call.link.client().await?;
    let node = client.create_node(&params).await?;
    if args.wait {
        // A node that is not ready in time is still a node: its state is reported.
        let _ = node
            .wait(
                &[NodeState::Ready, NodeState::Blocked, NodeState::Suspended, NodeState::Stopped],
                Some(timeout),
            )
            .await;
    }
    let warnings = client.take_warnings();
    let Ok(explanation) = node.explain().await else {
        // Already stopped, or a kind of node without evidence.
        let state = node.info().await.map(|info| info.state).unwrap_or(NodeState::Stopped);
        return Ok(created(node.id(), state).warn(warnings));
    };
    let mut success = created(node.id(), explanation.state);
    if explanation.state != NodeState::Ready {
        success.text.push_str(&describe_state(&explanation));
        success = success.with("evidence", explanation.evidence);
        if !explanation.choices.is_empty() {
            success = success.with("choices", explanation.choices).with("hint", ANSWER_HINT);
        }
        success = success.with("screen", truncate(explanation.screen.trim_end(), MAX_TEXT).0);
    }
    Ok(success.warn(warnings))
}

fn created(node_id: &str, state: NodeState) -> Success {
    let text = format!("Node '{node_id}' was started; its state is {state}.");
    Success::new(&text, &NodeCreated { node_id: node_id.to_string() }).with("state", state.to_string())
}

/// Describes why a node is in its state, its screen, and how to answer its dialog.
fn describe_state(explanation: &NodeExplanation) -> String {
    let screen = truncate(explanation.screen.trim_end(), MAX_TEXT).0;
    let hint = if explanation.choices.is_empty() { String::new() } else { format!("\nHint: {ANSWER_HINT}") };
    format!(
        " ({})\n\nThe terminal shows:\n{screen}\n{}{hint}",
        explanation.evidence,
        format_choices(&explanation.choices)
    )
}

pub(super) async fn read(call: Call, args: args::Read) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let node = client.node(&args.node_id, args.session.as_deref());
    let explanation = node.explain().await?;
    let text = if args.screen {
        explanation.screen.trim_end().to_string()
    } else {
        node.read(Some(args.lines.unwrap_or(DEFAULT_LINES).clamp(1, MAX_LINES))).await?
    };
    let (text, truncated) = truncate(text.trim_end(), MAX_TEXT);
    let mut shown =
        format!("{text}\n\n[node '{}' is {}: {}]", args.node_id, explanation.state, explanation.evidence);
    shown.push_str(&format_choices(&explanation.choices));
    // Without the node's details and the rest of its screen: `text` is the part that was requested.
    let data = json!({
        "node_id": explanation.node_id, "state": explanation.state, "evidence": explanation.evidence,
        "truncated": truncated, "choices": explanation.choices,
    });
    Ok(Success { text: shown, ..Success::new("", &data).with("text", text) })
}

pub(super) async fn write(call: Call, args: args::Write) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let written = client.node(&args.node_id, args.session.as_deref()).write(&args.data).await?;
    let text = format!("{written} bytes were written to node '{}'.", args.node_id);
    Ok(Success::new(&text, &Written { written }).with("node_id", args.node_id))
}

pub(super) async fn interrupt(call: Call, args: args::Node) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    client.node(&args.node_id, args.session.as_deref()).interrupt().await?;
    let text = format!("Node '{}' was interrupted.", args.node_id);
    Ok(Success::new(&text, &Interrupted { interrupted: true }).with("node_id", args.node_id))
}

pub(super) async fn fork(call: Call, args: args::Fork) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let source = client.node(&args.source_id, args.session.as_deref());
    let fork = match args.at {
        Some(turn) => source.fork_at(&args.target_id, turn).await?,
        None => source.fork(&args.target_id).await?,
    };
    let text = format!("Node '{}' was forked from '{}'.", fork.id(), args.source_id);
    Ok(Success::new(&text, &NodeForked { node_id: fork.id().to_string(), forked_from: args.source_id }))
}

pub(super) async fn stop(call: Call, args: args::Node) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    client.node(&args.node_id, args.session.as_deref()).stop().await?;
    let text = format!("Node '{}' was stopped.", args.node_id);
    Ok(Success::new(&text, &Stopped { stopped: true }).with("node_id", args.node_id))
}

pub(super) async fn history(call: Call, args: args::History) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let node = client.node(&args.node_id, args.session.as_deref());
    let filter = GetHistory {
        last: Some(args.last.unwrap_or(DEFAULT_ENTRIES).clamp(1, MAX_ENTRIES)),
        op: args.op,
        inputs_only: args.inputs_only,
        ..GetHistory::default()
    };
    let mut history = node.history(&filter).await?;
    let note = history.note.take();
    let success = Success::new("", &history).warn(note);
    let text = match success.data.get("entries").and_then(Value::as_array) {
        Some(entries) if entries.is_empty() => "The history has no such entries.".to_string(),
        Some(entries) => entries.iter().map(|entry| format!("{entry}\n")).collect(),
        None => "The entries are too long: request fewer with last.".to_string(),
    };
    Ok(Success { text, ..success })
}
