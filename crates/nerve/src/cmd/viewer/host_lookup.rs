//! Resolves the target of `nerve attach` to a host.

use anyhow::Result;
use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::NodeInfo;
use nerve_api::request::GetNode;
use nerve_api::value::NodeState;
use nerve_client::ClientError;
use nerve_host::registry::{Entry, entries};
use nerve_record::store::suggest_ids;
use nerve_server::paths::ServerPaths;
use serde_json::Value;

use super::attach_target::AttachTarget;
use crate::cmd::server::{connect, is_remote};
use crate::exit::{Failure, NOT_FOUND, USAGE};
use crate::out;

/// Maximum number of candidates named in an error.
const MAX_NAMED: usize = 5;

/// Finds the host of a target.
///
/// # Errors
/// No host or several hosts match, or the match cannot be attached to. The hint names an alternative.
pub(crate) async fn find_host(args: &AttachTarget) -> Result<Entry> {
    if is_remote(&args.server) {
        let AttachTarget { target, server, .. } = args;
        let message = format!("cannot attach on {server}: 'nerve attach' works only on the server's machine");
        let hint = format!(
            "run 'nerve attach {target}' there, for example with 'ssh -t'; or print the text: nerve node read {target} --server {server}"
        );
        return Err(Failure::new(USAGE, message).hint(hint).into());
    }
    let all = entries(&ServerPaths::from_env().hosts());
    let alive = |entry: &&Entry| entry.is_alive();
    let nodes: Vec<&Entry> = all.iter().filter(|entry| is_node(entry, args)).collect();
    if !nodes.is_empty() {
        let running: Vec<&Entry> = nodes.iter().copied().filter(alive).collect();
        // Of several sessions, the default session wins.
        let own = running.iter().copied().find(|entry| label_text(entry, "session").is_none());
        return match (own, running.as_slice()) {
            (Some(entry), _) => Ok(entry.clone()),
            (None, [entry]) => Ok((*entry).clone()),
            (None, []) => Err(ended_failure(nodes[0]).into()),
            (None, several) => Err(ambiguous_failure(args, several).into()),
        };
    }
    if args.session.is_none()
        && let Some(entry) = find_by_id(&all, args)?
    {
        return Ok(entry);
    }
    Err(explain_missing_host(args).await)
}

fn is_node(entry: &Entry, args: &AttachTarget) -> bool {
    label_text(entry, "server") == Some(&args.server)
        && label_text(entry, "node") == Some(&args.target)
        && args.session.as_ref().is_none_or(|session| session_of(entry) == session)
}

/// Returns the session of a node's host, which has no label in the default session.
fn session_of(entry: &Entry) -> &str {
    label_text(entry, "session").unwrap_or(DEFAULT_SESSION)
}

fn label_text<'a>(entry: &'a Entry, key: &str) -> Option<&'a str> {
    entry.label.get(key).and_then(Value::as_str)
}

/// Finds a host by its id or session id, or by a unique prefix of one.
fn find_by_id(all: &[Entry], args: &AttachTarget) -> Result<Option<Entry>> {
    let wanted = args.target.as_str();
    if wanted.is_empty() {
        return Ok(None);
    }
    let matching = |same: fn(&str, &str) -> bool| -> Vec<&Entry> {
        all.iter().filter(|entry| same(&entry.id, wanted) || same(&entry.session_id, wanted)).collect()
    };
    for found in [matching(|id, wanted| id == wanted), matching(|id, wanted| id.starts_with(wanted))] {
        let running: Vec<&Entry> = found.iter().copied().filter(|entry| entry.is_alive()).collect();
        match (running.as_slice(), found.as_slice()) {
            ([entry], _) => return Ok(Some((*entry).clone())),
            ([], [gone, ..]) => return Err(ended_failure(gone).into()),
            ([], []) => {}
            (several, _) => return Err(ambiguous_failure(args, several).into()),
        }
    }
    Ok(None)
}

