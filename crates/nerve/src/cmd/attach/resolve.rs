//! Resolves the target of `nerve attach` to a host.

use anyhow::Result;
use nerve_api::reply::NodeInfo;
use nerve_api::request::GetNode;
use nerve_api::value::NodeState;
use nerve_client::ClientError;
use nerve_host::registry::{Entry, entries};
use nerve_record::store::suggest_ids;
use nerve_server::paths::ServerPaths;
use serde_json::Value;

use super::target::AttachTarget;
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
        let message =
            format!("'{server}' is reached over the network: 'nerve attach' shows terminals of this machine");
        let hint = format!(
            "run 'nerve attach {target}' on the server's own machine, with 'ssh -t'; 'nerve server node read {target} --server {server}' prints what it shows"
        );
        return Err(Failure::new(USAGE, message).hint(hint).into());
    }
    let all = entries(&ServerPaths::from_env().hosts());
    let alive = |entry: &&Entry| entry.is_alive();
    let nodes: Vec<&Entry> = all.iter().filter(|entry| is_node(entry, args)).collect();
    if !nodes.is_empty() {
        let running: Vec<&Entry> = nodes.iter().copied().filter(alive).collect();
        // Of several sessions, the default session wins.
        let own = running.iter().copied().find(|entry| text(entry, "session").is_none());
        return match (own, running.as_slice()) {
            (Some(entry), _) => Ok(entry.clone()),
            (None, [entry]) => Ok((*entry).clone()),
            (None, []) => Err(ended(nodes[0]).into()),
            (None, several) => Err(ambiguous(args, several).into()),
        };
    }
    if args.session.is_none()
        && let Some(entry) = by_id(&all, args)?
    {
        return Ok(entry);
    }
    Err(without_host(args).await)
}

fn is_node(entry: &Entry, args: &AttachTarget) -> bool {
    text(entry, "server") == Some(&args.server)
        && text(entry, "node") == Some(&args.target)
        && (args.session.is_none() || text(entry, "session") == args.session.as_deref())
}

fn text<'a>(entry: &'a Entry, key: &str) -> Option<&'a str> {
    entry.label.get(key).and_then(Value::as_str)
}

/// Finds a host by its id or session id, or by a unique prefix of one.
fn by_id(all: &[Entry], args: &AttachTarget) -> Result<Option<Entry>> {
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
            ([], [gone, ..]) => return Err(ended(gone).into()),
            ([], []) => {}
            (several, _) => return Err(ambiguous(args, several).into()),
        }
    }
    Ok(None)
}

fn ended(entry: &Entry) -> Failure {
    let command = out::preview(&entry.requested_argv().join(" "), 40);
    let failure = Failure::new(NOT_FOUND, format!("'{command}' has ended: there is nothing to attach to"));
    match &entry.recording {
        Some(recording) => failure.hint(format!("'nerve view {}' shows what it did", recording.display())),
        None => failure.hint("'nerve host list' shows what runs"),
    }
}

fn ambiguous(args: &AttachTarget, several: &[&Entry]) -> Failure {
    let one = |entry: &&Entry| {
        let command = out::preview(&entry.requested_argv().join(" "), 30);
        match (text(entry, "session"), text(entry, "node")) {
            (Some(session), Some(_)) => format!("{command} (--session {session})"),
            _ => format!("{command} ({})", entry.id),
        }
    };
    let matching: Vec<String> = several.iter().take(MAX_NAMED).map(one).collect();
    let more = if several.len() > MAX_NAMED { " …" } else { "" };
    let message = format!("'{}' is {} programs: {}{more}", args.target, several.len(), matching.join(", "));
    let is_node = several.iter().all(|entry| text(entry, "node").is_some());
    let ids = |id: fn(&Entry) -> &str| -> Vec<&str> { several.iter().map(|entry| id(entry)).collect() };
    let (hosts, sessions) = (ids(|entry| &entry.id), ids(|entry| &entry.session_id));
    let are_meant = sessions.iter().all(|id| id.starts_with(&args.target) && **id != args.target);
    Failure::new(USAGE, message).hint(match (is_node, are_meant) {
        (true, _) => "name one of them by its session, with --session".to_string(),
        (false, true) => suggest_ids(&args.target, &sessions),
        (false, false) => suggest_ids(&args.target, &hosts),
    })
}

/// Explains why a target has no host: a node may have its terminal elsewhere, or none.
async fn without_host(args: &AttachTarget) -> anyhow::Error {
    let AttachTarget { target, server, session, .. } = args;
    let missing = Failure::new(NOT_FOUND, format!("no program '{target}' that runs on this machine"))
        .hint("'nerve server node list' shows nodes; 'nerve host list' shows all that can be attached to");
    let Ok(client) = connect(server).await else { return missing.into() };
    let params = GetNode { node_id: target.clone(), session_id: session.clone() };
    match client.node_info(&params).await {
        Ok(node) => elsewhere(&node).into(),
        Err(ClientError::Server(_)) => missing.into(),
        Err(error) => error.into(),
    }
}

fn elsewhere(node: &NodeInfo) -> Failure {
    let fact = |name: &str| node.metadata.text(name);
    let name = &node.id;
    let (pane, kind) = (fact("pane_id"), node.kind.as_str());
    if !pane.is_empty() && kind.contains("wezterm") {
        let message = format!("node '{name}' is in pane {pane} of WezTerm, which shows it itself");
        return Failure::new(USAGE, message)
            .hint(format!("'wezterm cli activate-pane --pane-id {pane}' goes there"));
    }
    if !pane.is_empty() {
        let socket = match fact("tmux_socket") {
            "" => String::new(),
            path if path.starts_with('/') => format!(" -S {path}"),
            matching => format!(" -L {matching}"),
        };
        let message = format!("node '{name}' is in pane {pane} of tmux, which shows it itself");
        return Failure::new(USAGE, message).hint(format!("'tmux{socket} attach -t {pane}' goes there"));
    }
    match node.state {
        NodeState::Stopped | NodeState::Created => {
            let message = format!("node '{name}' does not run: it is {}", node.state);
            Failure::new(NOT_FOUND, message).hint(format!("'nerve server node start {name}' starts it again"))
        }
        _ => Failure::new(USAGE, format!("node '{name}' is of the kind {kind} and has no terminal to show"))
            .hint(format!("'nerve server node history {name}' shows what it did")),
    }
}