fn ended_failure(entry: &Entry) -> Failure {
    let command = out::preview(&entry.requested_argv().join(" "), 40);
    let failure = Failure::new(NOT_FOUND, format!("cannot attach to '{command}': it has ended"));
    match &entry.recording {
        Some(recording) => failure.hint(format!("view its recording: nerve view {}", recording.display())),
        None => failure.hint("list the running programs: nerve host list"),
    }
}

fn ambiguous_failure(args: &AttachTarget, several: &[&Entry]) -> Failure {
    let one = |entry: &&Entry| {
        let command = out::preview(&entry.requested_argv().join(" "), 30);
        match (label_text(entry, "session"), label_text(entry, "node")) {
            (Some(session), Some(_)) => format!("{command} (--session {session})"),
            _ => format!("{command} ({})", entry.id),
        }
    };
    let matching: Vec<String> = several.iter().take(MAX_NAMED).map(one).collect();
    let more = if several.len() > MAX_NAMED { " …" } else { "" };
    let message =
        format!("'{}' matches {} programs: {}{more}", args.target, several.len(), matching.join(", "));
    let is_node = several.iter().all(|entry| label_text(entry, "node").is_some());
    let ids = |id: fn(&Entry) -> &str| -> Vec<&str> { several.iter().map(|entry| id(entry)).collect() };
    let (hosts, sessions) = (ids(|entry| &entry.id), ids(|entry| &entry.session_id));
    // A session id names several hosts if it is given in full; then only host ids differ.
    let is_session_prefix = sessions.iter().all(|id| id.starts_with(&args.target) && **id != args.target);
    Failure::new(USAGE, message).hint(match (is_node, is_session_prefix) {
        (true, _) => "select one with --session".to_string(),
        (false, true) => suggest_ids(&args.target, &sessions),
        (false, false) => suggest_ids(&args.target, &hosts),
    })
}

/// Explains why a target has no host: a node may have its terminal elsewhere, or none.
async fn explain_missing_host(args: &AttachTarget) -> anyhow::Error {
    let AttachTarget { target, server, session, .. } = args;
    let missing = Failure::new(NOT_FOUND, format!("no program '{target}' is running on this machine"))
        .hint("list the nodes: nerve ls; list all programs: nerve host list");
    let Ok(client) = connect(server).await else { return missing.into() };
    let params = GetNode { node_id: target.clone(), session_id: session.clone() };
    match client.node_info(&params).await {
        Ok(node) => explain_no_terminal(&node).into(),
        Err(ClientError::Server(_)) => missing.into(),
        Err(error) => error.into(),
    }
}

fn explain_no_terminal(node: &NodeInfo) -> Failure {
    let fact = |name: &str| node.metadata.text(name);
    let name = &node.id;
    let (pane, kind) = (fact("pane_id"), node.kind.as_str());
    if !pane.is_empty() && kind.contains("wezterm") {
        let message = format!("cannot attach to node '{name}': it runs in pane {pane} of WezTerm");
        return Failure::new(USAGE, message)
            .hint(format!("activate the pane: wezterm cli activate-pane --pane-id {pane}"));
    }
    if !pane.is_empty() {
        let socket = match fact("tmux_socket") {
            "" => String::new(),
            path if path.starts_with('/') => format!(" -S {path}"),
            matching => format!(" -L {matching}"),
        };
        let message = format!("cannot attach to node '{name}': it runs in pane {pane} of tmux");
        return Failure::new(USAGE, message)
            .hint(format!("attach to the pane: tmux{socket} attach -t {pane}"));
    }
    match node.state {
        NodeState::Stopped | NodeState::Created => {
            let message = format!("cannot attach to node '{name}': it is {}", node.state);
            Failure::new(NOT_FOUND, message).hint(format!("start it: nerve node start {name}"))
        }
        _ => Failure::new(USAGE, format!("cannot attach to node '{name}': {kind} nodes have no terminal"))
            .hint(format!("read its history: nerve logs {name}")),
    }
}
